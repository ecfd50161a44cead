# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler of the stand-in: admission, prefill, decode steps, all paced by the speed model and the ring of ranks."""

from __future__ import annotations

import collections
import os
import random
import time

from sglang.standin import log
from sglang.standin.tokens import PrefixCache, count

PULSE_PATIENCE = 0.5  # seconds without an answer of the ring after which nothing is generated any more
PULSE_EVERY = 0.2
RETRY = 0.05


class Job:
    """One generation: what was asked, and how far it is."""

    def __init__(self, rid: str, prompt: str, prompt_tokens: int, max_new: int, emit):
        self.rid = rid
        self.prompt = prompt
        self.prompt_tokens = prompt_tokens
        self.max_new = max_new
        self.emit = emit  # called with the job for every token and once at the end
        self.log_metrics = True
        self.streaming = False
        self.produced = 0
        self.cached = 0
        self.end_word = "length"  # what ends it by itself
        self.finish_reason = None  # length, stop, abort
        self.received = time.monotonic()
        self.admitted_at = self.prefill_end = self.first_at = self.finished_at = 0.0
        self.pulse = 0

    @property
    def done(self) -> bool:
        """No more tokens will come."""
        return self.finish_reason is not None


class Ring:
    """Numbers sent through every rank and the detokenizer; what does not come back shows a dead one."""

    def __init__(self, loop, write_fd: int, read_fd: int):
        self.loop = loop
        self.write_fd, self.read_fd = write_fd, read_fd
        self.sent = self.back = 0
        self.sent_at = self.back_at = loop.now()
        self.buffer = b""
        self.on_back = None
        loop.selector.register(read_fd, 1, self._readable)

    def pulse(self) -> int:
        """Send the next number."""
        self.sent += 1
        if self.back == self.sent - 1:
            self.sent_at = self.loop.now()
        try:
            os.write(self.write_fd, b"%d\n" % self.sent)
        except OSError:
            pass
        return self.sent

    def _readable(self, events) -> None:
        try:
            data = self.buffer + os.read(self.read_fd, 65536)
        except OSError:
            return
        *numbers, self.buffer = data.split(b"\n")
        if numbers:
            self.back = int(numbers[-1])
            self.back_at = self.sent_at = self.loop.now()
            if self.on_back:
                self.on_back()
        elif not data:
            self.loop.selector.unregister(self.read_fd)

    def stalled(self) -> bool:
        """Is a number under way for too long?"""
        return self.back < self.sent and self.loop.now() - self.sent_at > PULSE_PATIENCE


