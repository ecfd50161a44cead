# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait knows of its surroundings: the other nodes of the replica, and who holds the GPUs."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Context, Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry, UnitState
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Diagnosis

_MIB = re.compile(r"(\d+)")


class Peers:
    """The units of the other nodes, as far as a caller passes them."""

    def __init__(self) -> None:
        self.states: dict[str, UnitState] = {}
        self._read: dict[str, Diagnosis] = {}

    def take(self, now: float, data: dict[str, Any]) -> None:
        for name, told in data.items():
            state = told.get("unit")
            if state is not None:
                self.states[name] = state if isinstance(state, UnitState) else UnitState(**state)
            else:
                self.states.setdefault(name, UnitState())
            diagnosis = self._read.setdefault(name, Diagnosis(nnodes=2))
            for entry in told.get("journal") or []:
                line = entry if isinstance(entry, Entry) else Entry(str(entry))
                diagnosis.feed(line, Context(now=now))

    def dead(self) -> str:
        """The first node whose unit has ended."""
        return next((name for name, state in self.states.items() if _ended(state)), "")

    def absent(self) -> list[str]:
        """The nodes whose unit does not run."""
        return [name for name, state in self.states.items() if state.active_state and state.active_state not in ("active", "activating")]

    def finding(self, name: str) -> Finding | None:
        diagnosis = self._read.get(name)
        return diagnosis.best() if diagnosis else None

    def finding_of(self, codes: tuple[str, ...]) -> tuple[str, Finding] | None:
        for name in self._read:
            found = self.finding(name)
            if found and found.code in codes:
                return name, found
        return None

    def dump(self) -> dict[str, Any]:
        return {
            "states": {name: asdict(state) for name, state in self.states.items()},
            "read": {name: item.dump() for name, item in self._read.items()},
        }

    def restore(self, kept: dict[str, Any]) -> None:
        self.states = {name: UnitState(**state) for name, state in kept["states"].items()}
        for name, state in kept["read"].items():
            self._read[name] = Diagnosis(nnodes=2)
            self._read[name].restore(state)


def _ended(state: UnitState) -> bool:
    if state.active_state == "failed" or state.sub_state == "auto-restart":
        return True
    return state.active_state == "inactive" and bool(state.exit_code or state.invocation_id)


def gpu_holders(data: Any) -> str:
    """Who holds GPU memory, from whatever shape nvidia-smi's answer was passed in: " (pid 4711 python3, 100998 MiB, user svc)"."""
    rows = [row for row in map(_holder, _rows(data)) if row]
    return " (" + "; ".join(rows[:4]) + ")" if rows else ""


def _rows(data: Any) -> Iterable[Any]:
    if isinstance(data, dict):
        for key in ("processes", "compute_apps", "apps", "gpus"):
            for item in data.get(key) or []:
                if isinstance(item, dict) and "processes" in item:
                    yield from item["processes"] or []
                else:
                    yield item
    elif isinstance(data, str):
        yield from data.splitlines()
    elif isinstance(data, list):
        for item in data:
            if isinstance(item, dict) and "processes" in item:
                yield from item["processes"] or []
            else:
                yield item


def _holder(row: Any) -> str:
    if isinstance(row, str):
        parts = [part.strip() for part in row.split(",")]
        if len(parts) < 4 or not parts[1].isdigit():
            return ""
        row = {"pid": parts[1], "name": parts[2], "memory_mib": parts[3]}
    if not isinstance(row, dict) or not row.get("pid"):
        return ""
    name = row.get("name") or row.get("process_name") or ""
    memory = _MIB.search(str(row.get("memory_mib") or row.get("used_memory") or row.get("memory") or ""))
    owner = row.get("user") or row.get("owner") or ""
    parts = [f"pid {row['pid']} {name}".strip()]
    if memory:
        parts.append(f"{memory.group(1)} MiB")
    if owner:
        parts.append(f"user {owner}")
    return ", ".join(parts)
