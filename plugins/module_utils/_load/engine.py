# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of one load process: one epoll, nothing parsed while there is something to read."""

from __future__ import annotations

import gc
import heapq
import resource
from collections import deque
from dataclasses import dataclass
from select import EPOLLIN, epoll
from time import monotonic, sleep
from typing import Any, Callable

from . import http1
from .answer import Answer
from .connection import IDLE, READING, SENDING, WAIT, Connection, Target, kind_of
from .tally import Tally

SIZE = 16384  # a larger buffer is a fresh mmap at every recv, which costs more than the recv
DIGEST_AFTER = 512  # reads kept of one answer before it is worked off in parts, so that long answers do not fill the memory
WAITING_LIMIT = 4096  # finished answers kept before one is worked off at any price
STAMPED = 16  # one connection in so many has the kernel's receive times compared
TICK = 0.25
STALE = 1.0  # seconds unused after which a kept connection may have been closed without its being the server's fault
DENSE = 4000  # reads a second from which on they may gather before they are fetched: a wake-up for each costs more than its read
GATHER = 0.0004  # seconds that they gather; so late, at most, is the time of a token, and the measured lateness tells it
REST, ARRIVAL = 0, 1  # what a timer stands for


@dataclass
class Limits:
    """When one run ends and what a request may take."""

    concurrency: int
    until: float | None = None  # seconds after the start at which nothing more is sent
    at_least: int = 0  # requests sent before ``until`` counts
    request_timeout: float = 600.0
    backoff: float = 0.2  # a slot rests so long after a failed request
    give_up_after: int = 0  # failures in a row that end the run; 0 for never


