# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the plots of a table with matplotlib, as SVG text whose colours are left to the page's style sheet."""

from __future__ import annotations

from typing import Any, Callable

from . import svg
from .model import Point, Row, Table
from .words import name_of

PHASES = ("process", "distributed", "weights", "kv_cache", "graphs", "bind", "warmup")
MARKERS = "osD^vPX*"
SIZE = (6.6, 3.5)
MISSING = "plots are left out: matplotlib is not installed on the controller"

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ImportError:
    Figure = None

STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": svg.INK,
    "axes.edgecolor": svg.MUTED,
    "axes.labelcolor": svg.MUTED,
    "xtick.color": svg.MUTED,
    "ytick.color": svg.MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": svg.GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def available() -> bool:
    """Can anything be drawn here."""
    return Figure is not None


def draw(table: Table, prefix: str) -> list[tuple[str, str, str]]:
    """Title, sentence and SVG of each plot there are figures for."""
    plots = []
    for name, title, sentence, painter, wanted in _PLOTS:
        if available() and wanted(table):
            with rc_context({**STYLE, "svg.hashsalt": f"{prefix}{name}"}):
                figure = Figure(figsize=SIZE, layout="constrained")
                painter(figure.subplots(), table)
                plots.append((title, sentence, svg.inline(figure, f"{prefix}{name}-", f"{title}. {sentence}")))
    return plots