class Engine:
    """Runs jobs."""

    def __init__(self, loop, layout, speed, ring, knobs):
        self.loop, self.layout, self.speed, self.ring, self.knobs = loop, layout, speed, ring, knobs
        ring.on_back = self._advance
        self.cache = PrefixCache(not layout.args.disable_radix_cache)
        self.waiting = collections.deque()
        self.prefilling = []
        self.running = []
        self.prefill_free_at = 0.0
        self.next_step = 0.0
        self.timer = None
        self.steps = 0
        self.warm_step = 0.0  # longest step while the server warms itself up
        self.last_output = 0.0
        self.jitter = knobs.number("JITTER", 0.01)
        self.slow_first = int(knobs.number("JIT_REQUESTS", 4)) if knobs.number("JIT_SECONDS", 0) else 0
        self.totals = collections.Counter()
        self.throughput = 0.0
        self.window = (loop.now(), 0)
        self.on_change = None
        loop.every(PULSE_EVERY, self._keep_pulse)
        loop.every(1.0, self._measure)

    @property
    def running_count(self) -> int:
        """Requests inside the engine."""
        return len(self.prefilling) + len(self.running)

    @property
    def used_tokens(self) -> int:
        """Tokens that occupy the KV pool."""
        return sum(job.prompt_tokens + job.produced for job in self.prefilling + self.running)

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self.waiting.append(job)
        self._admit()

    def abort(self, job: Job) -> None:
        """Stop a job; nothing more is emitted for it."""
        if job.done:
            return
        job.finish_reason = "abort"
        for queue in (self.waiting, self.prefilling, self.running):
            if job in queue:
                queue.remove(job)
        self._admit()
        self._changed()

    def _room_for(self, job: Job) -> bool:
        if self.running_count >= self.layout.admission:
            return False
        reserved = sum(other.prompt_tokens + other.max_new for other in self.prefilling + self.running)
        return not reserved or reserved + job.prompt_tokens + job.max_new <= self.layout.max_total_tokens

    def _admit(self) -> None:
        admitted = []
        while self.waiting and self._room_for(self.waiting[0]):
            job = self.waiting.popleft()
            now = self.loop.now()
            job.admitted_at = now
            job.cached = self.cache.look_up(job.prompt)
            seconds = self.speed.prefill_seconds(job.prompt_tokens - job.cached)
            if self.slow_first and job.log_metrics:
                self.slow_first -= 1
                seconds += self.knobs.number("JIT_SECONDS", 0)
            if self.warm_step:
                seconds = min(seconds, self.warm_step)
            job.prefill_end = self.prefill_free_at = max(now, self.prefill_free_at) + seconds
            job.pulse = self.ring.pulse()
            self.prefilling.append(job)
            admitted.append(job)
        if admitted:
            self._log_prefill(admitted)
            self._changed()
            self._schedule()

    def _log_prefill(self, jobs) -> None:
        fresh = sum(job.prompt_tokens - job.cached for job in jobs)
        cached = sum(job.cached for job in jobs)
        log.line(
            "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, #running-req: %d, #queue-req: %d, "
            "#pending-token: 0, %s graph: False, input throughput (token/s): %.2f"
            % (len(jobs), fresh, cached, self.token_usage(), len(self.running), len(self.waiting), self.layout.device, self.throughput),
            self.layout.ranks[0].prefix,
        )

    def token_usage(self) -> float:
        """Occupied part of the KV pool."""
        return self.used_tokens / max(self.layout.max_total_tokens, 1)

    def _schedule(self) -> None:
        if self.timer:
            self.timer.cancel()
        moments = [job.prefill_end for job in self.prefilling]
        if self.running:
            moments.append(self.next_step)
        self.timer = self.loop.at(min(moments), self._advance) if moments else None

    def _advance(self) -> None:
        now = self.loop.now()
        if self.ring.stalled():
            if self.timer:
                self.timer.cancel()
            self.timer = self.loop.after(RETRY, self._advance)
            return
        for job in [job for job in self.prefilling if job.prefill_end <= now and job.pulse <= self.ring.back]:
            self.prefilling.remove(job)
            if not self.running:
                self.next_step = now + self._step_length(1)
            self.running.append(job)
            self.cache.remember(job.prompt)
            self._token(job, now)
        if self.running and self.next_step <= now:
            self.steps += 1
            if self.steps % max(self.layout.args.decode_log_interval, 1) == 0:
                self._log_decode()
            length = self._step_length(len(self.running))
            for job in list(self.running):
                self._token(job, now)
            # a late timer must not slow the model down, unless it is hopelessly late
            self.next_step = max(self.next_step + length, now - length)
        if any(job.prefill_end <= now for job in self.prefilling):
            if self.timer:
                self.timer.cancel()
            later = self.next_step if self.running else now + RETRY
            self.timer = self.loop.at(max(later, now + 0.001), self._advance)
            return
        self._schedule()

    def _step_length(self, running: int) -> float:
        length = self.speed.step_seconds(running) * random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(length, self.warm_step) if self.warm_step else length

    def _token(self, job: Job, now: float) -> None:
        if job.done:
            return
        job.produced += 1
        self.last_output = time.time()
        if job.produced == 1:
            job.first_at = now
        if job.produced >= job.max_new:
            job.finish_reason = job.end_word
            job.finished_at = now
            self.running.remove(job)
            self._count(job)
        if job.log_metrics:
            self.totals["generated"] += 1
        job.emit(job)
        if job.done:
            self._admit()
            self._changed()

    def _count(self, job: Job) -> None:
        if not job.log_metrics:
            return
        kind = "true" if job.streaming else "false"
        self.totals["requests", kind] += 1
        self.totals["prompt", kind] += job.prompt_tokens
        self.totals["generation", kind] += job.produced
        self.totals["ttft", kind] += job.first_at - job.received
        self.totals["e2e", kind] += job.finished_at - job.received
        self.totals["itl"] += job.finished_at - job.first_at
        self.totals["itl_count"] += job.produced - 1
        self.totals["queue"] += job.admitted_at - job.received
        self.totals["cached"] += job.cached
        self.totals["uncached"] += job.prompt_tokens - job.cached

    def _log_decode(self) -> None:
        log.line(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %s graph: %s, gen throughput (token/s): %.2f, "
            "#queue-req: %d"
            % (
                len(self.running), self.used_tokens, self.token_usage(), self.layout.device, self.layout.graphs,
                self.speed.tokens_per_second(len(self.running)), len(self.waiting),
            ),
            self.layout.ranks[0].prefix,
        )

    def _keep_pulse(self) -> None:
        if self.running_count and self.ring.back == self.ring.sent:
            self.ring.pulse()

    def _measure(self) -> None:
        now, made = self.loop.now(), self.totals["generated"]
        self.throughput = (made - self.window[1]) / max(now - self.window[0], 1e-3)
        self.window = (now, made)

    def _changed(self) -> None:
        if self.on_change:
            self.on_change()

    def flush(self) -> bool:
        """Empty the prefix cache; refused while anything is under way."""
        if self.running_count or self.waiting:
            log.line(
                "Cache not flushed because there are pending requests. #queue-req: %d, #running-req: %d"
                % (len(self.waiting), self.running_count),
                self.layout.ranks[0].prefix,
            )
            return False
        self.cache.clear()
        log.line("Cache flushed successfully!", self.layout.ranks[0].prefix)
        return True

    def prompt_tokens(self, text: str) -> int:
        """Tokens of a prompt."""
        return max(count(text), 1)
