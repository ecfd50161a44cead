# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates, the steady window and the interval of confidence of load runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, sqrt
from typing import Any

from .tally import BUCKET, Tally

# Two-sided 95 % quantiles of Student's t by degrees of freedom.
_T95 = (0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
SLICES = 8
SHORTEST_WINDOW = 1.0  # seconds
LATE = 0.005  # seconds; a read that is less late than this hardly matters to anybody


def half_width(values: list[float]) -> float | None:
    """Half of the 95 % interval of the mean; ``None`` from a single value."""
    count = len(values)
    if count < 2:
        return None
    mean = sum(values) / count
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    quantile = _T95[count - 1] if count <= len(_T95) else 1.96 + 2.5 / (count - 1)
    return quantile * deviation / sqrt(count)


def quantile(values: Any, share: float) -> float | None:
    """Nearest-rank quantile of raw values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def window(tally: Tally, concurrency: int) -> tuple[float, float] | None:
    """Seconds after the start between which all slots were busy: from the last first token of the first wave to the last send."""
    if not tally.sent:
        return None
    wave = sorted(zip(tally.sent, tally.first))[:concurrency]
    begin = max(first for _sent, first in wave) - tally.started
    end = tally.last_sent - tally.started
    return (begin, end) if end - begin >= SHORTEST_WINDOW else None


def tokens_between(tally: Tally, begin: float, end: float) -> tuple[float, float]:
    """Tokens and seconds of the whole buckets between two moments."""
    first, behind = ceil(begin / BUCKET), floor(end / BUCKET)
    return sum(number for bucket, number in tally.timeline.items() if first <= bucket < behind), (behind - first) * BUCKET


@dataclass
class Pool:
    """The runs that make one point."""

    concurrency: int
    whole: Tally = field(default_factory=Tally)
    rates: list[float] = field(default_factory=list)
    duration: float = 0.0
    steady_rates: list[dict[str, float]] = field(default_factory=list)
    slices: list[float] = field(default_factory=list)

    def add(self, tally: Tally) -> None:
        """Take one run."""
        if tally.completed:
            self.rates.append(tally.output_tokens / tally.duration if tally.duration else 0.0)
            self.duration += tally.duration
        bounds = window(tally, self.concurrency)
        if bounds:
            self._steady(tally, *bounds)
        if not self.whole.asked and not self.whole.slo:
            self.whole.slo = tally.slo
        self.whole.join(tally)

    def _steady(self, tally: Tally, begin: float, end: float) -> None:
        tokens, seconds = tokens_between(tally, begin, end)
        ended = sum(1 for last in tally.last if begin <= last - tally.started < end)
        self.steady_rates.append({"from_s": begin, "to_s": end, "output_tok_s": tokens / seconds, "requests_s": ended / (end - begin)})
        width = (end - begin) / SLICES
        if width >= 4 * BUCKET:
            parts = [tokens_between(tally, begin + part * width, begin + (part + 1) * width) for part in range(SLICES)]
            self.slices = [tokens / seconds for tokens, seconds in parts]

    @property
    def rate(self) -> float | None:
        """Output tokens a second over all runs."""
        return self.whole.output_tokens / self.duration if self.duration else None

    def interval(self) -> tuple[float | None, str]:
        """Half-width of the 95 % interval of the rate, and what it comes from."""
        if len(self.rates) > 1:
            return half_width(self.rates), "repeats"
        return half_width(self.slices), "slices"

    def steady(self) -> dict[str, float] | None:
        """The steady figures, averaged over the runs."""
        if not self.steady_rates:
            return None
        return {name: round(sum(one[name] for one in self.steady_rates) / len(self.steady_rates), 3) for name in self.steady_rates[0]}


def saturated(tally: Tally) -> str:
    """Why the client, not the server, set the pace; "" when it did not."""
    if tally.cpu_share > 0.92:
        return "a load process used %d %% of its core" % round(100 * tally.cpu_share)
    late, token = quantile(tally.lateness, 0.5), tally.itl().quantile(0.5)
    if late is not None and late > max(LATE, 0.25 * (token or 0.0)):
        return "every other read came %.1f ms late or more, with %.1f ms between tokens" % (late * 1e3, (token or 0.0) * 1e3)
    return ""


def late(tally: Tally) -> bool:
    """Did enough reads come late to blur the high quantiles of the latencies, though not the rate?"""
    some, token = quantile(tally.lateness, 0.9), tally.itl().quantile(0.5)
    return some is not None and some > max(LATE, 0.5 * (token or 0.0))
