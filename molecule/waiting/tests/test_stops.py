# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stops of servers that drain, hang, fall over or are down already, and what the next start makes of them."""

from __future__ import annotations

import json

import pytest

from nodes import main_pid, prop
from trials import UNIT, Trial, code

QUESTION = json.dumps({"model": "kimi-k2.6", "prompt": "Hello", "max_tokens": 500, "ignore_eos": True})
ASK = "systemd-run --quiet --unit question --property RemainAfterExit=yes curl -sS -o /run/answer.json -d %s http://127.0.0.1:30001/v1/completions"


@pytest.fixture
def trial(host, plays):
    return Trial(host, plays)


@pytest.fixture
def serving(trial):
    """The unit serves; how it behaves was told before its start."""

    def start(**knobs):
        trial.stand_in(**knobs)
        trial.start_by_hand()
        trial.until(lambda: trial.logged("ready to roll!"))
        return main_pid(trial.host, UNIT)

    return start


def ended(trial) -> tuple[str, str]:
    return prop(trial.host, UNIT, "ActiveState"), prop(trial.host, UNIT, "Result")


def test_running_request_is_finished_first(trial, serving):
    serving()
    trial.host.check_output("systemctl reset-failed question 2>/dev/null; systemctl stop question 2>/dev/null; " + ASK, QUESTION)
    answer = trial.go(stop={})["stop"]
    assert answer["verdict"] == "stopped" and not answer["cause"]
    assert trial.logged("Remaining number of requests 1")
    assert json.loads(trial.host.file("/run/answer.json").content_string)["usage"]["completion_tokens"] == 500
    assert ended(trial) == ("inactive", "success")


def test_server_that_does_not_hear_the_signal(trial, serving):
    """It is killed at its limit, and the next start is not blamed for that."""
    serving(fault="ignore_sigterm")
    answer = trial.go(stop={"timeout": 2}, start=True, wait={})
    assert (answer["stop"]["verdict"], code(answer["stop"])) == ("stopped_forced", "stopped_forced")
    assert answer["stop"]["units"][0]["after"] == "inactive/dead"
    assert answer["wait"]["verdict"] == "ready" and "warnings" not in answer["wait"]


def test_drain_that_outlasts_the_unit_s_own_limit(trial, serving):
    """Here systemd kills it, which leaves the unit failed with result timeout."""
    trial.service("TimeoutStopSec=2")
    serving(fault="drain_hang")
    answer = trial.go(stop={}, start=True, wait={})
    assert answer["stop"]["verdict"] == "stopped_forced"
    assert answer["wait"]["verdict"] == "ready"


def test_ranks_that_die_before_the_drain_is_over(trial, serving):
    trial.service("KillMode=control-group")
    serving()
    answer = trial.go(stop={}, start=True, wait={})
    assert (answer["stop"]["verdict"], code(answer["stop"])) == ("stopped_unclean", "stopped_unclean")
    assert "KillMode=mixed" in answer["stop"]["cause"]["hint"]
    assert answer["wait"]["verdict"] == "ready"


def test_unit_that_is_being_stopped_already(trial, serving):
    serving(fault="drain_hang")
    trial.host.check_output("systemctl stop --no-block %s", UNIT)
    trial.until(lambda: prop(trial.host, UNIT, "ActiveState") == "deactivating")
    answer = trial.go(stop={"timeout": 2}, start=True, wait={})
    assert answer["stop"]["units"][0]["before"].startswith("deactivating/")
    assert answer["stop"]["verdict"] == "stopped_forced"
    assert answer["wait"]["verdict"] == "ready"


def test_unit_that_failed_before(trial):
    trial.service("Restart=no")
    trial.stand_in(fault="cuda_oom")
    trial.start_by_hand()
    trial.until(lambda: prop(trial.host, UNIT, "ActiveState") == "failed")
    trial.stand_in()
    answer = trial.go()
    assert answer["stop"]["verdict"] == "stopped" and answer["stop"]["units"][0]["before"] == "failed/failed"
    assert answer["wait"]["verdict"] == "ready"


def test_unit_between_two_restarts(trial):
    trial.service("RestartSec=60")
    trial.stand_in(fault="cuda_oom")
    trial.start_by_hand()
    trial.until(lambda: prop(trial.host, UNIT, "SubState") == "auto-restart")
    trial.stand_in()
    answer = trial.go()
    assert answer["stop"]["verdict"] == "stopped" and answer["stop"]["units"][0]["before"] == "activating/auto-restart"
    assert answer["wait"]["verdict"] == "ready" and answer["wait"]["unit"]["restarts"] == 0


@pytest.fixture
def orphan(trial):
    """A process of somebody else that holds memory of one card."""
    trial.host.check_output("systemd-run --quiet --unit orphan --uid ops sleep 600")
    pid = main_pid(trial.host, "orphan")
    record = json.dumps({"pid": pid, "name": "python3", "card": 3, "mib": 40960})
    trial.host.check_output("printf %%s %s > /run/fake-gpu/%s.json", record, str(pid))
    yield pid
    trial.host.check_output("systemctl stop orphan; systemctl reset-failed orphan 2>/dev/null; rm -f /run/fake-gpu/%s.json", str(pid))


def test_orphan_that_holds_gpu_memory(trial, serving, orphan):
    trial.service("Environment=FAKE_GPU_DIR=/none")  # else it would refuse to begin beside the orphan
    serving()
    answer = trial.go(stop={"gpus": ["all"], "gpu_timeout": 2})["stop"]
    assert (answer["verdict"], code(answer)) == ("gpu_busy", "gpu_busy")
    for word in (str(orphan), "python3", "40960 MiB", "ops"):
        assert word in answer["msg"]
    assert trial.host.run("kill -0 %s", str(orphan)).rc == 0 and answer["killed"] == []
    assert ended(trial) == ("inactive", "success")

    answer = trial.go(stop={"gpus": [0, 1, 2], "gpu_timeout": 2})["stop"]
    assert answer["verdict"] == "stopped", "other cards than the ones that are needed do not matter"

    answer = trial.go(stop={"gpus": [3], "gpu_timeout": 0, "kill_foreign": True})["stop"]
    assert answer["verdict"] == "stopped" and [one["pid"] for one in answer["killed"]] == [orphan]


def test_memory_that_comes_back_late_is_waited_for(trial, serving):
    serving(gpu_linger=2)
    answer = trial.go(stop={"gpus": ["all"]}, start=True, wait={})
    assert answer["stop"]["verdict"] == "stopped"
    assert answer["wait"]["verdict"] == "ready"
