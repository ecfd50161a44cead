# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows a start through its phases, and its progress within one, by the lines the server prints."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._counters import Counters
from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import Dull, bare, has_any, shape, split
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry

PHASES = ("process", "download", "distributed", "weights", "kv_cache", "graphs", "bind", "warmup", "ready")
_ORDER = {name: place for place, name in enumerate(PHASES)}
_LABELS_KEPT = 256

_FREE = re.compile(r"avail[ _]mem=([\d.]+) ?GB", re.IGNORECASE)
_SIZE = r"[\d.,]+ ?[kKMGT]?i?B?"
_BAR = re.compile(rf"(?:^|[\s:])(?P<percent>\d{{1,3}})% ?(?:Completed ?)?\|(?:[^|]{{0,200}}\|)? ?(?P<done>{_SIZE}?) ?/ ?(?P<total>{_SIZE})", re.IGNORECASE)
_ADDRESS = re.compile(r"running on (https?://[^\s/]{1,200})")
_BRACKETS = re.compile(r"\([^)]{0,200}\)|\[[^\]]{0,200}\]")

# Older versions say "Init torch distributed", those from 0.5.21 on "Init parallel"; the names of captures changed with 0.5.15.
_MARKS = (
    ("distributed", "begin", ("init parallel begin", "init torch distributed begin")),
    ("distributed", "end", ("init parallel end", "init torch distributed end")),
    ("weights", "begin", ("load weight begin",)),
    ("weights", "end", ("load weight end",)),
    ("kv_cache", "begin", ("cache is allocated", "cache allocated", "memory pool end")),
    ("graphs", "begin", ("graph begin", "graphs begin")),
    ("graphs", "end", ("graph end", "graphs end")),
    ("bind", "begin", ("started server process", "waiting for application startup", "application startup complete")),
    ("warmup", "begin", ("uvicorn running on", "granian", "dummy health check server started")),
    ("warmup", "announced", ("fired up and ready to roll",)),
    ("", "step", ("max_total_num_tokens=", "attention backend not specified", "sglang is using nccl")),
    ("", "compile", ("jit pre-compile session", "this can take up to several minutes", "it may take a long time")),
)
_CUES = (
    "max_total_num_tokens=", "attention backend", "using nccl", "begin", " end", "alloc", "server", "startup",
    "running on", "fired up", "pool", "pre-compile", "long time",
)  # fmt: skip
_UNITS = {"weights": "shards", "download": "files", "graphs": "batches"}


