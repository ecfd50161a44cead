# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploys to four hosts at once and lets one of them lose its connection or its server."""

from __future__ import annotations

import re
import time

import pytest
import testinfra

from nodes import assert_serves, main_pid, prop

HOSTS = ["n1", "n2", "n3", "n4"]
EP8, TP8 = "sglang-k26-ep8", "sglang-k26-tp8"


@pytest.fixture(scope="module")
def fleet(request):
    inventory = request.config.option.ansible_inventory
    return {name: testinfra.get_host(f"ansible://{name}?ansible_inventory={inventory}") for name in HOSTS}


def slow(seconds: int, **more) -> dict:
    return {"sglang_server_environment": {"MOCK_SGLANG_LOAD_SECONDS": str(seconds)}, **more}


def test_all_are_started_before_any_is_waited_for(fleet, plays):
    """With half as many forks as hosts, four loads of 20 s that queued for one another would take 40 s."""
    began = {}
    outcome = plays.run("deploy_ep8.yml", "--forks", "2", **slow(20)).succeeded()
    for name, host in fleet.items():
        assert_serves(host, EP8)
        began[name] = int(prop(host, EP8, "ExecMainStartTimestampMonotonic")) / 1e6
    assert max(began.values()) - min(began.values()) < 15, began
    lines = re.findall(r"^(n\d)\s+\[ *\d+s\]", outcome.text, re.MULTILINE)
    assert set(lines) == set(HOSTS), "every host is heard of while it loads"


def test_a_connection_lost_for_longer_than_a_heartbeat_costs_nothing(fleet, plays):
    process = plays.start("deploy_tp8.yml", "--limit", "n3", **slow(25))
    started = time.monotonic()
    while not main_pid(fleet["n3"], TP8):
        assert time.monotonic() - started < 90
        time.sleep(0.5)
    time.sleep(4)
    pid = main_pid(fleet["n3"], TP8)
    drop = ("net", "n3", "iptables")
    plays.hosts(*drop, "-I", "INPUT", "-p", "tcp", "--dport", "22", "-j", "DROP")
    time.sleep(12)
    plays.hosts(*drop, "-D", "INPUT", "-p", "tcp", "--dport", "22", "-j", "DROP")
    plays.finish(process, started).succeeded()
    assert main_pid(fleet["n3"], TP8) == pid
    assert prop(fleet["n3"], TP8, "NRestarts") == "0"


def broken(fleet, name: str) -> None:
    fleet[name].check_output("echo MOCK_SGLANG_FAULT=cuda_oom > /run/mock_sglang.env")


def mended(fleet, name: str) -> None:
    fleet[name].check_output("rm -f /run/mock_sglang.env")


BATCHES = """
- hosts: sglang
  gather_facts: false
  serial: 2
  {guard}
  roles:
    - role: gpuops.sglang.sglang_server
"""
TUNED = "sglang-k26-tp8_tuned"


@pytest.mark.parametrize("guard", ["max_fail_percentage: 0", "any_errors_fatal: true"])
def test_a_failed_host_stops_the_batches_after_it(fleet, plays, tmp_path, guard):
    before = {name: [main_pid(fleet[name], unit) for unit in (EP8, TP8)] for name in HOSTS}
    playbook = tmp_path / "batches.yml"
    playbook.write_text(BATCHES.format(guard=guard), encoding="utf-8")
    broken(fleet, "n1")
    outcome = plays.run(str(playbook), sglang_server_strategy="tp8_tuned").failed_with("CUDA out of memory")
    mended(fleet, "n1")
    assert outcome.code == 2
    assert outcome.recap["n1"]["failed"] == 1 and outcome.recap["n2"]["failed"] == 0
    assert "[n2]: FAILED" not in outcome.text
    assert_serves(fleet["n2"], TUNED)
    assert not {"n3", "n4"} & set(outcome.recap)
    for name in ("n3", "n4"):
        assert [main_pid(fleet[name], unit) for unit in (EP8, TP8)] == before[name]
    plays.run("deploy_ep8.yml", "--limit", "n1,n2").succeeded()
