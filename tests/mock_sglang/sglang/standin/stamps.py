# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""True events with their monotonic time, for measuring how late others notice them."""

from __future__ import annotations

import json
import os
import signal
import time

from sglang.standin.processes import set_title


class Stamps:
    """Appends JSON lines to a file; a watcher process stamps a death nobody can stamp himself."""

    def __init__(self, path: str):
        self.path = path
        self.pid = os.getpid()
        self._write_end = -1
        if path:
            self._start_watcher()

    def event(self, name: str, **more) -> None:
        """Stamp one event now."""
        if not self.path:
            return
        record = {"event": name, "monotonic": time.monotonic(), "pid": self.pid}
        record.update(more)
        self._append(record)

    def dying(self) -> None:
        """Stamp the own death just before it happens; the watcher then stays silent."""
        self.event("died")
        if self._write_end >= 0:
            os.write(self._write_end, b"x")

    def close_in_child(self) -> None:
        """A child that held the pipe open would hide the parent's death from the watcher."""
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def _append(self, record: dict) -> None:
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError:
            return
        os.write(file, (json.dumps(record) + "\n").encode())
        os.close(file)

    def _start_watcher(self) -> None:
        read_end, self._write_end = os.pipe()
        if os.fork():
            os.close(read_end)
            return
        os.close(self._write_end)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        set_title("mock_sglang::stamps")
        for fd in (0, 1, 2):
            os.close(fd)
        said = os.read(read_end, 16)
        if not said:
            self._append({"event": "died", "monotonic": time.monotonic(), "pid": self.pid, "by": "watcher"})
        os._exit(0)
