# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a unit's process was started with: what it claims of the node, and where it differs from a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils import _ports
from ansible_collections.gpuops.sglang.plugins.module_utils._flags import canonical
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import MASK, Redactor
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

BUSY_STATES = ("active", "activating", "deactivating", "reloading", "refreshing")
_KEY_FILE = "/sglang.yaml"
_SECRET = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD)", re.IGNORECASE)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)? UTC")


@dataclass
class UnitLook:
    """One sglang unit as systemd, the kernel and the disk show it."""

    name: str
    load_state: str = "not-found"
    active_state: str = "inactive"
    sub_state: str = "dead"
    main_pid: int = 0
    invocation_id: str = ""
    enabled: bool = False
    need_daemon_reload: bool = False
    drop_ins: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    started: float | None = None  # when the main process was started, wall clock seconds
    argv: list[str] = field(default_factory=list)  # of the main process, else what systemd would start
    environment: dict[str, str] = field(default_factory=dict)
    environment_seen: bool = True  # False when the process does not let us read what it was started with
    written: dict[str, float] = field(default_factory=dict)  # file the process was started from -> when it was written

    @property
    def busy(self) -> bool:
        """Whether it has, or is about to have, a process."""
        return self.active_state in BUSY_STATES

    @property
    def deployment(self) -> str:
        return re.sub(r"^sglang-(.*)\.service$", r"\1", self.name)


def flags_of(argv: Iterable[str]) -> dict[str, list[str]]:
    """Flags and their values, from the words of a command line."""
    flags: dict[str, list[str]] = {}
    values: list[str] = []
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            try:
                name = canonical(name)
            except Refusal:
                continue
            values = flags[name] = [value] if equals else []
        else:
            values.append(word)
    return flags


def _last(flags: dict[str, list[str]], name: str) -> str:
    return (flags.get(name) or [""])[-1]


@dataclass(frozen=True)
class Claim:
    """What one deployment takes of a node."""

    gpus: Any  # "all", or indexes and UUIDs as text; an empty list for a server on the CPU
    host: str
    port: int
    ports: dict[str, Any] | None  # None when they cannot be told
    model: str


def claim(unit: UnitLook) -> Claim:
    """GPUs, ports and model of a unit, from its command line and environment."""
    flags = flags_of(unit.argv)
    port = _last(flags, "port") or "30000"
    attention_groups = _last(flags, "attn-dp-size") not in ("", "1") or "enable-dp-attention" in flags
    try:
        ports = _ports.plan(port, _last(flags, "nccl-port") or None, _last(flags, "dist-init-addr"), derived=attention_groups)
    except Refusal:
        ports = None
    visible = unit.environment.get("CUDA_VISIBLE_DEVICES")
    gpus: Any = "all" if visible is None else [one.strip() for one in visible.split(",") if one.strip()]
    if _last(flags, "device") not in ("", "cuda"):
        gpus = []
    number = int(port) if port.isdigit() else 0
    return Claim(gpus, _last(flags, "host") or "127.0.0.1", number, ports, _last(flags, "served-model-name") or _last(flags, "model-path"))


def share_gpus(one: Any, other: Any, gpus: list[dict[str, Any]]) -> bool:
    """Whether two claims meet on a GPU; an index and a UUID may mean the same one."""
    if not one or not other:
        return False
    if one == "all" or other == "all":
        return True
    uuids = {str(gpu["index"]): str(gpu["uuid"]) for gpu in gpus}
    return bool({uuids.get(str(gpu), str(gpu)) for gpu in one} & {uuids.get(str(gpu), str(gpu)) for gpu in other})


def started_at(text: str) -> float | None:
    """Wall clock seconds of a stamp as ``systemctl show --timestamp=us+utc`` writes it."""
    match = _STAMP.search(text)
    if not match:
        return None
    whole = datetime.strptime(match.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    return whole + float(match.group(2) or 0)


def _shown(name: str, values: list[str]) -> str:
    text = Redactor().clean(f"--{name} {' '.join(values)}".strip())
    return text.split(" ", 1)[1] if " " in text else "set"


def differs(unit: UnitLook, plan: dict[str, Any]) -> list[str]:
    """Every way in which the running process is not what the plan and the files on disk ask for."""
    if not unit.busy or not unit.main_pid or not unit.argv:
        return [f"{unit.name} is not running ({unit.active_state}/{unit.sub_state})"]
    found = []
    if unit.argv[0] != plan["python"]:
        found.append(f"interpreter: {unit.argv[0]} runs, {plan['python']} is planned")
    runs, planned = flags_of(unit.argv), flags_of(plan["argv"])
    for name in sorted({*runs, *planned}):
        has, wants = runs.get(name), planned.get(name)
        if has == wants or (name == "config" and has and wants and has[-1].endswith(_KEY_FILE) and wants[-1].endswith(_KEY_FILE)):
            continue
        if wants is None:
            found.append(f"--{name}: runs with {_shown(name, has or [])}, is not planned")
        elif has is None:
            found.append(f"--{name}: runs without, {_shown(name, wants)} is planned")
        else:
            found.append(f"--{name}: {_shown(name, has)} runs, {_shown(name, wants)} is planned")
    found += _environment_differs(unit.environment, plan["environment"]) if unit.environment_seen else []
    return found + disk_differs(unit)


def _environment_differs(runs: dict[str, str], planned: dict[str, str]) -> list[str]:
    found = []
    wanted = {"CUDA_VISIBLE_DEVICES": None, **planned}
    for name, value in wanted.items():
        has = runs.get(name)
        if has != value:
            hidden = bool(_SECRET.search(name))
            texts = [MASK if hidden and text is not None else "not set" if text is None else text for text in (has, value)]
            found.append(f"environment {name}: {texts[0]} runs, {texts[1]} is planned")
    return found


def disk_differs(unit: UnitLook) -> list[str]:
    """Every way in which the files on disk are not those that the process was started from."""
    found = []
    if unit.need_daemon_reload:
        found.append("systemd has not read the unit's files since they were changed (daemon-reload)")
    if unit.started is not None:
        newer = sorted(path for path, written in unit.written.items() if written > unit.started)
        found += [f"{path} was written after the process started" for path in newer]
    return found
