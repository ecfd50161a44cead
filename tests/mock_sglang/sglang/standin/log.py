# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines in the form of the real server: to stderr, one write a record, no level word."""

from __future__ import annotations

import os
import time

STDERR = 2


def raw(text: str) -> None:
    """Write bytes as they are; progress bars use it."""
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(STDERR, data):]
    except OSError:
        pass  # nobody reads any more: a server goes on serving


def line(text: str, prefix: str = "") -> None:
    """Write one record with its time and the rank that speaks."""
    raw("[%s%s] %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), prefix, text))


def uvicorn(text: str, level: str = "INFO") -> None:
    """Write one record of the web server."""
    line("%-10s%s" % (level + ":", text))


def traceback(error: str, frames: tuple[tuple[str, int, str, str], ...]) -> str:
    """A traceback as Python prints it, made of (file, line, function, source) and the last line."""
    parts = ["Traceback (most recent call last):"]
    for path, number, function, source in frames:
        parts.append('  File "%s", line %d, in %s' % (path, number, function))
        parts.append("    " + source)
    return "\n".join([*parts, error])
