# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several load generators measured adds up as if it had been one."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.answer import Answer
from ansible_collections.gpuops.sglang.plugins.module_utils._load.merge import merge_benchmarks
from ansible_collections.gpuops.sglang.plugins.module_utils._load.points import Around, point
from ansible_collections.gpuops.sglang.plugins.module_utils._load.stats import Pool
from ansible_collections.gpuops.sglang.plugins.module_utils._load.tally import Tally

EPOCH = 1700000000.0


def part(client, concurrency=2, begin=0.0, gap=0.02, lost=0, start_at=EPOCH):
    tally, latencies = Tally(), []
    for wave in range(3):
        for _slot in range(concurrency):
            answer = Answer(wave * 2.1, wave * 2.1, 100)
            answer.times = [wave * 2.1 + 0.05 + gap * number for number in range(100)]
            answer.tokens, answer.prompt_tokens = 100, 500
            latencies.append(answer.times[-1] - answer.due)
            tally.add(answer)
            tally.last_sent = answer.sent
    for _number in range(lost):
        answer = Answer(0.0, 0.0, 100)
        answer.error = "cut"
        tally.add(answer)
    pool = Pool(concurrency)
    pool.add(tally)
    made = point(pool, Around(concurrency))
    made["histograms"] = dict(tally.dump_histograms(), started_at=EPOCH + begin, ended_at=EPOCH + begin + tally.last_token, start_at=start_at)
    return json.loads(
        json.dumps(
            {
                "client": client,
                "points": [made],
                "cause": None,
                "settings": {"concurrency": [concurrency]},
                "started_at": EPOCH,
                "ended_at": EPOCH + 9,
                "warnings": [],
                "flags": {},
                "gpus": None,
                "load_seconds": None,
                "deployment": "x-tp8",
            }
        )
    )


def test_rates_tokens_and_latencies_add_up():
    whole = merge_benchmarks([part("a"), part("b", begin=0.01)], 12.0)
    found = whole["points"][0]
    assert (whole["status"], whole["client"], whole["load_seconds"]) == ("ok", "a, b", 12.0)
    assert (found["concurrency"], found["completed"], found["output_tokens"]) == (4, 12, 1200)
    seconds = 2 * 2.1 + 0.05 + 99 * 0.02 + 0.01
    assert found["output_tok_s"] == pytest.approx(1200 / seconds, rel=1e-3)
    assert found["ttft_ms"]["p50"] == pytest.approx(50.0, rel=2e-3)
    assert found["itl_ms"]["p50"] == pytest.approx(20.0, rel=2e-3)
    assert found["steady"]["output_tok_s"] == pytest.approx(2 * part("a")["points"][0]["steady"]["output_tok_s"], rel=1e-3)


def test_a_slow_client_shows_in_the_quantiles_of_the_whole():
    found = merge_benchmarks([part("a"), part("b", gap=0.03)])["points"][0]
    assert found["itl_ms"]["p90"] == pytest.approx(30.0, rel=2e-3)
    assert found["itl_ms"]["mean"] == pytest.approx(25.0, rel=2e-3)


def test_one_bad_part_makes_the_whole_invalid_and_is_named():
    whole = merge_benchmarks([part("a"), part("b", lost=3)])
    found = whole["points"][0]
    assert (whole["status"], found["status"], found["failed"], found["errors"]) == ("failed", "invalid", 3, {"cut": 3})
    assert found["causes"][0]["summary"].startswith("b: 3 of 9 requests failed")


def test_clients_that_did_not_start_together_are_told():
    assert "uneven_start" in merge_benchmarks([part("a"), part("b", begin=3.0)])["points"][0]["warnings"]
    assert "uneven_start" not in merge_benchmarks([part("a"), part("b", begin=0.2)])["points"][0]["warnings"]


def test_points_of_different_moments_stay_apart():
    whole = merge_benchmarks([part("a", 1, start_at=1.0), part("a", 2, start_at=2.0), part("b", 2, start_at=2.0)])
    assert [point["concurrency"] for point in whole["points"]] == [1, 4]
    assert whole["settings"]["concurrency"] == [1, 4]


def test_nothing_cannot_be_merged():
    with pytest.raises(ValueError):
        merge_benchmarks([])
