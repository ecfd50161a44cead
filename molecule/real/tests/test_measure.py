# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the real server with the collection and with SGLang's own client, turn by turn, and compares their output tok/s."""

from __future__ import annotations

import json
import statistics

CONCURRENCIES = [1, 2, 4]
INPUT, OUTPUT, PROMPTS = 64, 64, 16
ROUNDS = 4


def ours(plays, folder) -> dict[int, float]:
    plays.run(
        "benchmark.yml", sglang_benchmark_concurrency=CONCURRENCIES, sglang_benchmark_input_len=INPUT, sglang_benchmark_output_len=OUTPUT,
        sglang_benchmark_num_prompts=PROMPTS, sglang_benchmark_max_repeats=1,
    ).succeeded()
    report = json.loads((folder / "report.json").read_text())
    (points,) = [row["points"] for table in report["tables"] for row in table["rows"]]
    assert [point["concurrency"] for point in points if point["valid"]] == CONCURRENCIES, points
    return {point["concurrency"]: point["tok_s"] for point in points}


def theirs(host, concurrency: int) -> float:
    """Output tok/s as sglang.bench_serving reports it, which counts the tokens it asked for."""
    host.check_output("rm -f /tmp/bench.jsonl")
    host.check_output(
        "cd /tmp && HF_HUB_OFFLINE=1 SGLANG_USE_CPU_ENGINE=1 /opt/sglang/0.5.23+cpu/bin/python -m sglang.bench_serving --backend sglang-oai-chat"
        " --base-url http://127.0.0.1:30001 --model tiny --tokenizer /srv/models/tiny --dataset-name random-ids --random-input-len %s"
        " --random-output-len %s --random-range-ratio 1.0 --num-prompts %s --max-concurrency %s --output-file /tmp/bench.jsonl 2>&1",
        str(INPUT), str(OUTPUT), str(PROMPTS), str(concurrency),
    )
    line = json.loads(host.file("/tmp/bench.jsonl").content_string)
    assert line["completed"] == PROMPTS
    return line["output_throughput"]


def test_it_agrees_with_the_server_s_own_client(host, plays, tmp_path, monkeypatch):
    """This machine's speed drifts, so both measure in turn, and the middle one of the ratios counts."""
    monkeypatch.setenv("SGLANG_REPORT_DIR", str(tmp_path))
    ratios: dict[int, list[float]] = {concurrency: [] for concurrency in CONCURRENCIES}
    for _round in range(ROUNDS):
        measured = ours(plays, tmp_path)
        for concurrency in CONCURRENCIES:
            ratios[concurrency].append(measured[concurrency] / theirs(host, concurrency))
        middle = {concurrency: statistics.median(values) for concurrency, values in ratios.items()}
        if all(abs(ratio - 1) < 0.05 for ratio in middle.values()):
            break
    assert all(abs(ratio - 1) < 0.05 for ratio in middle.values()), ratios
