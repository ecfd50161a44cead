# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs campaigns as a person would, breaks them, and reads the table, the report and what serves afterwards."""

from __future__ import annotations

import json
import time

import pytest

from nodes import after, answer, argv, ask, assert_rests, assert_serves, known_good, main_pid, prop

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
        "quarter": {"base": "ep8", "summary": "Two of the cards.", "flags": {"tp-size": 2, "ep-size": 2}, "gpus": [4, 5]},
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


LEFT, QUARTER = "sglang-left-half.service", "sglang-k26-quarter.service"


@pytest.fixture(scope="module")
def neighbours(host, plays):
    """Two deployments side by side, one of another name and with a key; what is recorded of them."""
    plays.run("stop.yml").succeeded()
    strategies = {"sglang_server_strategies": SWEEP["sglang_server_strategies"]}
    left = {"sglang_server_strategy": "half", "sglang_server_name": "left", "sglang_server_port": 30101, "sglang_server_api_key": "k-left"}
    plays.run("deploy.yml", **strategies, **left).succeeded()
    plays.run("deploy.yml", **strategies, sglang_server_strategy="quarter").succeeded()
    return known_good(host)


def assert_side_by_side(host, before: dict) -> None:
    assert_serves(host, QUARTER)
    assert host.service(LEFT).is_running and host.service(LEFT).is_enabled
    assert answer(host, "/v1/models", 30101, "k-left")[0] == 200
    assert known_good(host) == before and sorted(before) == ["k26-quarter", "left-half"]


def test_all_that_had_to_make_room_comes_back(host, plays, neighbours):
    asked = {**SWEEP, "sglang_compare_strategies": ["ep8"], "sglang_compare_finally": "previous"}
    plays.run("compare.yml", **asked).succeeded()
    assert legs(host) == [("ep8", "measured")]
    assert_rests(host, EP8)
    assert_side_by_side(host, neighbours)


def test_what_served_before_and_is_a_leg_is_left_alone_and_several_clients_can_measure_it(host, plays, node, neighbours, tmp_path):
    pid = main_pid(host, QUARTER)
    clients = {"sglang_benchmark_from": "clients", "sglang_benchmark_clients": [node], "sglang_benchmark_start_delay": 6}
    clients["sglang_benchmark_host"] = "127.0.0.1"
    words = ["sglang_compare_strategies=quarter", "sglang_compare_goal=latency", "sglang_benchmark_num_prompts=0", "sglang_compare_finally=previous"]
    words += ["sglang_runtime_current=false", "sglang_runtime_wheelhouse_on_node=false"]
    plays.run("compare.yml", *(part for word in words for part in ("-e", word)), **SWEEP, **clients).succeeded()
    assert legs(host) == [("quarter", "measured")]
    assert main_pid(host, QUARTER) == pid
    assert_side_by_side(host, neighbours)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["goal"] == "latency"
    checked = plays.run("benchmark.yml", "--check", sglang_server_strategy="quarter", **SWEEP, **clients).succeeded()
    assert "Check from each client" in checked.words


def test_a_strategy_for_all_legs_is_refused(host, plays, neighbours):
    kept = host.file(CAMPAIGN).content_string
    plays.run("compare.yml", **SWEEP, sglang_server_strategy="ep8").failed_with("sglang_server_strategy cannot be given with -e")
    assert host.file(CAMPAIGN).content_string == kept
    assert_side_by_side(host, neighbours)


def test_what_a_leg_wrote_anew_comes_back_as_far_as_it_was_recorded(host, plays, neighbours):
    more = {"sglang_server_flags": {"max-running-requests": 32}, "sglang_benchmark_concurrency": [1]}
    asked = {**SWEEP, **more, "sglang_compare_strategies": ["quarter"], "sglang_compare_finally": "previous"}
    plays.run("compare.yml", **asked).succeeded()
    assert after(argv(host, QUARTER), "--max-running-requests") == "32"
    now = known_good(host)
    assert now["k26-quarter"].pop("digest") != neighbours["k26-quarter"]["digest"]
    assert_side_by_side(host, {**known_good(host), "left-half": neighbours["left-half"]})
    assert now["k26-quarter"] == {key: value for key, value in neighbours["k26-quarter"].items() if key != "digest"}


def test_a_benchmark_alone_knows_how_long_the_start_took(plays, report):
    strategies = {"sglang_server_strategies": SWEEP["sglang_server_strategies"], "sglang_server_strategy": "quarter"}
    plays.run("deploy.yml", **strategies, sglang_server_flags={"max-running-requests": 16}).succeeded()
    plays.run("benchmark.yml", "-e", "sglang_benchmark_num_prompts=0", "-e", "sglang_server_strategy=quarter", **SWEEP).succeeded()
    assert rows(report())["quarter"]["load_s"] > 0
