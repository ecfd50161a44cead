# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sees that a load moves although its log is silent: what the unit's processes read and write."""

from __future__ import annotations

from typing import Callable

# Progress bars reach the journal only when their line ends, which may be the end of the load, half an hour later.
EVERY = 15.0  # seconds between two looks
ENOUGH = 32 * 1024 * 1024  # bytes between two looks; what idle processes do among themselves is far less
_COUNTED = ("rchar", "read_bytes", "write_bytes")


class Transfer:
    """Adds up what a changing set of processes has read and written."""

    def __init__(self, pids: Callable[[], list[int]], proc: str = "/proc") -> None:
        self.total = 0  # bytes read since the first look, by whichever counter saw more
        self._pids = pids
        self._proc = proc
        self._last: dict[int, dict[str, int]] = {}
        self._next = 0.0

    def moved(self, now: float) -> bool:
        """Whether enough went through since the last look for the load to be alive; False also when it is too early to look."""
        if now < self._next:
            return False
        self._next = now + EVERY
        current = {pid: counters for pid, counters in ((pid, self._read(pid)) for pid in self._pids()) if counters}
        grown = dict.fromkeys(_COUNTED, 0)
        for pid, counters in current.items():
            before = self._last.get(pid, {})
            for name in _COUNTED:
                grown[name] += max(counters[name] - before.get(name, 0 if self._last else counters[name]), 0)
        self._last = current
        self.total += max(grown["rchar"], grown["read_bytes"])
        return max(grown.values()) >= ENOUGH

    def _read(self, pid: int) -> dict[str, int]:
        try:
            with open("%s/%d/io" % (self._proc, pid), encoding="ascii") as handle:
                counters = dict(line.split(": ", 1) for line in handle.read().splitlines())
            return {name: int(counters[name]) for name in _COUNTED}
        except (OSError, KeyError, ValueError):
            return {}
