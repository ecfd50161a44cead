# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides which strategy wins for a goal, and calls a difference inside the noise a tie."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

from .model import Point, Row

GOALS = ("throughput", "latency", "slo", "balanced")
SLO_SHARE = 0.99  # of the requests must be inside the SLO for a point to count


@dataclass(frozen=True)
class Score:
    """What one strategy brings to a goal."""

    strategy: str
    value: float
    noise: float  # half of the 95 % interval
    where: str = ""

    def worse_than(self, other: Score, drift: float) -> bool:
        """Is it lower by more than chance and the drift of the machine explain."""
        gap = other.value - self.value
        return gap > math.hypot(self.noise, other.noise) and gap > abs(drift) * other.value


@dataclass
class Standing:
    """How the strategies stand for one goal."""

    goal: str
    scores: list[Score] = field(default_factory=list)  # best first
    tied: list[str] = field(default_factory=list)  # the best and all that cannot be told from it; one name: a clear win
    left_out: dict[str, str] = field(default_factory=dict)  # strategy -> why it was not ranked

    @property
    def best(self) -> Score | None:
        """The highest score, which is a clear winner only when nobody is tied with it."""
        return self.scores[0] if self.scores else None

    @property
    def is_tie(self) -> bool:
        """Are there several that cannot be told apart."""
        return len(self.tied) > 1


def drift_of(rows: list[Row]) -> float | None:
    """Relative change from the first run of a strategy to its repeat at the end; None where nothing was repeated."""
    changes = []
    for again in (row for row in rows if row.repeat):
        first = next((row for row in rows if not row.repeat and row.strategy == again.strategy), None)
        for point in again.valid_points if first else ():
            before = first.at(point.concurrency)
            if before and before.valid and before.tok_s:
                changes.append(point.tok_s / before.tok_s - 1)
    return median(changes) if changes else None


def rank(rows: list[Row], goal: str, drift: float | None = None) -> Standing:
    """Order the strategies for one goal; what cannot be ranked is named with the reason."""
    standing = Standing(goal)
    candidates = []
    for row in rows:
        if row.rankable:
            candidates.append(row)
        elif not row.repeat:
            standing.left_out[row.strategy] = row.status if row.status != "measured" else "no valid point"
    for row in candidates:
        score, why_not = _SCORERS[goal](row, candidates)
        if score:
            standing.scores.append(score)
        else:
            standing.left_out[row.strategy] = why_not
    standing.scores.sort(key=lambda score: -score.value)
    if standing.best:
        standing.tied = [s.strategy for s in standing.scores if not s.worse_than(standing.best, drift or 0.0)]
    return standing


def choose(rows: list[Row], goal: str, serving: str = "") -> dict:
    """Name the strategy to deploy; among equals the one that serves already, then the better all-rounder, then the quicker to load."""
    drift = drift_of(rows)
    standing = rank(rows, goal, drift)
    answer = {"goal": goal, "winner": "", "tied": standing.tied if standing.is_tie else [], "left_out": standing.left_out}
    if not standing.best:
        return {**answer, "why": "no strategy has a valid figure for this goal"}
    best = standing.best
    if not standing.is_tie:
        return {**answer, "winner": best.strategy, "why": f"{_said(goal, best)}"}
    winner, why = _break_tie(rows, standing, serving, drift)
    return {**answer, "winner": winner, "why": f"tie of {', '.join(standing.tied)} at about {_said(goal, best)}; {why}"}


def _break_tie(rows: list[Row], standing: Standing, serving: str, drift: float | None) -> tuple[str, str]:
    if serving in standing.tied:
        return serving, f"{serving} serves already"
    left = [row for row in rows if row.strategy in standing.tied and row.rankable]
    other = "latency" if standing.goal == "throughput" else "throughput"
    second = rank(left, other, drift)
    if len(second.tied) == 1:
        return second.tied[0], f"{second.tied[0]} is better for {other}"
    left = [row for row in left if row.strategy in second.tied] or left
    loads = [row for row in left if row.load_s is not None]
    if len(loads) == len(left) and len({round(row.load_s) for row in left}) > 1:
        quickest = min(loads, key=lambda row: row.load_s)
        return quickest.strategy, f"{quickest.strategy} loads quickest"
    return left[0].strategy, f"{left[0].strategy} was listed first"


def _said(goal: str, score: Score) -> str:
    unit = "tok/s (geometric mean)" if goal == "balanced" else "tok/s"
    return f"{score.value:,.0f} {unit} {score.where}".rstrip()


def _score_of(row: Row, point: Point) -> Score:
    return Score(row.strategy, point.tok_s, point.noise, f"at C={point.concurrency}")


def _throughput(row: Row, _candidates: list[Row]) -> tuple[Score | None, str]:
    return _score_of(row, row.peak), ""


def _latency(row: Row, candidates: list[Row]) -> tuple[Score | None, str]:
    lowest = min(point.concurrency for other in candidates for point in other.points)
    point = row.at(lowest)
    if not point or not point.valid:
        return None, f"no valid point at C={lowest}"
    return _score_of(row, point), ""


def _slo(row: Row, _candidates: list[Row]) -> tuple[Score | None, str]:
    judged = [point for point in row.valid_points if point.good_share is not None]
    if not judged:
        return None, "no SLO was asked for"
    kept = [point for point in judged if point.good_share >= SLO_SHARE]
    if not kept:
        return None, "keeps the SLO at no point"
    return _score_of(row, max(kept, key=lambda point: point.tok_s)), ""


def _balanced(row: Row, candidates: list[Row]) -> tuple[Score | None, str]:
    shared = set.intersection(*({point.concurrency for point in other.valid_points} for other in candidates))
    points = [point for point in row.valid_points if point.concurrency in shared and point.tok_s]
    if not points:
        return None, "no concurrency is valid for all strategies"
    mean = math.exp(sum(math.log(point.tok_s) for point in points) / len(points))
    noise = math.sqrt(sum((point.noise / point.tok_s) ** 2 for point in points)) / len(points)
    return Score(row.strategy, mean, mean * noise, f"over C={min(shared)}..{max(shared)}"), ""


_SCORERS = {"throughput": _throughput, "latency": _latency, "slo": _slo, "balanced": _balanced}
