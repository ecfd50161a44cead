# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks ``nvidia-smi`` for GPUs and the processes on them, and tells one kind of driver fault from another."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands, name_of_pid, unit_of_pid, user_of_pid

GPU_FIELDS = ("index", "uuid", "name", "memory.total", "memory.used", "driver_version", "compute_cap", "power.limit", "pci.bus_id")
PROCESS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
# The oldest driver branch that runs programs built for a CUDA major version.
DRIVER_FOR_CUDA = {11: 450, 12: 525, 13: 580}

_LOST = re.compile(r"GPU is lost|fallen off the bus|Unable to determine the device handle for GPU|\[Unknown Error\]|\bERR!", re.I)
_BUS = re.compile(r"\b(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?\b")
_RIVALS = ("nouveau", "nova_core", "nova_drm")


@dataclass
class DriverFacts:
    """What the node says about its NVIDIA driver, as plain text."""

    smi_code: int = 0
    smi_text: str = ""  # output and errors of nvidia-smi
    module_version: str = ""  # /proc/driver/nvidia/version
    modules: str = ""  # /proc/modules
    modprobe: str = ""  # what loading the module said
    secure_boot: str = ""  # mokutil --sb-state
    dkms: str = ""  # dkms status
    kernel: str = ""  # release of the running kernel
    kernel_log: list[str] = field(default_factory=list)
    nvswitch: bool = False
    fabric_manager: str = ""  # ActiveState of nvidia-fabricmanager.service


def query(commands: Commands, fields: Iterable[str], what: str, timeout: float = 60) -> tuple[int, str, str]:
    return commands.run(["nvidia-smi", "--query-%s=%s" % (what, ",".join(fields)), "--format=csv,noheader,nounits"], timeout=timeout)


def _value(text: str) -> str:
    text = text.strip()
    return "" if text.startswith("[") or text in ("N/A", "ERR!") else text


def _integer(text: str) -> int | None:
    match = re.match(r"-?\d+", _value(text))
    return int(match.group()) if match else None


def _decimal(text: str) -> float | None:
    match = re.match(r"-?\d+(?:\.\d+)?", _value(text))
    return float(match.group()) if match else None


def parse_gpus(text: str) -> list[dict[str, Any]]:
    """One mapping a GPU; a value the driver cannot give is None, lines that are no table row are left out."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(GPU_FIELDS) or not cells[0].isdigit():
            continue
        gpus.append({
            "index": int(cells[0]),
            "uuid": cells[1],
            "name": cells[2],
            "memory_total_mib": _integer(cells[3]),
            "memory_used_mib": _integer(cells[4]),
            "driver_version": _value(cells[5]),
            "compute_cap": _value(cells[6]),
            "power_limit_w": _decimal(cells[7]),
            "bus_id": _value(cells[8]),
            "processes": [],
        })
    return gpus


def parse_processes(text: str) -> list[dict[str, Any]]:
    """Compute processes as the driver lists them; names may hold commas."""
    processes = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < len(PROCESS_FIELDS) or not cells[1].isdigit():
            continue
        processes.append({
            "gpu_uuid": cells[0],
            "pid": int(cells[1]),
            "name": ",".join(cells[2:-1]),
            "memory_mib": _integer(cells[-1]),
        })
    return processes


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """The links between GPUs from ``nvidia-smi topo -m``, such as NV18, PIX or SYS."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).split() for line in text.splitlines()]
    heads = next((cells for cells in lines if cells and cells[0] == "GPU0" and len(cells) > 1 and cells[1] != "X"), None)
    if heads is None:
        return {}
    columns = [name for name in heads if re.match(r"^GPU\d+$", name)]
    rows = (cells for cells in lines if cells is not heads and cells and cells[0] in columns)
    return {cells[0]: {name: link for name, link in zip(columns, cells[1:]) if name != cells[0]} for cells in rows}


def named(processes: Iterable[dict[str, Any]], proc: str = "/proc") -> list[dict[str, Any]]:
    """Add owner and unit of each process, and a name where the driver has none."""
    return [
        dict(one, name=_value(one["name"]) or name_of_pid(one["pid"], proc) or "?", user=user_of_pid(one["pid"], proc), unit=unit_of_pid(one["pid"], proc))
        for one in processes
    ]


