# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found in the results of tasks, however a play wraps them."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.gather import Collector

from .samples import benchmark, campaign, leg

FACTS = {"sglang_benchmarks": {"k26-ep8": benchmark("ep8")}}
CAUSE = {"code": "cuda_oom", "summary": "out of memory while loading", "hint": "lower mem_fraction_static"}


@pytest.mark.parametrize(
    "result",
    [
        {"benchmark": benchmark("ep8")},
        {"ansible_facts": FACTS},
        {"benchmark": benchmark("ep8"), "ansible_facts": FACTS},
        {"results": [{"ansible_facts": FACTS}, {"skipped": True}]},
        {"ansible_stats": {"data": FACTS, "aggregate": True, "per_host": True}},
    ],
)
def test_a_measurement_is_found_once(result):
    collector = Collector()
    collector.see("gpu-node-1", result)
    rows = collector.rows()
    assert [(row.host, row.strategy, len(row.points)) for row in rows] == [("gpu-node-1", "ep8", 9)]


def test_custom_stats_of_the_whole_run_are_found():
    collector = Collector()
    collector.see_stats("", FACTS)
    assert [row.host for row in collector.rows()] == ["gpu-node-1"]


@pytest.mark.parametrize(
    "result",
    [None, "text", [], {}, {"results": ["curl", "git"]}, {"gpus": "none"}, {"benchmark": 3}, {"ansible_facts": {"sglang_benchmarks": []}}],
)
def test_other_results_are_passed_over(result):
    collector = Collector()
    collector.see("gpu-node-1", result)
    assert collector.rows() == []


def test_a_failed_start_is_a_row_only_beside_measurements():
    failure = {"failed": True, "verdict": "failed", "cause": CAUSE}
    collector = Collector()
    collector.see("gpu-node-1", failure, {"name": "sglang-k26-pp8.service"}, failed=True)
    assert collector.rows() == []
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8")})
    assert [(row.strategy, row.status, row.cause.get("code")) for row in collector.rows()] == [("ep8", "measured", None), ("pp8", "failed", "cuda_oom")]


def test_a_later_success_takes_the_failure_away():
    collector = Collector()
    collector.see("gpu-node-1", {"verdict": "failed", "cause": CAUSE}, {"name": "sglang-k26-ep8"}, failed=True)
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8")})
    assert [row.status for row in collector.rows()] == ["measured"]


def test_the_load_time_of_the_wait_stands_beside_the_measurement():
    collector = Collector()
    events = [(0.2, "process"), (9.2, "weights"), (60.0, "weights"), (100.2, "graphs"), (135.2, "ready")]
    timeline = [{"at": at, "phase": phase, "what": "seen"} for at, phase in events]
    collector.see("gpu-node-1", {"verdict": "ready", "load_seconds": 135.2, "timeline": timeline}, {"name": "sglang-k26-ep8.service"})
    for seconds in (None, 135.2):
        collector.see("gpu-node-1", {"benchmark": benchmark("ep8", load_seconds=seconds)})
        row = collector.rows()[0]
        assert (row.load_s, row.load_phases) == (135.2, {"process": 9.0, "weights": 91.0, "graphs": 35.0})


def test_a_wait_that_came_later_tells_no_phases():
    collector = Collector()
    timeline = [{"at": 0.0, "phase": "process", "what": "seen"}, {"at": 0.4, "phase": "ready", "what": "ready"}]
    collector.see("gpu-node-1", {"verdict": "ready", "load_seconds": 135.2, "timeline": timeline}, {"name": "sglang-k26-ep8.service"})
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8", load_seconds=None)})
    assert (collector.rows()[0].load_s, collector.rows()[0].load_phases) == (135.2, {})


def test_a_refused_benchmark_is_a_failed_row():
    collector = Collector()
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8")})
    refused = benchmark("tp8", points=[], status="failed", cause={"code": "auth", "summary": "the key is refused", "hint": "give api_key"})
    collector.see("gpu-node-1", {"failed": True, "benchmark": refused}, failed=True)
    assert [(row.strategy, row.status, row.cause.get("code")) for row in collector.rows()][1] == ("tp8", "failed", "auth")


def test_foreign_gpu_holders_are_not_the_strategys_failure():
    collector = Collector()
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8")})
    refused = {"verdict": "preflight_failed", "cause": {"code": "gpu_busy", "summary": "pid 4711"}}
    collector.see("gpu-node-1", refused, {"plan": {"unit": "sglang-k26-ep4.service", "deployment": "k26-ep4", "name": "ep4"}}, failed=True)
    assert [row.status for row in collector.rows()] == ["measured", "not run"]


def test_a_campaign_speaks_for_its_deployments():
    collector = Collector()
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8", campaign="c.3", scale=0.5)})
    collector.see("gpu-node-1", {"ansible_facts": {"sglang_compare_campaign": campaign()}})
    rows = collector.rows()
    assert [(row.strategy, row.repeat) for row in rows if row.points] == [("tp8", False), ("pp8", False), ("ep8", False), ("ep4", False), ("tp8", True)]
    assert {row.strategy: row.status for row in rows if not row.points} == {"ep8_tuned": "failed", "tp4_pair": "not run"}


def test_a_strategy_whose_server_restarted_is_unstable():
    raw = benchmark("ep8", status="unstable")
    raw["points"][3].update(status="invalid", causes=[{"code": "server_restarted", "summary": "1 restart", "line": ""}])
    collector = Collector()
    collector.see("gpu-node-1", {"benchmark": raw})
    (row,) = collector.rows()
    assert (row.status, row.cause["code"], row.rankable) == ("unstable", "server_restarted", False)


def test_hardware_seen_elsewhere_fills_in_what_a_remote_load_generator_did_not_see():
    collector = Collector()
    collector.see("gpu-node-1", {"gpus": [{"name": "NVIDIA H200", "power_limit_w": 700}] * 8})
    collector.see("gpu-node-1", {"benchmark": benchmark("ep8", gpus=None)})
    assert collector.rows()[0].hardware.title == "8 × NVIDIA H200, 700 W each"


def test_secrets_in_causes_are_masked():
    cause = {"code": "auth", "summary": "HTTPError: 401 Authorization: Bearer k-5ecret-1", "line": "server_args={'api_key': 'k-5ecret-1'} hf_5ecret2abc"}
    collector = Collector(Redactor().clean)
    legs = [leg(1, "tp8"), leg(2, "ep8", status="failed", benchmark=None, cause=cause)]
    collector.see("gpu-node-1", {"ansible_facts": {"sglang_compare_campaign": {"legs": legs}}})
    text = str(collector.rows())
    assert "k-5ecret-1" not in text
    assert "hf_5ecret2abc" not in text
