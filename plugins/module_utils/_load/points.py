# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the runs of a point into the point of the result: figures, validity with causes, and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .stats import Pool, late, quantile, saturated
from .watch import Sample, gpu_summary, server_summary

VALID, INVALID, FAILED = "valid", "invalid", "failed"
SHORT_SHARE = 0.01
CACHED_SHARE = 0.01


@dataclass
class Around:
    """What else is known of a point."""

    concurrency: int
    request_rate: float | None = None
    precision: float = 3.0  # per cent
    processes: int = 1
    template_tokens: int = 0
    prefix_wanted: bool = False
    flush_trouble: str = ""
    unit_before: dict[str, Any] | None = None
    unit_after: dict[str, Any] | None = None
    start_before: str = ""  # tells one start of the server from another when there is no unit to look at
    start_after: str = ""
    restart_line: str = ""
    restart_code: str = ""
    cached: tuple[float, float] | None = None
    samples: list[Sample] = field(default_factory=list)
    stopped: str = ""


def restarted(around: Around) -> str:
    """How the server's life changed during the point, "" when it did not."""
    before, after = around.unit_before, around.unit_after
    if before and after:
        if before["invocation_id"] == after["invocation_id"] and before["restarts"] == after["restarts"] and before["main_pid"] == after["main_pid"]:
            return ""
        if not after["main_pid"]:
            return "the unit stopped running during the point (pid %d is gone)" % before["main_pid"]
        return "the unit restarted during the point (restarts %d to %d, pid %d to %d)" % (
            before["restarts"],
            after["restarts"],
            before["main_pid"],
            after["main_pid"],
        )
    if around.start_before and around.start_after and around.start_before != around.start_after:
        return "the server restarted during the point: it reports another start"
    return ""


def causes(pool: Pool, around: Around) -> list[dict[str, str]]:
    """Why the point may not be ranked."""
    found = []
    tally = pool.whole
    life = restarted(around)
    if life:
        found.append(
            {"code": "server_restarted", "summary": life + (", after " + around.restart_code if around.restart_code else ""), "line": around.restart_line}
        )
    if tally.failed:
        kinds = ", ".join("%d %s" % (number, kind) for kind, number in sorted(tally.errors.items(), key=lambda pair: -pair[1]))
        most = max(tally.errors, key=lambda kind: tally.errors[kind])
        found.append(
            {"code": "lost_requests", "summary": "%d of %d requests failed: %s" % (tally.failed, tally.asked, kinds), "line": tally.details.get(most, "")}
        )
    if tally.short > SHORT_SHARE * max(tally.completed, 1):
        got = tally.output_tokens / tally.completed
        found.append(
            {
                "code": "short_output",
                "summary": "%d of %d answers had fewer tokens than asked, %.0f on average" % (tally.short, tally.completed, got),
                "line": "",
            }
        )
    busy = saturated(tally) if tally.completed else ""
    if busy:
        found.append({"code": "client_saturated", "summary": busy, "line": ""})
    if around.stopped and not life:
        found.append({"code": "aborted", "summary": around.stopped, "line": ""})
    if not tally.asked and not found:
        kinds = ", ".join(sorted(tally.connect_errors)) or "no connection could be made"
        found.append({"code": "lost_requests", "summary": "no request was sent: %s" % kinds, "line": ""})
    return found


def cache_hits(pool: Pool, around: Around) -> float | None:
    """Share of prompt tokens that came from the prefix cache, from usage or else from /metrics."""
    tally = pool.whole
    if tally.cached_tokens and tally.input_tokens:
        return tally.cached_tokens / tally.input_tokens
    if around.cached and around.cached[1] > 0:
        return around.cached[0] / around.cached[1]
    return None


