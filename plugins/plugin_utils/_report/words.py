# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words and figures that every form of the report shares: numbers, marks, causes, winners and notes."""

from __future__ import annotations

from .model import FAILED, MEASURED, NOT_RUN, Point, Row, Table
from .ranking import GOALS, Score, Standing

LETTERS = {"throughput": "T", "latency": "L", "slo": "S", "balanced": "B"}
MARKS = "* best  = tie inside the noise  ( ) invalid, not ranked"
UNITS = "TTFT: p50/p99 in ms"


def rate(value: float | None) -> str:
    """Tokens a second with as many digits as mean something."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}" if value < 100_000 else f"{value / 1000:,.0f}k"


def cell(row: Row, concurrency: int) -> str:
    """The figure at one concurrency, in brackets when it is not to be trusted."""
    point = row.at(concurrency)
    if point is None:
        return ""
    if not point.valid:
        return f"({rate(point.tok_s)})" if point.tok_s else "(-)"
    return rate(point.tok_s)


def no_figures(row: Row) -> str:
    """What stands in place of figures where there are none."""
    return "" if row.points else f"{row.status}: {row.cause.get('code', 'unknown')}"


def best_at(table: Table, concurrency: int) -> dict[str, str]:
    """Strategy -> ``*`` for the clear best at a concurrency, ``=`` for each of a tie."""
    scores = []
    for row in table.rows:
        point = row.at(concurrency)
        if row.rankable and point and point.valid:
            scores.append(Score(row.strategy, point.tok_s, point.noise))
    if len(scores) < 2:
        return {}
    best = max(scores, key=lambda score: score.value)
    tied = [score.strategy for score in scores if not score.worse_than(best, table.drift or 0.0)]
    return {name: "=" if len(tied) > 1 else "*" for name in tied}


def pair(point: Point | None, kind: str) -> str:
    """p50/p99 of a latency in milliseconds."""
    if point is None:
        return ""
    figures = [point.ms(kind, which) for which in ("p50", "p99")]
    text = "/".join("-" if figure is None else milliseconds(figure) for figure in figures)
    return text if point.valid else f"({text})"


def milliseconds(value: float) -> str:
    """Milliseconds without digits that mean nothing."""
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def name_of(row: Row) -> str:
    """The strategy, told apart from its own repeat."""
    return f"{row.strategy} again" if row.repeat else row.strategy


def verdict(table: Table, row: Row) -> str:
    """One word on how it went, then a letter for each goal it won (small where it shares the place)."""
    invalid = sum(not point.valid for point in row.points)
    word = row.status if row.status != MEASURED else f"{invalid} bad" if invalid else "ok"
    letters = [
        letter if not table.standings[goal].is_tie else letter.lower()
        for goal, letter in LETTERS.items()
        if row.rankable and goal in table.standings and row.strategy in table.standings[goal].tied
    ]
    return " ".join([word, *letters]) if len(table.rows) > 1 else word


def shared_points(table: Table, asked: list[int]) -> list[int]:
    """The concurrencies whose latencies are worth a column: those asked for, else the lowest and the highest that all have."""
    if asked:
        return [concurrency for concurrency in asked if concurrency in table.concurrencies]
    sets = [{point.concurrency for point in row.valid_points} for row in table.rows if row.rankable]
    common = sorted(set.intersection(*sets)) if sets else []
    return list(dict.fromkeys([common[0], common[-1]])) if common else table.concurrencies[:1]


def winner_lines(table: Table) -> list[tuple[str, str]]:
    """For each goal its letter and a sentence: who wins, with which figure, tied with whom."""
    return [(goal, standing_text(table.standings[goal])) for goal in GOALS if goal in table.standings]


def standing_text(standing: Standing) -> str:
    """One sentence on a standing."""
    best = standing.best
    if best is None:
        reasons = list(dict.fromkeys(standing.left_out.values()))
        return "nobody: " + ("; ".join(reasons) or "nothing was measured")
    figure = f"{rate(best.value)} tok/s {best.where}".rstrip()
    if not standing.is_tie:
        return f"{best.strategy}, {figure}"
    others = [f"{score.strategy} {rate(score.value)}" for score in standing.scores if score.strategy in standing.tied[1:]]
    return f"tie: {best.strategy}, {figure}; inside the noise: {', '.join(others)}"


def failures(table: Table) -> list[tuple[Row, str, str]]:
    """Rows that did not come through, each with its cause and its remedy."""
    return [(row, cause_text(row), row.cause.get("hint", "")) for row in table.rows if row.status != MEASURED]


def cause_text(row: Row) -> str:
    """Code, sentence and, where many hosts are joined, which of them."""
    cause = row.cause
    where = f" (on {', '.join(cause['hosts'])})" if cause.get("hosts") else ""
    rank = f" [{cause['rank']}]" if cause.get("rank") else ""
    if row.status == NOT_RUN and cause.get("code") == "gpu_busy":
        return f"GPU busy{where}: {cause.get('summary') or 'held by other processes'}"
    words = cause.get("summary") or cause.get("line") or "no reason was given"
    return f"{cause.get('code', 'unknown')}{rank}{where}: {words}"


def invalid_points(table: Table) -> list[str]:
    """What is wrong with each figure in brackets."""
    return [
        f"{name_of(row)} at C={point.concurrency}: {'; '.join(point.reasons) or 'invalid'}"
        for row in table.rows
        for point in row.points
        if not point.valid and row.status != FAILED
    ]


def remarks(table: Table) -> list[str]:
    """What else a reader should know before believing the figures."""
    notes = list(table.notes)
    if table.drift is not None:
        again = ", ".join(row.strategy for row in table.rows if row.repeat)
        notes.append(f"drift: {again}, run again at the end, gave {table.drift:+.1%} (median); smaller differences count as ties")
    for row in table.rows:
        notes += [f"{name_of(row)}: {note}" for note in row.notes]
        marked = {note: [] for point in row.points for note in point.notes}
        for point in row.points:
            for note in point.notes:
                marked[note].append(str(point.concurrency))
        notes += [f"{name_of(row)}: {note} at C={', '.join(where)}" for note, where in marked.items()]
    return notes
