# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests how a stop is told: drained, killed after its limit, fallen over, or still there."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _stopping
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import UnitState

RUNNING = UnitState(active_state="active", sub_state="running", main_pid=4100)
DEAD = UnitState(active_state="inactive", sub_state="dead", exit_code="exited", exit_status=0)
KILLED = UnitState(active_state="failed", sub_state="failed", result="signal", exit_code="killed", exit_status=9)
TIMED_OUT = UnitState(active_state="failed", sub_state="failed", result="timeout", exit_code="killed", exit_status=9)
STOPPING = UnitState(active_state="deactivating", sub_state="stop-sigterm", main_pid=4100)
LOOP = UnitState(active_state="activating", sub_state="auto-restart", result="exit-code", exit_code="exited", exit_status=1)
DRAINED = ["Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=[].",
           "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]."]
LIMIT = ["Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=[].",
         "sglang-a.service: State 'stop-sigterm' timed out. Killing.", "sglang-a.service: Killing process 4100 (python3) with signal SIGKILL."]
CRASH = ["SIGTERM received.", "Subprocess scheduler_0 (pid=12) crashed with exit code -15. Triggering SIGQUIT for cleanup..."]


def judge(before, now, texts=(), **more):
    return _stopping.judge(_stopping.StopSeen("sglang-a.service", before, now, list(texts), **more))


@pytest.mark.parametrize("before, now, texts, more, verdict", [
    (RUNNING, DEAD, DRAINED, {}, "stopped"),
    (RUNNING, DEAD, [], {}, "stopped"),
    (DEAD, DEAD, [], {}, "stopped"),
    (KILLED, KILLED, [], {}, "stopped"),
    (TIMED_OUT, TIMED_OUT, [], {}, "stopped"),
    (LOOP, LOOP.__class__(active_state="inactive", result="exit-code"), [], {}, "stopped"),
    (STOPPING, DEAD, DRAINED, {}, "stopped"),
    (RUNNING, TIMED_OUT, LIMIT, {}, "stopped_forced"),
    (RUNNING, KILLED, [], {"forced": True}, "stopped_forced"),
    (RUNNING, KILLED, CRASH, {}, "stopped_unclean"),
    (RUNNING, DEAD, CRASH, {}, "stopped_unclean"),
    (RUNNING, KILLED, [], {"version": "0.5.23"}, "stopped_unclean"),
    (RUNNING, KILLED, DRAINED, {}, "stopped"),
    (RUNNING, KILLED, [], {"version": "0.5.18"}, "stopped"),
    (RUNNING, KILLED, DRAINED[:1], {"version": "0.5.18"}, "stopped_unclean"),
    (RUNNING, STOPPING, DRAINED[:1], {}, "stop_timeout"),
    (RUNNING, DEAD, [], {"pids": [4107]}, "stop_timeout"),
])
def test_verdicts(before, now, texts, more, verdict):
    found, cause = judge(before, now, texts, **more)
    assert found == verdict
    assert (cause.code if cause else "stopped") == verdict


def test_a_forced_stop_says_what_was_cut_off():
    cause = judge(RUNNING, TIMED_OUT, LIMIT)[1]
    assert "3 requests still running" in cause.summary
    assert "timed out" in cause.line


def test_what_is_left_is_named():
    assert "4107" in judge(RUNNING, DEAD, pids=[4107])[1].summary


@pytest.mark.parametrize("unit, asked, seconds", [(390.0, None, 420.0), (None, None, 630.0), (390.0, 60.0, 60.0), (390.0, 0.0, 0.0)])
def test_limit(unit, asked, seconds):
    assert _stopping.limit(unit, asked) == seconds


def test_the_worst_unit_names_the_stop():
    assert _stopping.worst(["stopped", "stopped_forced", "stopped_unclean"]) == "stopped_forced"
    assert _stopping.worst([]) == "stopped"


def gpu(index, used, processes=()):
    return {"index": index, "uuid": "GPU-%d" % index, "memory_used_mib": used, "processes": list(processes)}


ORPHAN = {"pid": 2505781, "name": "sglang::scheduler_TP0", "memory_mib": 100998, "user": "svc", "unit": ""}


def test_only_the_wanted_gpus_count():
    gpus = [gpu(0, 100998, [ORPHAN]), gpu(1, 4)]
    assert [one["pid"] for one in _stopping.gpu_holders(gpus, ["all"])] == [2505781]
    assert _stopping.gpu_holders(gpus, [1]) == []


def test_memory_without_a_process_is_held_too():
    assert _stopping.gpu_holders([gpu(0, 50000)], ["all"])[0]["memory_mib"] == 50000
    assert _stopping.gpu_holders([gpu(0, 600)], ["all"]) == []


def test_a_busy_gpu_is_told_with_pid_name_size_and_owner():
    cause = _stopping.gpu_busy(_stopping.gpu_holders([gpu(3, 100998, [ORPHAN])], ["all"]), 60)
    assert cause.code == "gpu_busy"
    for word in ("2505781", "sglang::scheduler_TP0", "100998 MiB", "svc", "GPU 3"):
        assert word in cause.summary


@pytest.mark.parametrize("version, numbers", [("0.5.23+standin", (0, 5, 23)), ("0.5.10.post1", (0, 5, 10)), ("", ())])
def test_versions(version, numbers):
    assert _stopping.version_tuple(version) == numbers
