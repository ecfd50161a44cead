# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests how units are read from systemd's answers and from the file system."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _unit

RUNNING = """\
Id=sglang-k26-ep8.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
ExecMainCode=0
ExecMainStatus=0
MainPID=4100
InvocationID=71429702fed64a62804d7aae4b0e13b1
InactiveExitTimestampMonotonic=991674914
"""
CRASHED = RUNNING.replace("active\n", "failed\n").replace("=success", "=signal").replace("MainCode=0", "MainCode=2").replace("MainStatus=0", "MainStatus=9")


@pytest.mark.parametrize("name, full", [
    ("sglang-k26-ep8", "sglang-k26-ep8.service"),
    ("sglang-k26-ep8.service", "sglang-k26-ep8.service"),
    ("sglang-k2.6-ep8", "sglang-k2.6-ep8.service"),
])
def test_a_name_may_leave_out_the_suffix(name, full):
    assert _unit.unit_name(name) == full


def test_a_running_unit_has_no_exit_status():
    state = _unit.unit_state(_unit.parse_show(RUNNING)[0])
    assert (state.active_state, state.restarts, state.main_pid, state.exit_code, state.exit_status) == ("active", 2, 4100, "", None)


def test_the_end_of_the_process_is_told_in_words():
    state = _unit.unit_state(_unit.parse_show(CRASHED)[0])
    assert (state.result, state.exit_code, state.exit_status) == ("signal", "killed", 9)


def test_several_units_are_told_apart():
    assert [unit["ActiveState"] for unit in _unit.parse_show(RUNNING + "\n" + CRASHED)] == ["active", "failed"]


def test_an_answer_that_is_no_answer_gives_no_unit():
    assert _unit.parse_show("") == []


@pytest.mark.parametrize("text, seconds", [
    ("1min 30s", 90), ("6min 30s", 390), ("5s", 5), ("500ms", 0.5), ("1h 2min 3s", 3723), ("infinity", None), ("", None), ("1.5s", 1.5),
])
def test_time_spans(text, seconds):
    assert _unit.parse_span(text) == seconds


def test_processes_of_a_group_and_of_groups_below_it(tmp_path):
    (tmp_path / "system.slice/a.service/sub").mkdir(parents=True)
    (tmp_path / "system.slice/a.service/cgroup.procs").write_text("10\n11\n")
    (tmp_path / "system.slice/a.service/sub/cgroup.procs").write_text("12\n")
    assert sorted(_unit.cgroup_pids("/system.slice/a.service", [str(tmp_path)])) == [10, 11, 12]
    assert _unit.cgroup_pids("/system.slice/gone.service", [str(tmp_path)]) == []


@pytest.mark.parametrize("group", ["", "/"])
def test_no_group_never_means_every_process(group):
    assert _unit.cgroup_pids(group) == []


def test_owner_and_unit_of_a_process(tmp_path):
    (tmp_path / "42").mkdir()
    (tmp_path / "42/cgroup").write_text("0::/system.slice/sglang-k26-ep8.service\n")
    (tmp_path / "42/status").write_text("Name:\tpython3\nUid:\t0\t0\t0\t0\n")
    (tmp_path / "42/cmdline").write_bytes(b"sglang::scheduler_TP0\0\0\0")
    proc = str(tmp_path)
    assert (_unit.unit_of_pid(42, proc), _unit.user_of_pid(42, proc), _unit.name_of_pid(42, proc)) == (
        "sglang-k26-ep8.service", "root", "sglang::scheduler_TP0")
    assert (_unit.unit_of_pid(43, proc), _unit.user_of_pid(43, proc), _unit.name_of_pid(43, proc)) == ("", "", "")


def test_the_invocation_comes_from_the_link(tmp_path):
    os.symlink("abc", str(tmp_path / "invocation:a.service"))
    assert _unit.invocation_link("a.service", str(tmp_path)) == "abc"
    assert _unit.invocation_link("b.service", str(tmp_path)) == ""


def test_a_missing_program_is_an_answer_too():
    commands = _unit.Commands()
    assert commands.run(["no-such-program-here", "a b"])[0] == 127
    commands.run(["no-such-program-here", "a b"])
    assert commands.lines == ["no-such-program-here 'a b'"]