class Phases:
    """Where a start is. All attributes are plain values, so that they can be kept as JSON."""

    def __init__(self) -> None:
        self.phase = "process"
        self.since: float | None = None
        self.seconds: dict[str, float] = {}
        self.percent: int | None = None
        self.done = ""
        self.total = ""
        self.free_gb: float | None = None
        self.announced = False  # the server said that it is ready
        self.compiling = False  # it said that what comes now may take long
        self.address = ""  # where the server says that it listens
        self.line = ""  # the last line that told of progress
        self.steps = 0  # grows with every phase and every step of progress
        self._open: dict[str, list[str]] = {}  # mark -> ranks that began and have not ended
        self._captured: list[str] = []  # ranks that have ended their capture
        self._compiling_said = ""
        self._bars: dict[str, str] = {}
        self._counters = Counters()
        self._dull = Dull()

    @property
    def binds(self) -> bool:
        """Has the server come to the opening of its port?"""
        return _ORDER[self.phase] >= _ORDER["bind"]

    @property
    def over(self) -> bool:
        """Have all ranks that began the present phase ended it?"""
        return self.phase in ("distributed", "graphs") and self._open.get(self.phase) == []

    def capturing(self, rank: str) -> bool:
        """Is this rank (any, where it is not known) capturing graphs just now?"""
        return bool(self._open.get("graphs")) and rank not in self._captured

    def feed(self, now: float, entry: Entry) -> bool:
        """Take one line; True when it told of progress."""
        text = entry.text
        if "%" in text and "|" in text:
            found = _BAR.search(text)
            if found:
                return self._take_bar(now, entry, found)
        shape_of_line = bare(text)
        if shape_of_line in self._dull:
            return False
        lowered = text.lower()
        counted = self._counters.moved(shape_of_line, text, lowered) if _ORDER[self.phase] < _ORDER["ready"] else None
        if "server_args=" in lowered:
            self.steps += not self.steps
            return self.steps == 1
        if not has_any(lowered, _CUES):
            if counted is None:
                self._dull.add(shape_of_line)
            elif counted:
                self.line = text
                if self.phase == "process" and self._counters.fetches(lowered):
                    self._go(_moment(now, entry), "download")
            return bool(counted)
        moved = False
        for phase, what, words in _MARKS:
            if has_any(lowered, words):
                moved = self._take_mark(_moment(now, entry), phase, what, text) or moved
        if moved:
            self._moved(text)
        return moved

    def enter(self, now: float, phase: str) -> bool:
        """Go to a phase that something else than a line has shown, such as the open port; never back from a later one."""
        if _ORDER[phase] <= _ORDER[self.phase]:
            return False
        self._go(now, phase)
        self.steps += 1
        return True

    def _moved(self, text: str) -> None:
        self.steps += 1
        self.line = text
        free = _FREE.search(text)
        if free:
            self.free_gb = float(free.group(1)) if free.group(1).count(".") < 2 else None

    def _take_mark(self, when: float, phase: str, what: str, text: str) -> bool:
        rank = split(text)[0]
        if what == "step":
            return True
        if what == "compile":
            sentence = shape(text)  # said again it is no progress
            changed = not self.compiling or sentence != self._compiling_said
            self.compiling, self._compiling_said = True, sentence
            return changed
        if what == "announced":
            self.announced = True
        listens = _ADDRESS.search(text)
        self.address = listens.group(1) if listens else self.address
        ranks = self._open.setdefault(phase, [])
        if what == "end":
            if rank in ranks:
                ranks.remove(rank)
            if phase == "graphs" and len(self._captured) < _LABELS_KEPT:
                self._captured.append(rank)
            if phase == "weights" and not ranks and self.phase in ("weights", "download"):
                self._go(when, "kv_cache")
            if not ranks:
                self.compiling = False
            return True
        if what == "begin" and phase in ("distributed", "weights", "graphs") and rank not in ranks and len(ranks) < _LABELS_KEPT:
            ranks.append(rank)
            self._captured = [item for item in self._captured if phase != "graphs" or item != rank]
        if self.phase != phase and not (_ORDER[self.phase] >= _ORDER["bind"] and _ORDER[phase] < _ORDER[self.phase]):
            self._go(when, phase)
        return True

    def _take_bar(self, now: float, entry: Entry, found: re.Match) -> bool:
        label = _BRACKETS.sub("", entry.text[: found.start()])[-80:].strip(" :")
        value = f"{found['percent']} {found['done']}"
        if self._bars.get(label) == value:
            return False
        if len(self._bars) >= _LABELS_KEPT:
            self._bars.clear()
        self._bars[label] = value
        phase = _bar_phase(label)
        if phase and _ORDER[self.phase] < _ORDER["bind"] and phase != self.phase:
            self._go(_moment(now, entry), phase)
        self.percent = min(int(found["percent"]), 100)
        self.done, self.total = found["done"].strip(), found["total"].strip()
        self._moved(entry.text)
        return True

    def _go(self, when: float, phase: str) -> None:
        if self.since is not None:
            spent = max(when - self.since, 0.0)
            self.seconds[self.phase] = round(self.seconds.get(self.phase, 0.0) + spent, 3)
        self.since = when if self.since is None else max(when, self.since)
        self.phase = phase
        self.percent = None
        self.done = self.total = ""
        self.compiling = False

    def start(self, now: float) -> None:
        if self.since is None:
            self.since = now

    def finish(self, now: float) -> None:
        """The start is over: account for the phase it was in, and be ready."""
        self._go(now, "ready")

    def text(self) -> str:
        """One short line for a person: "weights 62 % (41 of 66 shards), 74 GB free"."""
        parts = [self.phase]
        if self.percent is not None:
            parts.append(f" {self.percent} %")
            if self.done and self.total and "B" not in self.total and not self.total.endswith(("k", "M", "G", "T")):
                parts.append(f" ({self.done} of {self.total} {_UNITS.get(self.phase, 'steps')})")
            elif self.done and self.total:
                parts.append(f" ({self.done} of {self.total})")
        if self.free_gb is not None and self.phase in ("weights", "kv_cache", "graphs"):
            parts.append(f", {self.free_gb:.0f} GB free")
        return "".join(parts)

    def dump(self) -> dict[str, Any]:
        return {**{name: value for name, value in vars(self).items() if name != "_dull"}, "_counters": self._counters.dump()}

    def restore(self, state: dict[str, Any]) -> None:
        self._counters.restore(state["_counters"])
        vars(self).update({name: value for name, value in state.items() if name != "_counters"})


def _moment(now: float, entry: Entry) -> float:
    """When the line was written, on the clock of ``now``: a backlog that is read late must not look like slow phases."""
    written = entry.monotonic_us / 1e6
    return written if 0 < written <= now else now


def _bar_phase(label: str) -> str:
    lowered = label.lower()
    if "shard" in lowered or "loading" in lowered and "weight" in lowered:
        return "weights"
    if "captur" in lowered:
        return "graphs"
    if "fetching" in lowered or "download" in lowered or lowered.endswith((".safetensors", ".bin", ".json", ".model", ".gguf")):
        return "download"
    return ""
