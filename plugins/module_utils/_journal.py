# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decodes what ``journalctl -o json`` prints into lines of text, whatever bytes the service wrote."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._json_log import unfolded
from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import is_parted, parted
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor

_LONGEST_RECORD = 16 * 1024 * 1024  # a record without an end in sight is given up there
_LONGEST_LINE = 32 * 1024
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[ -/]{0,4}[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ud800-\udfff]")
_BREAK = re.compile(r"[\r\n]+")
_JSON = json.JSONDecoder()
_SUPPRESSED = re.compile(r"Suppressed (\d{1,12}) messages from")


def clean_lines(message: str) -> list[str]:
    """The lines of a message: progress bars cut at their carriage returns, colours and control characters removed."""
    if "\x1b" in message:
        message = _ANSI.sub("", message)
    lines = _BREAK.split(message) if "\n" in message or "\r" in message else [message]
    cleaned = []
    for line in lines:
        if not line.isprintable():
            line = _CONTROL.sub("", line)
        if len(line) > _LONGEST_LINE:
            line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
        line = line.rstrip()
        if line:
            cleaned.append(line)
    return cleaned


def _text(value: Any) -> str | None:
    """A field's text; None when the journal left it out for its size."""
    if isinstance(value, str):
        return value
    if value is None:
        return None
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return "\n".join(part for part in map(_text, value[:64]) if part)
    return str(value)


def _number(value: Any) -> int:
    text = value if isinstance(value, str) else _text(value) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


UNSHOWN = "a message is too long for the journal to show it whole, of"


class Decoder:
    """Turns the bytes of a journal stream about one unit into entries; a cut record is kept until its rest comes."""

    def __init__(self, unit: str, secrets: Iterable[str] = ()):
        self.unit = unit
        self.cursor = ""
        self.dropped = 0  # messages that the journal lost or would not show
        self.broken = 0  # records that are no JSON object
        self._redactor = Redactor(secrets)
        self._rest: list[bytes] = []
        self._rest_size = 0

    def feed(self, raw: bytes) -> list[Entry]:
        first, newline, after = raw.partition(b"\n")
        if not newline:
            self._keep(raw)
            return []
        self._keep(first)
        whole, newline, rest = after.rpartition(b"\n")
        records = [b"".join(self._rest).decode("utf-8", "replace"), *whole.decode("utf-8", "replace").split("\n")]
        self._rest, self._rest_size = [], 0
        self._keep(rest)
        entries: list[Entry] = []
        for record in records:
            record = record.strip()
            if not record:
                continue
            try:
                decoded, end = _JSON.raw_decode(record)
            except (ValueError, RecursionError):
                decoded = None
            if isinstance(decoded, dict):
                entries += self.entries(decoded)
            else:
                self.broken += 1
        return entries

    def _keep(self, part: bytes) -> None:
        if self._rest_size + len(part) > _LONGEST_RECORD:
            self._rest, self._rest_size = [], 0
            self.dropped += 1
            return
        if part:
            self._rest.append(part)
            self._rest_size += len(part)

    def entries(self, record: dict[str, Any]) -> list[Entry]:
        cursor = record.get("__CURSOR")
        if isinstance(cursor, str):
            self.cursor = cursor
        message = _text(record.get("MESSAGE"))
        if message is None:
            self.dropped += 1
            return [Entry(f"{UNSHOWN} {self.unit}", "systemd")]
        subject = record.get("UNIT")
        if subject is not None and self.unit and _text(subject) != self.unit:
            return []
        pid = _number(record.get("_PID"))
        source = self._source(record, pid, subject is not None)
        invocation = record.get("INVOCATION_ID") or record.get("OBJECT_SYSTEMD_INVOCATION_ID") or record.get("_SYSTEMD_INVOCATION_ID") or ""
        if not isinstance(invocation, str):
            invocation = _text(invocation) or ""
        if source != "unit":
            self._count_suppressed(record, message)
        elif message[-1:] == "}" and "{" in message[:60]:
            message = unfolded(message)
        time_us = _number(record.get("__REALTIME_TIMESTAMP"))
        monotonic_us = _number(record.get("__MONOTONIC_TIMESTAMP"))
        clean = self._redactor.clean
        if message.isprintable() and len(message) <= _LONGEST_LINE:
            message = message.rstrip()
            if source != "unit" or not is_parted(message):
                return [Entry(clean(message), source, invocation, pid, time_us, monotonic_us)] if message else []
            lines = [message]
        else:
            lines = clean_lines(message)
        if source == "unit":
            lines = [part for line in lines for part in (parted(line) if is_parted(line) else (line,))]
        return [Entry(clean(line), source, invocation, pid, time_us, monotonic_us) for line in lines if line]

    def _source(self, record: dict[str, Any], pid: int, has_subject: bool) -> str:
        if record.get("_TRANSPORT") == "kernel":
            return "kernel"
        if pid == 1 or has_subject:
            return "systemd"
        writer = record.get("SYSLOG_IDENTIFIER")
        return "systemd" if isinstance(writer, str) and writer.startswith("systemd") else "unit"

    def _count_suppressed(self, record: dict[str, Any], message: str) -> None:
        lost = _number(record.get("N_DROPPED"))
        if not lost:
            match = _SUPPRESSED.search(message)
            lost = int(match.group(1)) if match else 0
        self.dropped += lost
