# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sweep: checks, warm-up, and a point for each concurrency, repeated until its rate is known well enough."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from . import precheck, rules
from .connection import Target
from .control import Control, cached_tokens
from .engine import Limits
from .points import Around, not_run, point, restarted
from .prompts import Prompts, Workload
from .stats import Pool, saturated
from .store import Store
from .tally import Slo, Tally
from .watch import Sample, Watcher
from .workers import Run, load, share

WARM_TOKENS = 16
WARM_FIRST = 32  # requests that a fresh server may still answer with kernels being built
WARM_MOST = 64
USUAL_SECONDS = 20.0


@dataclass
class Settings:
    """What to measure."""

    concurrency: list[int] = field(default_factory=lambda: [1])
    input_len: int = 1024
    num_prompts: int | None = None
    duration: float | None = None
    request_rate: float | None = None
    warmup_requests: int | None = None
    flush_cache: bool = False
    slo: Slo = field(default_factory=Slo)
    request_timeout: float = 600.0
    max_repeats: int = 5
    precision: float = 3.0
    processes: int = 0  # 0: one, and more when one cannot follow
    start_at: float | None = None  # epoch seconds
    histograms: bool = False
    full_length: bool = True


@dataclass
class Tools:
    """What the sweep looks with; all of it is given to it."""

    control: Control
    target: Target
    unit: Callable[[], "dict[str, Any] | None"]
    look: Callable[[float], Sample]
    tell: Callable[[dict[str, Any]], bool]
    blame: Callable[[dict[str, Any]], "tuple[str, str]"]  # a life of the unit that ended -> code and journal line


class Stopped(Exception):
    """Nobody waits for this sweep any more."""


