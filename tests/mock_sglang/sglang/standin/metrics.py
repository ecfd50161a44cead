# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What /metrics says, in the text form of Prometheus."""

from __future__ import annotations

import json

KINDS = ("false", "true")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _block(name: str, kind: str, text: str, samples) -> list[str]:
    full = "sglang:" + name
    lines = ["# HELP %s %s" % (full, text), "# TYPE %s %s" % (full, kind)]
    for suffix, labels, value in samples:
        inside = ",".join("%s=%s" % (key, json.dumps(labels[key])) for key in sorted(labels))
        lines.append("%s%s%s %r" % (full, suffix, "{%s}" % inside if inside else "", float(value)))
    return lines


def _histogram(name: str, text: str, totals, key: str, base: dict) -> list[str]:
    samples = []
    for kind in KINDS:
        labels = {**base, "is_streaming": kind}
        samples += [
            ("_sum", labels, totals[key, kind]),
            ("_count", labels, totals["requests", kind]),
            ("_bucket", {**labels, "le": "+Inf"}, totals["requests", kind]),
        ]
    return _block(name, "histogram", text, samples)


def render(server) -> str:
    """All series of this moment."""
    engine, layout = server.engine, server.layout
    totals = engine.totals
    base = {"engine_type": "unified", "model_name": layout.model_name}
    rank = {**base, "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
    gauges = (
        ("num_running_reqs", "The number of running requests.", engine.running_count),
        ("num_used_tokens", "The number of used tokens.", engine.used_tokens),
        ("token_usage", "The token usage.", engine.token_usage()),
        ("gen_throughput", "The generation throughput (token/s).", engine.throughput),
        ("num_queue_reqs", "The number of requests in the waiting queue.", len(engine.waiting)),
        ("cache_hit_rate", "The prefix cache hit rate.", server.cache_hit_rate()),
        ("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", layout.max_total_tokens),
        ("max_running_requests_limit", "Maximum number of running requests.", layout.max_running),
    )
    lines = []
    for name, text, value in gauges:
        lines += _block(name, "gauge", text, [("", rank, value)])
    lines += _histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", totals, "ttft", base)
    lines += _histogram("e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", totals, "e2e", base)
    lines += _block(
        "inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds.",
        [("_sum", base, totals["itl"]), ("_count", base, totals["itl_count"]), ("_bucket", {**base, "le": "+Inf"}, totals["itl_count"])],
    )
    lines += _block(
        "queue_time_seconds", "histogram", "Histogram of queueing time in seconds.",
        [("_sum", rank, totals["queue"]), ("_count", rank, totals["requests", "false"] + totals["requests", "true"])],
    )
    for name, text, key in (
        ("prompt_tokens_total", "Number of prefill tokens processed.", "prompt"),
        ("generation_tokens_total", "Number of generation tokens processed.", "generation"),
        ("num_requests_total", "Number of requests processed.", "requests"),
    ):
        lines += _block(name, "counter", text, [("", {**base, "is_streaming": kind}, totals[key, kind]) for kind in KINDS])
    lines += _block(
        "cached_tokens_total", "counter", "Number of cached prompt tokens by source (device/host/storage).",
        [("", {**base, "cache_source": "device"}, totals["cached"])],
    )
    return "\n".join(lines) + "\n"
