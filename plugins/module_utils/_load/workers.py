# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the load in one or more processes of its own and gathers their tallies."""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import select
import struct
import time
import traceback
from dataclasses import dataclass, replace
from typing import Any, Callable

from .connection import Target
from .engine import Engine, Limits
from .tally import Slo, Tally

_CELL = struct.Struct("qqqq")  # sent, completed, failed, tokens of one process
_STOP = struct.Struct("q")


class LoadFailed(RuntimeError):
    """A load process died of something that is not the server's doing."""


@dataclass
class Run:
    """One run of load."""

    target: Target
    source: Callable[[int, int], Callable[[], Any]]  # (process, processes) -> source of that process
    limits: Limits
    processes: int = 1
    slo: Slo = None
    full_length: bool = True
    arrivals: Callable[[int, int], Any] | None = None  # likewise, for an open loop
    start_at: float = 0.0  # monotonic; 0 for as soon as all are connected


class Shared:
    """A few counters which the load processes write and their parent reads while they run."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.memory = mmap.mmap(-1, _STOP.size + _CELL.size * processes)

    def write(self, process: int, engine: Engine) -> bool:
        """Note how far a process is; False when it is to stop."""
        tally = engine.tally
        tokens = tally.output_tokens + engine.reads_under_way()
        _CELL.pack_into(self.memory, _STOP.size + _CELL.size * process, engine.sent, tally.completed, tally.failed, tokens)
        return not _STOP.unpack_from(self.memory, 0)[0]

    def stop(self) -> None:
        """Ask all processes to stop."""
        _STOP.pack_into(self.memory, 0, 1)

    def read(self) -> dict[str, int]:
        """The sums over all processes."""
        rows = [_CELL.unpack_from(self.memory, _STOP.size + _CELL.size * process) for process in range(self.processes)]
        return dict(zip(("sent", "completed", "failed", "tokens"), (sum(column) for column in zip(*rows))))


def share(total: int, process: int, processes: int) -> int:
    """The part of ``total`` that falls to one process."""
    return total // processes + (process < total % processes)


def load(run: Run, on_progress: Callable[[dict[str, int]], bool] | None = None, interval: float = 0.5) -> Tally:
    """Drive the run to its end; ``on_progress`` is called every ``interval`` seconds and stops it by giving back False."""
    processes = max(1, min(run.processes, run.limits.concurrency))
    shared = Shared(processes)
    go_read, go_write = os.pipe()
    children = []
    for process in range(processes):
        children.append(_fork(run, process, processes, shared, go_read, go_write, children))
    os.close(go_read)
    try:
        if _all_ready(children):
            start = max(run.start_at, time.monotonic() + 0.01)
            os.write(go_write, struct.pack("d", start) * processes)
        os.close(go_write)  # a child that was not told a start ends at once
        parts = _gather(children, shared, on_progress, interval)
    finally:
        shared.stop()
        for child in children:
            os.close(child["pipe"])
            os.waitpid(child["pid"], 0)
    whole = Tally(slo=run.slo or Slo(), full_length=run.full_length)
    for part in parts:
        if isinstance(part, str):
            raise LoadFailed(part)
        whole.join(part)
    return whole


def _fork(run: Run, process: int, processes: int, shared: Shared, go_read: int, go_write: int, elder: list[dict[str, Any]]) -> dict[str, Any]:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return {"pid": pid, "pipe": read, "data": bytearray(), "ready": False}
    code = 1
    try:
        os.close(read)
        os.close(go_write)
        for child in elder:
            os.close(child["pipe"])
        try:
            part: Any = _child(run, process, processes, shared, write, go_read)
        except Exception:  # the parent raises it again: nothing may be lost between the processes
            part = traceback.format_exc()
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(part, pipe, pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)


def _child(run: Run, process: int, processes: int, shared: Shared, ready: int, go_read: int) -> Tally:
    limits = replace(
        run.limits,
        concurrency=share(run.limits.concurrency, process, processes),
        at_least=share(run.limits.at_least, process, processes),
        give_up_after=-(-run.limits.give_up_after // processes),
    )
    tally = Tally(slo=run.slo or Slo(), full_length=run.full_length)
    arrivals = run.arrivals(process, processes) if run.arrivals else None
    engine = Engine(run.target, run.source(process, processes), limits, tally, arrivals)
    engine.prepare()
    os.write(ready, b"r")
    started = os.read(go_read, 8)
    if len(started) == 8:
        start = struct.unpack("d", started)[0]
        time.sleep(max(start - time.monotonic(), 0.0))
        engine.run(start, lambda state: shared.write(process, state))
        shared.write(process, engine)
    used = resource.getrusage(resource.RUSAGE_SELF)
    tally.cpu_s = used.ru_utime + used.ru_stime
    tally.rss_mb = used.ru_maxrss / 1024
    return tally


def _all_ready(children: list[dict[str, Any]]) -> bool:
    """Each child says ``r`` when it is connected; anything else is the start of its complaint."""
    for child in children:
        word = os.read(child["pipe"], 1)
        child["data"] += b"" if word == b"r" else word
        child["ready"] = word == b"r"
    return all(child["ready"] for child in children)


def _gather(children: list[dict[str, Any]], shared: Shared, on_progress: Any, interval: float) -> list[Any]:
    waiting = {child["pipe"]: child for child in children}
    told = time.monotonic()
    while waiting:
        ready, _write, _other = select.select(list(waiting), [], [], interval)
        for pipe in ready:
            piece = os.read(pipe, 1 << 20)
            if piece:
                waiting[pipe]["data"] += piece
            else:
                del waiting[pipe]
        if on_progress is not None and time.monotonic() - told >= interval:
            told = time.monotonic()
            if not on_progress(shared.read()):
                shared.stop()
    parts = []
    for child in children:
        if not child["data"]:
            raise LoadFailed("a load process was killed")
        parts.append(pickle.loads(bytes(child["data"])))
    return parts
