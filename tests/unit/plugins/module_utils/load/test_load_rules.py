# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice is given where its evidence is, and nowhere else."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.points import not_run
from ansible_collections.gpuops.sglang.plugins.module_utils._load.rules import advise, best
from ansible_collections.gpuops.sglang.plugins.module_utils._load.watch import GPU_FIELDS, Sample, gpu_summary, has_fast_links, parse_gpus

PCIE = {"fast_links": False}
NVLINK = {"fast_links": True}


def gpu(power=300.0, util=90.0, clock=2400.0):
    return {
        "util": util,
        "power_w": 8 * power,
        "power_limit_w": 4800.0,
        "clock_mhz": clock,
        "clock_max_mhz": 2430.0,
        "memory_mib": 700000.0,
        "per_gpu": [{"index": index} for index in range(8)],
    }


def server(running=32, waiting=0, usage=0.3, limit=2048):
    return {
        "running": running,
        "running_max": running,
        "waiting": waiting,
        "waiting_max": waiting,
        "token_usage_max": usage,
        "max_running_requests": limit,
        "cache_hit_rate": 0.4,
    }


def measured(concurrency=32, **more):
    point = dict(not_run(concurrency, None, ""), completed=100, status="valid", causes=[], gpu=gpu(), server=server())
    return dict(point, **more)


PP8 = {"pp_size": 8, "tp_size": 1, "pp_max_micro_batch_size": 8}
TP8 = {"pp_size": 1, "tp_size": 8}

CASES = [
    ("a pipeline whose cards idle", measured(gpu=gpu(85.0, 20.0), server=server(running=8)), PP8, PCIE, {"starved_pipeline"}),
    ("a pipeline with fewer requests than stages", measured(4, gpu=gpu(85.0, 20.0), server=server(running=4)), PP8, PCIE, {"starved_pipeline"}),
    ("a pipeline that is busy", measured(gpu=gpu(400.0)), PP8, PCIE, set()),
    ("idle cards without a pipeline", measured(gpu=gpu(85.0, 20.0)), TP8, PCIE, set()),
    ("requests wait at the limit with room in the cache", measured(256, server=server(64, 150, 0.3, 64)), TP8, NVLINK, {"admission_limit"}),
    ("requests wait below the limit", measured(256, server=server(64, 150, 0.3, 2048)), TP8, NVLINK, set()),
    ("the cache is full", measured(256, server=server(64, 150, 0.99, 64)), TP8, NVLINK, {"kv_cache_full"}),
    ("a full cache and nobody waits", measured(64, server=server(64, 0, 0.99, 64)), TP8, NVLINK, set()),
    ("the client is too slow", measured(causes=[{"code": "client_saturated", "summary": "97 %", "line": ""}]), TP8, NVLINK, {"client_saturated"}),
    ("cards at their power limit", measured(gpu=gpu(590.0)), TP8, NVLINK, {"power_capped"}),
    ("busy cards at a low clock", measured(gpu=gpu(400.0, 95.0, 1200.0)), TP8, NVLINK, {"clock_capped"}),
    ("prompts from the cache", measured(warnings=["cache_hits"]), TP8, NVLINK, {"cache_hits"}),
    ("tensor parallelism over PCIe at low power", measured(gpu=gpu(180.0, 98.0)), TP8, PCIE, {"all_reduce_bound"}),
    ("the same over NVLink", measured(gpu=gpu(180.0, 98.0)), TP8, NVLINK, set()),
    ("the same when the links are not known", measured(gpu=gpu(180.0, 98.0)), TP8, {}, set()),
    ("no GPU and no server was seen", measured(gpu=None, server=None), PP8, None, set()),
]


@pytest.mark.parametrize("name,point,flags,gpus,codes", CASES, ids=[case[0] for case in CASES])
def test_rules(name, point, flags, gpus, codes):
    found = advise([point], flags, gpus)
    assert {advice["code"] for advice in found} == codes
    for advice in found:
        assert advice["summary"] and advice["hint"] and advice["concurrency"] == point["concurrency"]


def test_the_starved_pipeline_is_told_with_its_numbers():
    text = advise([measured(gpu=gpu(85.0, 20.0), server=server(running=8))], PP8, PCIE)[0]["summary"]
    assert text == "GPUs idle at 85 W of 600 W: pipeline bubbles; only 8 of 32 requests run; pp_max_micro_batch_size is 8"


def test_a_rule_speaks_once_at_the_highest_concurrency():
    points = [measured(number, gpu=gpu(590.0)) for number in (64, 1, 8)]
    assert [(advice["code"], advice["concurrency"]) for advice in advise(points, TP8, NVLINK)] == [("power_capped", 64)]


def ranked(concurrency, rate, ttft, status="valid", goodput=None):
    return measured(
        concurrency, status=status, output_tok_s=rate, output_tok_s_ci95=1.0, ttft_ms={"p50": ttft}, tpot_ms={"p50": 10.0}, goodput_requests_s=goodput
    )


def test_only_valid_points_are_ever_best():
    found = best([ranked(1, 60.0, 180.0, goodput=0.2), ranked(8, 400.0, 300.0, goodput=1.5), ranked(64, 2600.0, 90.0, "invalid", 9.0)])
    assert found["throughput"] == {"concurrency": 8, "output_tok_s": 400.0, "output_tok_s_ci95": 1.0}
    assert found["single_stream"]["output_tok_s"] == 60.0
    assert found["latency"]["concurrency"] == 1
    assert found["slo"] == {"concurrency": 8, "goodput_requests_s": 1.5}
    assert best([ranked(1, 60.0, 180.0, "invalid")]) == {"throughput": None, "single_stream": None, "latency": None, "slo": None}


ROW = "%d, NVIDIA RTX PRO 6000 Blackwell Server Edition, 60, %s, 600.00, 90000, 2400, 2430, 580.95.05"


def test_gpu_samples_become_sums_and_means():
    looks = [Sample(float(at), parse_gpus("\n".join(ROW % (index, power) for index in range(8)))) for at, power in enumerate(("200.00", "300.00"))]
    found = gpu_summary(looks)
    assert (found["power_w"], found["power_limit_w"], found["util"], found["memory_mib"], found["samples"]) == (2000.0, 4800.0, 60.0, 720000.0, 2)
    assert found["per_gpu"][3] == {
        "index": 3,
        "util": 60.0,
        "power_w": 250.0,
        "memory_mib": 90000.0,
        "clock_mhz": 2400.0,
        "clock_max_mhz": 2430.0,
        "power_limit_w": 600.0,
    }


def test_only_the_gpus_of_the_deployment_count_and_missing_values_stay_missing():
    text = "\n".join(ROW % (index, "[N/A]") for index in range(8)) + "\nNVIDIA-SMI has failed\n"
    rows = parse_gpus(text, ["2", 3])
    assert [row["index"] for row in rows] == [2, 3]
    assert gpu_summary([Sample(0.0, rows)])["power_w"] is None
    assert len(GPU_FIELDS) == len(ROW.split(","))
    assert gpu_summary([Sample(0.0)]) is None


@pytest.mark.parametrize(
    "matrix,fast",
    [
        ("\tGPU0\tGPU1\tCPU\nGPU0\t X \tNODE\t0-31\nGPU1\tNODE\t X \t0-31\n", False),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n", True),
        ("\tGPU0\nGPU0\t X \n", None),
        ("", None),
    ],
)
def test_links_between_gpus(matrix, fast):
    assert has_fast_links(matrix) is fast