class Sweep:
    """One sweep over one server."""

    def __init__(self, settings: Settings, workload: Workload, tools: Tools, store: Store) -> None:
        self.settings, self.workload, self.tools, self.store = settings, workload, tools, store
        self.ground = precheck.Ground()
        self.processes = max(settings.processes, 1)
        self.most_processes = settings.processes or len(os.sched_getaffinity(0))
        self.points: list[dict[str, Any]] = []
        self.spent: list[float] = []
        self.warm = False
        self.lost = ""

    # ---------------------------------------------------------------- the whole of it
    def check(self) -> precheck.Ground:
        """Everything that can be wrong before load is sent; raises Trouble."""
        self._tell("checks", 0)
        generator = random.Random(self.workload.seed)
        self.ground = precheck.check(self.tools.control, self.workload, self.settings.input_len, generator)
        return self.ground

    def run(self) -> list[dict[str, Any]]:
        """All points, in the order they were asked for."""
        for number, concurrency in enumerate(self.settings.concurrency):
            kept = self.store.get(concurrency, self.settings.request_rate)
            if kept is not None:
                self.points.append(kept)
            elif self.lost:
                self.points.append(not_run(concurrency, self.settings.request_rate, self.lost))
            else:
                began = time.monotonic()
                made = self._measure(concurrency, number)
                self.spent.append(time.monotonic() - began)
                self.points.append(made)
                self.store.put(made)
        return self.points

    def status(self) -> str:
        """The sweep in one word."""
        codes = {cause["code"] for one in self.points for cause in one["causes"]}
        valid = [one["status"] == "valid" for one in self.points]
        if "server_restarted" in codes:
            return "unstable"
        return "ok" if all(valid) else "partial" if any(valid) else "failed"

    def verdicts(self, gpus: dict[str, Any] | None) -> dict[str, Any]:
        """Status, the best points and advice."""
        return {"status": self.status(), "best": rules.best(self.points), "advice": rules.advise(self.points, self.ground.flags, gpus)}

    # ------------------------------------------------------------------------ a point
    def _measure(self, concurrency: int, number: int) -> dict[str, Any]:
        self._warm_up(concurrency, number)
        around = Around(
            concurrency,
            self.settings.request_rate,
            self.settings.precision,
            template_tokens=self.ground.template_tokens,
            prefix_wanted=self.workload.prefix_words > 0,
        )
        if self.settings.flush_cache:
            around.flush_trouble = self.tools.control.flush_cache()
        around.unit_before = self.tools.unit()
        if around.unit_before is None:
            around.start_before = self.tools.control.server_info()["start"]
        before = self.tools.control.metrics()
        watcher = Watcher(self.tools.look)
        watcher.start()
        try:
            pool, firsts = self._repeat(concurrency, number, around)
        finally:
            around.samples = watcher.stop()
        around.processes = self.processes
        self._look_after(around, before)
        made = point(pool, around)
        if self.settings.histograms:
            made["histograms"] = dict(pool.whole.dump_histograms(), started_at=firsts[0], ended_at=firsts[1], start_at=self.settings.start_at)
        return made

    def _look_after(self, around: Around, before: dict[str, float]) -> None:
        around.unit_after = self.tools.unit()
        if around.unit_before is None:
            around.start_after = self.tools.control.server_info()["start"]
        life = restarted(around)
        if life:
            self.lost = "%s at concurrency %d; later points would be of another life of the server" % (life, around.concurrency)
            if around.unit_before:
                around.restart_code, around.restart_line = self.tools.blame(around.unit_before)
            return
        around.cached = cached_tokens(before, self.tools.control.metrics())

    def _repeat(self, concurrency: int, number: int, around: Around) -> tuple[Pool, tuple[float, float]]:
        """Runs until the interval is narrow enough; a run that the client spoilt is done again by more processes."""
        pool = Pool(concurrency)
        wall = time.time() - time.monotonic()
        started, ended, turn = 0.0, 0.0, 0
        while True:
            turn += 1
            if turn > 1 and self.settings.flush_cache:
                around.flush_trouble = self.tools.control.flush_cache() or around.flush_trouble
            tally = self._load(concurrency, "run %d of %d" % (concurrency, turn), number, around, len(pool.rates) + 1)
            if saturated(tally) and tally.completed and self.processes < min(self.most_processes, concurrency):
                self.processes = min(self.processes * 2, self.most_processes, concurrency)
                continue
            pool.add(tally)
            started = started or tally.started + wall
            ended = tally.last_token + wall
            if self._enough(pool, tally):
                around.stopped = around.stopped or tally.aborted
                return pool, (started, ended)

    def _enough(self, pool: Pool, tally: Tally) -> bool:
        if tally.aborted or tally.failed or not tally.completed or len(pool.rates) >= self.settings.max_repeats:
            return True
        half, _from = pool.interval()
        return len(pool.rates) > 1 and half is not None and half <= self.settings.precision / 100 * pool.rate

    def _load(self, concurrency: int, label: str, number: int, around: Around, repeat: int) -> Tally:
        settings = self.settings
        limits = Limits(concurrency, request_timeout=settings.request_timeout, give_up_after=max(20, 2 * concurrency))
        total = settings.num_prompts
        if total is not None and settings.request_rate is None:
            total = max(total, concurrency)
        if settings.duration is not None:
            limits.until = settings.duration
        elif total is None:
            limits.until, limits.at_least = USUAL_SECONDS, max(2 * concurrency, 8)
        run = Run(self.tools.target, Prompts(self.workload, label).source(total), limits, self.processes, settings.slo, settings.full_length)
        if settings.request_rate is not None:
            run.arrivals = poisson(settings.request_rate, total, "%d %s" % (self.workload.seed, label))
        if settings.start_at is not None:
            run.start_at = time.monotonic() + settings.start_at - time.time()
        began = time.monotonic()
        pid = around.unit_before["main_pid"] if around.unit_before else 0

        def on_progress(counts: dict[str, int]) -> bool:
            if pid and not os.path.exists("/proc/%d" % pid):
                around.stopped = "the server's process %d is gone" % pid
                return False
            return self._tell("run", number, concurrency, repeat, counts, time.monotonic() - began, total, limits.until)

        return load(run, on_progress)

    # ------------------------------------------------------------------------ warm-up
    def _warm_up(self, concurrency: int, number: int) -> None:
        wanted = self.settings.warmup_requests
        if wanted is None and not self.warm:
            self._warm(min(WARM_FIRST, max(self.settings.concurrency)), WARM_FIRST, "first", lambda counts: self._tell("warm-up of the server", number))
        self.warm = True
        requests = min(max(concurrency, 2), WARM_MOST) if wanted is None else wanted
        if requests:
            self._warm(min(concurrency, requests), requests, "before %d" % concurrency, lambda counts: self._tell("warm-up", number, concurrency))

    def _warm(self, concurrency: int, requests: int, label: str, tell: Callable[[dict[str, int]], bool]) -> None:
        prompts = Prompts(replace(self.workload), "warm-up " + label, at_most=WARM_TOKENS)
        limits = Limits(concurrency, request_timeout=self.settings.request_timeout, give_up_after=max(8, concurrency))
        load(Run(self.tools.target, prompts.source(requests), limits), tell)

    # ----------------------------------------------------------------------- progress
    def _tell(
        self,
        phase: str,
        number: int,
        concurrency: int = 0,
        repeat: int = 0,
        counts: Any = None,
        elapsed: float = 0.0,
        total: int | None = None,
        until: float | None = None,
    ) -> bool:
        """Say how far it is; stops everything when nobody listens."""
        counts = counts or {"completed": 0, "failed": 0, "tokens": 0}
        done = counts["completed"] + counts["failed"]
        left = None
        if until is not None and not total:
            left = max(until - elapsed, 0.0)
        elif total and done:
            left = elapsed * (total - done) / done
        if not self.tools.tell(
            {
                "phase": phase,
                "point": number + 1,
                "points": len(self.settings.concurrency),
                "concurrency": concurrency,
                "repeat": repeat,
                "completed": counts["completed"],
                "failed": counts["failed"],
                "asked": total,
                "elapsed": round(elapsed, 1),
                "tok_s": round(counts["tokens"] / elapsed, 1) if elapsed else None,
                "left_s": None if left is None else round(left),
                "finished": [brief(one) for one in self.points],
                "sweep_left_s": (
                    round((len(self.settings.concurrency) - number - 1) * sum(self.spent) / len(self.spent) + (left or 0)) if self.spent else None
                ),
            }
        ):
            raise Stopped()
        return True


def brief(point: dict[str, Any]) -> dict[str, Any]:
    """What a line of progress needs of a finished point."""
    told = {name: point[name] for name in ("concurrency", "status", "causes", "output_tok_s", "output_tok_s_ci95")}
    return dict(told, ttft_ms={"p50": point["ttft_ms"]["p50"]}, itl_ms={"p50": point["itl_ms"]["p50"]})


def poisson(rate: float, total: int | None, seed: str) -> Callable[[int, int], Any]:
    """Arrival times of a Poisson process, split over the load processes."""

    def of_process(process: int, processes: int) -> Any:
        generator = random.Random("%s %d" % (seed, process))
        moment, left = 0.0, None if total is None else share(total, process, processes)
        while left is None or left > 0:
            moment += generator.expovariate(rate / processes)
            left = None if left is None else left - 1
            yield moment

    return of_process