def warnings(pool: Pool, around: Around) -> list[str]:
    """What marks a point without making it invalid."""
    tally, found = pool.whole, []
    if tally.estimated:
        found.append("estimated_tokens")
    share = cache_hits(pool, around)
    if share is not None and not around.prefix_wanted:
        always = around.template_tokens * tally.completed / tally.input_tokens if tally.input_tokens else 0.0
        if share - always > CACHED_SHARE:
            found.append("cache_hits")
    if tally.completed and late(tally):
        found.append("late_reads")
    if around.flush_trouble:
        found.append("flush_refused")
    if tally.completed and not pool.steady_rates and around.request_rate is None:
        found.append("no_steady_window")
    half, _from = pool.interval()
    if pool.rate and half is not None and half > around.precision / 100 * pool.rate:
        found.append("wide_interval")
    return found


def point(pool: Pool, around: Around) -> dict[str, Any]:
    """The point, as docs/benchmark-result.md describes it."""
    tally, why = pool.whole, causes(pool, around)
    status = FAILED if not tally.completed else INVALID if why else VALID
    made = {
        "concurrency": around.concurrency,
        "request_rate": around.request_rate,
        "status": status,
        "causes": why,
        "warnings": warnings(pool, around),
        "asked": tally.asked,
        "completed": tally.completed,
        "failed": tally.failed,
        "errors": dict(tally.errors),
        "short": tally.short,
        "failed_tokens": tally.failed_tokens,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "cached_tokens": tally.cached_tokens or (int(around.cached[0]) if around.cached else 0),
    }
    made.update(_figures(pool))
    made.update(_surroundings(pool, around))
    return made


def _figures(pool: Pool) -> dict[str, Any]:
    tally, seconds = pool.whole, pool.duration
    half, source = pool.interval()

    def per_second(value: float, digits: int) -> float | None:
        return round(value / seconds, digits) if seconds else None

    itl_from = "chunks" if not tally.histograms["gap_multi"].count else "continuous_usage" if tally.continuous else "usage_total"
    return {
        "duration_s": round(seconds, 3) if seconds else None,
        "output_tok_s": per_second(tally.output_tokens, 2),
        "output_tok_s_ci95": None if half is None else round(half, 2),
        "ci_from": source,
        "total_tok_s": per_second(tally.output_tokens + tally.input_tokens, 2),
        "requests_s": per_second(tally.completed, 4),
        "steady": pool.steady(),
        "ttft_ms": tally.histograms["ttft"].summary(),
        "tpot_ms": tally.histograms["tpot"].summary(),
        "itl_ms": tally.itl().summary(),
        "itl_from": itl_from,
        "e2e_ms": tally.histograms["e2e"].summary(),
        "chunk_gap_ms": tally.chunk_gap().summary(),
        "tokens_per_chunk": round(tally.output_tokens / tally.chunks, 3) if tally.chunks else None,
        "send_delay_ms": tally.histograms["send_delay"].summary(),
        "goodput_requests_s": per_second(tally.slo_met, 4) if tally.slo else None,
        "slo_met": round(tally.slo_met / tally.asked, 4) if tally.slo and tally.asked else None,
        "repeats": len(pool.rates),
        "rates": [round(rate, 2) for rate in pool.rates],
    }


def _surroundings(pool: Pool, around: Around) -> dict[str, Any]:
    tally, rate = pool.whole, pool.rate
    gpu = gpu_summary(around.samples)
    hits = cache_hits(pool, around)
    watts = gpu["power_w"] if gpu else None
    lateness = {name: quantile(tally.lateness, share) for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {
        "tok_s_per_watt": round(rate / watts, 3) if rate and watts else None,
        "gpu": gpu,
        "server": server_summary(around.samples, hits),
        "client": {
            "cpu": round(tally.cpu_share, 3),
            "cpu_s": round(tally.cpu_s, 2),
            "processes": around.processes,
            "rss_mb": round(tally.rss_mb, 1),
            "lateness_ms": {name: None if value is None else round(value * 1e3, 3) for name, value in lateness.items()},
            "connect_ms": round(tally.connect_s * 1e3, 3),
        },
        "unit": around.unit_after,
    }


def not_run(concurrency: int, request_rate: float | None, why: str) -> dict[str, Any]:
    """The row of a point that was given up before it began."""
    made = point(Pool(concurrency), Around(concurrency, request_rate))
    made["causes"] = [{"code": "not_run", "summary": why, "line": ""}]
    return made
