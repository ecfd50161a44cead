# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of one server: scheduler ranks and detokenizer, joined to a ring that every token's pulse must pass."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from sglang.standin.processes import die_with, set_title
from sglang.standin.rank import RankProcess
from sglang.standin.timeline import defer_to_default


class Child:
    """One process of the server."""

    def __init__(self, pid: int, name: str):
        self.pid = pid
        self.name = name
        self.exit_code = None

    def poll(self):
        """Exit code in the way of Python's multiprocessing, None while it lives."""
        if self.exit_code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.exit_code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.exit_code


class Cluster:
    """Starts and watches the children of the main process."""

    def __init__(self, server):
        self.server = server
        self.schedulers = []
        self.detokenizer = None
        self.ready_fds = []
        self.pulse_in = self.pulse_out = -1

    @property
    def children(self) -> list[Child]:
        """All of them, schedulers first."""
        return [*self.schedulers, *([self.detokenizer] if self.detokenizer else [])]

    def start(self) -> None:
        """Fork every rank and, on the first node, the detokenizer."""
        gc.freeze()
        ranks = self.server.layout.ranks
        pipes = [os.pipe() for _turn in range(len(ranks) + 2)]
        for rank in ranks:
            read_ready, write_ready = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read_ready)
                self._become_rank(rank, write_ready, pipes)
            os.close(write_ready)
            self.ready_fds.append(read_ready)
            self.schedulers.append(Child(pid, "scheduler_%d" % rank.index))
        last = len(ranks)
        if self.server.layout.node_rank == 0:
            pid = os.fork()
            if pid == 0:
                self._become_detokenizer(pipes[last][0], pipes[last + 1][1])
            self.detokenizer = Child(pid, "detokenizer")
        self.pulse_in, self.pulse_out = pipes[0][1], pipes[last + 1][0]
        for at, (read_end, write_end) in enumerate(pipes):
            if at != last + 1:
                os.close(read_end)
            if at != 0:
                os.close(write_end)
        os.set_blocking(self.pulse_in, False)
        os.set_blocking(self.pulse_out, False)

    def _settle(self, title: str) -> None:
        die_with(self.server.pid)
        set_title(title)
        self.server.stamps.close_in_child()
        defer_to_default(signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)
        for fd in self.ready_fds:
            os.close(fd)

    def _become_rank(self, rank, ready_fd: int, pipes) -> None:
        try:
            self._settle(rank.title)
            process = RankProcess(self.server, rank, ready_fd)
            # told to strike while still loading would be fatal by default
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            process.load()
            process.serve(pipes[rank.index][0], pipes[rank.index + 1][1])
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _become_detokenizer(self, read_fd: int, write_fd: int) -> None:
        try:
            self._settle("sglang::detokenizer")
            while True:
                data = os.read(read_fd, 4096)
                if not data:
                    signal.pause()
                os.write(write_fd, data)
        finally:
            os._exit(1)

    def wait_ready(self) -> None:
        """Come back when every rank has loaded; raise when one died before."""
        loading = {fd: at for at, fd in enumerate(self.ready_fds)}
        while loading:
            for fd in select.select(list(loading), [], [])[0]:
                at = loading.pop(fd)
                if not os.read(fd, 1):
                    raise self._died(at)

    def _died(self, at: int) -> RuntimeError:
        os.waitid(os.P_PID, self.schedulers[at].pid, os.WEXITED | os.WNOWAIT)
        return RuntimeError(
            "Rank %d scheduler died during initialization (exit code: %s). If exit code is -9 (SIGKILL), a common cause is "
            "the OS OOM killer. Run `dmesg -T | grep -i oom` to check." % (at, self.schedulers[at].poll())
        )

    def dead_child(self):
        """A child that ended by itself with something else than 0; None while all is well."""
        for child in self.children:
            if child.poll():
                return child
        return None

    def living(self) -> list[Child]:
        """Children that are still there."""
        return [child for child in self.children if child.poll() is None]

    def tell_ranks(self, number: int) -> None:
        """Send a signal to every living rank."""
        for child in self.schedulers:
            if child.poll() is None:
                os.kill(child.pid, number)

    def release(self, seconds: float) -> None:
        """Ask the ranks to let go of everything and leave; whoever has not after some time is left to kill_all."""
        self.tell_ranks(signal.SIGUSR2)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(child.poll() is None for child in self.schedulers):
            time.sleep(0.005)

    def kill_all(self) -> None:
        """End every child at once and wait for it."""
        for child in self.living():
            os.kill(child.pid, signal.SIGKILL)
        for child in self.children:
            if child.exit_code is None:
                try:
                    os.waitpid(child.pid, 0)
                except ChildProcessError:
                    pass
                child.exit_code = -signal.SIGKILL
