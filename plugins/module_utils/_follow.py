# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows the journal of one unit, with systemd's words about it and the kernel log, from the right moment on."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands, spawn

FIELDS = (
    "MESSAGE", "MESSAGE_ID", "PRIORITY", "UNIT", "INVOCATION_ID", "N_DROPPED", "OBJECT_SYSTEMD_UNIT", "OBJECT_SYSTEMD_INVOCATION_ID",
    "SYSLOG_IDENTIFIER", "_COMM", "_PID", "_SYSTEMD_INVOCATION_ID", "_SYSTEMD_UNIT", "_TRANSPORT", "_UID", "_SOURCE_MONOTONIC_TIMESTAMP",
)
_STARTED = "39f53479d3a045ac8e11786248231fbf"
_COREDUMP = "fc2e22bc6ee647b6b90729ab34a250b1"
_UNREADABLE = re.compile(r"insufficient permissions|not seeing messages|No journal files were (?:opened|found)|Failed to (?:open|search) journal", re.I)
_CHUNK = 65536
_RETRY_PAUSE = 2.0


def unit_matches(unit: str) -> list[str]:
    """What ``journalctl -u`` matches, as fields: these can be joined with others, the flag cannot."""
    return [
        "_SYSTEMD_UNIT=" + unit,
        "+", "UNIT=" + unit, "_UID=0",
        "+", "OBJECT_SYSTEMD_UNIT=" + unit, "_UID=0",
        "+", "COREDUMP_UNIT=" + unit, "_UID=0", "MESSAGE_ID=" + _COREDUMP,
    ]


def follow_command(unit: str, start: list[str], kernel: bool = True) -> list[str]:
    matches = unit_matches(unit) + (["+", "_TRANSPORT=kernel"] if kernel else [])
    return ["journalctl", "--follow", "--no-tail", "--all", "--output=json", "--output-fields=" + ",".join(FIELDS)] + start + matches


def from_cursor(cursor: str) -> list[str]:
    """How to begin at a cursor. Not with --after-cursor: up to systemd 252 that skips the first line that fits, whatever lies between."""
    return ["--cursor=" + cursor]


def cursor_monotonic(cursor: str) -> tuple[str, float] | None:
    """Boot and monotonic seconds that a journal cursor stands for; None for a text that is no cursor."""
    parts = dict(part.split("=", 1) for part in cursor.split(";") if "=" in part)
    try:
        return parts["b"], int(parts["m"], 16) / 1e6
    except (KeyError, ValueError):
        return None


def begin_before(cursor: str, started: float | None, boot_id: str) -> bool:
    """Whether the unit's present start is older than the cursor, so that its first lines lie before it."""
    at = cursor_monotonic(cursor)
    if at is None or started is None:
        return at is None
    return at[0] == boot_id and started < at[1]


def first_cursor(commands: Commands, invocation: str) -> str:
    """Where the journal of one invocation begins; "" when nothing of it is kept."""
    if not invocation:
        return ""
    argv = ["journalctl", "--output=json", "--output-fields=_PID", "--no-pager",
            "_SYSTEMD_INVOCATION_ID=" + invocation, "+", "INVOCATION_ID=" + invocation]
    commands.note(argv)
    try:
        with spawn(argv) as process:
            line = process.stdout.readline() if process.stdout else b""
            process.kill()
    except OSError:
        return ""
    try:
        return str(json.loads(line).get("__CURSOR", ""))
    except ValueError:
        return ""


def invocation_started(commands: Commands, unit: str, cursor: str) -> str:
    """The last invocation that systemd says it started behind the cursor, for a unit that has gone without a trace since; "" for none."""
    argv = ["journalctl", "--output=json", "--output-fields=INVOCATION_ID", "--no-pager", "--cursor=" + cursor,
            "UNIT=" + unit, "_PID=1", "MESSAGE_ID=" + _STARTED]
    code, output, errors = commands.run(argv)
    try:
        return str(json.loads(output.splitlines()[-1]).get("INVOCATION_ID", "")) if code == 0 and output.strip() else ""
    except ValueError:
        return ""


