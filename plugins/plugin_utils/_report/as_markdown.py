# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report as Markdown, for merge requests, wikis and chats."""

from __future__ import annotations

from . import words
from .model import Report, Row, Table

LEGEND = "Bold: best; with =: one of a tie inside the noise; in brackets: invalid, not ranked."


def dumps(report: Report) -> str:
    """The whole file."""
    parts = ["# SGLang strategies compared", f"{report.generated}, goal: {report.goal}"]
    for table in report.tables:
        parts += [f"## {_text(table.workload.title)}", f"{_text(table.hardware.title)}. Hosts: {_text(', '.join(table.hosts))}"]
        parts += ["### Output tokens a second", _rates(table), LEGEND, "### Summary", _summary(table)]
        parts += _lists(table, report.previous)
    parts += _bullets(report.notes)
    return "\n\n".join(part for part in parts if part) + "\n"


def _rates(table: Table) -> str:
    columns = table.concurrencies
    marks = {concurrency: words.best_at(table, concurrency) for concurrency in columns}

    def cell(row: Row, concurrency: int) -> str:
        text = words.cell(row, concurrency)
        mark = "" if row.repeat else marks[concurrency].get(row.strategy, "")
        return f"**{text}** {'=' if mark == '=' else ''}".rstrip() if mark else text

    def cells(row: Row) -> list[str]:
        nothing = words.no_figures(row)
        return [nothing] + [""] * (len(columns) - 1) if nothing else [cell(row, concurrency) for concurrency in columns]

    rows = [[words.name_of(row), *cells(row)] for row in table.rows]
    return _grid(["strategy", *(f"C={concurrency}" for concurrency in columns)], rows)


def _summary(table: Table) -> str:
    chosen = words.shared_points(table, [])
    header = ["strategy", "peak tok/s", "at C", *(f"TTFT p50/p99 ms, C={c}" for c in chosen)]
    header += [*(f"TPOT p50/p99 ms, C={c}" for c in chosen), "load s", "tok/s per W", "verdict"]
    rows = []
    for row in table.rows:
        peak = row.peak
        half = f" ±{words.rate(peak.half_width)}" if peak and peak.half_width is not None else ""
        rows.append(
            [words.name_of(row), words.rate(peak.tok_s) + half if peak else "", str(peak.concurrency) if peak else ""]
            + [words.pair(row.at(c), kind) for kind in ("ttft", "tpot") for c in chosen]
            + [f"{row.load_s:,.0f}" if row.load_s is not None else "", f"{row.peak_tok_s_per_w:.2f}" if row.peak_tok_s_per_w else ""]
            + [words.verdict(table, row)]
        )
    return _grid(header, rows)


def _lists(table: Table, previous: str) -> list[str]:
    parts = []
    if len(table.rows) > 1:
        parts += ["### Winners", *_bullets([f"{words.LETTERS[goal]}, {goal}: {text}" for goal, text in words.winner_lines(table)])]
    troubles = [f"{row.status}, {words.name_of(row)}: {cause}" + (f". Remedy: {hint}" if hint else "") for row, cause, hint in words.failures(table)]
    troubles += [f"invalid, {text}" for text in words.invalid_points(table)]
    if troubles:
        parts += ["### What went wrong", *_bullets(troubles)]
    if words.remarks(table):
        parts += ["### Notes", *_bullets(words.remarks(table))]
    if any(change.verdict != "same" for change in table.changes):
        parts += [f"### Since {_text(previous)}", *_bullets([f"**{c.verdict}** {c.text}" for c in table.changes if c.verdict != "same"])]
    return parts


def _bullets(texts: list[str]) -> list[str]:
    return ["\n".join(f"- {_text(text)}" for text in texts)] if texts else []


def _grid(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(text: str) -> str:
    """Log lines may hold what Markdown would take for a table, a tag or a link."""
    for char in "\\`|<>[]":
        text = text.replace(char, "\\" + char)
    return text.replace("\n", " ")
