# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A histogram of durations that keeps 0.1 % resolution, adds up across processes and machines, and travels as JSON."""

from __future__ import annotations

from math import frexp, ldexp
from typing import Any, Iterable

SCALE = 1024  # an octave has 512 bins, so a bin is 0.2 % wide and its middle is at most 0.1 % off


class Histogram:
    """Durations in seconds; mean and extremes are exact, quantiles are those of the bins."""

    __slots__ = ("bins", "count", "total", "low", "high")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.low = float("inf")
        self.high = 0.0

    def add(self, values: Iterable[float], times: int = 1) -> None:
        """Add each value, ``times`` times over."""
        bins = self.bins
        count, total, low, high = 0, 0.0, self.low, self.high
        for value in values:
            if value < 0.0:
                value = 0.0
            mantissa, exponent = frexp(value)
            key = exponent * SCALE + int(mantissa * SCALE)
            bins[key] = bins.get(key, 0) + times
            count += 1
            total += value
            if value > high:
                high = value
            if value < low:
                low = value
        self.count += count * times
        self.total += total * times
        self.low, self.high = low, high

    def merge(self, other: Histogram) -> None:
        """Add what another histogram holds."""
        for key, number in other.bins.items():
            self.bins[key] = self.bins.get(key, 0) + number
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    @staticmethod
    def _middle(key: int) -> float:
        exponent, mantissa = divmod(key, SCALE)
        if not mantissa:
            return 0.0
        return ldexp((mantissa + 0.5) / SCALE, exponent)

    def quantile(self, share: float) -> float | None:
        """The value below which ``share`` of all values lie; ``None`` when there are no values."""
        if not self.count:
            return None
        wanted = min(int(share * self.count), self.count - 1)
        seen = 0
        for value, number in sorted((self._middle(key), number) for key, number in self.bins.items()):
            seen += number
            if seen > wanted:
                return min(max(value, self.low), self.high)
        return self.high

    def mean(self) -> float | None:
        """The exact mean."""
        return self.total / self.count if self.count else None

    def summary(self) -> dict[str, float | None]:
        """Mean, quantiles and maximum in milliseconds."""
        figures = {"mean": self.mean(), "p50": self.quantile(0.5), "p90": self.quantile(0.9), "p99": self.quantile(0.99)}
        figures["max"] = self.high if self.count else None
        return {name: None if value is None else round(value * 1e3, 3) for name, value in figures.items()}

    def dump(self) -> dict[str, Any]:
        """All of it, as JSON-able data."""
        bins = sorted(self.bins.items())
        return {
            "scale": SCALE,
            "count": self.count,
            "total": self.total,
            "low": self.low if self.count else None,
            "high": self.high,
            "bins": [list(pair) for pair in bins],
        }

    @classmethod
    def load(cls, data: dict[str, Any]) -> Histogram:
        """The histogram that ``dump`` gave."""
        if data["scale"] != SCALE:
            raise ValueError("a histogram of scale %s does not merge with one of scale %d" % (data["scale"], SCALE))
        made = cls()
        made.bins = {int(key): int(number) for key, number in data["bins"]}
        made.count, made.total, made.high = data["count"], data["total"], data["high"]
        made.low = float("inf") if data["low"] is None else data["low"]
        return made
