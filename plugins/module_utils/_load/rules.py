# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice from what was measured: each rule looks at one point and says what held the server back, or nothing."""

from __future__ import annotations

from typing import Any, Callable, Optional

Advice = Optional[dict[str, Any]]
IDLE_POWER = 0.45  # of the limit
LOW_UTIL = 50.0
HIGH_UTIL = 80.0


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _advice(code: str, point: dict[str, Any], summary: str, hint: str, **evidence: Any) -> dict[str, Any]:
    return {"code": code, "concurrency": point["concurrency"], "summary": summary, "hint": hint, "evidence": evidence}


def _watts(gpu: dict[str, Any]) -> str:
    count = max(len(gpu["per_gpu"]), 1)
    return "%.0f W of %.0f W" % (gpu["power_w"] / count, gpu["power_limit_w"] / count)


def starved_pipeline(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """Stages of a pipeline wait for each other, because too few requests are let in at once or are there at all."""
    stages, gpu, server = int(flags.get("pp_size") or 1), point.get("gpu"), point.get("server") or {}
    if stages < 2 or not gpu:
        return None
    load = _share(gpu["power_w"], gpu["power_limit_w"])
    idle = load < IDLE_POWER if load is not None else gpu["util"] is not None and gpu["util"] < LOW_UTIL
    if not idle:
        return None
    words = "GPUs idle at %s" % (_watts(gpu) if load is not None else "%d %% utilisation" % gpu["util"])
    running, asked = server.get("running_max"), point["concurrency"]
    micro = flags.get("pp_max_micro_batch_size")
    evidence = {"power_w": gpu["power_w"], "util": gpu["util"], "running_max": running, "pp_size": stages, "pp_max_micro_batch_size": micro}
    if asked < stages:
        return _advice(
            "starved_pipeline",
            point,
            "%s: %d requests cannot fill %d stages" % (words, asked, stages),
            "A pipeline needs at least as many requests as stages; compare at higher concurrency.",
            **evidence,
        )
    if running is not None and running < 0.9 * asked:
        limit = "; pp_max_micro_batch_size is %s" % micro if micro else ""
        return _advice(
            "starved_pipeline",
            point,
            "%s: pipeline bubbles; only %d of %d requests run%s" % (words, running, asked, limit),
            "Raise pp_max_micro_batch_size, or max_running_requests from which it follows.",
            **evidence,
        )
    return _advice(
        "starved_pipeline",
        point,
        "%s: pipeline bubbles between %d stages" % (words, stages),
        "Try pp_async_batch_depth, fewer stages with tensor or expert parallelism inside them, or more requests.",
        **evidence,
    )


def admission_limit(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """Requests wait although there is room for them."""
    server = point.get("server") or {}
    running, waiting, usage = server.get("running_max") or 0, server.get("waiting") or 0, server.get("token_usage_max") or 0
    limit = flags.get("effective_max_running_requests") or server.get("max_running_requests") or flags.get("max_running_requests")
    if not limit or usage >= 0.9 or waiting < 0.05 * point["concurrency"] or running < 0.95 * limit:
        return None
    return _advice(
        "admission_limit",
        point,
        "max_running_requests is reached: %d run, %.0f wait, and %d %% of the KV cache is used" % (running, waiting, round(100 * usage)),
        "Raise max_running_requests (and the CUDA graph batch with it).",
        running_max=running,
        waiting=waiting,
        limit=limit,
        token_usage_max=usage,
    )


def kv_cache_full(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """The KV cache, not the arithmetic, limits how many requests run."""
    server = point.get("server") or {}
    usage, waiting = server.get("token_usage_max") or 0, server.get("waiting_max") or 0
    if usage < 0.95 or waiting <= 0:
        return None
    return _advice(
        "kv_cache_full",
        point,
        "the KV cache is full (%d %%) while up to %d requests wait" % (round(100 * usage), waiting),
        "Raise mem_fraction_static, use an FP8 KV cache, or spread the model over more GPUs.",
        token_usage_max=usage,
        waiting_max=waiting,
    )


def client_saturated(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """The load generator is the bottleneck."""
    told = [cause["summary"] for cause in point["causes"] if cause["code"] == "client_saturated"]
    if not told:
        return None
    return _advice(
        "client_saturated",
        point,
        "the load generator was too slow: %s" % told[0],
        "Run the load from a host with free cores, or from several hosts.",
        **point["client"],
    )


def power_capped(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """The cards are at their power limit."""
    gpu = point.get("gpu") or {}
    load = _share(gpu.get("power_w"), gpu.get("power_limit_w"))
    if load is None or load < 0.95:
        return None
    return _advice(
        "power_capped",
        point,
        "GPUs run at their power limit, %s" % _watts(gpu),
        "A higher power limit would give more; without it compare strategies by tok/s per watt.",
        power_w=gpu["power_w"],
        power_limit_w=gpu["power_limit_w"],
    )


def clock_capped(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """The cards are busy at a low clock though not at their power limit: heat, or a locked clock."""
    gpu = point.get("gpu") or {}
    speed, load = _share(gpu.get("clock_mhz"), gpu.get("clock_max_mhz")), _share(gpu.get("power_w"), gpu.get("power_limit_w"))
    if speed is None or speed > 0.75 or (gpu.get("util") or 0) < HIGH_UTIL or load is None or load >= 0.95:
        return None
    return _advice(
        "clock_capped",
        point,
        "GPUs are busy at %d MHz of %d MHz, below their power limit" % (gpu["clock_mhz"], gpu["clock_max_mhz"]),
        "Look for heat or a locked clock: nvidia-smi -q -d CLOCK,PERFORMANCE.",
        clock_mhz=gpu["clock_mhz"],
        clock_max_mhz=gpu["clock_max_mhz"],
    )


def cache_inflates(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """Prompts were found in the prefix cache, so prefill looks faster than it is."""
    if "cache_hits" not in point["warnings"]:
        return None
    share = (point.get("server") or {}).get("cache_hit_rate") or _share(point.get("cached_tokens"), point.get("input_tokens")) or 0.0
    return _advice(
        "cache_hits",
        point,
        "%d %% of the prompt tokens came from the prefix cache" % round(100 * share),
        "Set flush_cache, use random prompts, or take the figure as one of a warm cache.",
        cache_hit_rate=share,
    )


def all_reduce_bound(point: dict[str, Any], flags: dict[str, Any], gpus: dict[str, Any]) -> Advice:
    """Tensor parallelism over PCIe: cards look busy while they wait for each other, which costs no power."""
    size, gpu = int(flags.get("tp_size") or 1), point.get("gpu") or {}
    experts = int(flags.get("ep_size") or 1)
    load = _share(gpu.get("power_w"), gpu.get("power_limit_w"))
    if size < 2 or gpus.get("fast_links") is not False or load is None or load >= IDLE_POWER or (gpu.get("util") or 0) < HIGH_UTIL:
        return None
    return _advice(
        "all_reduce_bound",
        point,
        "GPUs look busy (%d %%) at %s: tp_size %d over PCIe waits for its all-reduce" % (round(gpu["util"]), _watts(gpu), size),
        "Compare pipeline parallelism or a smaller tp_size%s; check P2P and NCCL settings."
        % ("" if experts > 1 else ", or expert parallelism for a mixture of experts"),
        util=gpu["util"],
        power_w=gpu["power_w"],
        tp_size=size,
    )


RULES: tuple[Callable[..., Any], ...] = (
    client_saturated,
    cache_inflates,
    kv_cache_full,
    admission_limit,
    starved_pipeline,
    all_reduce_bound,
    power_capped,
    clock_capped,
)


def advise(points: list[dict[str, Any]], flags: dict[str, Any], gpus: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Each rule's word once, at the highest concurrency where it applies."""
    found: dict[str, dict[str, Any]] = {}
    for point in sorted((one for one in points if one["completed"]), key=lambda one: one["concurrency"]):
        for rule in RULES:
            advice = rule(point, flags, gpus or {})
            if advice:
                found[advice["code"]] = advice
    return [found[code] for code in found]


def best(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The points that win for throughput, a single stream, latency and the SLO; valid ones only."""
    valid = [point for point in points if point["status"] == "valid"]
    made: dict[str, Any] = dict.fromkeys(("throughput", "single_stream", "latency", "slo"))
    if not valid:
        return made
    top = max(valid, key=lambda point: point["output_tok_s"])
    made["throughput"] = {name: top[name] for name in ("concurrency", "output_tok_s", "output_tok_s_ci95")}
    single = [point for point in valid if point["concurrency"] == 1]
    if single:
        made["single_stream"] = {name: single[0][name] for name in ("concurrency", "output_tok_s")}
    quick = min(valid, key=lambda point: point["ttft_ms"]["p50"])
    made["latency"] = {"concurrency": quick["concurrency"], "ttft_p50_ms": quick["ttft_ms"]["p50"], "tpot_p50_ms": quick["tpot_ms"]["p50"]}
    kept = [point for point in valid if point["goodput_requests_s"]]
    if kept:
        good = max(kept, key=lambda point: point["goodput_requests_s"])
        made["slo"] = {name: good[name] for name in ("concurrency", "goodput_requests_s")}
    return made
