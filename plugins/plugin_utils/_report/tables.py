# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sorts gathered rows into tables of comparable ones, joins hosts of the same hardware, and ranks each table."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, median, stdev

from .model import FAILED, MEASURED, NOT_RUN, UNSTABLE, Hardware, Point, Report, Row, Table, Workload
from .ranking import GOALS, drift_of, rank

OUTLIER = 0.10  # a host this much below the median of its peers is named


def build(rows: list[Row], generated: str, goal: str) -> Report:
    """Make the report of everything that was gathered."""
    report = Report(generated=generated, goal=goal)
    for (hardware, workload), members in _grouped(rows).items():
        table = Table(hardware, workload, _joined(members))
        table.drift = drift_of(table.rows)
        table.standings = {name: rank(table.rows, name, table.drift) for name in GOALS}
        table.notes = _outliers(members)
        report.tables.append(table)
    return report


def _grouped(rows: list[Row]) -> dict[tuple[Hardware, Workload], list[Row]]:
    """Rows that never got to measure join the table of their host, else of their hardware, else the first."""
    groups: dict[tuple[Hardware, Workload], list[Row]] = {}
    for row in rows:
        if row.points:
            groups.setdefault((row.hardware, row.workload), []).append(row)
    for row in rows:
        if not row.points:
            groups.setdefault(_home(row, groups), []).append(row)
    places = {id(row): n for n, row in enumerate(rows)}
    return {key: sorted(members, key=lambda row: places[id(row)]) for key, members in groups.items()}


def _home(row: Row, groups: dict[tuple[Hardware, Workload], list[Row]]) -> tuple[Hardware, Workload]:
    for key, members in groups.items():
        if any(member.host == row.host for member in members):
            return key
    if row.hardware.gpu_name:
        return next((key for key in groups if key[0] == row.hardware), (row.hardware, row.workload))
    return next(iter(groups), (row.hardware, row.workload))


def _joined(rows: list[Row]) -> list[Row]:
    """One row a strategy; versions of the server are kept apart."""
    several = len({row.version for row in rows if row.version}) > 1
    members: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        name = f"{row.strategy} {row.version}" if several and row.version else row.strategy
        members.setdefault((name, row.repeat), []).append(row)
    return [join(group, name) for (name, _repeat), group in members.items()]


def join(rows: list[Row], name: str) -> Row:
    """One row of many hosts: as good as where it did worst; where it was not run, nothing is known of it."""
    not_run = [row for row in rows if row.status == NOT_RUN]
    tried = [row for row in rows if row.status != NOT_RUN]
    first = (tried or rows)[0]
    worst = next((row for status in (FAILED, UNSTABLE) for row in rows if row.status == status), None if tried else first)
    joined = replace(first, strategy=name, host="" if len(rows) > 1 else first.host, hosts=[row.host for row in rows])
    joined.status = worst.status if worst else MEASURED
    joined.cause = dict(worst.cause) if worst else dict(first.cause)
    if worst and len(rows) > 1:
        joined.cause["hosts"] = [row.host for row in rows if row.status == worst.status]
    joined.points = [_mean_point(points) for points in _by_concurrency(rows)]
    joined.load_s, joined.load_phases = _mean_load(rows)
    joined.notes = [f"not run on {row.host}: {row.cause.get('summary') or row.cause.get('code')}" for row in not_run if tried]
    joined.notes += dict.fromkeys(note for row in rows for note in row.notes)
    return joined


def _by_concurrency(rows: list[Row]) -> list[list[Point]]:
    found: dict[int, list[Point]] = {}
    for row in rows:
        for point in row.points:
            found.setdefault(point.concurrency, []).append(point)
    return [found[concurrency] for concurrency in sorted(found)]


def _mean_point(points: list[Point]) -> Point:
    """The mean over hosts; invalid as soon as one host's point is, since the mean would hide it."""
    if len(points) == 1:
        return points[0]
    valid = all(point.valid for point in points)
    rates = [point.tok_s for point in points]
    own = math.sqrt(sum(point.noise**2 for point in points)) / len(points)
    spread = 1.96 * stdev(rates) / math.sqrt(len(points))
    return Point(
        concurrency=points[0].concurrency,
        tok_s=mean(rates),
        half_width=max(own, spread),
        valid=valid,
        reasons=tuple(dict.fromkeys(reason for point in points for reason in point.reasons)),
        total_tok_s=_mean_of([point.total_tok_s for point in points]),
        requests_s=_mean_of([point.requests_s for point in points]),
        latency_ms=_mean_latency(points),
        good_share=_mean_of([point.good_share for point in points]),
        power_w=_mean_of([point.power_w for point in points]),
        gpu_util=_mean_of([point.gpu_util for point in points]),
        notes=tuple(dict.fromkeys(note for point in points for note in point.notes)),
    )


def _mean_latency(points: list[Point]) -> dict[str, dict[str, float]]:
    answer: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(kind for point in points for kind in point.latency_ms):
        for which in ("mean", "p50", "p90", "p99"):
            figure = _mean_of([point.ms(kind, which) for point in points])
            if figure is not None:
                answer.setdefault(kind, {})[which] = figure
    return answer


def _mean_load(rows: list[Row]) -> tuple[float | None, dict[str, float]]:
    phases = dict.fromkeys(phase for row in rows for phase in row.load_phases)
    means = {phase: _mean_of([row.load_phases.get(phase) for row in rows]) for phase in phases}
    return _mean_of([row.load_s for row in rows]), {phase: value for phase, value in means.items() if value is not None}


def _mean_of(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return mean(known) if known else None


def _outliers(rows: list[Row]) -> list[str]:
    """Hosts that fall behind their peers on the same strategy: a sick card hides in a mean."""
    peaks: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        if row.peak and not row.repeat:
            peaks.setdefault(row.strategy, []).append((row.host, row.peak.tok_s))
    notes = []
    for strategy, found in peaks.items():
        middle = median(rate for _host, rate in found)
        notes += [
            f"{host} is {1 - rate / middle:.0%} below the other hosts with {strategy}"
            for host, rate in found
            if len(found) > 2 and rate < middle * (1 - OUTLIER)
        ]
    return notes
