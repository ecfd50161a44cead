# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load loop against a server that misbehaves in every way it can: each answer is counted as what it was."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load import http1
from ansible_collections.gpuops.sglang.plugins.module_utils._load.connection import resolve
from ansible_collections.gpuops.sglang.plugins.module_utils._load.engine import Limits
from ansible_collections.gpuops.sglang.plugins.module_utils._load.prompts import Prompts, Workload
from ansible_collections.gpuops.sglang.plugins.module_utils._load.sweep import poisson
from ansible_collections.gpuops.sglang.plugins.module_utils._load.tally import Slo
from ansible_collections.gpuops.sglang.plugins.module_utils._load.workers import LoadFailed, Run, load
from .fake_server import Server, event, good, stream, usage_of


@pytest.fixture(name="server")
def running_server():
    server = Server()
    yield server
    server.shutdown()


def drive(port, requests=20, concurrency=4, tokens=8, processes=1, arrivals=None, slo=None, progress=None, **limits):
    work = Workload("demo", output_len=tokens, words=12, request_start=http1.post("/v1/chat/completions", "127.0.0.1", {}))
    run = Run(
        resolve("127.0.0.1", port),
        Prompts(work, "test").source(requests),
        Limits(concurrency, **dict({"request_timeout": 5.0, "backoff": 0.01}, **limits)),
        processes,
        slo or Slo(),
        arrivals=arrivals,
    )
    return load(run, progress, 0.05)


def test_all_is_counted_when_all_goes_well(server):
    tally = drive(server.port)
    assert (tally.completed, tally.failed, tally.output_tokens, tally.short, tally.estimated) == (20, 0, 160, 0, 0)
    assert sum(tally.timeline.values()) == 160
    assert tally.input_tokens == 20 * 15
    assert 0 < tally.cpu_share < 1
    assert tally.lateness


def test_several_processes_share_the_work_and_send_nothing_twice(server):
    tally = drive(server.port, requests=21, concurrency=5, processes=3)
    assert tally.completed == 21
    assert len({body["messages"][0]["content"] for body in server.bodies}) == 21


def bad_every_fourth(kind):
    def say(asked, number):
        if number % 4:
            return good(asked, number)
        return {
            "http_500": lambda: (500, '{"error":{"message":"boom"}}'),
            "http_429": lambda: (429, '{"error":{"message":"slow down"}}'),
            "sse_error": lambda: (200, [event(""), event("a"), b'data: {"error":{"message":"engine died"}}\n\n', b"data: [DONE]\n\n"]),
            "empty": lambda: (200, [event(""), event(finish="length"), event(usage=usage_of(asked, 0)), b"data: [DONE]\n\n"]),
            "cut": lambda: (200, [event(""), event("a"), event("b"), None]),
            "unfinished": lambda: (200, [event(""), event("a"), b"data: [DONE]\n\n"]),
            "timeout": lambda: (200, [event(""), event("a"), 4.0, None]),
        }[kind]()

    return say


@pytest.mark.parametrize("kind,tokens", [("http_500", 0), ("http_429", 0), ("sse_error", 1), ("empty", 0), ("cut", 2), ("unfinished", 1), ("timeout", 1)])
def test_every_kind_of_failure_is_counted_as_itself_and_its_tokens_never_count(server, kind, tokens):
    server.say = bad_every_fourth(kind)
    tally = drive(server.port, request_timeout=2.0 if kind == "timeout" else 5.0)
    assert (tally.completed, tally.errors) == (15, {kind: 5})
    assert (tally.output_tokens, tally.failed_tokens) == (15 * 8, 5 * tokens)


def test_answers_shorter_than_asked_give_their_true_count(server):
    server.say = lambda asked, number: (200, stream(asked, 3))
    tally = drive(server.port)
    assert (tally.completed, tally.short, tally.output_tokens) == (20, 20, 60)


def test_without_usage_chunks_are_counted_and_said_to_be_an_estimate(server):
    server.say = lambda asked, number: (200, stream(asked, 8, usage=False))
    tally = drive(server.port)
    assert (tally.estimated, tally.output_tokens) == (20, 160)


def test_the_gap_is_spread_over_the_tokens_of_a_chunk(server):
    server.say = lambda asked, number: (200, stream(asked, 16, gap=0.01, per_chunk=4))
    tally = drive(server.port, requests=4, tokens=16)
    assert tally.chunk_gap().quantile(0.5) > 0.035
    assert tally.itl().quantile(0.5) == pytest.approx(tally.chunk_gap().quantile(0.5) / 4, rel=0.1)


def test_in_an_open_loop_waiting_for_a_slot_is_part_of_the_latency(server):
    server.say = lambda asked, number: (200, stream(asked, 4, gap=0.05))
    tally = drive(server.port, requests=6, concurrency=1, tokens=4, arrivals=lambda process, processes: iter([0.0] * 6))
    assert tally.completed == 6
    assert tally.histograms["ttft"].high > 5 * 0.15
    assert tally.histograms["send_delay"].high > 5 * 0.15


def test_arrivals_of_a_rate_are_as_many_and_as_long_as_asked():
    moments = [moment for process in range(3) for moment in poisson(50.0, 300, "seed")(process, 3)]
    assert len(moments) == 300
    assert max(moments) == pytest.approx(6.0, rel=0.3)


def test_a_run_by_time_stops_sending_and_lets_the_last_ones_end(server):
    server.say = lambda asked, number: (200, stream(asked, 4, gap=0.02))
    tally = drive(server.port, requests=None, until=0.3, at_least=2, tokens=4)
    assert tally.failed == 0
    assert 2 <= tally.completed <= 24
    assert tally.completed == 2 or tally.last_sent - tally.started < 1.0


def test_goodput_counts_requests_that_keep_all_limits(server):
    server.say = lambda asked, number: (200, stream(asked, 4, gap=0.4 if number % 2 else 0.0))
    tally = drive(server.port, requests=4, concurrency=1, tokens=4, slo=Slo(e2e=0.8))
    assert (tally.completed, tally.slo_met) == (4, 2)


def test_a_dead_server_ends_the_run_soon_instead_of_thousands_of_failures():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    tally = drive(port, requests=10000, give_up_after=20)
    assert tally.completed == 0
    assert tally.failed <= 24
    assert set(tally.errors) == {"refused"}
    assert "one after the other" in tally.aborted


def test_the_caller_can_stop_it(server):
    server.say = lambda asked, number: (200, stream(asked, 100, gap=0.05))
    tally = drive(server.port, tokens=100, progress=lambda counts: False)
    assert tally.completed == 0
    assert tally.aborted


def test_what_breaks_in_a_load_process_is_heard_of():
    def broken(process, processes):
        raise RuntimeError("no prompts")

    with pytest.raises(LoadFailed, match="no prompts"):
        load(Run(resolve("127.0.0.1", 9), broken, Limits(1)))


def test_a_foreign_protocol_is_told_from_a_broken_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            for _number in range(2):
                peer, _address = listener.accept()
                peer.recv(65536)
                peer.sendall(b"220 mail ready\r\n")

        threading.Thread(target=greet, daemon=True).start()
        tally = drive(listener.getsockname()[1], requests=2, concurrency=1, give_up_after=2)
    assert set(tally.errors) == {"not_http"}


def test_the_wanted_fields_are_sent(server):
    drive(server.port, requests=1, concurrency=1)
    sent = server.bodies[0]
    assert sent["stream_options"] == {"include_usage": True}
    assert (sent["max_tokens"], sent["ignore_eos"], sent["stream"]) == (8, True, True)
    assert json.dumps(sent)
