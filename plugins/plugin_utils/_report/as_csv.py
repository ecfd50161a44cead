# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report as CSV, one line a point, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io

from .model import Point, Report, Row, Table

LATENCIES = [(kind, which) for kind in ("ttft", "tpot", "itl", "e2e") for which in ("p50", "p99")]
HEADER = [
    "gpu", "gpus", "model", "input_len", "output_len", "arrival", "hosts", "strategy", "repeat", "version", "status", "cause", "load_s",
    "concurrency", "valid", "reason", "output_tok_s", "ci95_half_width", "total_tok_s", "requests_s",
    *(f"{kind}_{which}_ms" for kind, which in LATENCIES), "slo_met", "power_w", "gpu_util",
]  # fmt: skip


def dumps(report: Report) -> str:
    """The whole file; a strategy without points has one line that says why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for table in report.tables:
        for row in table.rows:
            for point in row.points or [None]:
                writer.writerow([_safe(value) for value in _line(table, row, point)])
    return out.getvalue()


def _line(table: Table, row: Row, point: Point | None) -> list:
    hardware, workload = table.hardware, table.workload
    cells = [
        hardware.gpu_name, hardware.gpu_count, workload.model, workload.input_len, workload.output_len, workload.arrival,
        " ".join(row.hosts), row.strategy, row.repeat, row.version, row.status, row.cause.get("code"), row.load_s,
    ]  # fmt: skip
    if point is None:
        return cells + [None] * (len(HEADER) - len(cells))
    cells += [point.concurrency, point.valid, "; ".join(point.reasons), point.tok_s, point.half_width, point.total_tok_s, point.requests_s]
    cells += [point.ms(kind, which) for kind, which in LATENCIES]
    return cells + [point.good_share, point.power_w, point.gpu_util]


def _safe(value: object) -> object:
    """Text that a spreadsheet would run as a formula is kept text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else "" if value is None else value