def complaint(commands: Commands) -> str:
    """Why the journal cannot be read whole, "" when it can. Asked for as text: with JSON journalctl keeps its notices to itself."""
    code, output, errors = commands.run(["journalctl", "--lines=0", "--no-pager"])
    words = " ".join(errors.replace("Pass -q to turn off this notice.", "").split())
    return words if code or _UNREADABLE.search(words) else ""


def cursor_now(commands: Commands) -> str:
    """The end of the journal at this moment; "" when it cannot be read."""
    code, output, errors = commands.run(["journalctl", "--lines=0", "--show-cursor", "--no-pager"])
    return next((line.split(":", 1)[1].strip() for line in output.splitlines() if line.startswith("-- cursor:")), "")


def start_arguments(commands: Commands, cursor: str, invocation: str, started: float | None, boot_id: str, now: float, wall: float) -> list[str]:
    """Where to begin reading: after the given cursor, else where the present invocation begins, else at its start by the clock."""
    if cursor and not begin_before(cursor, started, boot_id):
        return from_cursor(cursor)
    first = first_cursor(commands, invocation)
    if first:
        return ["--cursor=" + first]
    age = now - started if started is not None and started < now else 0.0
    return ["--since=@%d" % int(wall - age - 1)]


def read_boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    try:
        with open(path, encoding="ascii") as handle:
            return handle.read().strip().replace("-", "")
    except OSError:
        return ""


class JournalFollower:
    """A running ``journalctl --follow``; begun again after the last line when it ends."""

    def __init__(self, unit: str, commands: Commands, start: list[str], note: Callable[[str], None], known: str = "") -> None:
        self._unit = unit
        self._commands = commands
        self._start = start
        self._note = note
        self._known = known  # the cursor of a line that was read before
        self._first: bytes | None = b""  # the first line, until it is whole
        self._said = b""  # on its error stream
        self._process: subprocess.Popen[bytes] | None = None
        self._retry_at = 0.0
        self._failures = 0

    def open(self, now: float, cursor: str = "") -> None:
        """Start reading; with a cursor, after it."""
        if cursor:
            self._start, self._known = from_cursor(cursor), cursor
        self._first = self._said = b""
        argv = follow_command(self._unit, self._start)
        if not self._failures:
            self._commands.note(argv)
        try:
            self._process = spawn(argv)
        except OSError as error:
            self._fail(now, str(error))
            return
        for stream in (self._process.stdout, self._process.stderr):
            os.set_blocking(stream.fileno(), False)

    def streams(self) -> list[Any]:
        """What to wait on; empty while there is no process."""
        return [self._process.stdout, self._process.stderr] if self._process else []

    def read(self, now: float, cursor: str = "") -> bytes:
        """What has been written since the last call; starts the process again when it has gone."""
        if self._process is None:
            if now >= self._retry_at:
                self.open(now, cursor)
            return b""
        self._said += _read(self._process.stderr) or b""
        data = _read(self._process.stdout)
        if data == b"" and self._process.poll() is not None:
            self._fail(now, (self._said + (_read(self._process.stderr) or b"")).decode("utf-8", "replace"))
        return self._without_known(data or b"")

    def _without_known(self, data: bytes) -> bytes:
        """Drop the first line when it is the one that the cursor stands for."""
        if self._first is None:
            return data
        self._first += data
        if b"\n" not in self._first:
            return b""
        line, _newline, rest = self._first.partition(b"\n")
        self._first = None
        return rest if self._known and self._known.encode() in line else line + b"\n" + rest

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def _fail(self, now: float, text: str) -> None:
        self._failures += 1
        if self._failures == 3:
            self._note("journal_unreadable: journalctl ended %d times: %s" % (self._failures, " ".join(text.split())))
        self._retry_at = now + _RETRY_PAUSE * self._failures
        self.close()


def _read(stream: Any) -> bytes | None:
    """Bytes that are there now; None when there are none yet, b"" at the end."""
    try:
        return os.read(stream.fileno(), _CHUNK)
    except BlockingIOError:
        return None
