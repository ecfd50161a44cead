# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs campaigns as a person would, breaks them, and reads the table, the report and what serves afterwards."""

from __future__ import annotations

import json
import time

import pytest

from nodes import ask, assert_serves, prop

EP8 = "sglang-k26-ep8.service"
CAMPAIGN = "/var/lib/gpuops-sglang/campaigns/k26.json"
SWEEP = {
    "sglang_benchmark_concurrency": [1, 4],
    "sglang_benchmark_input_len": 128,
    "sglang_benchmark_output_len": 24,
    "sglang_benchmark_duration": 4,
    "sglang_benchmark_max_repeats": 2,
    "sglang_benchmark_heartbeat": 2,
    "sglang_server_strategies": {
        "half": {"base": "ep8", "summary": "Half of the cards.", "flags": {"tp-size": 4, "ep-size": 4}, "gpus": [0, 1, 2, 3]},
        "sick": {"base": "half", "summary": "Cannot start.", "environment": {"MOCK_SGLANG_FAULT": "cuda_oom"}},
    },
}


@pytest.fixture(autouse=True)
def report(tmp_path, monkeypatch):
    """The callback is enabled, and its files go to a folder of this test."""
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", "gpuops.sglang.sglang_report")
    monkeypatch.setenv("SGLANG_REPORT_DIR", str(tmp_path))
    return lambda: json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["tables"][0]


def legs(host) -> list[tuple[str, str]]:
    return [(leg["strategy"], leg["status"]) for leg in json.loads(host.file(CAMPAIGN).content_string)["legs"]]


def read_until(process, words: str) -> str:
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            break
    return "".join(lines)


def rows(table) -> dict[str, dict]:
    return {row["strategy"] + (" again" if row["repeat"] else ""): row for row in table["rows"]}


def test_a_killed_controller_finds_its_campaign_again(host, plays, report):
    asked = {**SWEEP, "sglang_compare_strategies": ["half", "sick"]}
    process = plays.start("compare.yml", **asked)
    read_until(process, "point 2 of 2, C=4, run 1")
    process.kill()
    process.wait()
    assert legs(host) == [("half", ""), ("sick", ""), ("half", "")]
    invocation = prop(host, "sglang-k26-half.service", "InvocationID")

    second = plays.run("compare.yml", **asked)
    second.failed_with("1 of 3 legs of campaign", "sick, failed", "failed: cuda_oom", "CUDA out of memory")
    assert "point 1 of 2, C=4: warm-up" not in second.text.partition("sglang-k26-sick")[0], "the first leg's first point was measured again"
    assert legs(host) == [("half", "measured"), ("sick", "failed"), ("half", "measured")]
    kept = json.loads(host.file(CAMPAIGN).content_string)
    assert {point["unit"]["invocation_id"] for point in kept["legs"][0]["benchmark"]["points"]} == {invocation}
    assert kept["previous"]["strategy"] == "ep8"
    assert_serves(host, "sglang-k26-half.service")

    table = report()
    assert [(name, row["status"]) for name, row in rows(table).items()] == [("half", "measured"), ("sick", "failed"), ("half again", "measured")]
    assert rows(table)["half"]["load_s"] > 0 and rows(table)["half"]["load_phases"]["weights"] > 0
    assert table["winners"]["throughput"]["strategy"] == "half"


def test_a_finished_campaign_tries_again_only_what_failed_in_it(host, plays):
    asked = {**SWEEP, "sglang_compare_strategies": ["half", "sick"], "sglang_compare_retry_failed": True, "sglang_compare_must_succeed": False}
    outcome = plays.run("compare.yml", **asked).succeeded()
    assert "To do: sick. Done before: half, half." in outcome.words
    assert legs(host) == [("half", "measured"), ("sick", "failed"), ("half", "measured")]


def test_gpus_held_by_somebody_else_are_not_the_strategys_failure(host, plays, report):
    ask(host, "systemd-run --unit foreign sleep 3600")
    pid = prop(host, "foreign.service", "MainPID")
    holder = json.dumps({"pid": int(pid), "name": "python3", "card": 7, "mib": 9312})
    ask(host, "mkdir -p /run/fake-gpu && echo %s > /run/fake-gpu/%s.json", holder, pid)
    asked = {**SWEEP, "sglang_compare_strategies": ["half", "ep8"], "sglang_compare_repeat_first": False, "sglang_compare_finally": "leave"}
    try:
        plays.run("compare.yml", **asked).failed_with("ep8, not_run", "not run: gpu_busy", f"pid {pid}", "9312 MiB")
    finally:
        ask(host, "systemctl stop foreign; rm -f /run/fake-gpu/%s.json", pid)
    assert [(name, row["status"]) for name, row in rows(report()).items()] == [("half", "measured"), ("ep8", "not run")]


def test_a_server_that_restarts_is_unstable_and_what_served_before_comes_back(host, plays, report):
    plays.run("deploy_ep8.yml").succeeded()
    asked = {**SWEEP, "sglang_compare_strategies": ["half"], "sglang_compare_finally": "previous", "sglang_compare_fresh": True}
    started = time.monotonic()
    process = plays.start("compare.yml", **asked)
    before = read_until(process, "point 2 of 2, C=4, run 1")
    ask(host, "systemctl kill --signal KILL sglang-k26-half.service")
    outcome = plays.finish(process, started)
    outcome.failed_with("half, unstable", "invalid: server_restarted", "nobody (no strategy has a valid figure for this goal)")
    assert "Done before: nothing." in before
    row = rows(report())["half"]
    assert (row["status"], row["cause"]["code"], [point["valid"] for point in row["points"]]) == ("unstable", "server_restarted", [True, False])
    assert_serves(host, EP8)
