# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures one point with the code of sglang_benchmark and prints it as JSON: client_once.py PORT CONCURRENCY REQUESTS TOKENS."""

from __future__ import annotations

import json
import sys

import requests
from ansible_collections.gpuops.sglang.plugins.module_utils._load.job import Job

NOTHING = (
    "name",
    "deployment",
    "strategy",
    "deployment_digest",
    "load_seconds",
    "inventory_host",
    "ca_path",
    "api_key",
    "admin_api_key",
    "model",
    "duration",
    "request_rate",
    "prompts_path",
    "slo",
    "start_at",
    "campaign",
    "state_dir",
)


def main() -> int:
    port, concurrency, number, tokens = map(int, sys.argv[1:5])
    params = dict(
        dict.fromkeys(NOTHING),
        host="127.0.0.1",
        port=port,
        scheme="http",
        gpus=[],
        endpoint="chat",
        concurrency=[concurrency],
        input_len=32,
        output_len=tokens,
        num_prompts=number,
        warmup_requests=0,
        max_repeats=1,
        precision=3.0,
        prompts="random",
        range_ratio=1.0,
        prefix_len=0,
        prefix_groups=1,
        seed=42,
        flush_cache=True,
        extra_body={},
        request_timeout=600.0,
        processes=1,
        histograms=False,
    )
    found = Job(params, requests.Session()).run()
    if found["cause"]:
        print(found["cause"], file=sys.stderr)
        return 1
    json.dump(found["points"][0], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
