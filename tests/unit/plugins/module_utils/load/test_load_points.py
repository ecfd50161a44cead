# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates, windows, intervals and validity of points."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.points import Around, not_run, point
from ansible_collections.gpuops.sglang.plugins.module_utils._load.stats import Pool, half_width, saturated, window
from ansible_collections.gpuops.sglang.plugins.module_utils._load.tally import Slo, Tally
from ansible_collections.gpuops.sglang.plugins.module_utils._load.answer import Answer


def answered(due, first, gap=0.02, tokens=100, asked=100, counted=True, cached=0):
    answer = Answer(due, due, asked)
    answer.times = [due + first + gap * number for number in range(tokens)]
    answer.tokens = tokens if counted else 0
    answer.prompt_tokens, answer.cached_tokens = 1000, cached
    return answer


def lost(kind="cut"):
    answer = Answer(0.0, 0.0, 100)
    answer.error, answer.detail = kind, "words of " + kind
    return answer


def run(*answers, slo=None, **fields):
    tally = Tally(slo=slo or Slo())
    for answer in answers:
        tally.add(answer)
        tally.last_sent = max(tally.last_sent, answer.sent)
    for name, value in fields.items():
        setattr(tally, name, value)
    return tally


def waves(concurrency=4, number=3, gap=0.02, **more):
    """A closed loop in step: each wave starts when the one before has ended."""
    length = 0.05 + 100 * gap
    return run(*[answered(wave * length, 0.05, gap) for wave in range(number) for _slot in range(concurrency)], **more)


def made(*tallies, concurrency=4, **around):
    pool = Pool(concurrency)
    for tally in tallies:
        pool.add(tally)
    return point(pool, Around(concurrency, **around))


UNIT = {"invocation_id": "i1", "restarts": 0, "main_pid": 4100}


@pytest.mark.parametrize("values,expected", [([10.0], None), ([10.0, 12.0], 12.706), ([10.0, 11.0, 12.0], 4.303 / 3**0.5), ([5.0] * 4, 0.0)])
def test_half_width_of_the_interval(values, expected):
    assert half_width(values) == (None if expected is None else pytest.approx(expected, rel=1e-3))


def test_rates_of_the_whole_run_and_of_the_steady_window():
    found = made(waves())
    seconds = 2 * 2.05 + 0.05 + 99 * 0.02
    assert found["status"] == "valid"
    assert found["output_tok_s"] == pytest.approx(1200 / seconds, rel=1e-4)
    assert found["requests_s"] == pytest.approx(12 / seconds, rel=1e-3)
    assert found["total_tok_s"] == pytest.approx((1200 + 12000) / seconds, rel=1e-4)
    assert found["steady"]["from_s"] == pytest.approx(0.05)
    assert found["steady"]["to_s"] == pytest.approx(4.1)
    assert found["steady"]["output_tok_s"] == pytest.approx(4 * 100 / 2.05, rel=0.02)


def test_ramp_and_tail_are_outside_of_the_window():
    tally = run(*[answered(0.0, 0.05), answered(0.0, 0.5), answered(2.1, 0.05), answered(2.5, 0.05)])
    assert window(tally, 2) == pytest.approx((0.5, 2.5))
    assert window(run(answered(0.0, 0.05)), 1) is None


def test_repeats_pool_their_tokens_and_give_the_interval():
    found = made(waves(gap=0.02), waves(gap=0.0202), waves(gap=0.0198))
    assert (found["repeats"], len(found["rates"]), found["ci_from"]) == (3, 3, "repeats")
    assert found["output_tok_s_ci95"] == pytest.approx(half_width(found["rates"]), rel=0.01)
    assert "wide_interval" not in found["warnings"]
    wide = made(waves(gap=0.02), waves(gap=0.03))
    assert "wide_interval" in wide["warnings"]


def test_one_run_is_cut_in_slices_for_its_interval():
    assert made(waves(number=8))["ci_from"] == "slices"


def test_lost_requests_make_a_point_invalid_whatever_its_rate():
    found = made(run(*[answered(0.0, 0.05)] * 103 + [lost()] * 90 + [lost("http_429")] * 7))
    assert (found["status"], found["asked"], found["completed"], found["failed"]) == ("invalid", 200, 103, 97)
    assert found["causes"] == [{"code": "lost_requests", "summary": "97 of 200 requests failed: 90 cut, 7 http_429", "line": "words of cut"}]
    assert found["errors"] == {"cut": 90, "http_429": 7}


