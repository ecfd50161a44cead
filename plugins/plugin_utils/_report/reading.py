# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what modules and campaigns return into rows; takes only the fields a report shows, so nothing else can leak."""

from __future__ import annotations

from typing import Any, Callable

from .model import FAILED, MEASURED, NOT_RUN, UNSTABLE, Hardware, Point, Row, Workload

LATENCIES = ("ttft", "tpot", "itl", "e2e")
FIGURES = ("mean", "p50", "p90", "p99")
OUTSIDE_CAUSES = ("gpu_busy",)  # the strategy was not tried: nothing is said about it

Clean = Callable[[str], str]


def as_is(text: str) -> str:
    """The cleaner of those who have nothing to hide."""
    return text


def row_of_benchmark(raw: dict[str, Any], host: str = "", clean: Clean = as_is) -> Row:
    """The row of one benchmark result, as docs/benchmark-result.md describes it."""
    points = [_point(point, clean) for point in _dicts(raw.get("points"))]
    row = Row(
        strategy=str(raw.get("strategy") or raw.get("deployment") or "?"),
        host=str(raw.get("host") or host),
        deployment=str(raw.get("deployment") or ""),
        version=str(_mapping(raw.get("versions")).get("sglang") or ""),
        status=_status(raw, points),
        points=points,
        load_s=_number(raw.get("load_seconds")),
        hardware=_hardware(_mapping(raw.get("gpus"))),
        workload=_workload(raw),
        notes=[clean(_advice(entry)) for entry in _dicts(raw.get("advice"))],
    )
    row.hosts = [row.host]
    row.notes += [clean(str(text)) for text in raw.get("warnings") or []]
    if row.status != MEASURED:
        row.cause = cause_of(_mapping(raw.get("cause")) or _cause_of_points(raw, row.status), clean)
    return row


def row_of_failure(strategy: str, deployment: str, host: str, cause: dict[str, Any], clean: Clean = as_is) -> Row:
    """The row of a strategy that never got to be measured."""
    cause = cause_of(cause, clean)
    status = NOT_RUN if cause["code"] in OUTSIDE_CAUSES else FAILED
    return Row(strategy=strategy, host=host, hosts=[host], deployment=deployment, status=status, cause=cause)


def row_of_leg(leg: dict[str, Any], host: str, clean: Clean = as_is) -> Row:
    """The row of one leg of a campaign."""
    if leg.get("benchmark"):
        row = row_of_benchmark(leg["benchmark"], host, clean)
    else:
        row = row_of_failure(str(leg["strategy"]), str(leg.get("deployment") or ""), host, _mapping(leg.get("cause")), clean)
    row.strategy, row.host, row.hosts = str(leg["strategy"]), host, [host]
    row.leg = int(leg.get("leg") or 0)
    row.repeat = bool(leg.get("repeat"))
    load = _mapping(leg.get("load"))
    if load:
        row.load_s, row.load_phases = load_of(load)
    return row


def load_of(load: dict[str, Any]) -> tuple[float | None, dict[str, float]]:
    """Seconds to ready and by phase, of a load as a leg keeps it or ``loads.jsonl`` records it."""
    phases = {str(name): _number(seconds) for name, seconds in _mapping(load.get("phases")).items()}
    return _number(load.get("seconds")), {name: seconds for name, seconds in phases.items() if seconds is not None}


def phases_of(timeline: Any) -> dict[str, float]:
    """Seconds of each phase, from the first event of one to the first event of the next."""
    begins: dict[str, float] = {}
    for event in _dicts(timeline):
        at = _number(event.get("at"))
        if event.get("phase") and at is not None:
            begins.setdefault(str(event["phase"]), at)
    marks = list(begins.items())
    return {phase: round(end - begin, 1) for (phase, begin), (_next, end) in zip(marks, marks[1:]) if end > begin}


def cause_of(raw: dict[str, Any], clean: Clean = as_is) -> dict[str, Any]:
    """Code, summary, hint, line and rank of a cause, and nothing else of it."""
    cause = {key: clean(" ".join(str(raw.get(key) or "").split())) for key in ("code", "summary", "line", "rank", "hint")}
    cause["code"] = cause["code"] or "unknown"
    return cause


def hardware_of_gpus(gpus: list[dict[str, Any]]) -> Hardware:
    """Hardware from a list of GPUs as ``sglang_gpu_info`` returns it."""
    names = list(dict.fromkeys(str(gpu["name"]) for gpu in gpus if gpu.get("name")))
    limits = [_number(gpu.get("power_limit_w")) for gpu in gpus]
    limit = max((value for value in limits if value is not None), default=None)
    return Hardware(" + ".join(names), len(gpus), limit)


def _point(raw: dict[str, Any], clean: Clean) -> Point:
    gpu = _mapping(raw.get("gpu"))
    latency = {}
    for kind in LATENCIES:
        figures = {which: _number(_mapping(raw.get(f"{kind}_ms")).get(which)) for which in FIGURES}
        latency[kind] = {which: value for which, value in figures.items() if value is not None}
    return Point(
        concurrency=int(raw.get("concurrency") or 0),
        tok_s=_number(raw.get("output_tok_s")) or 0.0,
        half_width=_number(raw.get("output_tok_s_ci95")),
        valid=raw.get("status") == "valid",
        reasons=tuple(clean(_cause_text(cause)) for cause in _dicts(raw.get("causes"))),
        total_tok_s=_number(raw.get("total_tok_s")),
        requests_s=_number(raw.get("requests_s")),
        latency_ms={kind: figures for kind, figures in latency.items() if figures},
        good_share=_number(raw.get("slo_met")),
        power_w=_number(gpu.get("power_w")),
        gpu_util=_number(gpu.get("util")),
        notes=tuple(str(code) for code in raw.get("warnings") or []),
    )


def _status(raw: dict[str, Any], points: list[Point]) -> str:
    if raw.get("status") == "unstable":
        return UNSTABLE
    if raw.get("status") == "failed" or not any(point.valid for point in points):
        return FAILED
    return MEASURED


def _cause_of_points(raw: dict[str, Any], status: str) -> dict[str, Any]:
    causes = [cause for point in _dicts(raw.get("points")) for cause in _dicts(point.get("causes"))]
    if status == UNSTABLE:
        causes = [cause for cause in causes if cause.get("code") == "server_restarted"] or causes
    return causes[0] if causes else {"code": "no_valid_point", "summary": "no point of the sweep is valid"}


def _hardware(gpus: dict[str, Any]) -> Hardware:
    names = " + ".join(str(name) for name in gpus.get("names") or [])
    return Hardware(names, int(gpus.get("count") or 0), _number(gpus.get("power_limit_w")))


def _workload(raw: dict[str, Any]) -> Workload:
    settings = _mapping(raw.get("settings"))
    rate = settings.get("request_rate")
    slo = tuple(sorted((kind, float(limit)) for kind, limit in _mapping(settings.get("slo")).items() if limit))
    return Workload(
        model=str(raw.get("model") or ""),
        input_len=settings.get("input_len"),
        output_len=settings.get("output_len"),
        arrival=f"{rate} requests/s" if rate else "closed loop",
        slo_ms=slo,
    )


def _advice(entry: dict[str, Any]) -> str:
    where = f"C={entry['concurrency']}: " if entry.get("concurrency") else ""
    return where + "; ".join(str(entry[key]) for key in ("summary", "hint") if entry.get(key))


def _cause_text(cause: dict[str, Any]) -> str:
    return f"{cause.get('code') or 'invalid'}: {cause['summary']}" if cause.get("summary") else str(cause.get("code") or "invalid")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, (list, tuple)) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
