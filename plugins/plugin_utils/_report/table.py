# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the report as text of a given width, as lines of styled spans that a terminal may colour."""

from __future__ import annotations

import textwrap

from . import words
from .model import FAILED, NOT_RUN, Report, Row, Table

Span = tuple[str, str]  # text, style: "", title, best, bad, warn, dim
Line = list[Span]
MAX_REMARKS = 8
NAME_LIMIT = 18


def draw(report: Report, width: int, points: list[int] | None = None) -> list[Line]:
    """All tables, none of its lines wider than asked."""
    lines: list[Line] = []
    for table in report.tables:
        lines += _heading(table, width)
        lines += _grid(*_rates(table, width), width)
        lines.append([])
        lines += _grid(*_summary(table, width, points or []), width)
        lines.append([])
        lines += _winners(table, report.goal, width)
        lines += _troubles(table, width)
        lines += _changes(table, report.previous, width)
        lines.append([])
    for note in report.notes:
        lines += _wrapped("", note, width, "warn")
    return lines[:-1] if lines and not lines[-1] else lines


def plain(lines: list[Line]) -> str:
    """The same without styles."""
    return "\n".join("".join(text for text, _style in line).rstrip() for line in lines)


def _heading(table: Table, width: int) -> list[Line]:
    hosts = table.hosts
    who = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts, mean"
    words_ = f"{table.workload.title} | {table.hardware.title} | {who}"
    return [[(text, "title")] for text in textwrap.wrap(words_, width)] + [[]]


def _rates(table: Table, width: int) -> tuple[list[str], list[list[Span]]]:
    """Strategies against concurrency; where the width is short, columns in the middle are left to the files."""
    shown = table.concurrencies
    rows, cells = [], {}
    for concurrency in shown:
        marks = words.best_at(table, concurrency)
        for row in table.rows:
            mark = "" if row.repeat else marks.get(row.strategy, "")
            cells[(id(row), concurrency)] = (words.cell(row, concurrency), mark)
    name_width = max([len(_short(row)) for row in table.rows] + [len("tok/s")])
    while len(shown) > 2 and name_width + sum(1 + _cell_width(cells, concurrency) for concurrency in shown) > width:
        middle = len(shown) // 2
        shown = shown[:middle] + shown[middle + 1 :]
    for row in table.rows:
        spans: list[Span] = [(_short(row), _row_style(row))]
        for concurrency in shown if row.points else ():
            text, mark = cells[(id(row), concurrency)]
            pad = mark or ("" if text.endswith(")") else " ")
            spans.append((text + pad, "best" if mark else "dim" if text.startswith("(") else ""))
        if not row.points:
            spans.append((words.no_figures(row), _row_style(row)))
        rows.append(spans)
    return ["tok/s"] + [f"C={concurrency} " for concurrency in shown], rows


def _cell_width(cells: dict, concurrency: int) -> int:
    own = [len(text) + (0 if text.endswith(")") else 1) for (_row, at), (text, _mark) in cells.items() if at == concurrency]
    return max(own + [len(f"C={concurrency} ")])


def _summary(table: Table, width: int, asked: list[int]) -> tuple[list[str], list[list[Span]]]:
    chosen = words.shared_points(table, asked)
    lowest = table.concurrencies[0] if table.concurrencies else 1
    header = ["", "peak", "at C", f"C={lowest}"] + [f"TTFT C={c}" for c in chosen] + ["load", "tok/s/W", "verdict"]
    wide = width >= 110
    if wide:
        header[-3:-3] = [f"TPOT C={c}" for c in chosen] + ["W"]
    rows = []
    for row in table.rows:
        peak = row.peak
        half = f" ±{words.rate(peak.half_width)}" if peak and peak.half_width is not None else ""
        texts = [
            words.rate(peak.tok_s) + half if peak else "-",
            str(peak.concurrency) if peak else "",
            words.cell(row, lowest),
            *(words.pair(row.at(c), "ttft") for c in chosen),
        ]
        if wide:
            texts += [words.pair(row.at(c), "tpot") for c in chosen] + [f"{peak.power_w:,.0f}" if peak and peak.power_w else ""]
        texts += [
            f"{row.load_s:,.0f} s" if row.load_s is not None else "",
            f"{row.peak_tok_s_per_w:.2f}" if row.peak_tok_s_per_w else "",
        ]
        verdict = words.verdict(table, row)
        spans: list[Span] = [(_short(row), _row_style(row)), *((text, "dim" if text.startswith("(") else "") for text in texts)]
        rows.append(spans + [(verdict, _row_style(row) or ("best" if " " in verdict and "bad" not in verdict else ""))])
    return header, rows


