# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells whom a line of the kernel log is about: the unit that is waited for, somebody else, or nobody who is named."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry

_TASK = re.compile(r"\btask=([^,\s]+)")
_GROUP = re.compile(r"\btask_memcg=([^,\s]+)")
_PID = re.compile(r"\bpid=(\d+)|killed process (\d+)|\bpid='?(\d+)|\[(\d+)\]: segfault", re.IGNORECASE)
_NAME = re.compile(r"\bname=([^,\s<]+)|killed process \d+ \(([^)]{0,64})\)|\btask=([^,\s]+)|(?<!\S)(\S+)\[\d+\]: segfault", re.IGNORECASE)
_LIKE_A_RANK = re.compile(
    r"sglang|python|pt_main|multiproc|uvicorn|ray::"
    r"|^(?:cicc|cc1|ptxas|nvcc|nvlink|cudafe|fatbinary|ninja|as$|ld|[cg]\+\+|gcc|clang)",
    re.IGNORECASE,
)
_PID_OF_OURS = re.compile(r"\(pid[= ](\d+)\)")  # "Subprocess scheduler_2 (pid=4242) crashed"
_PIDS_KEPT = 200

OURS, FOREIGN, NAMESAKE, UNNAMED = "ours", "foreign", "namesake", "unnamed"


class KernelLog:
    """All state is plain, so that it can be kept as JSON."""

    def __init__(self, unit: str):
        self.unit = unit
        self.pids: dict[str, str] = {}  # of processes whose control group a line has named -> whose it is
        self.foreign: list[tuple[str, dict[str, Any]]] = []  # pid and line

    def whose(self, text: str) -> str:
        """``ours`` or ``foreign`` by control group or pid, ``namesake`` by a name that a rank may have, ``unnamed`` when no process is named."""
        pid = _pid(text)
        group = _GROUP.search(text)
        if group:
            whose = OURS if self.unit in group.group(1).split("/") else FOREIGN
            if whose == OURS and _TASK.search(text) and not _LIKE_A_RANK.search(_TASK.search(text).group(1)):
                whose = NAMESAKE  # a helper beside the server
            self._remember(pid, whose)
            return whose
        if pid in self.pids:
            return self.pids[pid]
        name = _NAME.search(text)
        if not name:
            return UNNAMED
        named = next(part for part in name.groups() if part)
        return NAMESAKE if _LIKE_A_RANK.search(named) else FOREIGN

    def own(self, pid: int) -> None:
        """A process that writes into the unit's journal is the unit's."""
        if pid and self.pids.get(str(pid)) != OURS:
            self._remember(str(pid), OURS)

    def _remember(self, pid: str, whose: str) -> None:
        self.pids[pid] = whose
        if len(self.pids) > _PIDS_KEPT:
            del self.pids[next(iter(self.pids))]

    def keep(self, entry: Entry, whose: str) -> None:
        """Remember a line about a process of somebody else, which may turn out to be ours."""
        pid = _pid(entry.text)
        if whose == FOREIGN and pid and len(self.foreign) < _PIDS_KEPT:
            self.foreign.append((pid, asdict(entry)))

    def claimed_by(self, text: str) -> list[Entry]:
        """The kept lines about a process that a line of the unit names as its own."""
        named = set(_PID_OF_OURS.findall(text))
        claimed = [Entry(**entry) for pid, entry in self.foreign if pid in named]
        self.foreign = [item for item in self.foreign if item[0] not in named] if claimed else self.foreign
        return claimed

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _pid(text: str) -> str:
    found = _PID.search(text)
    return next((part for part in found.groups() if part), "") if found else ""
