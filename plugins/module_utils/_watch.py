# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches one unit start: brings unit state, journal, socket table and HTTP answers to the wait as they happen."""

from __future__ import annotations

import os
import selectors
import shutil
import threading
import time
from dataclasses import replace
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils import _follow, _gpu, _unit
from ansible_collections.gpuops.sglang.plugins.module_utils._http import HttpClient, ProbeThread
from ansible_collections.gpuops.sglang.plugins.module_utils._journal import Decoder
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import UnitState, Verdict
from ansible_collections.gpuops.sglang.plugins.module_utils._readiness import Wait
from ansible_collections.gpuops.sglang.plugins.module_utils._sockets import SocketTable
from ansible_collections.gpuops.sglang.plugins.module_utils._transfer import Transfer

_LONGEST_PAUSE = 1.0  # the unit is looked at at least once a second
_FULL_LOOK = 10.0  # systemd is asked at least this often, though nothing seems to have changed
_PROGRESS_PAUSE = 1.0
_FRESH = 60.0


class UnitLook:
    """The unit's state; systemd itself is asked only when something it left in the file system has changed."""

    def __init__(self, unit: str, commands: _unit.Commands) -> None:
        self.unit = unit
        self.properties: dict[str, str] = {}
        self._commands = commands
        self._mark: tuple[Any, ...] = ()
        self._asked_at = float("-inf")

    def look(self, now: float, news: bool = False) -> UnitState | None:
        """The state now; None when systemd gives no answer."""
        mark = self._signs()
        settled = self.properties.get("ActiveState") == "active"  # what follows another state may leave no sign
        if news or not settled or mark != self._mark or now - self._asked_at >= _FULL_LOOK:
            answer = _unit.show(self._commands, [self.unit])
            if not answer:
                return None
            self.properties, self._asked_at = answer[0], now
            self._mark = self._signs()
        return _unit.unit_state(self.properties)

    def invocation_after(self, cursor: str) -> str:
        """The invocation that began behind the cursor and is over already; "" when there is none.

        A start that has failed before the first look is told from an earlier start's failure by this.
        """
        if self.properties.get("ActiveState") not in ("failed", "inactive") or not cursor:
            return ""
        if self.started() is None:
            return _follow.invocation_started(self._commands, self.unit, cursor)
        return "" if _follow.begin_before(cursor, self.started(), _follow.read_boot_id()) else self.properties.get("InvocationID", "")

    def pids(self) -> list[int]:
        return _unit.cgroup_pids(self.properties.get("ControlGroup", ""))

    def started(self) -> float | None:
        """When the present start began, in monotonic seconds."""
        return _unit.monotonic_seconds(self.properties, "InactiveExitTimestampMonotonic")

    def main_started(self) -> float | None:
        """When the server's own process began, in monotonic seconds; later than ``started`` after a restart by systemd."""
        return _unit.monotonic_seconds(self.properties, "ExecMainStartTimestampMonotonic")

    def _signs(self) -> tuple[Any, ...]:
        main_pid = self.properties.get("MainPID", "0")
        return _unit.invocation_link(self.unit), main_pid, os.path.isdir("/proc/" + main_pid)