def pareto(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (rate, latency) pairs that no other beats in both, by rising rate."""
    front: list[tuple[float, float]] = []
    for rate, latency in sorted(points, key=lambda pair: (-pair[0], pair[1])):
        if not front or latency < front[-1][1]:
            front.append((rate, latency))
    return front[::-1]


def spread(places: list[float], gap: float) -> list[float]:
    """Rising places moved apart to at least a gap, each group staying around its middle."""
    groups: list[tuple[list[float], float]] = []  # members, middle
    for place in places:
        members, middle = [place], place
        while groups and middle - gap * (len(members) - 1) / 2 - gap < groups[-1][1] + gap * (len(groups[-1][0]) - 1) / 2:
            members = groups.pop()[0] + members
            middle = sum(members) / len(members)
        groups.append((members, middle))
    return [middle + gap * (n - (len(members) - 1) / 2) for members, middle in groups for n in range(len(members))]


def _drawn(table: Table, repeats: bool = False) -> list[tuple[Row, str, str]]:
    """Rows with points, each with its colour and marker (colour is never the only mark); a repeat has those of its first run."""
    names = list(dict.fromkeys(row.strategy for row in table.rows if row.points))
    rows = [row for row in table.rows if row.points and (repeats or not row.repeat)]
    places = [names.index(row.strategy) for row in rows]
    return [(row, svg.series(n), MARKERS[n % len(MARKERS)]) for row, n in zip(rows, places)]


def _lines(axes: Any, table: Table, y_of: Callable[[Point], float | None], repeats: bool = False) -> None:
    ends = []
    for row, colour, marker in _drawn(table, repeats):
        good = [(p.concurrency, y_of(p)) for p in row.valid_points if y_of(p) is not None]
        bad = [(p.concurrency, y_of(p)) for p in row.points if not p.valid and y_of(p)]
        style = "--" if row.repeat else "-"
        if good:
            axes.plot(*zip(*good), style, color=colour, marker=marker, markersize=5, linewidth=1.8)
            if not row.repeat:
                ends.append((*good[-1], name_of(row), colour))
        if bad:
            axes.plot(*zip(*bad), linestyle="none", marker=marker, markerfacecolor="none", color=colour, markersize=6)
    _concurrency_axis(axes, table)
    axes.set_ylim(bottom=0)
    _label_ends(axes, ends)


def _label_ends(axes: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Names beside the last point of each line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[1])
    places = spread([y for _x, y, _name, _colour in ends], (high - low) * 0.062)
    right = max((x for x, _y, _name, _colour in ends), default=1)
    for (x, y, name, colour), at in zip(ends, places):
        axes.annotate(name, (x, y), (right * 1.12, at), color=colour, va="center", fontsize=9, annotation_clip=False)
    axes.set_ylim(low, high)


def _concurrency_axis(axes: Any, table: Table) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(table.concurrencies, [str(concurrency) for concurrency in table.concurrencies])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_figure))
    axes.set_xlabel("concurrent requests")


def _figure(value: float, _place: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _throughput(axes: Any, table: Table) -> None:
    _lines(axes, table, lambda point: point.tok_s, repeats=True)
    for row, colour, _marker in _drawn(table):
        for point in row.valid_points:
            axes.errorbar(point.concurrency, point.tok_s, yerr=point.half_width or 0, color=colour, capsize=2, linewidth=1)
    axes.set_ylabel("output tokens a second")


def _latency(axes: Any, table: Table) -> None:
    seen = {}
    for row, colour, marker in _drawn(table):
        pairs = [(p.tok_s, p.ms("tpot", "p50"), p.concurrency) for p in row.valid_points if p.ms("tpot", "p50")]
        if pairs:
            axes.plot([x for x, _y, _c in pairs], [y for _x, y, _c in pairs], color=colour, marker=marker, markersize=5, linewidth=1, label=name_of(row))
            seen.update({(x, y): concurrency for x, y, concurrency in pairs})
    front = pareto(list(seen))
    axes.plot(*zip(*front), color=svg.INK, linewidth=6, alpha=0.16, solid_capstyle="round", label="Pareto front", zorder=0)
    for x, y in front:
        axes.annotate(f"C={seen[(x, y)]}", (x, y), (4, -11), textcoords="offset points", fontsize=8, color=svg.MUTED)
    for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(_figure))
        axis.set_minor_locator(NullLocator())
    axes.margins(0.08)
    axes.set_xlabel("output tokens a second, all requests together")
    axes.set_ylabel("ms per output token, median")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, labelcolor="linecolor")


def _loads(axes: Any, table: Table) -> None:
    rows = [row for row in table.rows if row.load_s is not None and not row.repeat][::-1]
    phases = list(dict.fromkeys([*PHASES, *(phase for row in rows for phase in row.load_phases)]))
    left = [0.0] * len(rows)
    for n, phase in enumerate(phases):
        widths = [row.load_phases.get(phase, 0.0) for row in rows]
        if any(widths):
            axes.barh(range(len(rows)), widths, 0.62, left=left, color=svg.series(n), label=phase.replace("_", " "))
            left = [start + width for start, width in zip(left, widths)]
    rest = [max(0.0, row.load_s - done) for row, done in zip(rows, left)]
    if any(value > 0.5 for value in rest):
        axes.barh(range(len(rows)), rest, 0.62, left=left, color=svg.GRID, label="not told by phase")
    for n, row in enumerate(rows):
        axes.annotate(f"{row.load_s:,.0f} s", (max(row.load_s, left[n]), n), (5, 0), textcoords="offset points", va="center", color=svg.INK, fontsize=9)
    axes.set_yticks(range(len(rows)), [row.strategy for row in rows])
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("seconds from start to ready")
    axes.margins(x=0.12)
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, fontsize=9)


def _power(axes: Any, table: Table) -> None:
    cards = max(1, table.hardware.gpu_count)
    if table.hardware.power_limit_w:
        axes.axhline(table.hardware.power_limit_w, color=svg.MUTED, linestyle=":", linewidth=1.4)
        note = f"power limit {table.hardware.power_limit_w:,.0f} W"
        axes.annotate(note, (table.concurrencies[0], table.hardware.power_limit_w), (0, 4), textcoords="offset points", fontsize=9, color=svg.MUTED)
    _lines(axes, table, lambda point: point.power_w / cards if point.power_w else None)
    axes.set_ylabel("watts a GPU, mean")


def _measured(table: Table) -> bool:
    return any(row.valid_points for row in table.rows)


_PLOTS: tuple[tuple[str, str, str, Callable[..., None], Callable[[Table], bool]], ...] = (
    (
        "rate",
        "Throughput against concurrency",
        "Bars are 95 % intervals, hollow marks invalid points, a broken line the first strategy run again at the end.",
        _throughput,
        _measured,
    ),
    (
        "latency",
        "Latency against throughput",
        "Lower and further right is better; the broad line joins the points no other strategy beats in both.",
        _latency,
        lambda table: any(p.ms("tpot", "p50") for row in table.rows for p in row.valid_points),
    ),
    ("load", "Load time by phase", "From the start of the unit to the first served token.", _loads, lambda table: any(row.load_s for row in table.rows)),
    (
        "power",
        "Power",
        "Mean of one GPU during each point; far under the limit means that the GPUs wait.",
        _power,
        lambda table: any(p.power_w for row in table.rows for p in row.valid_points),
    ),
)
