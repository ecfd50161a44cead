# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller says while a benchmark runs, and what becomes of earlier facts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.gpuops.sglang.plugins.action import sglang_wait_ready
from ansible_collections.gpuops.sglang.plugins.action.sglang_benchmark import RemoteBenchmark, earlier, point_text, progress_text

RUNNING = {
    "phase": "run",
    "point": 3,
    "points": 10,
    "concurrency": 4,
    "repeat": 2,
    "completed": 118,
    "failed": 0,
    "asked": 200,
    "tok_s": 812.4,
    "left_s": 40,
    "sweep_left_s": 600,
}


@pytest.mark.parametrize(
    "change,text",
    [
        ({}, "point 3 of 10, C=4, run 2: 118 of 200 requests, 812 tok/s so far, about 10 min left"),
        ({"failed": 2, "sweep_left_s": None}, "point 3 of 10, C=4, run 2: 120 of 200 requests (2 failed), 812 tok/s so far, about 40 s left"),
        ({"asked": None, "tok_s": None, "left_s": None, "sweep_left_s": None}, "point 3 of 10, C=4, run 2: 118 requests"),
        ({"phase": "warm-up"}, "point 3 of 10, C=4: warm-up"),
        ({"phase": "checks", "concurrency": 0}, "checks"),
        ({"phase": "warm-up of the server", "concurrency": 0}, "warm-up of the server"),
    ],
)
def test_progress_in_one_line(change, text):
    assert progress_text(dict(RUNNING, **change)) == text


POINT = {
    "status": "valid",
    "concurrency": 8,
    "output_tok_s": 390.45,
    "output_tok_s_ci95": 2.02,
    "ttft_ms": {"p50": 50.6},
    "itl_ms": {"p50": 20.0},
    "causes": [{"code": "lost_requests"}],
}


@pytest.mark.parametrize(
    "change,text",
    [
        ({}, "C=8 390.4 tok/s ± 2.0, TTFT p50 51 ms, ITL p50 20.0 ms"),
        ({"status": "invalid", "output_tok_s_ci95": None}, "(C=8 390.4 tok/s, TTFT p50 51 ms, ITL p50 20.0 ms) invalid: lost_requests"),
        ({"status": "failed"}, "C=8 failed: lost_requests"),
    ],
)
def test_a_point_in_one_line(change, text):
    assert point_text(dict(POINT, **change)) == text


def test_a_finished_point_is_told_at_once_and_once(monkeypatch):
    shown = []
    monkeypatch.setattr(sglang_wait_ready.display, "display", shown.append)
    action = SimpleNamespace(_task=SimpleNamespace(args={}, no_log=False))
    remote = RemoteBenchmark(action, {}, {"inventory_hostname": "n1"})
    first, second = dict(POINT, concurrency=1), dict(POINT, concurrency=4)
    remote._take(dict(RUNNING, since=5, finished=[]))
    remote._take(dict(RUNNING, since=9, finished=[first]))
    remote._take(dict(RUNNING, since=12, finished=[first]))
    remote._tell_end({"benchmark": {"points": [first, second]}})
    assert [line.partition("] ")[2].partition(" 390")[0] for line in shown if "390" in line] == ["C=1", "C=4"]
    assert "C=1 390" in shown[1] and "point 3 of 10" in shown[2]


def test_earlier_results_are_kept():
    assert earlier({"ansible_facts": {"sglang_benchmarks": {"k26-tp8": {"points": []}}}}) == {"k26-tp8": {"points": []}}
    assert earlier({}) == {}
