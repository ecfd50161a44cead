# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up benchmark results in the shape of docs/benchmark-result.md, after what eight PCIe cards gave in the field."""

from __future__ import annotations

from typing import Any

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# strategy -> tok/s of one request, ceiling, ms to the first token, seconds to load by phase, watts of a card at the ceiling
STRATEGIES: dict[str, tuple[float, float, float, dict[str, float], float]] = {
    "tp8": (98.0, 1360.0, 150.0, {"process": 14, "distributed": 9, "weights": 430, "kv_cache": 6, "graphs": 95, "warmup": 16}, 330.0),
    "pp8": (36.0, 430.0, 240.0, {"process": 14, "distributed": 11, "weights": 84, "kv_cache": 5, "graphs": 22, "warmup": 9}, 120.0),
    "ep8": (65.0, 1640.0, 180.0, {"process": 14, "distributed": 9, "weights": 78, "kv_cache": 6, "graphs": 21, "warmup": 7}, 345.0),
    "ep4": (66.0, 1630.0, 178.0, {"process": 14, "distributed": 9, "weights": 92, "kv_cache": 6, "graphs": 22, "warmup": 7}, 340.0),
}


def point(concurrency: int, tok_s: float, **changes: Any) -> dict[str, Any]:
    """One valid point; keys given replace its own."""
    tpot = 1000.0 * concurrency / tok_s
    raw = {
        "concurrency": concurrency, "request_rate": None, "status": "valid", "causes": [], "warnings": [],
        "output_tok_s": tok_s, "output_tok_s_ci95": tok_s * 0.008, "total_tok_s": tok_s * 5, "requests_s": tok_s / 256,
        "ttft_ms": _spread(150.0 + 2 * concurrency), "tpot_ms": _spread(tpot), "itl_ms": _spread(tpot), "e2e_ms": _spread(150 + 255 * tpot),
        "slo_met": 1.0 if tpot < 50 else 0.4,
        "gpu": {"util": 80.0, "power_w": 2000.0, "power_limit_w": 4800.0},
    }  # fmt: skip
    return {**raw, **changes}


def failed_point(concurrency: int, code: str, summary: str, tok_s: float | None = None) -> dict[str, Any]:
    """A point that may not be ranked; without a rate no request completed."""
    status = "failed" if tok_s is None else "invalid"
    return point(concurrency, tok_s or 1.0, status=status, output_tok_s=tok_s, causes=[{"code": code, "summary": summary, "line": ""}])


def benchmark(strategy: str, host: str = "gpu-node-1", scale: float = 1.0, **changes: Any) -> dict[str, Any]:
    """The result of one sweep; keys given replace its own."""
    single, ceiling, ttft, phases, watts = STRATEGIES[strategy]
    points = []
    for level in LEVELS:
        rate = scale * ceiling * level / (level + ceiling / single - 1)
        card = 70 + (watts - 70) * rate / ceiling
        points.append(
            point(
                level, rate, ttft_ms=_spread(ttft + 2.4 * level), tpot_ms=_spread(1000 * level / rate - ttft / 256),
                gpu={"util": 100 * card / 360, "power_w": 8 * card, "power_limit_w": 4800.0},
            )  # fmt: skip
        )
    raw = {
        "schema": 1, "deployment": f"k26-{strategy}", "strategy": strategy, "unit": f"sglang-k26-{strategy}.service", "campaign": "",
        "host": host, "model": "kimi-k2.6", "versions": {"sglang": "0.5.23", "client": "1.0.0", "python": "3.11.2"}, "flags": {},
        "gpus": {"count": 8, "names": [CARD], "driver": "580.95.05", "power_limit_w": 600.0}, "load_seconds": float(sum(phases.values())),
        "settings": {"input_len": 1024, "output_len": 256, "request_rate": None, "slo": {"ttft": 2000, "tpot": 50, "e2e": None}},
        "points": points, "status": "ok", "cause": None, "advice": [], "warnings": [],
    }  # fmt: skip
    return {**raw, **changes}


def leg(number: int, strategy: str, **changes: Any) -> dict[str, Any]:
    """A measured leg of a campaign; keys given replace its own."""
    phases = STRATEGIES[strategy][3]
    raw = {
        "leg": number, "strategy": strategy, "deployment": f"k26-{strategy}", "repeat": False, "status": "measured", "cause": None,
        "load": {"seconds": float(sum(phases.values())), "phases": phases}, "benchmark": benchmark(strategy),
    }  # fmt: skip
    return {**raw, **changes}


def campaign() -> dict[str, Any]:
    """A whole campaign: a starved pipeline, a tie at the top, a failed strategy, one not run, and the first again at the end."""
    pipeline = benchmark("pp8")
    pipeline["points"][-1] = failed_point(256, "lost_requests", "97 of 200 requests lost: 90 timeout, 7 http_500", 577.0)
    pipeline["status"] = "partial"
    summary = "GPUs idle at 85 W of 600 W, only 8 of 32 requests run: pipeline bubbles"
    pipeline["advice"] = [{"code": "starved_pipeline", "concurrency": 32, "summary": summary, "hint": "raise pp_max_micro_batch_size (8 now)"}]
    oom = {
        "code": "kv_pool_too_small", "summary": "the weights leave no memory for the KV cache", "rank": "TP3",
        "line": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "hint": "raise mem_fraction_static or use more GPUs",
    }  # fmt: skip
    busy = {"code": "gpu_busy", "summary": "pid 4711 (python3) holds 9,312 MiB on GPU 3", "hint": "end it, or name other GPUs"}
    legs = [
        leg(1, "tp8"),
        leg(2, "pp8", benchmark=pipeline),
        leg(3, "ep8"),
        leg(4, "ep4"),
        {"leg": 5, "strategy": "ep8_tuned", "deployment": "k26-ep8_tuned", "repeat": False, "status": "failed", "cause": oom},
        {"leg": 6, "strategy": "tp4_pair", "deployment": "k26-tp4_pair", "repeat": False, "status": "not_run", "cause": busy},
        leg(7, "tp8", repeat=True, benchmark=benchmark("tp8", scale=0.991)),
    ]
    return {"id": "20261129T211500", "legs": legs, "previous": {"strategy": "tp8"}}


def _spread(middle: float) -> dict[str, float]:
    return {"mean": middle * 1.02, "p50": middle, "p90": middle * 1.1, "p99": middle * 1.6, "max": middle * 2}
