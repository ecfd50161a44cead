# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls beside the load: models, one answer to look at, cache flush, loads, metrics and the server's settings."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._http import failure_kind, failure_text
from ansible_collections.gpuops.sglang.plugins.module_utils._sockets import probe_address

# Server arguments that shape speed; everything else, secrets among it, is never taken out of /server_info.
FLAGS = (
    "tp_size",
    "pp_size",
    "ep_size",
    "dp_size",
    "attn_dp_size",
    "moe_dp_size",
    "nnodes",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "mem_fraction_static",
    "max_running_requests",
    "max_total_tokens",
    "max_prefill_tokens",
    "chunked_prefill_size",
    "schedule_policy",
    "schedule_conservativeness",
    "page_size",
    "pp_max_micro_batch_size",
    "pp_async_batch_depth",
    "disable_radix_cache",
    "disable_overlap_schedule",
    "disable_cuda_graph",
    "cuda_graph_max_bs_decode",
    "attention_backend",
    "moe_a2a_backend",
    "moe_runner_backend",
    "disable_custom_all_reduce",
    "enable_dp_attention",
    "enable_torch_compile",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
    "stream_interval",
    "context_length",
    "enable_mixed_chunk",
    "num_continuous_decode_steps",
    "enable_cache_report",
    "enable_metrics",
)
_GAUGE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? ([-+0-9.eE]+|NaN)", re.M)


class Trouble(Exception):
    """The endpoint is not what the sweep needs."""

    def __init__(self, code: str, summary: str, hint: str = "") -> None:
        super().__init__(summary)
        self.code, self.summary, self.hint = code, summary, hint

    def cause(self) -> dict[str, str]:
        """As it stands in a result."""
        return {"code": self.code, "summary": self.summary, "hint": self.hint}


