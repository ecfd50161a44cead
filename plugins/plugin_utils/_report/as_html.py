# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report as one HTML page: no scripts, nothing fetched, readable on screen, in the dark and on paper."""

from __future__ import annotations

from html import escape

from . import plots, words
from .model import FAILED, MEASURED, Report, Row, Table
from .previous import Change
from .style import CSS

LEGEND = "Green: best at that concurrency; with =: one of a tie inside the noise. In brackets: invalid, never ranked."
SUMMARY_LEGEND = "Latencies are p50/p99. TTFT: time to the first token, TPOT: time per output token after it. ±: half of the 95 % interval."
GOAL_WORDS = {"throughput": "Throughput", "latency": "Latency, single stream", "slo": "Most inside the SLO", "balanced": "Balanced"}


def dumps(report: Report) -> str:
    """The whole file."""
    body = [
        "<h1>SGLang strategies compared</h1>",
        f'<p class="muted">{escape(report.generated)} · goal: {escape(report.goal)}</p>',
        *(_section(report, table, f"t{n}-") for n, table in enumerate(report.tables)),
        _list("Notes", report.notes, 2),
    ]
    if not plots.available():
        body.append(f'<p class="muted">{escape(plots.MISSING)}.</p>')
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>SGLang strategies compared, {escape(report.generated)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _section(report: Report, table: Table, prefix: str) -> str:
    hosts = table.hosts
    who = escape(hosts[0]) if len(hosts) == 1 else f"mean of {len(hosts)} hosts: {escape(', '.join(hosts))}"
    parts = [
        f"<section>\n<h2>{escape(table.workload.title)}</h2>",
        f'<p class="muted">{escape(table.hardware.title)} · {who}</p>',
        _tiles(report, table),
        "<h3>Output tokens a second</h3>",
        _rates(table),
        f'<p class="muted">{escape(LEGEND)}</p>',
        "<h3>Summary</h3>",
        _summary(table),
        f'<p class="muted">{escape(SUMMARY_LEGEND)}</p>',
        _plots(table, prefix),
        _failures(table),
        _list("Invalid points", words.invalid_points(table)),
        _list("Notes", words.remarks(table)),
        _changes(report, table),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _tiles(report: Report, table: Table) -> str:
    tiles = []
    for goal, standing in table.standings.items():
        if len(table.rows) < 2 or not standing.best or (goal == "slo" and not table.workload.slo_ms):
            continue
        best = standing.best
        name = " = ".join(standing.tied) if standing.is_tie else best.strategy
        figure = f"{words.rate(best.value)} tok/s {best.where}" + (", a tie inside the noise" if standing.is_tie else "")
        chosen = " goal" if goal == report.goal else ""
        tiles.append(f'<div class="tile{chosen}"><span>{GOAL_WORDS[goal]}</span><b>{escape(name)}</b><span>{escape(figure)}</span></div>')
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def _rates(table: Table) -> str:
    marks = {concurrency: words.best_at(table, concurrency) for concurrency in table.concurrencies}

    def cell(row: Row, concurrency: int) -> str:
        text, point = words.cell(row, concurrency), row.at(concurrency)
        mark = "" if row.repeat else marks[concurrency].get(row.strategy, "")
        if point and not point.valid:
            return f'<td class="invalid" title="{escape("; ".join(point.reasons))}">{text}</td>'
        half = f' title="± {words.rate(point.half_width)}"' if point and point.half_width is not None else ""
        best = ' class="best"' if mark else ""
        return f"<td{best}{half}>{text}{' =' if mark == '=' else ''}</td>"

    def cells(row: Row) -> list[str]:
        nothing = words.no_figures(row)
        if nothing:
            return [f'<td class="left invalid" colspan="{len(table.concurrencies)}">{escape(nothing)}</td>']
        return [cell(row, concurrency) for concurrency in table.concurrencies]

    rows = [[_name(row), *cells(row)] for row in table.rows]
    return _grid("Output tokens a second by concurrency", ["strategy", *(f"C={c}" for c in table.concurrencies)], rows)


def _summary(table: Table) -> str:
    chosen = words.shared_points(table, [])
    header = ["strategy", "verdict", "peak<br>tok/s", "at C"]
    header += [f"{kind} ms<br>C={c}" for kind in ("TTFT", "TPOT") for c in chosen]
    header += ["load", "GPUs busy<br>at peak", "watts<br>at peak", "tok/s<br>per watt"]
    rows = []
    for row in table.rows:
        peak = row.peak
        half = f" ±{words.rate(peak.half_width)}" if peak and peak.half_width is not None else ""
        texts = [words.rate(peak.tok_s) + half if peak else "", str(peak.concurrency) if peak else ""]
        texts += [words.pair(row.at(c), kind) for kind in ("ttft", "tpot") for c in chosen]
        texts.append(f"{row.load_s:,.0f} s" if row.load_s is not None else "")
        texts.append(f"{peak.gpu_util:.0f} %" if peak and peak.gpu_util is not None else "")
        texts.append(f"{peak.power_w:,.0f}" if peak and peak.power_w else "")
        texts.append(f"{row.peak_tok_s_per_w:.2f}" if row.peak_tok_s_per_w else "")
        rows.append([_name(row), f'<td class="left">{_chips(table, row)}</td>', *(f"<td>{escape(text)}</td>" for text in texts)])
    return _grid("Summary by strategy", header, rows)


def _chips(table: Table, row: Row) -> str:
    chips = []
    if row.status != MEASURED:
        chips.append(("bad" if row.status == FAILED else "warn", row.status))
    elif any(not point.valid for point in row.points):
        chips.append(("warn", f"{sum(not point.valid for point in row.points)} invalid"))
    for goal, standing in table.standings.items():
        if len(table.rows) > 1 and row.rankable and row.strategy in standing.tied:
            chips.append(("good", f"{goal} {'tie' if standing.is_tie else 'best'}"))
    return "".join(f'<span class="chip {kind}">{escape(text)}</span>' for kind, text in chips or [("", "ok")])


def _plots(table: Table, prefix: str) -> str:
    figures = [
        f"<figure><figcaption><b>{escape(title)}</b><span>{escape(sentence)}</span></figcaption>{drawing}</figure>"
        for title, sentence, drawing in plots.draw(table, prefix)
    ]
    return f'<div class="plots">{"".join(figures)}</div>' if figures else ""


def _failures(table: Table) -> str:
    items = []
    for row, cause, hint in words.failures(table):
        line = row.cause.get("line", "")
        items.append(
            f"<li><b>{escape(words.name_of(row))}</b> ({escape(row.status)}): {escape(cause)}"
            + (f"<br>Remedy: {escape(hint)}" if hint else "")
            + (f"<code>{escape(line)}</code>" if line and line not in cause else "")
            + "</li>"
        )
    return f"<h3>What went wrong</h3>\n<ul>{''.join(items)}</ul>" if items else ""


def _changes(report: Report, table: Table) -> str:
    if not table.changes:
        return ""
    told = [change for change in table.changes if change.verdict != "same"]
    same = [change for change in table.changes if change.verdict == "same"]
    parts = [f"<h3>Since {escape(report.previous)}</h3>"]
    parts.append(_change_grid("Changes beyond the noise", told) if told else "<p>No figure moved by more than the noise.</p>")
    if same:
        parts.append(f"<details><summary>{len(same)} figures inside the noise</summary>{_change_grid('Changes inside the noise', same)}</details>")
    return "\n".join(parts)


def _change_grid(label: str, changes: list[Change]) -> str:
    kinds = {"worse": "bad", "better": "good", "same": ""}
    rows = [
        [
            f'<th scope="row">{escape(change.strategy)}</th>',
            *(f"<td>{escape(cell)}</td>" for cell in (change.what, f"{change.before:,.1f}", f"{change.now:,.1f}", f"{change.share:+.1%}")),
            f'<td class="left"><span class="chip {kinds[change.verdict]}">{change.verdict}</span></td>',
        ]
        for change in changes
    ]
    return _grid(label, ["strategy", "figure", "before", "now", "change", "verdict"], rows)


def _name(row: Row) -> str:
    return f'<th scope="row">{escape(words.name_of(row))}</th>'


def _grid(label: str, header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col"{" class=left" if text == "verdict" else ""}>{text}</th>' for text in header)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    table = f'<table aria-label="{escape(label)}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def _list(title: str, texts: list[str], level: int = 3) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<h{level}>{title}</h{level}>\n<ul>{items}</ul>" if texts else ""
