# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the stand-in beside the real server, with the same flags, and holds one against the other."""

from __future__ import annotations

import json
import re

import pytest

from nodes import prop

REAL, REAL_PORT = "sglang-tiny-cpu.service", 30001
STANDIN, STANDIN_PORT = "sglang-standin-cpu.service", 30201
PHASES = [
    r"server_args=\{", r"Init parallel begin", r"Init parallel ends", r"Load weight begin\. avail mem=", r"loading shards: 100% Completed",
    r"Load weight end\. elapsed=", r"KV Cache is allocated\..*#tokens: ", r"Memory pool end\. avail mem=",
    r"max_total_num_tokens=\d+, chunked_prefill_size=-?\d+", r"Application startup complete", r"Uvicorn running on http",
    r"The server is fired up and ready to roll!",
]
PATHS = ["/ready", "/health", "/ping", "/v1/models", "/model_info", "/get_model_info", "/server_info", "/v1/loads", "/metrics", "/get_load", "/version", "/"]
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "ignore_eos": True}
QUESTIONS = {
    "chat": ("/v1/chat/completions", CHAT),
    "completion": ("/v1/completions", {"model": "tiny", "prompt": "Hello", "max_tokens": 8, "ignore_eos": True}),
    "unknown model": ("/v1/chat/completions", {**CHAT, "model": "other"}),
    "too many tokens": ("/v1/chat/completions", {**CHAT, "max_tokens": 1000000}),
    "no messages": ("/v1/chat/completions", {"model": "tiny"}),
}


@pytest.fixture(scope="module", autouse=True)
def beside_the_real_one(plays):
    plays.run(
        "deploy.yml", sglang_runtime_version="0.5.23+standin", sglang_runtime_wheelhouse="/srv/wheelhouse/standin", sglang_runtime_current=False,
        sglang_server_name="standin", sglang_server_port=STANDIN_PORT,
    ).succeeded()


def log(host, unit: str) -> list[str]:
    """The lines of this start, without the time in front, in order; progress bars are one line for each of their states."""
    text = host.check_output("journalctl --all --output cat _SYSTEMD_INVOCATION_ID=%s", prop(host, unit, "InvocationID"))
    lines = [re.sub(r"^\[[^]]*\] ", "", line) for line in re.split(r"[\r\n]+", text)]
    return [line for line in lines if not line.startswith((unit, "Start"))]


def order(lines: list[str]) -> list[str]:
    """The phases in the order in which they begin."""
    first = {phase: next((number for number, line in enumerate(lines) if re.search(phase, line)), -1) for phase in PHASES}
    return [phase for phase in sorted(first, key=first.get) if first[phase] >= 0]


def form(line: str) -> str:
    """A line without what differs from start to start."""
    return re.sub(r"\s+", " ", re.sub(r"/\S+|-?\d[\d.:]*|\?", "#", line)).strip()


def shape(value):
    """The keys of an answer and the kinds of their values; an empty value may be of any kind."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def unknown_to(real, mine, path: str = "") -> list[str]:
    """What the stand-in says that the real one does not."""
    if isinstance(real, dict) and isinstance(mine, dict):
        return [found for key, item in mine.items() for found in (unknown_to(real[key], item, f"{path}/{key}") if key in real else [f"{path}/{key}"])]
    if isinstance(real, list) and isinstance(mine, list):
        return unknown_to(real[0], mine[0], path + "/0") if real and mine else []
    return [] if real == mine or "NoneType" in (real, mine) else [f"{path}: {mine}, not {real}"]


def get(host, port: int, path: str) -> tuple[str, str, str]:
    """Status, content type and body."""
    written = host.check_output("curl -s -m 30 -w '\\n%%{http_code} %%{content_type}' http://127.0.0.1:%s%s", str(port), path)
    body, _newline, words = written.rpartition("\n")
    status, _space, kind = words.partition(" ")
    return status, kind.partition(";")[0], body


def post(host, port: int, path: str, body: dict) -> tuple[str, str]:
    command = "curl -s -m 60 -w '\\n%%{http_code}' -H 'Content-Type: application/json' -d %s http://127.0.0.1:%s%s"
    answer, _newline, status = host.check_output(command, json.dumps(body), str(port), path).rpartition("\n")
    return status, answer


def test_the_same_phases_in_the_same_order(host):
    real = order(log(host, REAL))
    assert real == PHASES
    assert order(log(host, STANDIN)) == real


def test_no_line_that_the_real_one_does_not_write(host):
    real = {form(line) for line in log(host, REAL)}
    start = [line for line in log(host, STANDIN) if "server_args=" not in line and not line.startswith("INFO:     127.0.0.1")]
    strange = [line for line in start if line and form(line) not in real]
    assert strange == [], "\n".join(strange)


@pytest.mark.parametrize("path", PATHS)
def test_the_same_answer_to_a_question_about_itself(host, path):
    real, mine = get(host, REAL_PORT, path), get(host, STANDIN_PORT, path)
    assert mine[:2] == real[:2]
    if real[1] == "application/json":
        assert unknown_to(shape(json.loads(real[2])), shape(json.loads(mine[2]))) == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_answer_to_a_request(host, question):
    path, body = QUESTIONS[question]
    real, mine = post(host, REAL_PORT, path, body), post(host, STANDIN_PORT, path, body)
    assert mine[0] == real[0]
    assert unknown_to(shape(json.loads(real[1])), shape(json.loads(mine[1]))) == []


def test_the_same_stream(host):
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    streams = []
    for port in (REAL_PORT, STANDIN_PORT):
        events = [line[6:] for line in post(host, port, "/v1/chat/completions", body)[1].splitlines() if line.startswith("data: ")]
        assert events.pop() == "[DONE]"
        streams.append([json.loads(event) for event in events])
    real, mine = streams
    for place in (0, -2, -1):
        assert unknown_to(shape(real[place]), shape(mine[place])) == []
    assert mine[-1]["choices"] == real[-1]["choices"] == []
    assert mine[-1]["usage"]["completion_tokens"] == real[-1]["usage"]["completion_tokens"] == 8
