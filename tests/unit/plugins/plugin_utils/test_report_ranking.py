# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who wins: clear differences, ties inside the noise, drift, invalid points, unstable and failed strategies."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.model import FAILED, UNSTABLE, Point, Row
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.ranking import choose, drift_of, rank


def row(name: str, rates: dict[int, float], *, half: float | None = 1.0, invalid: tuple = (), good: dict | None = None, **changes) -> Row:
    points = [
        Point(concurrency, rate, half, valid=concurrency not in invalid, good_share=(good or {}).get(concurrency))
        for concurrency, rate in rates.items()
    ]
    return Row(strategy=name, points=points, **changes)


TP8 = {1: 98, 64: 900}
EP8 = {1: 65, 64: 1500}


@pytest.mark.parametrize(
    ("goal", "rows", "winner", "tied"),
    [
        ("throughput", [row("tp8", TP8), row("ep8", EP8)], "ep8", []),
        ("latency", [row("tp8", TP8), row("ep8", EP8)], "tp8", []),
        ("balanced", [row("tp8", {1: 98, 64: 900}), row("ep8", {1: 65, 64: 1500})], "ep8", []),
        # 1,531 and 1,538 with half-widths of 12: nobody can tell them apart
        ("throughput", [row("ep8", {64: 1538}, half=12), row("ep4", {64: 1531}, half=12)], "ep8", ["ep8", "ep4"]),
        ("throughput", [row("ep8", {64: 1538}, half=3), row("ep4", {64: 1531}, half=3)], "ep8", []),
        # no interval was measured: some noise is assumed
        ("throughput", [row("ep8", {64: 1538}, half=None), row("ep4", {64: 1500}, half=None)], "ep8", ["ep8", "ep4"]),
        # the highest figure is invalid, so it does not count
        ("throughput", [row("pp8", {1: 36, 64: 9000}, invalid=(64,)), row("ep8", EP8)], "ep8", []),
        ("throughput", [row("pp8", {64: 9000}, status=UNSTABLE), row("ep8", EP8)], "ep8", []),
        ("throughput", [row("pp8", {}, status=FAILED), row("ep8", EP8)], "ep8", []),
        ("throughput", [row("pp8", {64: 1}, invalid=(64,))], "", []),
        ("latency", [row("tp8", TP8, invalid=(1,)), row("ep8", EP8)], "ep8", []),
        ("slo", [row("tp8", TP8, good={1: 1.0, 64: 0.5}), row("ep8", EP8, good={1: 1.0, 64: 0.995})], "ep8", []),
        ("slo", [row("tp8", TP8), row("ep8", EP8)], "", []),
    ],
)
def test_winner(goal, rows, winner, tied):
    answer = choose(rows, goal)
    assert (answer["winner"], sorted(answer["tied"])) == (winner, sorted(tied))


def test_a_figure_that_is_left_out_is_named():
    answer = choose([row("pp8", {64: 1}, invalid=(64,)), row("tp8", TP8, invalid=(1,)), row("ep8", EP8)], "latency")
    assert answer["left_out"] == {"pp8": "no valid point", "tp8": "no valid point at C=1"}


def test_drift_of_the_machine_makes_small_differences_a_tie():
    rows = [row("tp8", {64: 1000}), row("ep8", {64: 1030}), row("tp8", {64: 950}, repeat=True)]
    assert drift_of(rows) == pytest.approx(-0.05)
    assert choose(rows, "throughput")["tied"] == ["ep8", "tp8"]
    assert choose(rows[:2], "throughput")["winner"] == "ep8"


def test_the_repeat_never_wins():
    rows = [row("tp8", {64: 1000}), row("tp8", {64: 1400}, repeat=True), row("ep8", {64: 1300})]
    assert [score.strategy for score in rank(rows, "throughput").scores] == ["ep8", "tp8"]


@pytest.mark.parametrize(
    ("serving", "changes", "winner", "why"),
    [
        ("ep4", {}, "ep4", "serves already"),
        ("tp8", {"ep4": {"rates": {1: 95, 64: 1531}}}, "ep4", "better for latency"),
        ("", {"ep4": {"load_s": 90.0}, "ep8": {"load_s": 140.0}}, "ep4", "loads quickest"),
        ("", {}, "ep8", "listed first"),
    ],
)
def test_ties_are_broken_by_what_else_counts(serving, changes, winner, why):
    rows = [row(name, **{"rates": {1: 65, 64: peak}, "half": 12, **changes.get(name, {})}) for name, peak in (("ep8", 1538), ("ep4", 1531))]
    answer = choose(rows, "throughput", serving)
    assert answer["winner"] == winner
    assert why in answer["why"]
