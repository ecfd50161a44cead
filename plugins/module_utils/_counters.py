# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells by lines of any program that its work goes on: a counter that grows, or one kernel after another that is compiled."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import has_any, split

_KEPT = 1024
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_COUNTER = re.compile(
    r"(?<![\w.])(?P<percent>\d{1,3}(?:\.\d+)?) ?%|(?<![\w./:])(?P<done>\d[\d.,]*) ?(?P<unit>[kmgt]?)i?b? ?(?:/|of) ?\d"
    r"|(?<![\w.:])(?P<size>\d[\d.,]*) ?(?P<scale>[kmgt])(?:i?b)?\b(?!/s)"
)
_WORK = (
    "compil",
    "jit",
    "building",
    "copying",
    "download",
    "inflating",
    "extract",
    "pull complete",
    "loading weights from",
    "autotun",
    "tuned latency",
    "with key as",
    ".safetensors",
    ".gguf",
    "s3://",
    "gs://",
)
_FETCH = ("download", "s3://", "gs://", " dl:", "transferred:", "to-chk=", "b/s")
_IDLE = ("error", "fatal", "mem=", "used", "usage", "util", "avail", "wait", "retry", "attempt", "elapsed", "still", "timeout", "timed out", "heartbeat")
_CLOCK = re.compile(r"\d\d\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*|\d\d:\d\d:\d\d[.,\d]*")


class Counters:
    """Remembers how far each kind of line has counted; all state is plain, so that it can be kept as JSON."""

    def __init__(self) -> None:
        self.highest: dict[str, list[float]] = {}  # a line without its digits -> the highest value in each place
        self.made: list[str] = []  # lines that told of a piece of work

    def moved(self, shape: str, text: str, lowered: str) -> bool | None:
        """Does the line tell of more than was known? None when no line of its shape can."""
        works = has_any(lowered, _WORK)
        values = [_value(found) for found in _COUNTER.finditer(lowered)]
        if not (works or values) or has_any(lowered, _IDLE):
            return None
        return self._grown(shape, values) or works and self._is_new(_CLOCK.sub("", split(text)[1]))

    def fetches(self, lowered: str) -> bool:
        """Is the line one of a program that brings files?"""
        return has_any(lowered, _FETCH)

    def _grown(self, shape: str, values: list[float]) -> bool:
        known = self.highest.get(shape)
        if known is None or len(known) != len(values):
            if len(self.highest) >= _KEPT:
                self.highest.clear()
            self.highest[shape] = values
            return False  # where a count begins says nothing yet
        grown = any(value > before for value, before in zip(values, known))
        self.highest[shape] = [max(pair) for pair in zip(values, known)]
        return grown

    def _is_new(self, body: str) -> bool:
        if body in self.made:
            return False
        self.made = [*self.made[-_KEPT:], body]
        return True

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _value(found: re.Match) -> float:
    digits = (found["percent"] or found["done"] or found["size"]).replace(",", "").rstrip(".")
    try:
        return float(digits) * _UNITS[found["unit"] or found["scale"] or ""]
    except ValueError:
        return 0.0
