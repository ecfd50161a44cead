# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds up what several load generators measured at the same time; their histograms make exact sums possible."""

from __future__ import annotations

from math import sqrt
from typing import Any

from . import rules
from .histogram import Histogram

KINDS = ("ttft", "tpot", "itl", "e2e", "chunk_gap", "send_delay")
SUMS = ("concurrency", "asked", "completed", "failed", "short", "failed_tokens", "input_tokens", "output_tokens", "cached_tokens")
UNEVEN = 1.0  # seconds between the first and the last start


def merge_benchmarks(parts: list[dict[str, Any]], load_seconds: float | None = None) -> dict[str, Any]:
    """One result out of those of several clients; points that were to start at the same moment become one."""
    if not parts:
        raise ValueError("there is nothing to merge")
    causes = [part["cause"] for part in parts if part.get("cause")]
    waves: dict[Any, list[tuple[str, dict[str, Any]]]] = {}
    for number, part in enumerate(parts):
        for point in part["points"]:
            start = (point.get("histograms") or {}).get("start_at")
            waves.setdefault((start, None if start else number), []).append((part["client"], point))
    points = [merge_points(wave) for wave in waves.values()]
    made = dict(parts[0], points=points, cause=causes[0] if causes else None, load_seconds=load_seconds or parts[0].get("load_seconds"))
    made["client"] = ", ".join(dict.fromkeys(part["client"] for part in parts))
    made["settings"] = dict(parts[0]["settings"], concurrency=[point["concurrency"] for point in points])
    made["started_at"], made["ended_at"] = min(part["started_at"] for part in parts), max(part["ended_at"] for part in parts)
    made["warnings"] = list(dict.fromkeys(text for part in parts for text in part["warnings"]))
    made["status"] = _status(points, bool(causes))
    made["best"], made["advice"] = rules.best(points), rules.advise(points, made["flags"], made["gpus"])
    return made


def _status(points: list[dict[str, Any]], broken: bool) -> str:
    valid = [point["status"] == "valid" for point in points]
    if any(cause["code"] == "server_restarted" for point in points for cause in point["causes"]):
        return "unstable"
    if not any(valid):
        return "failed"
    return "ok" if all(valid) and not broken else "partial"


def merge_points(wave: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """One point out of the parts of several clients."""
    points = [point for _client, point in wave]
    if len(points) == 1:
        return points[0]
    measured = [point for point in points if point["completed"]]
    made = dict(points[0])
    made.update({name: sum(point[name] for point in points) for name in SUMS})
    made["causes"] = [dict(cause, summary="%s: %s" % (client, cause["summary"])) for client, point in wave for cause in point["causes"]]
    made["warnings"] = list(dict.fromkeys(text for point in points for text in point["warnings"]))
    made["errors"] = {
        kind: sum(point["errors"].get(kind, 0) for point in points) for kind in sorted({kind for point in points for kind in point["errors"]})
    }
    made["status"] = "failed" if not measured else "invalid" if made["causes"] else "valid"
    if measured:
        made.update(_rates(points, measured))
    made["client"] = {
        "cpu": max(point["client"]["cpu"] for point in points),
        "cpu_s": round(sum(point["client"]["cpu_s"] for point in points), 2),
        "processes": sum(point["client"]["processes"] for point in points),
        "rss_mb": max(point["client"]["rss_mb"] for point in points),
        "connect_ms": max(point["client"]["connect_ms"] for point in points),
        "lateness_ms": _worst(points),
    }
    return made


def _worst(points: list[dict[str, Any]]) -> dict[str, float | None]:
    found = {}
    for name in ("p50", "p99"):
        found[name] = max((point["client"]["lateness_ms"][name] or 0.0 for point in points), default=None)
    return found


def _rates(points: list[dict[str, Any]], measured: list[dict[str, Any]]) -> dict[str, Any]:
    packs = [point["histograms"] for point in measured]
    begin, end = min(pack["started_at"] for pack in packs), max(pack["ended_at"] for pack in packs)
    seconds = end - begin
    output = sum(point["output_tokens"] for point in measured)
    halves = [point["output_tok_s_ci95"] for point in measured]
    steady = [point["steady"] for point in measured]
    good = [point["goodput_requests_s"] for point in measured]
    completed, asked = sum(point["completed"] for point in measured), sum(point["asked"] for point in points)
    found: dict[str, Any] = {
        "duration_s": round(seconds, 3),
        "output_tok_s": round(output / seconds, 2),
        "requests_s": round(completed / seconds, 4),
        "total_tok_s": round((output + sum(point["input_tokens"] for point in measured)) / seconds, 2),
        "output_tok_s_ci95": None if None in halves else round(sqrt(sum(half * half for half in halves)), 2),
        "repeats": 1,
        "rates": [round(output / seconds, 2)],
        "goodput_requests_s": None if None in good else round(sum(rate * point["duration_s"] for rate, point in zip(good, measured)) / seconds, 4),
        "slo_met": None if None in good else round(sum(point["slo_met"] * point["asked"] for point in measured) / asked, 4),
        "steady": (
            None
            if None in steady
            else {
                "from_s": max(one["from_s"] for one in steady),
                "to_s": min(one["to_s"] for one in steady),
                **{name: round(sum(one[name] for one in steady), 3) for name in ("output_tok_s", "requests_s")},
            }
        ),
    }
    merged = {}
    for kind in KINDS:
        whole = Histogram()
        for pack in packs:
            whole.merge(Histogram.load(pack[kind]))
        merged[kind] = whole.dump()
        found[kind + "_ms"] = whole.summary()
    found["histograms"] = dict(merged, started_at=begin, ended_at=end, start_at=packs[0].get("start_at"))
    if max(pack["started_at"] for pack in packs) - begin > UNEVEN:
        found["warnings"] = list(dict.fromkeys([text for point in points for text in point["warnings"]] + ["uneven_start"]))
    return found
