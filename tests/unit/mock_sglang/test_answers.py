# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the answers of the stand-in against recorded ones: fields, status codes, streams, keys."""

from __future__ import annotations

import json

import pytest

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "the quick brown fox"}], "max_tokens": 32, "ignore_eos": True}
REQUESTS = {
    "POST /v1/chat/completions": CHAT,
    "POST /v1/completions": {"model": "demo", "prompt": "the quick", "max_tokens": 8},
    "POST /generate": {"text": "the quick", "sampling_params": {"max_new_tokens": 8, "ignore_eos": True}},
}
CLOCKS = {
    "forward_entry_time", "prefill_finished_time", "request_received_ts", "api_server_dispatch_finish_ts", "request_finished_ts",
    "response_sent_to_client_ts",
}


def shape(value, keep_values=("object", "role", "owned_by")):
    """Structure of an answer: keys, kinds of values, and the words that do not change."""
    if isinstance(value, dict):
        return {key: item if key in keep_values else shape(item) for key, item in value.items() if key not in CLOCKS}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, (int, float)) else "text"


def without_nulls(value):
    """Fields that are empty in one of the two are no difference of kind."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item != "NoneType"}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def differences(real, mine, path=""):
    if isinstance(real, dict) and isinstance(mine, dict):
        found = [path + "/" + key for key in real if key not in mine]
        return found + [line for key in real if key in mine for line in differences(real[key], mine[key], path + "/" + key)]
    if isinstance(real, list) and isinstance(mine, list):
        return differences(real[0], mine[0], path + "/0") if real and mine else []
    return [] if real == mine or "NoneType" in (real, mine) else ["%s: %s, not %s" % (path, mine, real)]


@pytest.mark.parametrize(
    "name", ["GET /v1/models", "GET /v1/loads", "GET /model_info", "GET /server_info", *REQUESTS], ids=lambda name: name.split("/")[-1]
)
def test_answers_have_the_fields_of_the_real_ones(shared, real_answers, name):
    method, path = name.split(" ")
    mine = shared.json(method, path, REQUESTS.get(name))
    assert differences(shape(real_answers["answers"][name]), shape(mine)) == []


@pytest.mark.parametrize("name", ["chat_bad_json", "chat_no_messages", "chat_too_many_out"])
def test_refusals(shared, real_answers, name):
    bodies = {"chat_bad_json": b"{nope", "chat_no_messages": {"model": "tiny"}, "chat_too_many_out": {**CHAT, "max_tokens": 10**6}}
    status, data = shared.ask("POST", "/v1/chat/completions", bodies[name])
    mine, real = json.loads(data), real_answers["answers"]["errors"][name]
    assert status == real["code"] == 400
    assert {key: mine[key] for key in ("object", "type", "param", "code")} == {key: real[key] for key in ("object", "type", "param", "code")}
    assert mine["message"].startswith(real["message"])


def test_a_prompt_beyond_the_context(standin, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"max_position_embeddings": 4096, "architectures": ["LlamaForCausalLM"]}')
    server = standin("--model-path", folder, "--served-model-name", "tiny").until_ready()
    status, data = server.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x " * 12000}], "max_tokens": 4})
    assert status == 400
    assert "is longer than the model's context length (4096 tokens)." in json.loads(data)["message"]
    assert server.json("GET", "/v1/models")["data"][0] | {"created": 0} == {
        "id": "tiny", "object": "model", "created": 0, "owned_by": "sglang", "root": "tiny", "parent": None, "max_model_len": 4096,
    }


def test_a_wrong_model_name_is_not_noticed(shared):
    assert shared.json("POST", "/v1/chat/completions", {**CHAT, "model": "no-such-model"})["model"] == "no-such-model"


@pytest.mark.parametrize("path, method, status", [("/nope", "GET", 404), ("/get_load", "GET", 404), ("/version", "GET", 404), ("/v1/models", "POST", 405)])
def test_what_does_not_exist(shared, path, method, status):
    assert shared.ask(method, path)[0] == status


STREAMS = {
    "chat": ("/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}}),
    "chat_continuous": ("/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "chat_no_usage": ("/v1/chat/completions", CHAT),
    "completion": ("/v1/completions", {"prompt": "the quick", "max_tokens": 32, "ignore_eos": True, "stream_options": {"include_usage": True}}),
    "native": ("/generate", {"text": "the quick", "sampling_params": {"max_new_tokens": 16, "ignore_eos": True}}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_begin_and_end_as_the_real_ones(shared, real_answers, name):
    path, body = STREAMS[name]
    mine, real = shared.stream(path, body), real_answers["streams"][name]["events"]
    for ours, theirs in zip(mine[:2] + mine[-3:], real):
        assert without_nulls(shape(ours)) == without_nulls(shape(theirs))
    assert mine[-1] == "[DONE]"


def text_chunks(events) -> int:
    return sum(1 for e in events if isinstance(e, dict) and e["choices"] and e["choices"][0]["delta"].get("content"))


def test_a_chat_stream_has_fewer_chunks_than_tokens(shared, real_answers):
    events = shared.stream(*STREAMS["chat"])
    assert text_chunks(events) == real_answers["streams"]["chat"]["text_chunks"] == 20
    assert events[-2]["usage"]["completion_tokens"] == 32


def test_one_chunk_a_token_when_told_and_fewer_on_an_interval(standin):
    server = standin("--stream-interval", 4, "--stream-response-default-include-usage", MOCK_SGLANG_SPLIT="0").until_ready()
    events = server.stream("/v1/chat/completions", CHAT)
    assert text_chunks(events) == 9
    assert events[-2]["usage"]["completion_tokens"] == 32
    whole = server.json("POST", "/v1/chat/completions", CHAT)["choices"][0]["message"]["content"]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events if e != "[DONE]" and e["choices"]) == whole


def test_the_api_key_opens_what_it_opens_in_the_real_one(standin):
    server = standin("--api-key", "k-1", "--enable-metrics", SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION="0").until_ready()
    closed = ("/ping", "/v1/models", "/server_info", "/model_info", "/v1/loads", "/")
    for path in ("/health", "/ready", "/metrics"):
        assert server.status(path) == 200
    for path in closed:
        assert server.status(path) == 401
        assert server.status(path, headers={"Authorization": "Bearer k-1"}) == 200
        assert server.status(path, headers={"Authorization": "Bearer k-2"}) == 401
    assert server.ask("GET", "/v1/models")[1] == b'{"error":"Unauthorized"}'
    leaks = server.json("GET", "/server_info", headers={"Authorization": "Bearer k-1"})
    assert leaks["api_key"] == "k-1" and "'api_key': 'k-1'" in server.log()


def test_an_admin_key_takes_the_control_endpoints(standin):
    server = standin("--api-key", "k-1", "--admin-api-key", "k-2").until_ready()
    assert server.ask("POST", "/flush_cache", headers={"Authorization": "Bearer k-1"})[0] == 401
    assert server.ask("POST", "/flush_cache", headers={"Authorization": "Bearer k-2"})[0] == 200
    assert server.status("/v1/models", headers={"Authorization": "Bearer k-1"}) == 200


def test_cached_tokens_are_told_and_flushed(standin):
    server = standin("--enable-metrics", "--enable-cache-report").until_ready()
    body = {**CHAT, "messages": [{"role": "user", "content": "a long prompt " * 40}], "max_tokens": 2}

    def cached():
        return server.json("POST", "/v1/chat/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"]

    first, second = cached(), cached()
    assert first == 0 and second > 100
    series = 'sglang:cached_tokens_total{cache_source="device",engine_type="unified",model_name="org/demo"} %.1f' % second
    assert series in server.ask("GET", "/metrics")[1].decode()
    assert server.json("GET", "/v1/loads")["loads"][0]["cache_hit_rate"] > 0.2
    assert server.ask("GET", "/flush_cache")[0] == 200
    assert cached() == 0


def test_metrics_only_when_asked_for(standin):
    server = standin().until_ready()
    assert server.status("/metrics") == 404


def test_pausing_takes_readiness_away(standin):
    server = standin().until_ready()
    server.ask("POST", "/pause_generation", {"mode": "abort"})
    assert (server.status("/ready"), server.status("/ping")) == (503, 200)
    server.ask("POST", "/continue_generation", {})
    assert server.status("/ready") == 200


@pytest.mark.parametrize(
    "kind, status, end", [("429:1", 429, b""), ("500:1", 500, b""), ("empty:1", 200, b""), ("sse_error:1", 200, b'"code":500}}\n\n')]
)
def test_requests_that_break(standin, kind, status, end):
    server = standin(MOCK_SGLANG_REQUEST_FAULT=kind, MOCK_SGLANG_FAULT="hang@warmup").until_logged("Uvicorn running")
    answer = server.ask("POST", "/v1/chat/completions", {**CHAT, "stream": True})
    assert answer[0] == status
    assert answer[1].endswith(end) and b"[DONE]" not in answer[1]


def test_output_can_be_shorter_than_asked(standin):
    server = standin(MOCK_SGLANG_SHORT_OUTPUT="10").until_ready()
    assert server.json("POST", "/v1/chat/completions", CHAT)["usage"]["completion_tokens"] == 10
