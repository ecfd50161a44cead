# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a line that a server with structured logging wrote as one JSON object, as the lines it would have written without."""

from __future__ import annotations

import json
import re
from typing import Any

# The names that python-json-logger, structlog, loguru and the Elastic schema use.
_MESSAGES = ("message", "msg", "event", "text")
_TRACES = ("exc_info", "exc_text", "exception", "traceback", "stack_trace", "error.stack_trace", "stack")
_INNER = ("record", "error", "extra")
_RANKS = ("rank", "prefix", "rank_prefix")
_RANK = re.compile(r"(?:\b(?:DP|PP|CP|TP|EP)\d+\b ?)+")


def unfolded(message: str) -> str:
    """The message of the object and its traceback below it; any other text as it is."""
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        return message
    if not isinstance(said, dict):
        return message
    texts = _values(said, _MESSAGES)
    text = next((item for item in texts if "Traceback (" in item), texts[0] if texts else "")
    trace = next(iter(_values(said, _TRACES)), "")
    if not text and not trace:
        return message
    rank = _RANK.search(next(iter(_values(said, _RANKS)), ""))
    prefix = f"[{rank.group(0).strip()}] " if rank and not text.startswith("[") else ""
    return f"{prefix}{text}\n{trace}" if trace and trace not in text else prefix + text


def _values(said: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """The texts under the names, those of the object itself before those of a record inside it."""
    found = []
    for name in names:
        value = said.get(name)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            value = "\n".join(value)
        if isinstance(value, str) and value.strip():
            found.append(value.strip("\n"))
    for inner in _INNER:
        if isinstance(said.get(inner), dict):
            found += _values({name: value for name, value in said[inner].items() if name not in _INNER}, names)
    return found
