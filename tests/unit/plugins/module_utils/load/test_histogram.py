# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Histograms keep their resolution and add up."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.histogram import Histogram


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.02, 1.0, 250.0])
def test_quantiles_are_within_a_thousandth(scale):
    chance = random.Random(1)
    values = [scale * chance.uniform(0.5, 2.0) for _value in range(5000)]
    histogram = Histogram()
    histogram.add(values)
    ordered = sorted(values)
    for share in (0.0, 0.5, 0.9, 0.99):
        assert histogram.quantile(share) == pytest.approx(ordered[int(share * len(ordered))], rel=2e-3)
    assert histogram.mean() == pytest.approx(sum(values) / len(values))
    assert histogram.quantile(1.0) == pytest.approx(max(values), rel=2e-3)


def test_an_empty_one_has_no_figures():
    assert Histogram().summary() == {"mean": None, "p50": None, "p90": None, "p99": None, "max": None}


def test_zero_is_a_value_and_negative_ones_count_as_zero():
    histogram = Histogram()
    histogram.add([0.0, -1.0, 0.0, 0.5])
    assert histogram.quantile(0.5) == 0.0
    assert histogram.summary()["max"] == 500.0


def test_merging_after_a_trip_through_json_is_the_same_as_adding_all():
    parts, whole = [], Histogram()
    for seed in range(3):
        chance = random.Random(seed)
        values = [chance.expovariate(50) for _value in range(200)]
        part = Histogram()
        part.add(values)
        parts.append(part)
        whole.add(values)
    merged = Histogram()
    for part in parts:
        merged.merge(Histogram.load(json.loads(json.dumps(part.dump()))))
    assert merged.bins == whole.bins
    assert merged.summary() == whole.summary()


def test_weights_count_as_that_many_values():
    one, other = Histogram(), Histogram()
    one.add([0.25, 0.5], times=3)
    other.add([0.25, 0.5] * 3)
    assert (one.bins, one.count, one.total) == (other.bins, other.count, other.total)


def test_another_scale_is_refused():
    with pytest.raises(ValueError, match="scale 7"):
        Histogram.load(dict(Histogram().dump(), scale=7))
