# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one load process saw in one run; tallies of processes and of repeats add up."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from .answer import Answer
from .histogram import Histogram

BUCKET = 0.05  # seconds of the token timeline
KINDS = ("ttft", "tpot", "e2e", "gap_plain", "gap_multi", "itl_multi", "send_delay")


@dataclass
class Slo:
    """Limits in seconds that a good request has to keep; ``None`` is no limit."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.ttft, self.tpot, self.e2e))

    def met(self, ttft: float, tpot: float, e2e: float) -> bool:
        """Does a request with these figures keep all limits?"""
        pairs = ((self.ttft, ttft), (self.tpot, tpot), (self.e2e, e2e))
        return all(limit is None or value <= limit for limit, value in pairs)


@dataclass
class Tally:
    """Counts, histograms and the timeline of tokens, all of good answers unless said otherwise."""

    slo: Slo = field(default_factory=Slo)
    full_length: bool = True  # was every answer to have as many tokens as asked?
    started: float = 0.0
    last_sent: float = 0.0
    last_token: float = 0.0
    completed: int = 0
    failed: int = 0
    short: int = 0
    estimated: int = 0
    slo_met: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    failed_tokens: int = 0
    chunks: int = 0
    continuous: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)  # the first message of each kind of error
    connect_errors: dict[str, int] = field(default_factory=dict)
    connect_s: float = 0.0
    histograms: dict[str, Histogram] = field(default_factory=lambda: {kind: Histogram() for kind in KINDS})
    timeline: dict[int, float] = field(default_factory=dict)  # bucket since the start -> tokens
    sent: array = field(default_factory=lambda: array("d"))  # per good answer
    first: array = field(default_factory=lambda: array("d"))
    last: array = field(default_factory=lambda: array("d"))
    lateness: array = field(default_factory=lambda: array("d"))
    cpu_share: float = 0.0
    cpu_s: float = 0.0
    rss_mb: float = 0.0
    aborted: str = ""

    def add(self, answer: Answer) -> None:
        """Count one answer that has ended."""
        if answer.error:
            self.failed += 1
            self.failed_tokens += answer.tokens_or_chunks()
            self.errors[answer.error] = self.errors.get(answer.error, 0) + 1
            self.details.setdefault(answer.error, answer.detail)
            return
        times, tokens = answer.times, answer.tokens_or_chunks()
        self.completed += 1
        self.output_tokens += tokens
        self.input_tokens += answer.prompt_tokens
        self.cached_tokens += answer.cached_tokens
        self.chunks += len(times)
        if not answer.tokens:
            self.estimated += 1
        if self.full_length and tokens < answer.asked:
            self.short += 1
        self.sent.append(answer.sent)
        self.first.append(times[0])
        self.last.append(times[-1])
        self.last_token = max(self.last_token, times[-1])
        self._latencies(answer, tokens)
        self._gaps(answer, tokens)

    def _latencies(self, answer: Answer, tokens: int) -> None:
        ttft = answer.times[0] - answer.due
        e2e = answer.times[-1] - answer.due
        tpot = (e2e - ttft) / (tokens - 1) if tokens > 1 else 0.0
        self.histograms["ttft"].add((ttft,))
        self.histograms["e2e"].add((e2e,))
        self.histograms["send_delay"].add((answer.sent - answer.due,))
        if tokens > 1:
            self.histograms["tpot"].add((tpot,))
        if self.slo and self.slo.met(ttft, tpot, e2e):
            self.slo_met += 1

    def _gaps(self, answer: Answer, tokens: int) -> None:
        """Gaps between chunks, and what they are per token."""
        times = answer.times
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        timeline, begin, rate = self.timeline, self.started, 1.0 / BUCKET
        if tokens == len(times):
            self.histograms["gap_plain"].add(gaps)
            for moment in times:
                bucket = int((moment - begin) * rate)
                timeline[bucket] = timeline.get(bucket, 0) + 1
            return
        self.histograms["gap_multi"].add(gaps)
        if len(answer.counts) == len(times):
            self.continuous += 1
            steps = [later - earlier for earlier, later in zip([0] + answer.counts, answer.counts)]
            itl = self.histograms["itl_multi"]
            for gap, step in zip(gaps, steps[1:]):
                if step > 0:
                    itl.add((gap / step,), step)
        else:
            share = max(tokens / len(times), 1.0)
            steps = [share] * len(times)
            self.histograms["itl_multi"].add([gap / share for gap in gaps], max(int(round(share)), 1))
        for moment, step in zip(times, steps):
            bucket = int((moment - begin) * rate)
            timeline[bucket] = timeline.get(bucket, 0) + step

    def join(self, other: Tally) -> None:
        """Add the tally of another process of the same run."""
        for name in (
            "completed",
            "failed",
            "short",
            "estimated",
            "slo_met",
            "input_tokens",
            "output_tokens",
            "cached_tokens",
            "failed_tokens",
            "chunks",
            "continuous",
            "cpu_s",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("last_sent", "last_token", "cpu_share", "rss_mb", "connect_s"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.started = min(self.started, other.started) if self.started else other.started
        for name in ("errors", "connect_errors"):
            mine = getattr(self, name)
            for kind, number in getattr(other, name).items():
                mine[kind] = mine.get(kind, 0) + number
        for kind, text in other.details.items():
            self.details.setdefault(kind, text)
        for kind, histogram in other.histograms.items():
            self.histograms[kind].merge(histogram)
        for bucket, tokens in other.timeline.items():
            self.timeline[bucket] = self.timeline.get(bucket, 0) + tokens
        for name in ("sent", "first", "last", "lateness"):
            getattr(self, name).extend(getattr(other, name))
        self.aborted = self.aborted or other.aborted

    @property
    def asked(self) -> int:
        """Requests sent."""
        return self.completed + self.failed

    @property
    def duration(self) -> float:
        """First send to last token, both of good answers."""
        return max(self.last_token - min(self.sent), 0.0) if self.sent else 0.0

    def itl(self) -> Histogram:
        """Gaps per token."""
        return self._sum("gap_plain", "itl_multi")

    def chunk_gap(self) -> Histogram:
        """Gaps as they came."""
        return self._sum("gap_plain", "gap_multi")

    def _sum(self, *kinds: str) -> Histogram:
        made = Histogram()
        for kind in kinds:
            made.merge(self.histograms[kind])
        return made

    def dump_histograms(self) -> dict[str, Any]:
        """The mergeable part, as JSON-able data."""
        found = {kind: self.histograms[kind].dump() for kind in ("ttft", "tpot", "e2e", "send_delay")}
        return dict(found, itl=self.itl().dump(), chunk_gap=self.chunk_gap().dump())
