# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's order, its resumption after a kill, what a leg came to, and the winner over many hosts."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.sglang.plugins.filter.campaign_leg import campaign_leg
from ansible_collections.gpuops.sglang.plugins.filter.campaign_legs import campaign_legs
from ansible_collections.gpuops.sglang.plugins.filter.campaign_winner import campaign_winner
from ansible_collections.gpuops.sglang.plugins.plugin_utils._campaign import finished_leg, legs

from .samples import benchmark, campaign, leg

FOUR = ["tp8", "pp8", "ep8", "ep4"]
ASKED = {"model": "kimi-k2.6"}
OOM = {"code": "cuda_oom", "summary": "out of memory", "hint": "lower it"}


def order(*args, **kwargs):
    return [(one["strategy"], one["repeat"]) for one in legs(*args, **kwargs)]


def test_order_is_kept_and_the_first_repeated():
    assert order(FOUR) == [("tp8", False), ("pp8", False), ("ep8", False), ("ep4", False), ("tp8", True)]
    assert order(FOUR, repeat_first=False) == [(name, False) for name in FOUR]
    assert order(["tp8", "tp8"]) == [("tp8", False)]


def test_a_seed_always_shuffles_alike():
    assert order(FOUR, 7) == order(FOUR, "7")
    assert len({tuple(order(FOUR, seed)) for seed in range(10)}) > 1
    assert sorted(name for name, repeat in order(FOUR, 7) if not repeat) == sorted(FOUR)


def begun(*statuses, finished=False, **asked):
    made = campaign_legs(FOUR, {**ASKED, **asked}, id="old")
    for one, status in zip(made["legs"], statuses):
        one["status"] = status
    return {**made, "finished": finished}


@pytest.mark.parametrize(
    ("kept", "retry", "expected_id", "statuses"),
    [
        (None, False, "new", ["", "", "", "", ""]),
        (begun("measured", "failed"), False, "old", ["measured", "failed", "", "", ""]),
        # GPUs held by somebody else: nothing was learned, so it is tried again
        (begun("measured", "not_run"), False, "old", ["measured", "", "", "", ""]),
        (begun("measured", "failed"), True, "old", ["measured", "", "", "", ""]),
        (begun(*["measured"] * 5, finished=True), False, "new", [""] * 5),
        (begun("measured", "failed", *["measured"] * 3, finished=True), False, "new", [""] * 5),
        (begun("measured", "failed", *["measured"] * 3, finished=True), True, "old", ["measured", "", "measured", "measured", "measured"]),
        # killed after the last leg and before the end
        (begun(*["measured"] * 5), False, "old", ["measured"] * 5),
        # asked for something else: figures cannot be mixed
        (begun("measured", input_len=8192), False, "new", [""] * 5),
        ({"legs": "broken"}, False, "new", [""] * 5),
    ],
)
def test_what_a_second_run_goes_on_with(kept, retry, expected_id, statuses):
    campaign = campaign_legs(FOUR, ASKED, id="new", kept=json.loads(json.dumps(kept)), retry_failed=retry)
    assert (campaign["id"], [one["status"] for one in campaign["legs"]]) == (expected_id, statuses)


def test_keys_that_are_numbers_do_not_keep_a_campaign_from_going_on():
    asked = {"strategies": {"mine": {"flags_by_compute_cap": {12: {"attention-backend": "triton"}}, "gpus": (0, 1)}}}
    kept = json.loads(json.dumps(campaign_legs(FOUR, asked, id="old")))
    assert campaign_legs(FOUR, asked, id="new", kept=kept)["id"] == "old"


@pytest.mark.parametrize(("finished", "strategy"), [(True, "ep8"), (False, "tp8")])
def test_a_campaign_that_is_tried_again_later_puts_back_what_served_in_between(finished, strategy):
    kept = {**begun("measured", "failed", finished=finished), "previous": {"strategy": "tp8"}}
    again = campaign_legs(FOUR, ASKED, id="new", kept=kept, previous={"strategy": "ep8"}, retry_failed=True)
    assert (again["id"], again["previous"]["strategy"]) == ("old", strategy)


LEG = {"leg": 2, "strategy": "ep8", "repeat": False, "status": ""}


