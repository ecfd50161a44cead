# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at GPUs, server and unit once a second while the load runs, from a process of its own."""

from __future__ import annotations

import os
import pickle
import select
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable

GPU_FIELDS = ("index", "name", "utilization.gpu", "power.draw", "power.limit", "memory.used", "clocks.sm", "clocks.max.sm", "driver_version")
_LINKS = ("NV", "XGMI")


@dataclass
class Sample:
    """One look; the parts that could not be had are left empty."""

    at: float
    gpus: list[dict[str, Any]] = field(default_factory=list)
    server: dict[str, float] | None = None
    unit: dict[str, Any] | None = None


def number(cell: str) -> float | None:
    """A cell of nvidia-smi; ``None`` where it says [N/A]."""
    try:
        return float(cell)
    except ValueError:
        return None


def parse_gpus(text: str, wanted: Iterable[Any] = ()) -> list[dict[str, Any]]:
    """One mapping a GPU, of the wanted indexes or of all."""
    names = {str(one) for one in wanted}
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(GPU_FIELDS) or not cells[0].isdigit() or (names and cells[0] not in names):
            continue
        util, power, limit, memory, clock, fastest = map(number, cells[2:8])
        rows.append(
            {
                "index": int(cells[0]),
                "name": cells[1],
                "util": util,
                "power_w": power,
                "power_limit_w": limit,
                "memory_mib": memory,
                "clock_mhz": clock,
                "clock_max_mhz": fastest,
                "driver": cells[8],
            }
        )
    return rows


def has_fast_links(topology: str) -> bool | None:
    """Whether ``nvidia-smi topo -m`` shows a link other than PCIe between GPUs; ``None`` when it shows no pair."""
    rows = [line.split() for line in topology.splitlines() if line.startswith("GPU")]
    links = {cell for row in rows for cell in row[1 : 1 + len(rows)] if cell != "X" and not cell.startswith("GPU")}
    return any(link.startswith(_LINKS) for link in links) if links else None


def mean(values: Iterable[Any]) -> float | None:
    """The mean of those that are there."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def rounded(value: float | None, digits: int = 1) -> float | None:
    """Rounded, if there is one."""
    return None if value is None else round(value, digits)


def gpu_summary(samples: list[Sample]) -> dict[str, Any] | None:
    """Means over the run; power and memory are sums over the GPUs."""
    looks = [sample.gpus for sample in samples if sample.gpus]
    if not looks:
        return None
    per_gpu = []
    for index in sorted({gpu["index"] for look in looks for gpu in look}):
        own = [gpu for look in looks for gpu in look if gpu["index"] == index]
        per_gpu.append(
            {
                "index": index,
                **{
                    name: rounded(mean(gpu[name] for gpu in own))
                    for name in ("util", "power_w", "memory_mib", "clock_mhz", "clock_max_mhz", "power_limit_w")
                },
            }
        )

    def total(name: str) -> float | None:
        values = [gpu[name] for gpu in per_gpu if gpu[name] is not None]
        return round(sum(values), 1) if values else None

    flat = [gpu for look in looks for gpu in look]
    slowed = [gpu["power_w"] >= 0.97 * gpu["power_limit_w"] for gpu in flat if gpu["power_w"] and gpu["power_limit_w"]]
    return {
        "util": rounded(mean(gpu["util"] for gpu in per_gpu)),
        "power_w": total("power_w"),
        "power_limit_w": total("power_limit_w"),
        "memory_mib": total("memory_mib"),
        "clock_mhz": rounded(mean(gpu["clock_mhz"] for gpu in per_gpu)),
        "clock_max_mhz": rounded(mean(gpu["clock_max_mhz"] for gpu in per_gpu)),
        "throttled": rounded(mean(slowed), 3),
        "samples": len(looks),
        "per_gpu": per_gpu,
    }


def server_summary(samples: list[Sample], cached: float | None) -> dict[str, Any] | None:
    """Means and peaks of what the server said of itself."""
    looks = [sample.server for sample in samples if sample.server]
    if not looks:
        return None

    def peak(name: str) -> float:
        return max(look.get(name) or 0 for look in looks)

    return {
        "running": rounded(mean(look.get("running") for look in looks)),
        "running_max": peak("running"),
        "waiting": rounded(mean(look.get("waiting") for look in looks)),
        "waiting_max": peak("waiting"),
        "token_usage": rounded(mean(look.get("token_usage") for look in looks), 3),
        "token_usage_max": round(peak("token_usage"), 3),
        "cache_hit_rate": rounded(cached if cached is not None else mean(look.get("cache_hit_rate") for look in looks), 4),
        "max_running_requests": int(peak("max_running_requests")) or None,
        "samples": len(looks),
    }


class Watcher:
    """Takes samples in a child process from ``start`` to ``stop``; what it looks with is given to it."""

    def __init__(self, look: Callable[[float], Sample], interval: float = 1.0) -> None:
        self.look = look
        self.interval = interval
        self.pid = 0
        self.stopper = self.pipe = -1

    def start(self) -> None:
        """Begin to look."""
        read, write = os.pipe()
        quiet, self.stopper = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(write)
            os.close(quiet)
            self.pipe = read
            return
        try:
            os.close(read)
            os.close(self.stopper)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(self._samples(quiet), pipe, pickle.HIGHEST_PROTOCOL)
        finally:
            os._exit(0)

    def _samples(self, quiet: int) -> list[Sample]:
        samples = []
        due = time.monotonic() + min(0.5, self.interval)
        while not select.select([quiet], [], [], max(due - time.monotonic(), 0.0))[0]:
            samples.append(self.look(time.monotonic()))
            due = max(due + self.interval, time.monotonic())
        return samples

    def stop(self) -> list[Sample]:
        """End it and take what it saw."""
        os.write(self.stopper, b".")
        os.close(self.stopper)
        with os.fdopen(self.pipe, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self.pid, 0)
        return pickle.loads(data) if data else []