def selected(gpus: list[dict[str, Any]], wanted: Iterable[Any]) -> list[dict[str, Any]]:
    """GPUs by index, UUID or the word ``all``."""
    names = [str(one) for one in wanted]
    if "all" in names:
        return gpus
    return [gpu for gpu in gpus if str(gpu["index"]) in names or gpu["uuid"] in names]


def busy_text(holders: Iterable[dict[str, Any]]) -> str:
    """Who holds GPU memory, in words a person can act on."""
    return "; ".join(
        "pid %(pid)d (%(name)s%(where)s) holds %(size)s on GPU %(gpu)s, owner %(user)s"
        % dict(
            one,
            where=" of " + one["unit"] if one.get("unit") else "",
            size="%d MiB" % one["memory_mib"] if one.get("memory_mib") is not None else "memory",
            gpu=one.get("gpu", one.get("gpu_uuid", "?")),
            user=one.get("user") or "unknown",
        )
        for one in holders
    )


def driver_fault(facts: DriverFacts) -> Cause | None:
    """The one reason why the driver cannot be used; None when it can."""
    text = facts.smi_text
    if "version mismatch" in text.lower():
        return _mismatch(facts)
    if _LOST.search(text):
        line = next(line for line in text.splitlines() if _LOST.search(line)).strip()
        bus = _BUS.search(line)
        return Cause("gpu_lost", "A GPU%s no longer answers its driver." % (" (%s)" % bus.group() if bus else ""), line,
                     hint="Look for Xid lines in `journalctl -k`; take the node out of service, power-cycle it, and have the card checked.")
    if facts.smi_code == 0 and "No devices were found" not in text:
        return _fabric(facts)
    return _not_loaded(facts) or _absent(facts)


def _mismatch(facts: DriverFacts) -> Cause:
    library = re.search(r"NVML library version:\s*(\S+)", facts.smi_text)
    module = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]+)", facts.module_version)
    return Cause(
        "driver_mismatch",
        "The loaded kernel module is %s, the NVIDIA libraries are %s." % (
            module.group(1) if module else "of another version", library.group(1) if library else "of another version"),
        _first_line(facts.smi_text),
        hint="Reboot the node (or unload and reload the nvidia modules); hold the driver packages so that an unattended upgrade cannot do this again.",
    )


def _not_loaded(facts: DriverFacts) -> Cause | None:
    """Faults of a driver that is installed but not running in the kernel."""
    said = facts.modprobe + "\n" + "\n".join(facts.kernel_log)
    refused = re.search(r"Key was rejected by service|Required key not available|Loading of unsigned module", said)
    if refused:
        return Cause("secure_boot", "Secure Boot refuses the NVIDIA kernel module because its signature is not trusted.", _line_with(said, refused.group()),
                     hint="Enrol the module's key (mokutil --import) or install the signed driver packages; a reboot alone does not help.")
    missing = re.search(r"Module nvidia not found in directory (\S+)", said)
    if missing:
        built = " (dkms: %s)" % _first_line(facts.dkms) if facts.dkms.strip() else ""
        return Cause("module_not_built", "There is no NVIDIA kernel module for the running kernel %s%s." % (
            facts.kernel or os.path.basename(missing.group(1)), built), _line_with(said, missing.group()),
            hint="Install the headers of this kernel and rebuild (dkms autoinstall), or boot a kernel the module was built for.")
    rival = next((name for name in _RIVALS if re.search(r"^%s\b" % name, facts.modules, re.M)), "")
    bound = re.search(r"already bound to (\w+)", said)
    if rival or bound:
        name = rival or bound.group(1)
        return Cause("module_conflict", "The kernel module %s has the GPU, so the NVIDIA module cannot take it." % name,
                     _line_with(said, bound.group()) if bound else _line_with(facts.modules, rival),
                     hint="Blacklist %s, rebuild the initramfs, and reboot." % name)
    return None


