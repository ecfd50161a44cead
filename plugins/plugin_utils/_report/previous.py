# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares with the report of an earlier run and tells a regression from noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .model import ASSUMED_NOISE, Report, Row, Table
from .as_json import SCHEMA, report_row

LOAD_TOLERANCE = 0.25  # page caches make loads vary more than rates


@dataclass(frozen=True)
class Change:
    """One figure then and now."""

    strategy: str
    what: str  # "tok/s at C=64", "load seconds"
    before: float
    now: float
    verdict: str  # worse, better: by more than noise; same

    @property
    def regression(self) -> bool:
        """Must somebody look at it."""
        return self.verdict == "worse"

    @property
    def share(self) -> float:
        """Relative change."""
        return self.now / self.before - 1

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{self.strategy}: {self.what} {self.now:,.1f}, was {self.before:,.1f} ({self.share:+.1%})"


def compare(report: Report, past: Any, name: str) -> None:
    """Put the changes since a past ``report.json`` into the tables; says so where nothing can be compared."""
    if not isinstance(past, dict) or past.get("schema") != SCHEMA:
        report.notes.append(f"previous report {name}: not a report.json of this collection, so nothing is compared")
        return
    report.previous = f"{name} ({past.get('generated', 'no date')})"
    for table in report.tables:
        match = next((old for old in past.get("tables", []) if _same(table, old)), None)
        if match is None:
            report.notes.append(f"previous report {name}: no table of the same hardware and workload as {table.hardware.title}")
            continue
        for raw in match.get("rows", []):
            before = report_row(raw)
            now = next((row for row in table.rows if row.strategy == before.strategy and not row.repeat), None)
            if now and not before.repeat:
                table.changes += _changes(before, now)


def _same(table: Table, old: dict[str, Any]) -> bool:
    hardware, workload = old.get("hardware", {}), old.get("workload", {})
    return (
        (hardware.get("gpu_name"), hardware.get("gpu_count")) == (table.hardware.gpu_name, table.hardware.gpu_count)
        and workload.get("model") == table.workload.model
        and (workload.get("input_len"), workload.get("output_len")) == (table.workload.input_len, table.workload.output_len)
        and workload.get("arrival") == table.workload.arrival
    )


def _changes(before: Row, now: Row) -> list[Change]:
    changes = []
    for point in now.valid_points:
        old = before.at(point.concurrency)
        if old and old.valid and old.tok_s:
            noise = max(math.hypot(point.noise, old.noise), ASSUMED_NOISE * old.tok_s)
            what = f"tok/s at C={point.concurrency}"
            changes.append(Change(now.strategy, what, old.tok_s, point.tok_s, _verdict(point.tok_s - old.tok_s, noise)))
    if before.load_s and now.load_s is not None:
        verdict = _verdict(before.load_s - now.load_s, before.load_s * LOAD_TOLERANCE)
        changes.append(Change(now.strategy, "seconds to load", before.load_s, now.load_s, verdict))
    if before.valid_points and not now.valid_points:
        changes.append(Change(now.strategy, "valid points", float(len(before.valid_points)), 0.0, "worse"))
    return changes


def _verdict(gain: float, noise: float) -> str:
    return "same" if abs(gain) <= noise else "better" if gain > 0 else "worse"
