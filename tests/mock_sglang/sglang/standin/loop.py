# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small event loop: sockets through epoll, timers in a heap, one thread."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time


class Timer:
    """A call to come; cancelling leaves it in the heap without effect."""

    __slots__ = ("call",)

    def __init__(self, call):
        self.call = call

    def cancel(self) -> None:
        """Do not call."""
        self.call = None


class Loop:
    """Runs until it is stopped."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.timers = []
        self.order = itertools.count()
        self.running = True

    @staticmethod
    def now() -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def at(self, moment: float, call) -> Timer:
        """Call at a monotonic moment."""
        timer = Timer(call)
        heapq.heappush(self.timers, (moment, next(self.order), timer))
        return timer

    def after(self, seconds: float, call) -> Timer:
        """Call in so many seconds."""
        return self.at(self.now() + seconds, call)

    def every(self, seconds: float, call) -> None:
        """Call again and again."""

        def again():
            call()
            self.after(seconds, again)

        self.after(seconds, again)

    def stop(self) -> None:
        """Leave run() after the call that is being made."""
        self.running = False

    def run(self) -> None:
        """Serve sockets and timers."""
        while self.running:
            self._run_timers()
            if not self.running:
                return
            wait = None
            if self.timers:
                wait = max(self.timers[0][0] - self.now(), 0)
            for key, events in self.selector.select(wait):
                key.data(events)

    def _run_timers(self) -> None:
        now = self.now()
        while self.timers and self.timers[0][0] <= now:
            timer = heapq.heappop(self.timers)[2]
            if timer.call:
                timer.call()
