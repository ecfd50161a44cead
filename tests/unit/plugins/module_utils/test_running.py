# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running process is compared with plan and disk, and what it takes of the node is read from its start."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._running import UnitLook, claim, differs, flags_of, share_gpus, started_at

PYTHON = "/opt/sglang/0.5.23/bin/python"
ARGV = ["-m", "sglang.launch_server", "--model-path", "/m", "--port", "30001", "--tp-size", "8"]
GPUS = [{"index": index, "uuid": f"GPU-{index}"} for index in range(8)]
PLAN = {"python": PYTHON, "argv": ARGV, "environment": {"NCCL_ALGO": "Ring"}}


def look(argv=None, **more):
    more = {"active_state": "active", "sub_state": "running", "main_pid": 7, "environment": {"NCCL_ALGO": "Ring", "LANG": "C"}, **more}
    return UnitLook("sglang-k-tp8.service", argv=[PYTHON, *(ARGV if argv is None else argv)], **more)


def test_the_planned_process_runs():
    assert differs(look(), PLAN) == []
    assert differs(look(active_state="activating", sub_state="start"), PLAN) == []


def test_the_key_file_is_the_same_wherever_systemd_mounts_it():
    plan = {**PLAN, "argv": [*ARGV, "--config", "/run/credentials/sglang-k-tp8.service/sglang.yaml"]}
    assert differs(look([*ARGV, "--config", "/run/credentials/other/sglang.yaml"]), plan) == []
    assert differs(look(), plan) == ["--config: runs without, /run/credentials/sglang-k-tp8.service/sglang.yaml is planned"]


@pytest.mark.parametrize("unit, said", [
    (look([*ARGV[:-1], "4"]), "--tp-size: 4 runs, 8 is planned"),
    (look([*ARGV, "--mem-fraction-static", "0.8"]), "--mem-fraction-static: runs with 0.8, is not planned"),
    (look(ARGV[:-2]), "--tp-size: runs without, 8 is planned"),
    (look(environment={"NCCL_ALGO": "Tree"}), "environment NCCL_ALGO: Tree runs, Ring is planned"),
    (look(environment={}), "environment NCCL_ALGO: not set runs, Ring is planned"),
    (look(environment={"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0"}), "environment CUDA_VISIBLE_DEVICES: 0 runs, not set is planned"),
    (look(need_daemon_reload=True), "daemon-reload"),
    (look(started=100.0, written={"/etc/systemd/system/x": 99.9, "/etc/sglang/k.yaml": 100.5}), "/etc/sglang/k.yaml was written after the process started"),
    (look(active_state="inactive", sub_state="dead", main_pid=0), "is not running (inactive/dead)"),
    (look(active_state="activating", sub_state="auto-restart", main_pid=0), "is not running (activating/auto-restart)"),
])
def test_each_difference_is_named(unit, said):
    found = differs(unit, PLAN)
    assert len(found) == 1 and said in found[0]


def test_an_older_installation_runs():
    unit = look()
    unit.argv[0] = "/opt/sglang/0.5.22/bin/python"
    assert differs(unit, PLAN) == [f"interpreter: /opt/sglang/0.5.22/bin/python runs, {PYTHON} is planned"]


def test_other_spellings_are_no_difference():
    assert differs(look(["-m", "sglang.launch_server", "--model", "/m", "--port=30001", "--tensor-parallel-size", "8"]), PLAN) == []


def test_a_process_that_cannot_be_read_is_no_difference():
    assert differs(look(environment={}, environment_seen=False), PLAN) == []


def test_keys_are_not_shown():
    plan = {**PLAN, "environment": {"NCCL_ALGO": "Ring", "X_TOKEN": "t-5ecret"}}
    found = " ".join(differs(look([*ARGV, "--api-key", "k-5ecret-1"]), plan))
    assert "--api-key" in found and "X_TOKEN" in found and "5ecret" not in found


def test_flags_of_a_command_line():
    assert flags_of(["-m", "x", "--a", "1", "2", "--b", "--c=3", "--d", "-1"]) == {"a": ["1", "2"], "b": [], "c": ["3"], "d": ["-1"]}


@pytest.mark.parametrize("argv, environment, gpus, port, nccl, model", [
    (ARGV, {}, "all", 30001, 30002, "/m"),
    ([*ARGV, "--served-model-name", "demo", "--nccl-port", "29000"], {"CUDA_VISIBLE_DEVICES": "0, 1"}, ["0", "1"], 30001, 29000, "demo"),
    (["--device", "cpu"], {}, [], 30000, 30001, ""),
])
def test_claims(argv, environment, gpus, port, nccl, model):
    found = claim(look(argv, environment=environment))
    assert (found.gpus, found.port, found.ports["nccl"], found.model) == (gpus, port, nccl, model)


def test_claim_of_a_strange_command_line():
    assert claim(look(["--port", "many"])).ports is None
    assert claim(look([], environment={})).port == 30000


@pytest.mark.parametrize("one, other, shared", [
    ("all", "all", True), ("all", ["3"], True), (["0", "1"], ["2", "3"], False), (["0", "1"], ["GPU-1"], True), (["GPU-2"], ["1"], False), ([], "all", False),
])
def test_sharing_gpus(one, other, shared):
    assert share_gpus(one, other, GPUS) == shared


@pytest.mark.parametrize("text, seconds", [
    ("Thu 1970-01-01 00:01:40.500000 UTC", 100.5), ("Thu 1970-01-01 00:01:40 UTC", 100.0), ("n/a", None), ("", None), ("Thu 1970-01-01 00:01:40 CET", None),
])
def test_stamps(text, seconds):
    assert started_at(text) == seconds
