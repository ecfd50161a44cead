# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait remembers for a person: its timeline, its warnings, and the journal around the cause."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._log_noise import is_noise
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause, Entry, UnitState
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import Phases

_TAIL = 200
_TIMELINE = 200
_OWN = 40
_SHOWN = 400  # characters of a context line
_DOING = {
    "process": "starting the process",
    "download": "downloading",
    "distributed": "connecting the ranks",
    "weights": "loading",
    "kv_cache": "allocating the KV cache",
    "graphs": "capturing graphs",
    "bind": "opening the port",
    "warmup": "warming up",
    "ready": "ready",
}

_AFTER = {"distributed": "preparing the load, after the ranks have met", "graphs": "preparing to serve, after the graphs were captured"}
_LOOK_AT = {
    "process": "look at the last line, at ExecStartPre= and at what the imports read (a slow or missing network file system)",
    "download": "look at the route to the hub (HTTPS_PROXY), at the disk, or serve a local copy",
    "distributed": "an NCCL_P2P_LEVEL too high for the board (IOMMU, ACS) hangs so, try NCCL_P2P_DISABLE=1 and NCCL_DEBUG=INFO; look for a rank that died",
    "weights": "look at the file system of the model (iostat, the mount, the network) and at the memory of the host",
    "kv_cache": "look at the GPUs (nvidia-smi) and for a rank that stands still (py-spy dump)",
    "graphs": "look whether kernels are being compiled (ninja, nvcc, ptxas run) or a collective hangs (GPUs at 100 %, NCCL_P2P_LEVEL)",
    "bind": "look at the last line and at who owns the port (ss -ltnp)",
    "warmup": "look whether kernels are being compiled, at NO_PROXY in the unit, and for a rank that stands still (py-spy dump)",
    "ready": "look at the last line",
}

_USAGE = re.compile(r"(?:\S+: )?usage:", re.IGNORECASE)
_IN_USAGE = (" ", "[", "\t", "<")  # how its further lines begin
_TELLS_NOTHING = re.compile(r"server_args=|^(?:See|Try|Run) '.{0,80}--help|^(?:Killed|Terminated|Aborted)$|^For more information\b|--help' for more")


class Story:
    """All state is plain, so that it can be kept as JSON."""

    def __init__(self, journal_lines: int):
        self.keep = max(int(journal_lines), 0)
        self.timeline: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.tail: list[str] = []
        self.around: list[str] = []  # from a little before the first error on
        self.last_step = ""  # the last line that told of progress
        self.own: list[str] = []  # the last lines that the unit's processes wrote

    def tell(self, at: float, phase: str, what: str) -> None:
        if len(self.timeline) >= _TIMELINE:
            del self.timeline[_TIMELINE // 2]  # the beginning and the end are worth more than the middle
        self.timeline.append({"at": at, "phase": phase, "what": what})

    def warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < 50:
            self.warnings.append(text)

    @property
    def has_losses(self) -> bool:
        """Is it known that lines of the journal are missing?"""
        return any(text.startswith("journal_unreadable") for text in self.warnings)

    def line(self, entry: Entry, is_finding: bool) -> None:
        text = entry.text[:_SHOWN]
        if entry.source == "unit":
            self.own.append(text)
            del self.own[:-_OWN]
        if is_finding and not self.around:
            self.around = self.tail[-8:] + [text]
        elif self.around and len(self.around) < _TAIL:
            self.around.append(text)
        self.tail.append(text)
        del self.tail[:-_TAIL]

    @property
    def last_own(self) -> str:
        """The last line of the unit's processes that may tell something; not the text about options that a program prints after it."""
        for place in range(len(self.own) - 1, -1, -1):
            if _TELLS_NOTHING.search(self.own[place]) or is_noise(self.own[place].lower()):
                continue
            usage = next((above for above in range(place, -1, -1) if not self.own[above].startswith(_IN_USAGE)), -1)
            if usage >= 0 and _USAGE.match(self.own[usage]):
                return next((line for line in reversed(self.own[:usage]) if not _TELLS_NOTHING.search(line)), self.own[usage])
            return self.own[place]
        return ""

    def find(self, *words: str) -> str:
        """The first kept line that holds one of the words."""
        return next((line for line in (*self.around, *self.tail) if any(word in line.lower() for word in words)), "")

    def context(self, cause: str, count: int) -> list[str]:
        """At most ``count`` lines of the journal, around the cause where there is one."""
        if count <= 0:
            return []
        wanted = cause[:_SHOWN].strip()
        for lines in (self.around, self.tail):
            places = [place for place, line in enumerate(lines) if wanted and line.strip() == wanted]
            if places:
                start = max(places[0] - count // 3, 0)
                return lines[start : start + count]
        return self.tail[-count:]

    def silence(self, start: str, phases: Phases, answers: str, moving: bool, unit: UnitState) -> Cause:
        """What to say when time ran out and nothing names a cause."""
        doing, look_at = _DOING[phases.phase] + (f" {phases.percent} %" if phases.percent is not None else ""), _LOOK_AT[phases.phase]
        if phases.phase == "weights" and phases.percent == 100:
            look_at = "the files are read: look for kernels being compiled, for a rank that still loads or stands still (py-spy dump), and at the host's memory"
        if phases.over:
            doing, look_at = f"{_AFTER[phases.phase]}", _LOOK_AT["kv_cache" if phases.phase == "graphs" else "weights"]
        state = f"{doing}, still moving" if moving else doing
        summary = f"{start} in phase {phases.phase}: {state}"
        if answers:
            summary += f"; {answers}"
        if unit.active_state == "activating" and unit.sub_state:
            summary += f"; the unit is in {unit.sub_state}"
        if unit.sub_state.startswith("auto-restart"):
            summary = f"{start}: no process of the unit runs"
            died = f" ({unit.exit_code} {unit.exit_status})" if unit.exit_code else ""
            hint = f"Its process ended{died} and systemd waits to start it again (RestartSec=): read the lines before that end in the journal."
        elif phases.address and not answers:
            summary += f"; nobody listens on the port that was asked, and the server says that it listens on {phases.address}"
            hint = f"Let port and host of this wait and --host and --port of the server agree: it says that it listens on {phases.address}."
        elif moving:
            hint = f"It was {state}: allow a longer wait_timeout, or set extend_while_progress."
        elif answers:
            hint = f"Last seen: {answers}; look into the unit's journal for what it waits for."
        elif start.startswith("Not ready"):
            hint = f"It was {doing} when the time was over: allow a longer wait_timeout, or {look_at}."
        else:
            hint = f"It hangs while {doing}: {look_at}."
        return Cause("", summary + ".", self.last_step or (self.tail[-1] if self.tail else ""), hint=hint)

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
