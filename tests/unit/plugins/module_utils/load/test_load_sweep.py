# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep from its checks to its status, against a server that is right, wrong, or dies on the way."""

from __future__ import annotations

import json
import threading

import pytest
import requests
from ansible_collections.gpuops.sglang.plugins.module_utils._load import points, sweep
from ansible_collections.gpuops.sglang.plugins.module_utils._load.job import Job, deployment_of
from ansible_collections.gpuops.sglang.plugins.module_utils._load.node import Node
from ansible_collections.gpuops.sglang.plugins.module_utils._load.sweep import Stopped
from ansible_collections.gpuops.sglang.plugins.modules import sglang_benchmark
from .fake_server import Server, good, stream, usage_of

# How busy the machine of a test is says nothing about the sweep; the rule has tests of its own.
pytestmark = pytest.mark.usefixtures("idle_machine")
PARAMS = {name: option.get("default") for name, option in sglang_benchmark.ARGUMENTS.items()}


@pytest.fixture(name="server")
def running_server():
    server = Server()
    yield server
    server.shutdown()


@pytest.fixture(name="idle_machine")
def never_too_slow(monkeypatch):
    for module in (points, sweep):
        monkeypatch.setattr(module, "saturated", lambda tally: "")


def job(port, tell=lambda progress: True, **params):
    quick = {
        "port": port,
        "concurrency": [1, 3],
        "input_len": 40,
        "output_len": 6,
        "num_prompts": 6,
        "max_repeats": 1,
        "warmup_requests": 0,
        "state_dir": "",
    }
    return Job(dict(PARAMS, **dict(quick, **params)), requests.Session(), tell)


def one_cause(port, **params):
    made = job(port, **params).run()
    assert (made["status"], made["points"]) == ("failed", [])
    return made["cause"]


def test_a_whole_sweep(server):
    server.pages["/server_info"] = (
        200,
        "application/json",
        json.dumps(
            {"version": "0.5.23", "tp_size": 8, "pp_size": 1, "api_key": "k-secret-1", "model_path": "/models/x", "startup_time": {"load_weight": 1.5}}
        ),
    )
    made = job(server.port, strategy="tp8", name=None, api_key="k-secret-1").run()
    assert made["status"] == "ok"
    assert [point["concurrency"] for point in made["points"]] == [1, 3]
    assert all(point["completed"] == 6 and point["status"] == "valid" for point in made["points"])
    assert made["points"][0]["input_tokens"] == 6 * 40
    assert made["best"]["single_stream"]["concurrency"] == 1
    assert (made["versions"]["sglang"], made["flags"]) == ("0.5.23", {"tp_size": 8, "pp_size": 1})
    assert made["max_model_len"] == 4096
    assert "k-secret-1" not in json.dumps(made)
    assert {headers["Authorization"] for headers in server.headers_seen} == {"Bearer k-secret-1"}


def test_no_two_prompts_of_a_sweep_start_alike(server):
    job(server.port, max_repeats=2, precision=0.0001).run()
    starts = [body["messages"][0]["content"][:40] for body in server.bodies if body["stream"] and body["max_tokens"] == 6]
    assert len(starts) >= 24
    assert len(set(starts)) == len(starts)


def test_a_wrong_key_is_one_clear_error(server):
    server.pages["/v1/models"] = (401, "application/json", '{"error":"Unauthorized"}')
    cause = one_cause(server.port, api_key="nope")
    assert cause["code"] == "auth"
    assert "api_key" in cause["hint"]
    assert server.count == 0


def test_a_wrong_model_is_refused_although_the_server_would_take_it(server):
    cause = one_cause(server.port, model="other")
    assert cause["code"] == "wrong_model"
    assert "demo" in cause["summary"] and "other" in cause["summary"]


def test_a_context_that_is_too_short_is_found_before_any_load(server):
    assert one_cause(server.port, input_len=4000, output_len=200)["code"] == "context_too_long"
    assert server.count == 0
    server.pages["/v1/models"] = (200, "application/json", '{"data":[{"id":"demo"}]}')
    server.say = lambda asked, number: (
        good(asked, number) if asked["max_tokens"] < 100 else (400, '{"message":"Requested token count exceeds the model\'s maximum context length"}')
    )
    cause = one_cause(server.port, output_len=200)
    assert cause["code"] == "context_too_long"
    assert "maximum context length" in cause["summary"]


