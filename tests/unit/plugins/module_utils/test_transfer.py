# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that a load with a silent log is seen to move by what its processes read, and a hung one not to."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry, UnitState
from ansible_collections.gpuops.sglang.plugins.module_utils._readiness import Wait, WaitOptions
from ansible_collections.gpuops.sglang.plugins.module_utils._transfer import ENOUGH, EVERY, Transfer


class Proc:
    def __init__(self, folder):
        self._folder = folder
        self.pids = []

    def set(self, pid, rchar=0, read_bytes=0, write_bytes=0):
        (self._folder / str(pid)).mkdir(exist_ok=True)
        (self._folder / str(pid) / "io").write_text(
            "rchar: %d\nwchar: 5\nsyscr: 1\nsyscw: 1\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n" % (rchar, read_bytes, write_bytes))
        if pid not in self.pids:
            self.pids.append(pid)


@pytest.fixture(name="proc")
def make_proc(tmp_path):
    return Proc(tmp_path)


@pytest.mark.parametrize("counter", ["rchar", "read_bytes", "write_bytes"])
@pytest.mark.parametrize("grown, moved", [(ENOUGH, True), (ENOUGH - 1, False), (0, False)])
def test_growth_between_two_looks(proc, tmp_path, counter, grown, moved):
    proc.set(10, **{counter: 7 * ENOUGH})
    transfer = Transfer(lambda: proc.pids, str(tmp_path))
    assert transfer.moved(0.0) is False, "what was read before the first look says nothing"
    proc.set(10, **{counter: 7 * ENOUGH + grown})
    assert transfer.moved(EVERY) is moved


def test_a_rank_that_comes_later_counts_from_its_beginning_and_one_that_goes_does_no_harm(proc, tmp_path):
    proc.set(10)
    transfer = Transfer(lambda: proc.pids, str(tmp_path))
    transfer.moved(0.0)
    proc.set(11, rchar=3 * ENOUGH)
    assert transfer.moved(EVERY) is True
    assert transfer.total == 3 * ENOUGH
    proc.pids.remove(11)
    assert transfer.moved(2 * EVERY) is False
    assert transfer.total == 3 * ENOUGH


def test_looks_are_rare(proc, tmp_path):
    asked = []
    transfer = Transfer(lambda: asked.append(1) or [], str(tmp_path))
    for tenth in range(300):
        transfer.moved(tenth / 10)
    assert len(asked) == 2


def test_counters_that_may_not_be_read_are_no_movement(tmp_path):
    transfer = Transfer(lambda: [10, 11], str(tmp_path))
    assert transfer.moved(0.0) is False
    assert transfer.moved(EVERY) is False


@pytest.mark.parametrize("line, kept_alive", [
    ("[2026-01-05 10:00:02 TP0] Load weight begin. avail mem=94.51 GB", True),
    ("[2026-01-05 10:00:02 TP0] Capture cuda graph begin. avail mem=20.01 GB", False),
])
def test_a_silent_load_that_reads_is_not_stalled_and_one_that_stops_reading_is(line, kept_alive):
    wait = Wait(WaitOptions(unit="sglang-a.service", stall_timeout=60, wait_timeout=5000))
    verdict, now = None, 0.0
    while verdict is None and now < 1000:
        wait.on_unit(now, UnitState(active_state="active", sub_state="running", main_pid=10, invocation_id="i1"))
        if now == 0.0:
            wait.on_journal(now, [Entry(line, invocation_id="i1")])
        if now <= 600 and now % 15 == 0:
            wait.on_transfer(now)
        verdict = wait.verdict(now)
        now += 1.0
    assert verdict.verdict == "stalled"
    assert now == pytest.approx(661 if kept_alive else 61, abs=3)