def _grid(header: list[str], rows: list[list[Span]], width: int) -> list[Line]:
    """Columns as wide as their widest cell, numbers to the right, words to the left; a row of two cells runs over all columns."""
    full = [row for row in rows if len(row) == len(header)]
    widths = [max([len(header[n])] + [len(row[n][0]) for row in full]) for n in range(len(header))]
    widths[0] = max([widths[0]] + [len(row[0][0]) for row in rows])
    left = {0} | ({len(header) - 1} if header[-1] == "verdict" else set())
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1

    def line(cells: list[Span]) -> Line:
        spans: Line = []
        for n, (text, style) in enumerate(cells):
            spans.append((" " * (gap if n else 0), ""))
            spans.append((text.ljust(widths[n]) if n in left or len(cells) < len(header) else text.rjust(widths[n]), style))
        return spans

    return [_cut(line([(text, "dim") for text in header]), width)] + [_cut(line(row), width) for row in rows]


def _cut(line: Line, width: int) -> Line:
    spans, room = [], width
    for text, style in line:
        spans.append((text[:room], style))
        room -= len(spans[-1][0])
    return spans


def _winners(table: Table, goal: str, width: int) -> list[Line]:
    if len(table.rows) < 2:
        return _wrapped("", words.UNITS, width, "dim")
    lines = _wrapped("", f"{words.MARKS}  {words.UNITS}", width, "dim")
    for name, text in words.winner_lines(table):
        if name == "slo" and not table.workload.slo_ms:
            continue
        label = f"{words.LETTERS[name]} {name}{' (goal)' if name == goal else ''}"
        lines += _wrapped(label.ljust(21), text, width, "best" if name == goal else "")
    return lines


def _troubles(table: Table, width: int) -> list[Line]:
    lines: list[Line] = []
    for row, cause, hint in words.failures(table):
        style = "warn" if row.status == NOT_RUN else "bad"
        lines += _wrapped(f"{row.status} ".ljust(9), f"{words.name_of(row)}: {cause}", width, style)
        if hint:
            lines += _wrapped(" " * 9, f"remedy: {hint}", width, "")
        if row.cause.get("line") and row.cause["line"] not in cause:
            lines += _wrapped(" " * 9, row.cause["line"][: 3 * width], width, "dim")
    for text in words.invalid_points(table):
        lines += _wrapped("invalid  ", text, width, "warn")
    remarks = words.remarks(table)
    for text in remarks[:MAX_REMARKS]:
        lines += _wrapped("note     ", text, width, "")
    if len(remarks) > MAX_REMARKS:
        lines.append([(f"note     {len(remarks) - MAX_REMARKS} more in the files", "dim")])
    return lines


def _changes(table: Table, previous: str, width: int) -> list[Line]:
    if not previous or not table.changes:
        return []
    worse = [change for change in table.changes if change.regression]
    lines = _wrapped("since    ", f"{previous}: {len(table.changes)} figures compared, {len(worse)} worse beyond the noise", width, "")
    for change in worse:
        lines += _wrapped("WORSE    ", change.text, width, "bad")
    return lines


def _wrapped(label: str, text: str, width: int, style: str) -> list[Line]:
    room = max(20, width - len(label))
    parts = textwrap.wrap(text, room) or [""]
    return [[(label if n == 0 else " " * len(label), style), (part, style if style != "best" else "")] for n, part in enumerate(parts)]


def _short(row: Row) -> str:
    name = words.name_of(row)
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


def _row_style(row: Row) -> str:
    return "bad" if row.status == FAILED else "warn" if row.status in (NOT_RUN, "unstable") else ""