class Control:
    """One server's HTTP interface, asked directly: no proxy, no redirect, no credentials from files."""

    def __init__(self, session: Any, scheme: str, host: str, port: int, api_key: str = "", admin_api_key: str = "", ca_path: str = "") -> None:
        address = probe_address(host)
        self.netloc = "%s:%d" % ("[%s]" % address if ":" in address else address, port)
        self.base = "%s://%s" % (scheme, self.netloc)
        self.session = session
        session.trust_env = False
        session.verify = ca_path or True
        self.keys = {"api": api_key, "admin": admin_api_key or api_key}

    def headers(self, key: str = "api") -> dict[str, str]:
        """The headers that carry the key, if there is one."""
        return {"Authorization": "Bearer " + self.keys[key]} if self.keys[key] else {}

    def call(self, method: str, path: str, body: Any = None, timeout: float = 10.0, key: str = "api", stream: bool = False) -> Any:
        """One request; raises Trouble when nothing comes back."""
        try:
            return self.session.request(
                method, self.base + path, json=body, headers=self.headers(key), timeout=(5.0, timeout), allow_redirects=False, stream=stream
            )
        except OSError as error:  # every error of requests is one
            kind = "refused" if "Connection refused" in str(error) else failure_kind(error)
            words = {"refused": "nothing listens there", "timeout": "no answer in %g s" % timeout, "reset": "the connection was cut"}
            raise Trouble(
                "endpoint_gone",
                "%s does not answer: %s" % (self.base, words.get(kind) or failure_text(error, kind)),
                "See that the unit is ready, and that host, port and scheme are right.",
            ) from error

    def fetch(self, path: str, timeout: float = 5.0) -> Any:
        """The JSON of a side call, ``None`` when it cannot be had: such a call must never spoil a measurement."""
        try:
            answer = self.call("GET", path, timeout=timeout)
            return answer.json() if answer.status_code == 200 else None
        except (Trouble, ValueError, OSError):
            return None

    def models(self) -> list[dict[str, Any]]:
        """The served models; says which of the usual faults is met when there are none."""
        answer = self.call("GET", "/v1/models")
        if answer.status_code in (401, 403):
            given = "the given API key" if self.keys["api"] else "a request without an API key"
            raise Trouble(
                "auth", "%s refuses %s (HTTP %d)" % (self.base, given, answer.status_code), "Set api_key to the key the server was started with."
            )
        try:
            listed = answer.json()["data"] if answer.status_code == 200 else None
        except (ValueError, KeyError, TypeError):
            listed = None
        if not isinstance(listed, list):
            kind = answer.headers.get("Content-Type", "no content type")
            raise Trouble(
                "not_our_server",
                "%s/v1/models is no model list: HTTP %d, %s, %r" % (self.base, answer.status_code, kind, answer.text[:80]),
                "Does another program own this port?",
            )
        return [one for one in listed if isinstance(one, dict)]

    def loads(self) -> dict[str, float] | None:
        """Running and waiting requests and the like, summed over the workers; from /metrics where /v1/loads is not served."""
        found = self.fetch("/v1/loads")
        if isinstance(found, dict) and isinstance(found.get("loads"), list) and found["loads"]:
            rows = [row for row in found["loads"] if isinstance(row, dict)]
            return {
                "running": sum(row.get("num_running_reqs") or 0 for row in rows),
                "waiting": sum(row.get("num_waiting_reqs") or 0 for row in rows),
                "token_usage": max(row.get("token_usage") or 0.0 for row in rows),
                "cache_hit_rate": max(row.get("cache_hit_rate") or 0.0 for row in rows),
                "max_running_requests": sum(row.get("max_running_requests") or 0 for row in rows),
            }
        gauges = self.metrics()
        if "sglang:num_running_reqs" not in gauges:
            return None
        return {
            "running": gauges["sglang:num_running_reqs"],
            "waiting": gauges.get("sglang:num_queue_reqs", 0.0),
            "token_usage": gauges.get("sglang:token_usage", 0.0),
            "cache_hit_rate": gauges.get("sglang:cache_hit_rate", 0.0),
            "max_running_requests": 0,
        }

    def metrics(self) -> dict[str, float]:
        """Values of /metrics, summed over the labels; a label named ``mode`` stays part of the name."""
        try:
            answer = self.call("GET", "/metrics", timeout=5.0)
        except Trouble:
            return {}
        return parse_metrics(answer.text) if answer.status_code == 200 else {}

    def flush_cache(self, patience: float = 10.0) -> str:
        """Empty the prefix cache; gives back what stood in the way, "" for nothing. A busy server says 400, so ask again."""
        deadline = time.monotonic() + patience
        while True:
            try:
                answer = self.call("POST", "/flush_cache", timeout=30.0, key="admin")
            except Trouble as trouble:
                return trouble.summary
            if answer.status_code == 200:
                return ""
            if answer.status_code != 400 or time.monotonic() > deadline:
                return "POST /flush_cache says HTTP %d: %s" % (answer.status_code, answer.text[:120])
            time.sleep(0.25)

    def server_info(self) -> dict[str, Any]:
        """Version, the flags that shape speed, and what tells one start of the server from another."""
        found = self.fetch("/server_info") or self.fetch("/get_server_info")
        if not isinstance(found, dict):
            return {"version": "", "flags": {}, "start": ""}
        states = [one for one in found.get("internal_states") or [] if isinstance(one, dict)]
        flags = {name: found[name] for name in FLAGS if name in found}
        admitted = [one.get("effective_max_running_requests_per_dp") for one in states if one.get("effective_max_running_requests_per_dp")]
        if admitted:
            flags["effective_max_running_requests"] = sum(admitted)
        return {
            "version": str(found.get("version") or ""),
            "flags": flags,
            "start": json.dumps(found.get("startup_time"), sort_keys=True) if found.get("startup_time") else "",
        }


def parse_metrics(text: str) -> dict[str, float]:
    """The values of a Prometheus text, summed over their labels."""
    found: dict[str, float] = {}
    for name, labels, value in _GAUGE.findall(text):
        if value == "NaN":
            continue
        mode = re.search(r'\bmode="([^"]*)"', labels)
        key = "%s/%s" % (name, mode.group(1)) if mode else name
        found[key] = found.get(key, 0.0) + float(value)
    return found


def cached_tokens(before: dict[str, float], after: dict[str, float]) -> tuple[float, float] | None:
    """Prompt tokens from the prefix cache, and all prompt tokens, between two looks at /metrics."""
    names = ("sglang:realtime_tokens_total/prefill_cache", "sglang:realtime_tokens_total/prefill_compute")
    if any(name not in after for name in names):
        return None
    hit, computed = (after[name] - before.get(name, 0.0) for name in names)
    return hit, hit + computed
