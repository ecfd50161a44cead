# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests what is read from nvidia-smi, and how one driver fault is told from another."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _gpu

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95"
NO_TALK = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."


def test_gpus_with_and_without_every_value():
    gpus = _gpu.parse_gpus(
        "0, GPU-aaaa, %s, 97887, 4, 580.95.05, 12.0, 600.00, 00000000:01:00.0\n"
        "1, GPU-bbbb, %s, 97887, [N/A], 580.95.05, [N/A], [Not Supported], 00000000:02:00.0\n"
        "Warning: something, else\n" % (CARD, CARD))
    assert [(gpu["index"], gpu["memory_total_mib"], gpu["memory_used_mib"], gpu["compute_cap"], gpu["power_limit_w"]) for gpu in gpus] == [
        (0, 97887, 4, "12.0", 600.0), (1, 97887, None, "", None)]


def test_processes_may_have_commas_in_their_names():
    assert _gpu.parse_processes("GPU-aaaa, 2505781, sglang::scheduler_TP0, 100998\nGPU-bbbb, 12, /opt/a, b/python, [N/A]\nNo running processes\n") == [
        {"gpu_uuid": "GPU-aaaa", "pid": 2505781, "name": "sglang::scheduler_TP0", "memory_mib": 100998},
        {"gpu_uuid": "GPU-bbbb", "pid": 12, "name": "/opt/a,b/python", "memory_mib": None},
    ]


def test_topology():
    text = "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tNODE\t0-31\t0\nGPU1\tNODE\t X \t0-31\t0\n\nLegend:\n\n  X    = Self\n"
    assert _gpu.parse_topology(text) == {"GPU0": {"GPU1": "NODE"}, "GPU1": {"GPU0": "NODE"}}
    assert _gpu.parse_topology("nothing here") == {}


@pytest.mark.parametrize("facts, code, words", [
    (dict(smi_code=18, smi_text=MISMATCH, module_version="NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed Aug 27"),
     "driver_mismatch", ["580.82.07", "580.95"]),
    (dict(smi_code=18, smi_text=MISMATCH, module_version="NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build"),
     "driver_mismatch", ["580.82.07", "580.95"]),
    (dict(smi_code=9, smi_text=NO_TALK, modprobe="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", secure_boot="SecureBoot enabled"),
     "secure_boot", ["Key was rejected"]),
    (dict(smi_code=9, smi_text=NO_TALK, modules="nouveau 2285568 4 - Live 0x0\ndrm 700000 1 nouveau\n"), "module_conflict", ["nouveau"]),
    (dict(smi_code=9, smi_text=NO_TALK, kernel_log=["NVRM: GPU 0000:01:00.0 is already bound to NovaCore."]), "module_conflict", ["NovaCore"]),
    (dict(smi_code=9, smi_text=NO_TALK, kernel="6.8.0-60-generic", dkms="nvidia/580.95.05: added",
          modprobe="modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-60-generic"),
     "module_not_built", ["6.8.0-60-generic", "nvidia/580.95.05: added"]),
    (dict(smi_code=127, smi_text="nvidia-smi: not found"), "driver_missing", ["not installed"]),
    (dict(smi_code=9, smi_text=NO_TALK), "driver_missing", ["cannot reach"]),
    (dict(smi_code=15, smi_text="Unable to determine the device handle for GPU0000:44:00.0: GPU is lost.  Reboot the system to recover this GPU"),
     "gpu_lost", ["44:00.0"]),
    (dict(smi_code=0, smi_text="0, GPU-a, X, [Unknown Error], 0, 580, 12.0, 600, 00000000:44:00.0"), "gpu_lost", ["44:00.0"]),
    (dict(smi_code=6, smi_text="No devices were found"), "gpu_count", ["no GPU"]),
    (dict(smi_code=0, smi_text="0, GPU-a", nvswitch=True, fabric_manager="inactive"), "fabric_manager", ["inactive"]),
])
def test_driver_faults(facts, code, words):
    cause = _gpu.driver_fault(_gpu.DriverFacts(**facts))
    assert cause.code == code
    assert cause.hint
    for word in words:
        assert word in cause.summary + cause.line


@pytest.mark.parametrize("facts", [
    dict(smi_text="0, GPU-a, X, 97887, 0, 580.95.05, 12.0, 600.00, 00000000:01:00.0"),
    dict(smi_text="0, GPU-a", nvswitch=True, fabric_manager="active"),
])
def test_a_healthy_driver_has_no_fault(facts):
    assert _gpu.driver_fault(_gpu.DriverFacts(**facts)) is None


@pytest.mark.parametrize("code", ["secure_boot", "module_not_built"])
def test_a_reboot_is_not_advised_where_it_does_not_help(code):
    text = {"secure_boot": "Key was rejected by service", "module_not_built": "Module nvidia not found in directory /lib/modules/6.8.0"}[code]
    cause = _gpu.driver_fault(_gpu.DriverFacts(smi_code=9, smi_text=NO_TALK, modprobe=text))
    assert "reboot the node" not in cause.hint.lower()


@pytest.mark.parametrize("driver, cuda, old", [
    ("550.127.08", 13, True), ("580.95.05", 13, False), ("580.95.05", 12, False), ("", 13, False), ("550", 99, False),
])
def test_driver_against_cuda(driver, cuda, old):
    cause = _gpu.driver_too_old(driver, cuda)
    assert (cause is not None and cause.code == "driver_too_old") is old


def test_too_few_gpus():
    assert _gpu.unfit([{}] * 7, "580.95.05", 13, 8).code == "gpu_count"
    assert _gpu.unfit([{}] * 8, "580.95.05", 13, 8) is None


@pytest.mark.parametrize("wanted, indexes", [(["all"], [0, 1]), (["1"], [1]), ([0], [0]), (["GPU-b"], [1]), ([], [])])
def test_choice_of_gpus(wanted, indexes):
    gpus = [{"index": 0, "uuid": "GPU-a"}, {"index": 1, "uuid": "GPU-b"}]
    assert [gpu["index"] for gpu in _gpu.selected(gpus, wanted)] == indexes


def test_holders_are_named_whole():
    text = _gpu.busy_text([{"pid": 2505781, "name": "sglang::scheduler_TP0", "memory_mib": 100998, "user": "svc", "unit": "", "gpu": 3}])
    assert text == "pid 2505781 (sglang::scheduler_TP0) holds 100998 MiB on GPU 3, owner svc"