class Watch:
    """Runs a wait until its verdict or a deadline; can be run again to go on."""

    def __init__(self, wait: Wait, unit: UnitLook, client: HttpClient, sockets: SocketTable, commands: _unit.Commands, cursor: str = "",
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.wait = wait
        self.unit = unit
        self._sockets = sockets
        self._commands = commands
        self._decoder = Decoder(wait.options.unit, wait.options.secrets)
        self._cursor = cursor
        self._clock = clock
        self._probes = ProbeThread(lambda probe: client.ask(probe, wait.send_key))
        self._follower: _follow.JournalFollower | None = None
        self._news = True  # whether systemd said something since the last look at the unit
        self._gpu_answers: list[Any] = []
        self.transfer = Transfer(unit.pids)
        self.gpu_memory_mib = 0  # of the smallest GPU
        self.saw_unready = False  # whether the port was seen closed, or readiness denied

    @property
    def busy(self) -> bool:
        """Whether a request is on its way."""
        return self._probes.current is not None

    @property
    def cursor(self) -> str:
        """The last journal line taken in, so that another watch can go on behind it."""
        return self._decoder.cursor or self._cursor

    def run(self, until: float, on_progress: Callable[[float, dict[str, Any]], bool]) -> Verdict | None:
        """Watch until the verdict, until ``until``, or until ``on_progress`` returns False."""
        reported = float("-inf")
        if self._follower is None:
            self._begin(self._clock())
        while True:
            now = self._clock()
            self._look(now)
            verdict = self.wait.verdict(now)
            if verdict is not None or now >= until:
                return verdict
            if now - reported >= _PROGRESS_PAUSE:
                reported = now
                if not on_progress(now, self.wait.progress(now)):
                    return None
            self._take_in(min(self.wait.next_wakeup(now), now + _LONGEST_PAUSE, until))

    def close(self) -> None:
        self._probes.close()
        if self._follower is not None:
            self._follower.close()

    def _begin(self, now: float) -> None:
        self._count_from_the_start(now)
        self._look_at_unit(now)
        start = _follow.start_arguments(
            self._commands, self._cursor, self.unit.properties.get("InvocationID", ""), self.unit.started(), _follow.read_boot_id(), now, time.time())
        self._follower = _follow.JournalFollower(self.unit.unit, self._commands, start, lambda text: self.wait.note(self._clock(), text), self._cursor)
        self._follower.open(now)
        complaint = _follow.complaint(self._commands)
        if complaint:
            self.wait.note(now, "journal_unreadable: " + complaint)
        if shutil.which("nvidia-smi"):
            threading.Thread(target=self._ask_gpus, daemon=True).start()

    def _count_from_the_start(self, now: float) -> None:
        """A start made a moment ago for this very wait is timed from its own beginning, not from the first look."""
        started = self.unit.started()
        if self._cursor and started is not None and now - _FRESH < started < now and not _follow.begin_before(self._cursor, started, _follow.read_boot_id()):
            self.wait.wants(started)

    def _ask_gpus(self) -> None:
        self._gpu_answers.append({"gpus": _gpu.list_gpus(_unit.Commands())[0]})

    def _look(self, now: float) -> None:
        wanted = self.wait.wants(now)
        if self._news or "unit" in wanted:
            self._look_at_unit(now)
        if "listener" in wanted:
            listener = self._sockets.look(self.unit.pids)
            if listener.in_unit and self._stayed_behind(listener.pid):
                listener = replace(listener, leftover=True)
            self.saw_unready = self.saw_unready or not listener.listening
            self.wait.on_listener(now, listener)
        if self.transfer.moved(now):
            self.wait.on_transfer(now)
        if self._gpu_answers:
            answer = self._gpu_answers.pop()
            self.gpu_memory_mib = min((gpu["memory_total_mib"] or 0 for gpu in answer["gpus"]), default=0)
            self.wait.on_gpu(now, answer)
        if self._probes.current is None:
            probe = self.wait.next_probe(now)
            if probe is not None:
                self._probes.submit(probe, now)

    def _stayed_behind(self, pid: int) -> bool:
        """Is the process older than the unit's main process?"""
        run = self.wait.seen.watch.run
        if run is None or not run.pid or run.pid == pid:
            return False
        return 0 < _unit.start_ticks(pid) < _unit.start_ticks(run.pid)

    def _look_at_unit(self, now: float) -> None:
        state = self.unit.look(now, self._news)
        self._news = False
        if state is not None:
            self.wait.on_unit(now, state)

    def _take_in(self, wake_at: float) -> None:
        """Sleep until something happens, and hand it to the wait."""
        streams = self._follower.streams() if self._follower else []
        with selectors.DefaultSelector() as selector:
            for stream in streams + [self._probes]:
                selector.register(stream, selectors.EVENT_READ)
            selector.select(max(0.0, wake_at - self._clock()))
        now = self._clock()
        self._read_journal(now)
        answered = self._probes.collect(now)
        if answered is not None:
            self.saw_unready = self.saw_unready or answered[1].status == 503
            self.wait.on_answer(now, *answered)

    def _read_journal(self, now: float) -> None:
        data = self._follower.read(now, self._decoder.cursor) if self._follower else b""
        if not data:
            return
        entries = self._decoder.feed(data)
        kernel = [entry for entry in entries if entry.source == "kernel"]
        others = [entry for entry in entries if entry.source != "kernel"]
        if kernel:
            self.wait.on_kernel(now, kernel)
        if others:
            self.wait.on_journal(now, others)
        self._news = self._news or any(entry.source == "systemd" for entry in others)
