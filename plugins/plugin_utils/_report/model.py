# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain records a report is made of: points, rows (a strategy on a host or on many) and tables (comparable rows)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MEASURED = "measured"
UNSTABLE = "unstable"  # the server restarted while it was measured: shown, never ranked
FAILED = "failed"
NOT_RUN = "not run"  # something outside the strategy kept it from being tried
ASSUMED_NOISE = 0.03  # of the value, where a measurement came without an interval


@dataclass(frozen=True)
class Point:
    """One measurement at one concurrency."""

    concurrency: int
    tok_s: float = 0.0  # output tokens a second
    half_width: float | None = None  # of the 95 % interval of tok_s
    valid: bool = True
    reasons: tuple[str, ...] = ()  # why it is not valid
    total_tok_s: float | None = None
    requests_s: float | None = None
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)  # ttft, tpot, itl, e2e -> mean, p50, p90, p99
    good_share: float | None = None  # share of requests inside the SLO
    power_w: float | None = None  # all GPUs of the deployment, mean over the point
    gpu_util: float | None = None  # percent, mean over GPUs
    notes: tuple[str, ...] = ()

    @property
    def noise(self) -> float:
        """Half of the interval in tok/s, assumed where it was not measured."""
        return self.tok_s * ASSUMED_NOISE if self.half_width is None else self.half_width

    def ms(self, kind: str, which: str) -> float | None:
        """One latency figure, for instance ``ms("ttft", "p99")``."""
        return self.latency_ms.get(kind, {}).get(which)


@dataclass(frozen=True)
class Hardware:
    """What makes two hosts comparable."""

    gpu_name: str = ""
    gpu_count: int = 0
    power_limit_w: float | None = None  # of one GPU

    @property
    def title(self) -> str:
        """The words a table is headed with."""
        if not self.gpu_name:
            return "hardware not known"
        limit = f", {self.power_limit_w:.0f} W each" if self.power_limit_w else ""
        return f"{self.gpu_count} × {self.gpu_name}{limit}"


@dataclass(frozen=True)
class Workload:
    """What was asked of the server; figures of two workloads are not comparable."""

    model: str = ""
    input_len: int | None = None
    output_len: int | None = None
    arrival: str = ""  # "closed loop", or the rate of an open one
    slo_ms: tuple[tuple[str, float], ...] = ()

    @property
    def title(self) -> str:
        """The words a table is headed with."""
        words = [self.model or "model not known"]
        if self.input_len and self.output_len:
            words.append(f"{self.input_len} in / {self.output_len} out tokens")
        if self.arrival:
            words.append(self.arrival)
        return ", ".join(words)


@dataclass
class Row:
    """One strategy: on one host as gathered, or on several of the same hardware once joined."""

    strategy: str
    host: str = ""
    hosts: list[str] = field(default_factory=list)
    deployment: str = ""
    version: str = ""
    leg: int = 0  # place in the campaign, 0 where there was none
    repeat: bool = False  # the first strategy once more, to see drift
    status: str = MEASURED
    points: list[Point] = field(default_factory=list)
    load_s: float | None = None
    load_phases: dict[str, float] = field(default_factory=dict)
    cause: dict[str, Any] = field(default_factory=dict)  # code, summary, line, rank, hint
    hardware: Hardware = field(default_factory=Hardware)
    workload: Workload = field(default_factory=Workload)
    notes: list[str] = field(default_factory=list)

    @property
    def valid_points(self) -> list[Point]:
        """The points that may be ranked."""
        return [point for point in self.points if point.valid]

    @property
    def rankable(self) -> bool:
        """May this row win anything."""
        return self.status == MEASURED and not self.repeat and bool(self.valid_points)

    def at(self, concurrency: int) -> Point | None:
        """The point measured at a concurrency, valid or not."""
        return next((point for point in self.points if point.concurrency == concurrency), None)

    @property
    def peak(self) -> Point | None:
        """The valid point of the highest output rate."""
        return max(self.valid_points, key=lambda point: point.tok_s, default=None)

    @property
    def peak_tok_s_per_w(self) -> float | None:
        """Output tokens a second and watt, where the rate is highest."""
        return self.peak.tok_s / self.peak.power_w if self.peak and self.peak.power_w else None


@dataclass
class Table:
    """Rows that may be compared with each other: same hardware, same workload."""

    hardware: Hardware
    workload: Workload
    rows: list[Row] = field(default_factory=list)
    standings: dict[str, Any] = field(default_factory=dict)  # goal -> ranking.Standing
    drift: float | None = None  # relative change of the repeated strategy from first to last
    notes: list[str] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)  # previous.Change

    @property
    def hosts(self) -> list[str]:
        """Every host that has a row here, in order of first sight."""
        return list(dict.fromkeys(host for row in self.rows for host in row.hosts))

    @property
    def concurrencies(self) -> list[int]:
        """Every concurrency that was measured, rising."""
        return sorted({point.concurrency for row in self.rows for point in row.points})


@dataclass
class Report:
    """Everything that is shown and written."""

    generated: str  # ISO 8601
    goal: str
    tables: list[Table] = field(default_factory=list)
    previous: str = ""  # where the past figures came from
    notes: list[str] = field(default_factory=list)
