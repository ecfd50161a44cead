# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Port blocks: fixed places, gaps, overlaps of two deployments refused with both names."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _ports
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal


def test_block_has_fixed_places():
    ports = _ports.plan(30001)
    assert (ports["http"], ports["nccl"], ports["dist"]) == (30001, 30002, 30003)
    assert (ports["first"], ports["last"], ports["ranges"]) == (30001, 30010, [[30001, 30010]])


def test_given_rendezvous_moves_the_nccl_port_out_of_its_run():
    ports = _ports.plan(30002, None, "127.0.0.1:30003", derived=True)
    assert ports["dist"] == 30003 and ports["nccl"] == 30010


def test_ports_outside_the_block_are_part_of_the_plan():
    ports = _ports.plan(30001, 29000, "10.0.0.1:25000", derived=True)
    assert ports["ranges"] == [[30001, 30010], [25000, 25006], [29000, 29000]]


@pytest.mark.parametrize("port", [0, 65536, -1, "x", "", None, True, 1.5, "30 001"])
def test_no_port(port):
    with pytest.raises(Refusal, match="bad_flags: port must be between 1 and 65535"):
        _ports.plan(port)


@pytest.mark.parametrize("arguments, said", [
    ((65530,), "65526 is the last that fits"),
    ((30001, 30001), "already the HTTP port"),
    ((30001, None, "127.0.0.1:30001"), "among them is the HTTP port"),
    ((30001, None, "a b"), "HOST or HOST:PORT"),
    ((30001, None, "host:70000"), "between 1 and 65535"),
    ((30001, 0), "nccl-port must be between"),
])
def test_ports_that_cannot_be(arguments, said):
    with pytest.raises(Refusal, match=said):
        _ports.plan(*arguments)


@pytest.mark.parametrize("address, parts", [
    ("", ("", "")), ("n1", ("n1", "")), ("n1:5000", ("n1", "5000")), ("[::1]:5000", ("[::1]", "5000")), ("10.0.0.1", ("10.0.0.1", "")),
])
def test_rendezvous_address(address, parts):
    assert _ports.dist_address(address) == parts


def test_neighbouring_ports_overlap_with_both_names_and_a_way_out():
    others = {"sglang-k-tp2.service": _ports.plan(30000), "sglang-k-ep2.service": _ports.plan(30020)}
    with pytest.raises(Refusal) as refusal:
        _ports.refuse_overlap("sglang-k-dp2.service", _ports.plan(30002), others)
    said = str(refusal.value)
    assert "sglang-k-dp2.service" in said and "sglang-k-tp2.service" in said and "port 30030 would do" in said


def test_blocks_with_a_gap_stand_side_by_side():
    _ports.refuse_overlap("a", _ports.plan(30011), {"b": _ports.plan(30001), "c": _ports.plan(30021)})


def test_a_rendezvous_elsewhere_can_overlap_too():
    with pytest.raises(Refusal, match="overlap in 30015"):
        _ports.refuse_overlap("a", _ports.plan(40001, 30015), {"b": _ports.plan(30011)})


@pytest.mark.parametrize("low, high, warned", [(32768, 60999, False), (30000, 60999, True), (30010, 30010, True), (30011, 60999, False)])
def test_ephemeral_range_is_warned_about(low, high, warned):
    warning = _ports.in_ephemeral_range(_ports.plan(30001), low, high)
    assert bool(warning) == warned
    assert not warned or f"{low} to {high}" in warning