def test_nothing_completed_is_a_failure_and_not_a_rate_of_zero():
    found = made(run(*[lost()] * 5))
    assert found["status"] == "failed"
    assert (found["output_tok_s"], found["ttft_ms"]["p50"], found["output_tok_s_ci95"]) == (None, None, None)


@pytest.mark.parametrize(
    "after,words",
    [
        ({"invocation_id": "i2", "restarts": 1, "main_pid": 4900}, "restarts 0 to 1, pid 4100 to 4900"),
        ({"invocation_id": "i1", "restarts": 0, "main_pid": 0}, "pid 4100 is gone"),
        ({"invocation_id": "i2", "restarts": 0, "main_pid": 4100}, "restarted during the point"),
    ],
)
def test_another_life_of_the_server_makes_a_point_invalid(after, words):
    found = made(waves(), unit_before=UNIT, unit_after=after, restart_code="nccl_timeout", restart_line="Watchdog caught collective operation timeout")
    assert found["status"] == "invalid"
    assert found["causes"][0]["code"] == "server_restarted"
    assert words in found["causes"][0]["summary"]
    assert "nccl_timeout" in found["causes"][0]["summary"]
    assert found["causes"][0]["line"].startswith("Watchdog")
    assert found["unit"] == after


def test_without_a_unit_another_start_reported_by_the_server_is_a_restart():
    assert made(waves(), start_before="a", start_after="b")["causes"][0]["code"] == "server_restarted"
    assert made(waves(), start_before="a", start_after="a")["status"] == "valid"
    assert made(waves(), start_before="", start_after="b")["status"] == "valid"


def test_short_answers_make_a_point_invalid_and_keep_the_true_rate():
    found = made(run(*[answered(0.0, 0.05, tokens=40)] * 20))
    assert (found["status"], found["causes"][0]["code"], found["short"]) == ("invalid", "short_output", 20)
    assert found["output_tokens"] == 800


@pytest.mark.parametrize(
    "fields,busy",
    [({"cpu_share": 0.97}, True), ({"cpu_share": 0.5, "lateness": [0.03] * 10}, True), ({"cpu_share": 0.6, "lateness": [0.0001] * 10}, False)],
)
def test_a_client_that_cannot_follow_says_so(fields, busy):
    tally = waves(**fields)
    assert bool(saturated(tally)) is busy
    assert made(tally)["status"] == ("invalid" if busy else "valid")


@pytest.mark.parametrize("cached,template,wanted,marked", [(20, 0, False, True), (5, 0, False, False), (20, 15, False, False), (500, 0, True, False)])
def test_cache_hits_above_one_per_cent_are_marked(cached, template, wanted, marked):
    tally = run(*[answered(wave, 0.05, cached=cached) for wave in range(4)])
    found = made(tally, concurrency=1, template_tokens=template, prefix_wanted=wanted)
    assert ("cache_hits" in found["warnings"]) is marked


def test_cache_hits_from_metrics_are_marked_too():
    assert "cache_hits" in made(waves(), cached=(300.0, 12000.0))["warnings"]
    assert "cache_hits" not in made(waves(), cached=(30.0, 12000.0))["warnings"]


def test_estimates_and_refused_flushes_are_marked():
    found = made(run(*[answered(wave, 0.05, counted=False) for wave in range(4)]), flush_trouble="HTTP 400")
    assert {"estimated_tokens", "flush_refused"} <= set(found["warnings"])


def test_goodput_needs_limits():
    assert made(waves())["goodput_requests_s"] is None
    found = made(waves(slo=Slo(ttft=0.06)))
    assert (found["slo_met"], found["goodput_requests_s"]) == (1.0, found["requests_s"])
    assert made(waves(slo=Slo(ttft=0.04)))["slo_met"] == 0.0


def test_a_point_that_was_not_run_has_every_key_of_one_that_was():
    row = not_run(64, None, "server restarted at concurrency 8")
    assert row["status"] == "failed"
    assert row["causes"] == [{"code": "not_run", "summary": "server restarted at concurrency 8", "line": ""}]
    assert set(row) == set(made(waves()))


def test_a_few_late_reads_mark_the_latencies_and_leave_the_rate():
    found = made(waves(cpu_share=0.3, lateness=[0.0001] * 80 + [0.02] * 20))
    assert (found["status"], "late_reads" in found["warnings"]) == ("valid", True)