@pytest.mark.parametrize(
    ("results", "status", "code"),
    [
        ([{"failed": True, "verdict": "failed", "cause": OOM}, {"failed": True, "msg": "play fails"}], "failed", "cuda_oom"),
        ([{}, {"verdict": "preflight_failed", "cause": {"code": "gpu_busy", "summary": "pid 4711"}}], "not_run", "gpu_busy"),
        # a wait that was ready does not explain a failure that came after it
        ([{"verdict": "ready", "cause": None}, {"failed": True, "msg": "bad_sizes: ep-size 8 does not divide 60 experts"}], "failed", "bad_sizes"),
        ([{"failed": True, "msg": "The conditional check failed"}], "failed", "task_failed"),
        ([], "failed", "task_failed"),
    ],
)
def test_a_leg_that_was_not_measured_has_a_cause(results, status, code):
    done = finished_leg(LEG, "k26-ep8", results)
    assert (done["status"], done["cause"]["code"]) == (status, code)


def test_a_refused_benchmark_gives_its_own_cause():
    refused = benchmark("ep8", points=[], status="failed", cause={"code": "auth", "summary": "the key is refused"})
    done = finished_leg(LEG, "k26-ep8", [{"verdict": "ready"}], benchmark=refused)
    assert (done["status"], done["cause"]["code"]) == ("failed", "auth")


def test_a_measured_leg_knows_its_own_load():
    lines = [
        {"strategy": "ep8", "invocation_id": "older", "total": 300.0, "phases": {"weights": 200.0}},
        {"strategy": "ep8", "invocation_id": "mine", "total": 135.0, "phases": {"weights": 78.0}},
        {"strategy": "tp8", "invocation_id": "other", "total": 570.0, "phases": {}},
    ]
    text = "\n".join(json.dumps(line) for line in lines) + "\n{cut"
    done = finished_leg(LEG, "k26-ep8", [{"verdict": "ready", "unit": {"invocation_id": "mine"}}], text, benchmark("ep8"))
    assert (done["status"], done["load"]) == ("measured", {"seconds": 135.0, "phases": {"weights": 78.0}})


def test_only_the_named_leg_changes():
    before = campaign_legs(FOUR, ASKED, id="new")
    after = campaign_leg(before, 2, deployment="k26-pp8", results=[{"cause": OOM, "verdict": "failed"}])
    assert [one["status"] for one in after["legs"]] == ["", "failed", "", "", ""]


def test_a_tie_goes_to_what_served_before():
    answer = campaign_winner({"h1": {**campaign(), "previous": {"strategy": "ep4"}}}, "h1", "throughput")
    assert (answer["winner"], sorted(answer["tied"])) == ("ep4", ["ep4", "ep8"])
    assert campaign_winner({"h1": campaign()}, "h1", "latency")["winner"] == "tp8"


def test_equal_hosts_agree_and_a_strategy_that_failed_on_one_cannot_win():
    good = {"legs": [leg(1, "tp8"), leg(2, "ep8")]}
    bad = {"legs": [leg(1, "tp8"), leg(2, "ep8", status="failed", benchmark=None, cause=OOM)]}
    both = {"h1": good, "h2": bad}
    assert [campaign_winner(both, host, "throughput")["winner"] for host in both] == ["tp8", "tp8"]
    assert campaign_winner({"h1": good}, "h1", "throughput")["winner"] == "ep8"


def test_a_strategy_that_somebody_else_kept_from_running_on_one_host_can_win():
    busy = {"code": "gpu_busy", "summary": "pid 4711 holds 9,312 MiB"}
    good = {"legs": [leg(1, "tp8"), leg(2, "ep8")]}
    held = {"legs": [leg(1, "tp8"), leg(2, "ep8", status="not_run", benchmark=None, cause=busy)]}
    assert campaign_winner({"h1": held, "h2": good}, "h1", "throughput")["winner"] == "ep8"
    assert campaign_winner({"h1": held}, "h1", "throughput")["winner"] == "tp8"


def test_nothing_measured_is_no_winner():
    answer = campaign_winner({"h1": {"legs": [leg(1, "tp8", status="failed", benchmark=None, cause=OOM)]}}, "h1", "throughput")
    assert answer["winner"] == ""