def test_another_program_behind_the_port(server):
    server.pages["/v1/models"] = (200, "text/html", "<html><title>Grafana</title>")
    cause = one_cause(server.port)
    assert cause["code"] == "not_our_server"
    assert "Grafana" in cause["summary"]


def test_nothing_behind_the_port(server):
    port = server.port
    server.shutdown()
    server.server_close()
    cause = one_cause(port)
    assert cause["code"] == "endpoint_gone"
    assert "nothing listens" in cause["summary"]


def test_a_field_the_server_refuses(server):
    server.say = lambda asked, number: (400, '{"message":"unknown field foo"}') if "foo" in asked else good(asked, number)
    cause = one_cause(server.port, extra_body={"foo": 1})
    assert cause["code"] == "client_setup"
    assert "unknown field foo" in cause["summary"]


@pytest.mark.parametrize("content", ["", "{oops", '{"x": 1}'])
def test_a_prompts_file_that_cannot_be_used(server, tmp_path, content):
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    assert one_cause(server.port, prompts="file", prompts_path=str(path))["code"] == "client_setup"


def test_prompts_from_a_file(server, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one", "output_len": 3}\n\n{"messages": [{"role": "user", "content": "two"}]}\n')
    made = job(server.port, prompts="file", prompts_path=str(path), concurrency=[2]).run()
    assert made["status"] == "ok"
    assert made["points"][0]["output_tokens"] == 3 * 3 + 3 * 6


def test_a_shared_prefix_is_shared(server):
    made = job(server.port, prefix_len=20, prefix_groups=2, concurrency=[2]).run()
    assert made["status"] == "ok"
    prompts = [body["messages"][0]["content"].split() for body in server.bodies if body["stream"] and body["max_tokens"] == 6][-6:]
    assert len({tuple(words[:18]) for words in prompts}) == 2
    assert len({tuple(words) for words in prompts}) == 6


def test_usage_in_every_chunk_is_asked_for_only_where_chunks_hold_several_tokens(server):
    job(server.port, concurrency=[1]).run()
    assert "continuous_usage_stats" not in server.bodies[-1]["stream_options"]

    def several(asked, number):
        if not asked["stream"]:
            return good(asked, number)
        events = list(stream(asked, asked["max_tokens"], per_chunk=2))
        texts = [at for at, one in enumerate(events) if isinstance(one, bytes) and b'"ab ab ' in one]
        for count, at in enumerate(texts, 1):
            events[at] = events[at].replace(b'"usage": null', b'"usage": ' + json.dumps(usage_of(asked, 2 * count)).encode())
        return 200, events

    server.say = several
    made = job(server.port, concurrency=[1]).run()
    assert server.bodies[-1]["stream_options"]["continuous_usage_stats"] is True
    assert (made["points"][0]["itl_from"], made["points"][0]["tokens_per_chunk"]) == ("continuous_usage", 2.0)


def test_a_refused_flush_marks_points_and_a_missing_admin_key_is_an_error(server):
    server.pages["/flush_cache"] = (500, "text/plain", "busy")
    assert "flush_refused" in job(server.port, flush_cache=True, concurrency=[1]).run()["points"][0]["warnings"]
    server.pages["/flush_cache"] = (403, "text/plain", "admin only")
    assert one_cause(server.port, flush_cache=True)["code"] == "auth"


def test_the_warm_up_is_not_counted(server):
    made = job(server.port, warmup_requests=5, concurrency=[2]).run()
    assert made["points"][0]["asked"] == 6
    assert len([body for body in server.bodies if body["stream"]]) >= 11


def test_slow_first_requests_do_not_reach_the_first_point(server):
    def building_kernels(asked, number):
        return good(asked, number, 0.06 if number <= 30 else 0.001)

    server.say = building_kernels
    made = job(server.port, warmup_requests=None, concurrency=[1, 2]).run()
    assert made["points"][0]["itl_ms"]["p50"] < 30


class Forgetful:
    """Slow for its first requests and for prompts it has not seen; a flush empties its memory."""

    def __init__(self):
        self.seen = set()

    def __call__(self, asked, number):
        prompt = asked["messages"][0]["content"]
        if not asked.get("stream"):
            return good(asked, number)
        pause = (0.016 if prompt in self.seen else 0.08) + (0.1 if number <= 30 else 0.0)
        self.seen.add(prompt)
        return 200, [pause, *stream(asked, asked["max_tokens"])]


def test_the_order_of_the_points_makes_no_difference():
    rates = {}
    for order in ([1, 4, 8], [8, 4, 1]):
        server = Server(Forgetful())
        made = job(server.port, concurrency=order, num_prompts=16, warmup_requests=None).run()
        rates[order[0]] = [one["output_tok_s"] for one in sorted(made["points"], key=lambda one: one["concurrency"])]
        server.shutdown()
    # Cached prompts would make a point five times as fast, kernels being built less than half.
    assert rates[1] == pytest.approx(rates[8], rel=0.2)


def test_a_restart_ends_the_sweep_and_is_told(server, monkeypatch):
    lives = [
        {"invocation_id": "i1", "restarts": 0, "main_pid": 1, "active_state": "active", "load_state": "loaded"},
        {"invocation_id": "i2", "restarts": 1, "main_pid": 2, "active_state": "active", "load_state": "loaded"},
    ]

    def unit(_node):
        return lives[1] if server.count > 14 else lives[0]

    monkeypatch.setattr(Node, "unit", unit)
    monkeypatch.setattr(
        Node,
        "blame",
        lambda _node, before: ("nccl_timeout", "Watchdog caught collective operation timeout") if before["invocation_id"] == "i1" else ("", ""),
    )
    made = job(server.port, name="sglang-x-tp8", concurrency=[1, 2, 3]).run()
    assert made["status"] == "unstable"
    assert [point["status"] for point in made["points"]] == ["valid", "invalid", "failed"]
    assert made["points"][1]["causes"][0]["code"] == "server_restarted"
    assert made["points"][1]["causes"][0]["line"].startswith("Watchdog")
    assert made["points"][2]["causes"][0]["code"] == "not_run"
    assert made["best"]["throughput"]["concurrency"] == 1


def test_a_campaign_that_was_cut_off_repeats_no_finished_point(server, tmp_path):
    told = []

    def until_the_second_point(progress):
        told.append(progress)
        return progress["point"] < 2

    server.say = lambda asked, number: good(asked, number, 0.05)
    settings = {"campaign": "c1", "state_dir": str(tmp_path), "concurrency": [1, 2, 3]}
    with pytest.raises(Stopped):
        job(server.port, until_the_second_point, **settings).run()
    server.say = good
    before = server.count
    made = job(server.port, **settings).run()
    assert [point["status"] for point in made["points"]] == ["valid"] * 3
    asked = [body for body in server.bodies[before:] if body["stream"] and body["max_tokens"] == 6]
    assert len(asked) <= 12 + 3  # two points and the checks
    again = server.count
    assert job(server.port, **settings).run()["points"] == made["points"]
    assert server.count - again <= 6
    assert job(server.port, **{**settings, "campaign": "c2"}).run()["points"][0] != made["points"][0]


def test_other_settings_are_another_measurement(server, tmp_path):
    settings = {"campaign": "c1", "state_dir": str(tmp_path), "concurrency": [1]}
    first = job(server.port, **settings).run()
    assert job(server.port, **{**settings, "output_len": 5}).run()["points"] != first["points"]


def test_progress_says_where_it_is(server):
    told = []
    server.say = lambda asked, number: good(asked, number, 0.03)
    job(server.port, lambda progress: bool(told.append(progress)) or True, num_prompts=9, output_len=20, concurrency=[3]).run()
    running = [progress for progress in told if progress["phase"] == "run"]
    assert running
    assert running[-1]["asked"] == 9
    assert running[-1]["tok_s"] > 0


def test_a_place_that_cannot_be_written_costs_a_warning_only(server, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    made = job(server.port, state_dir=str(blocked), concurrency=[1]).run()
    assert made["status"] == "ok"
    assert "not kept" in made["warnings"][0]


def test_check_mode_sends_no_load(server):
    made = job(server.port).run(only_check=True)
    assert (made["status"], made["points"], made["cause"]) == ("checked", [], None)
    assert server.count < 8


@pytest.mark.parametrize(
    "params,name",
    [
        ({"deployment": "x", "name": "sglang-k26-ep8.service"}, "x"),
        ({"deployment": None, "name": "sglang-k26-ep8"}, "k26-ep8"),
        ({"deployment": None, "name": None}, "127.0.0.1:30000"),
    ],
)
def test_names_of_deployments(params, name):
    assert deployment_of(dict(PARAMS, **params)) == name


def test_threads_are_not_left_behind(server):
    before = threading.active_count()
    job(server.port, concurrency=[1]).run()
    assert threading.active_count() <= before + 2
