# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private folder through which a process that goes on by itself on the node tells whoever asks how it stands."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import stat
import tempfile
import time
from typing import Any, Callable

_TOKEN = re.compile(r"^[0-9a-f]{16,64}$")
_PREFIX = "sglang-wait-"


class Mailbox:
    """``progress.json`` and ``result.json`` beside a bell, a FIFO that is written to when there is news."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._bell = -1

    @classmethod
    def of(cls, token: str) -> Mailbox:
        """The mailbox of one wait; the token is made by the caller, so that a lost answer does not lose the wait."""
        if not _TOKEN.match(token):
            raise ValueError("a token is 16 to 64 hexadecimal digits")
        base = "/run" if os.access("/run", os.W_OK) else tempfile.gettempdir()
        return cls(os.path.join(base, _PREFIX + token))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def create(self) -> bool:
        """Make the folder; False when this wait has one already."""
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            self._refuse_strangers()
            return False
        os.mkfifo(self.path("bell"), 0o600)
        self.touch()
        return True

    def _refuse_strangers(self) -> None:
        found = os.lstat(self.folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError("%s belongs to somebody else" % self.folder)

    def alive(self) -> bool:
        """Whether the wait behind this mailbox still runs, or has told its end."""
        progress = self.read("progress.json") or {}
        return self.read("result.json") is not None or os.path.isdir("/proc/%d" % progress.get("pid", 0))

    def touch(self) -> None:
        """Say that somebody still asks."""
        with open(self.path("asked"), "a", encoding="ascii"):
            os.utime(self.path("asked"))

    def asked(self) -> int:
        """A stamp that changes whenever somebody asks; 0 when the folder was taken away."""
        try:
            return os.stat(self.path("asked")).st_mtime_ns
        except OSError:
            return 0

    def open_bell(self) -> None:
        """Hold the bell open at both ends, so that ringing never blocks nor fails."""
        self._bell = os.open(self.path("bell"), os.O_RDWR | os.O_NONBLOCK)

    def ring(self) -> None:
        try:
            os.write(self._bell, b".")
        except BlockingIOError:
            return

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Put a file in whole, readable for the owner only."""
        draft = self.path(name + ".new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as handle:
            json.dump(data, handle)
        os.replace(draft, self.path(name))

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self.path(name), encoding="utf-8") as handle:
                return json.load(handle)
        except (OSError, ValueError):
            return None

    def listen(self, seconds: float) -> None:
        """Sleep until the bell rings, and silence it."""
        bell = os.open(self.path("bell"), os.O_RDWR | os.O_NONBLOCK)
        try:
            if select.select([bell], [], [], max(0.0, seconds))[0]:
                os.read(bell, 4096)
        except BlockingIOError:
            return
        finally:
            os.close(bell)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def told(mailbox: Mailbox, seconds: float) -> dict[str, Any]:
    """The result if it comes within so many seconds, else how things stand."""
    deadline = time.monotonic() + seconds
    while True:
        mailbox.touch()
        result = mailbox.read("result.json")
        if result is not None:
            return {"result": result}
        left = deadline - time.monotonic()
        if left <= 0:
            return {"progress": mailbox.read("progress.json") or {}}
        mailbox.listen(left)


def leave_behind(mailbox: Mailbox, name: str, work: Callable[[], None]) -> None:
    """Let a process of that name do the work, on its own from now on: it keeps nothing of the connection's terminal and pipes."""
    mailbox.open_bell()
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            with open("/proc/self/comm", "w", encoding="ascii") as comm:
                comm.write(name)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            work()
    except Exception as error:  # nobody else hears of it
        mailbox.write("result.json", {"failed": True, "msg": "the process that was left behind broke off: %r" % error})
        mailbox.ring()
    finally:
        os._exit(0)
