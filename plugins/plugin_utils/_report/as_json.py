# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report as the JSON that docs/report.md describes, and reads its rows back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .model import Hardware, Point, Report, Row, Table, Workload
from .ranking import Standing
from .words import remarks

SCHEMA = "gpuops.sglang/report"
SCHEMA_VERSION = 1


def dumps(report: Report) -> str:
    """The whole file."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=False) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "generated": report.generated,
        "goal": report.goal,
        "previous": report.previous or None,
        "notes": report.notes,
        "tables": [_table(table) for table in report.tables],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "hardware": asdict(table.hardware),
        "workload": {**asdict(table.workload), "slo_ms": dict(table.workload.slo_ms)},
        "hosts": table.hosts,
        "concurrencies": table.concurrencies,
        "drift": table.drift,
        "winners": {goal: _standing(standing) for goal, standing in table.standings.items()},
        "rows": [_row(row) for row in table.rows],
        "notes": remarks(table),
        "changes": [{**asdict(change), "share": change.share} for change in table.changes],
    }


def _standing(standing: Standing) -> dict[str, Any]:
    best = standing.best
    return {
        "strategy": best.strategy if best and not standing.is_tie else None,
        "tied": standing.tied if standing.is_tie else [],
        "scores": [asdict(score) for score in standing.scores],
        "left_out": standing.left_out,
    }


def _row(row: Row) -> dict[str, Any]:
    peak = row.peak
    return {
        "strategy": row.strategy,
        "repeat": row.repeat,
        "leg": row.leg or None,
        "hosts": row.hosts,
        "deployment": row.deployment,
        "version": row.version,
        "status": row.status,
        "cause": row.cause or None,
        "load_s": row.load_s,
        "load_phases": row.load_phases,
        "peak": {"concurrency": peak.concurrency, "tok_s": peak.tok_s, "tok_s_per_w": row.peak_tok_s_per_w} if peak else None,
        "points": [asdict(point) for point in row.points],
    }


def report_row(raw: dict[str, Any]) -> Row:
    """A row of an earlier ``report.json``, with what a comparison needs."""
    known = Point.__dataclass_fields__
    points = [
        Point(**{name: tuple(value) if isinstance(value, list) else value for name, value in point.items() if name in known})
        for point in raw.get("points") or []
    ]
    return Row(
        strategy=raw["strategy"],
        repeat=bool(raw.get("repeat")),
        status=raw.get("status", ""),
        points=points,
        load_s=raw.get("load_s"),
        hardware=Hardware(),
        workload=Workload(),
    )
