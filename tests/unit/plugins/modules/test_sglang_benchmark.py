# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's words: what it refuses, when it fails, and that documentation and arguments agree."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.gpuops.sglang.plugins.modules import sglang_benchmark as module

DEFAULTS = {name: option.get("default") for name, option in module.ARGUMENTS.items()}


@pytest.mark.parametrize(
    "change,word",
    [
        ({"concurrency": []}, "concurrency"),
        ({"concurrency": [4, 0]}, "concurrency"),
        ({"output_len": 0}, "output_len"),
        ({"duration": 0.0}, "duration"),
        ({"range_ratio": 1.5}, "range_ratio"),
        ({"start_at": 1.0, "concurrency": [1, 2]}, "start_at"),
        ({"max_repeats": 0}, "max_repeats"),
    ],
)
def test_values_without_sense_are_refused_by_name(change, word):
    assert word in module.wrong_value(dict(DEFAULTS, **change))


def test_the_defaults_make_sense():
    assert module.wrong_value(DEFAULTS) == ""


def benchmark(*statuses, cause=None, status="partial"):
    points = [
        {"status": one, "concurrency": 2**at, "causes": [] if one == "valid" else [{"code": "lost_requests", "summary": "97 of 200"}]}
        for at, one in enumerate(statuses)
    ]
    return {"deployment": "k26-ep8", "status": status, "cause": cause, "points": points}


@pytest.mark.parametrize(
    "fail_on,statuses,fails",
    [
        ("failed", ["valid", "invalid"], False),
        ("failed", ["invalid", "failed"], True),
        ("invalid", ["valid", "invalid"], True),
        ("invalid", ["valid", "valid"], False),
        ("never", ["failed", "failed"], False),
    ],
)
def test_when_the_task_fails(fail_on, statuses, fails):
    told = module.failure(benchmark(*statuses), fail_on)
    assert bool(told) is fails
    if fails:
        assert "lost_requests: 97 of 200" in told


def test_what_cannot_be_measured_fails_whatever_was_asked():
    cause = {"code": "auth", "summary": "http://127.0.0.1:30001 refuses the given API key (HTTP 401)", "hint": "Set api_key."}
    assert module.failure(benchmark(cause=cause), "never") == (
        "k26-ep8 cannot be measured: auth: http://127.0.0.1:30001 refuses the given API key (HTTP 401). Set api_key."
    )


def test_documented_options_are_the_arguments():
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    shared = {"host", "port", "scheme", "ca_path", "api_key", "model"}
    assert set(documented) | shared == set(module.ARGUMENTS)
    for name, option in documented.items():
        assert option.get("default") == module.ARGUMENTS[name].get("default"), name
        assert option["type"] == module.ARGUMENTS[name]["type"], name


def test_keys_are_hidden():
    assert module.ARGUMENTS["api_key"]["no_log"] and module.ARGUMENTS["admin_api_key"]["no_log"]