def _absent(facts: DriverFacts) -> Cause:
    line = _first_line(facts.smi_text)
    if facts.smi_code == 127:
        return Cause("driver_missing", "nvidia-smi is not installed on this node.", line, hint="Install the NVIDIA driver and its utilities.")
    if "No devices were found" in facts.smi_text:
        return Cause("gpu_count", "The driver is loaded and finds no GPU.", line, hint="See `lspci -d 10de:` and `journalctl -k` for the card.")
    return Cause("driver_missing", "nvidia-smi cannot reach the NVIDIA driver.", line, hint="Install the driver for this kernel, or load it (modprobe nvidia).")


def _fabric(facts: DriverFacts) -> Cause | None:
    if not facts.nvswitch or facts.fabric_manager in ("", "active"):
        return None
    return Cause("fabric_manager", "This node has NVSwitches and nvidia-fabricmanager is %s." % facts.fabric_manager,
                 hint="Start nvidia-fabricmanager, in exactly the driver's version; CUDA reports error 802 until it runs.")


def driver_too_old(driver_version: str, cuda_major: int) -> Cause | None:
    """Compare the driver with the CUDA version that the server's wheels were built for."""
    needed = DRIVER_FOR_CUDA.get(cuda_major)
    match = re.match(r"\d+", driver_version)
    if needed is None or match is None or int(match.group()) >= needed:
        return None
    return Cause("driver_too_old", "Driver %s is too old for CUDA %d, which needs at least %d." % (driver_version, cuda_major, needed),
                 hint="Upgrade the driver to branch %d or newer, or install a version built for an older CUDA." % needed)


def unfit(gpus: list[dict[str, Any]], driver_version: str, cuda_major: int | None, gpu_count: int | None) -> Cause | None:
    """What keeps a node with a healthy driver from running a deployment."""
    if gpu_count is not None and len(gpus) < gpu_count:
        return Cause("gpu_count", "The node has %d GPUs, %d are needed." % (len(gpus), gpu_count), hint="See `nvidia-smi -L` and `lspci -d 10de:`.")
    return driver_too_old(driver_version, cuda_major) if cuda_major is not None else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _line_with(text: str, part: str) -> str:
    return next((line.strip() for line in text.splitlines() if part in line), part)


def list_gpus(commands: Commands, proc: str = "/proc") -> tuple[list[dict[str, Any]], DriverFacts]:
    """The node's GPUs with the processes on them, and what nvidia-smi said."""
    code, output, errors = query(commands, GPU_FIELDS, "gpu")
    facts = DriverFacts(smi_code=code, smi_text=(output + "\n" + errors).strip())
    gpus = parse_gpus(output) if code == 0 else []
    processes = named(parse_processes(query(commands, PROCESS_FIELDS, "compute-apps")[1]), proc) if gpus else []
    for gpu in gpus:
        gpu["processes"] = [{key: value for key, value in one.items() if key != "gpu_uuid"} for one in processes if one["gpu_uuid"] == gpu["uuid"]]
    return gpus, facts


def gather(commands: Commands, proc: str = "/proc") -> tuple[list[dict[str, Any]], Cause | None]:
    """The node's GPUs, and the fault when the driver is ill."""
    gpus, facts = list_gpus(commands, proc)
    if not gpus:
        _look_closer(commands, facts, proc)
    facts.nvswitch = os.path.isdir(proc + "/driver/nvidia-nvswitch")
    if facts.nvswitch:
        facts.fabric_manager = commands.run(["systemctl", "is-active", "nvidia-fabricmanager.service"])[1].strip()
    return gpus, driver_fault(facts)


def _look_closer(commands: Commands, facts: DriverFacts, proc: str) -> None:
    """Collect what tells the driver faults apart; asked only when there is a fault."""
    facts.module_version = _read(proc + "/driver/nvidia/version")
    facts.modules = _read(proc + "/modules")
    facts.kernel = os.uname().release
    if facts.smi_code != 127 and not facts.module_version:
        code, output, errors = commands.run(["modprobe", "nvidia"])
        facts.modprobe = output + errors
        facts.secure_boot = commands.run(["mokutil", "--sb-state"])[1]
        facts.dkms = commands.run(["dkms", "status"])[1]
        log = commands.run(["journalctl", "--dmesg", "--boot", "--output=cat", "--lines=2000", "--no-pager"])[1]
        facts.kernel_log = [line for line in log.splitlines() if "NVRM" in line or "nvidia" in line.lower()][-50:]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