class Engine:
    """Streams requests from ``source`` with ``concurrency`` slots, in a closed loop or at the given arrival times."""

    def __init__(self, target: Target, source: Callable[[], tuple[bytes, int] | None], limits: Limits, tally: Tally, arrivals: Any = None) -> None:
        self.target, self.source, self.limits, self.tally = target, source, limits, tally
        self.arrivals = arrivals  # iterator of seconds after the start; None for a closed loop
        self.poll = epoll()
        self.connections: dict[int, Connection] = {}
        self.idle: deque[Connection] = deque()
        self.todo: deque[Answer] = deque()
        self.timers: list[tuple[float, int]] = []  # (due, number) of slots that rest
        self.backlog: deque[float] = deque()  # intended times of arrivals that found no free slot
        self.started = 0.0
        self.sent = 0
        self.busy = 0  # slots with a request on its way
        self.exhausted = False
        self.failures_in_row = 0
        self.aborted = ""
        self.opened = 0

    # ------------------------------------------------------------ before the start
    def prepare(self) -> None:
        """Open all connections, so that no handshake is inside a latency."""
        begin = monotonic()
        for _slot in range(self.limits.concurrency):
            connection = self._new()
            try:
                connection.open_now()
            except OSError as problem:
                connection.close()
                self.tally.connect_errors[kind_of(problem)] = self.tally.connect_errors.get(kind_of(problem), 0) + 1
                break
            self._watch(connection, EPOLLIN)
            self.idle.append(connection)
        self.tally.connect_s = (monotonic() - begin) / max(len(self.idle), 1)

    def _new(self) -> Connection:
        self.opened += 1
        stamped = self.target.tls is None and self.opened % STAMPED == 1
        return Connection(self.target, self.tally.lateness if stamped else None)

    def _watch(self, connection: Connection, events: int) -> None:
        connection.fd = connection.sock.fileno()
        self.connections[connection.fd] = connection
        self.poll.register(connection.fd, events)

    # ------------------------------------------------------------------- the run
    def run(self, start: float, on_tick: Callable[[Engine], bool] | None = None) -> None:
        """From ``start`` until all is sent and answered; ``on_tick`` ends the run by giving back False."""
        self.started = self.tally.started = start
        gc.collect()
        gc.freeze()
        gc.disable()
        used = _cpu()
        if self.arrivals is None:
            for _slot in range(self.limits.concurrency):
                self._next(monotonic())
        else:
            self._plan_arrival()
        self._loop(on_tick)
        self.tally.cpu_share = (_cpu() - used) / max(monotonic() - start, 1e-9)
        for answer in self.todo:
            self._settle(answer)
        self.todo.clear()
        for connection in list(self.connections.values()):
            connection.close()
        self.poll.close()
        gc.enable()
        self.tally.aborted = self.aborted

    def _loop(self, on_tick: Callable[[Engine], bool] | None) -> None:
        poll, connections, todo, now = self.poll.poll, self.connections, self.todo, monotonic
        tick = self.started + TICK
        last = http1.LAST_CHUNK
        busy_from = 0.0
        tls = self.target.tls is not None
        reads, dense = 0, False
        while self.busy or self.timers or self.backlog:
            if todo:
                events = poll(0, 1024)
            else:
                if dense:
                    sleep(GATHER)
                wake = min(tick, self.timers[0][0]) if self.timers else tick
                events = poll(max(wake - now(), 0.0), 1024)
            if tls and events:
                busy_from = now()
            reads += len(events)
            for fd, flags in events:
                connection = connections.get(fd)
                if connection is None:
                    continue
                if connection.state != READING:
                    self._move(connection)
                    continue
                try:
                    data = connection.recv(SIZE)
                except WAIT:
                    continue
                except OSError as problem:
                    self._fail(connection, kind_of(problem), str(problem))
                    continue
                answer = connection.answer
                answer.at.append(now())
                answer.data.append(data)
                if data[-5:] == last or not connection.plain or len(data) < 5:
                    self._look(connection, answer, data)
            if tls and events:
                self.tally.lateness.append(now() - busy_from)
            if todo and (not events or len(todo) > WAITING_LIMIT):
                self._settle(todo.popleft())
            moment = now()
            if self.timers and self.timers[0][0] <= moment:
                self._ring(moment)
            if moment >= tick:
                dense, reads, tick = reads > DENSE * TICK, 0, moment + TICK
                self._expire(moment)
                self._digest_long_ones()
                if on_tick is not None and not on_tick(self):
                    self.aborted = self.aborted or "stopped"
            if self.aborted:
                self._drop_all()
                return

    def reads_under_way(self) -> int:
        """About how many tokens have come of answers that have not ended."""
        return sum(len(one.answer.at) + len(one.answer.times) for one in self.connections.values() if one.answer is not None)

    def _settle(self, answer: Answer) -> None:
        if not answer.ended and not answer.error:
            answer.digest()
            return
        answer.close()
        self.tally.add(answer)

    def _look(self, connection: Connection, answer: Answer, data: bytes) -> None:
        """The reads that need a closer look: the first of an answer, the last, and those of bodies that are not chunked."""
        if not data:
            self._closed_by_server(connection, answer)
            return
        if answer.head is None:
            try:
                answer.head = http1.head(b"".join(answer.data))
            except http1.NotHttp as refusal:
                self._fail(connection, "not_http", str(refusal))
                return
            if answer.head is None:
                return
            answer.size = sum(map(len, answer.data[:-1])) - answer.head.size
            connection.plain = answer.head.framing == http1.CHUNKED and answer.head.status == 200
        answer.size += len(data)
        head = answer.head
        if head.framing == http1.CHUNKED:
            if answer.tail() == http1.LAST_CHUNK:
                self._finish(connection, answer, head.keep_alive)
        elif head.framing == http1.LENGTH and answer.size >= head.length:
            self._finish(connection, answer, head.keep_alive)

    def _closed_by_server(self, connection: Connection, answer: Answer) -> None:
        if answer.head is not None and answer.head.framing == http1.TO_CLOSE:
            self._finish(connection, answer, keep=False)
        elif connection.idle_since and answer.sent - connection.idle_since > STALE and answer.head is None and len(answer.data) == 1:
            # A long unused connection that the server gave up while the request was under way: not an answer, so ask again.
            request = connection.request
            answer.at, answer.data = [], []
            self._forget(connection)
            self._send(answer, request)
        else:
            self._fail(connection, "cut", "the connection was closed before the end of the answer")

    # ------------------------------------------------------------ ends and starts
    def _finish(self, connection: Connection, answer: Answer, keep: bool) -> None:
        answer.ended = True
        self._queue(answer)
        good = answer.head.status == 200
        self.failures_in_row = 0 if good else self.failures_in_row + 1
        connection.answer, connection.plain = None, False
        if keep:
            connection.idle_since = monotonic()
            connection.state = IDLE
            self.idle.append(connection)
        else:
            self._forget(connection)
        self._slot_free(rest=not good)

    def _fail(self, connection: Connection, kind: str, detail: str) -> None:
        answer = connection.answer
        self._forget(connection)
        if answer is None:
            return
        answer.error, answer.detail = kind, detail
        self._queue(answer)
        self.failures_in_row += 1
        self._slot_free(rest=True)

    def _queue(self, answer: Answer) -> None:
        if not answer.queued:
            answer.queued = True
            self.todo.append(answer)

    def _forget(self, connection: Connection) -> None:
        self.connections.pop(connection.fd, None)
        if connection.state == IDLE and connection in self.idle:
            self.idle.remove(connection)
        connection.close()

    def _slot_free(self, rest: bool) -> None:
        self.busy -= 1
        if self.limits.give_up_after and self.failures_in_row >= self.limits.give_up_after and not self.aborted:
            self.aborted = "%d requests failed one after the other" % self.failures_in_row
        moment = monotonic()
        if rest:
            heapq.heappush(self.timers, (moment + self.limits.backoff, REST))
        elif self.arrivals is None:
            self._next(moment)
        else:
            self._work_off()

    def _work_off(self) -> None:
        """Arrivals that waited for a slot take those that are free."""
        while self.backlog and self.busy < self.limits.concurrency:
            self._next(self.backlog.popleft())

    def _may_send(self) -> bool:
        limits = self.limits
        if self.arrivals is not None or limits.until is None or self.sent < limits.at_least:
            return True
        return monotonic() - self.started < limits.until

    def _next(self, due: float) -> None:
        """Send the next request, if there is one."""
        request = self.source() if not self.exhausted and self._may_send() else None
        if request is None:
            self.exhausted = True
            self.backlog.clear()
            return
        body, asked = request
        self.sent += 1
        self.busy += 1
        self._send(Answer(due, monotonic(), asked), body)

    def _send(self, answer: Answer, request: bytes) -> None:
        self.tally.last_sent = answer.sent
        fresh = not self.idle
        connection = self._new() if fresh else self.idle.popleft()
        connection.answer = answer
        connection.request = connection.out = request
        try:
            if fresh:
                self._watch(connection, connection.open_later())
            else:
                connection.state = SENDING
                events = connection.advance()
                if events != EPOLLIN:
                    self.poll.modify(connection.fd, events)
        except OSError as problem:
            self._fail(connection, kind_of(problem), str(problem))

    def _move(self, connection: Connection) -> None:
        """A connection that is not reading has something to do."""
        try:
            if connection.state != IDLE:
                self.poll.modify(connection.fd, connection.advance())
            elif connection.read(1) is not None:  # closed by the server while it had nothing to do
                self._forget(connection)
        except OSError as problem:
            self._fail(connection, kind_of(problem), str(problem))

    # ---------------------------------------------------------------------- time
    def _plan_arrival(self) -> None:
        offset = next(self.arrivals, None)
        if offset is None or (self.limits.until is not None and offset >= self.limits.until and self.sent >= self.limits.at_least):
            return
        heapq.heappush(self.timers, (self.started + offset, ARRIVAL))

    def _ring(self, moment: float) -> None:
        while self.timers and self.timers[0][0] <= moment:
            due, kind = heapq.heappop(self.timers)
            if kind == ARRIVAL:
                self._plan_arrival()
                self.backlog.append(due)
                self._work_off()
            elif self.arrivals is None:
                self._next(due)
            else:
                self._work_off()

    def _digest_long_ones(self) -> None:
        for connection in self.connections.values():
            answer = connection.answer
            if answer is not None and len(answer.data) > DIGEST_AFTER:
                self._queue(answer)

    def _expire(self, moment: float) -> None:
        limit = moment - self.limits.request_timeout
        for connection in [one for one in self.connections.values() if one.answer is not None and one.answer.sent < limit]:
            self._fail(connection, "timeout", "no end of the answer after %g s" % self.limits.request_timeout)

    def _drop_all(self) -> None:
        self.exhausted = True
        self.backlog.clear()
        for connection in [one for one in self.connections.values() if one.answer is not None]:
            self._fail(connection, "aborted", self.aborted)
        self.timers.clear()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
