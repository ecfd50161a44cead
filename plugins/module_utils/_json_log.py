# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a line that a server with structured logging wrote as one JSON object, as the lines it would have written without."""

from __future__ import annotations

import json
import re
from typing import Any

# The names that python-json-logger, structlog, loguru, the Elastic schema, OpenTelemetry and the log services of clouds use.
_MESSAGES = ("message", "msg", "event", "body", "text", "textPayload", "log", "@message")
_TRACES = ("exc_info", "exc_text", "exception", "traceback", "stack_trace", "stacktrace", "exception.stacktrace", "error.stack_trace", "error.stack", "stack")
_TYPES = ("exc_type", "exception.type", "error.type")
_VALUES = ("exc_value", "exception.message", "error.message")
_INNER = ("record", "error", "extra", "attributes", "jsonPayload")
_RANKS = ("rank", "prefix", "rank_prefix")
_RANK = re.compile(r"(?:\b(?:DP|PP|CP|TP|EP)\d+\b ?)+")


def unfolded(text: str) -> str:
    """The message of the object and its traceback below it; any other text as it is."""
    prefix, brace, rest = text.partition("{")
    if prefix and not prefix.rstrip().endswith("]"):
        return text
    try:
        said = json.loads(brace + rest)
    except (ValueError, RecursionError):
        return text
    if not isinstance(said, dict):
        return text
    texts = _values(said, _MESSAGES)
    message = next((item for item in texts if "Traceback (" in item), texts[0] if texts else "")
    trace = next(iter(_values(said, _TRACES)), "") or _bare_exception(said)
    if not message and not trace:
        return text
    rank = _RANK.search(next(iter(_values(said, _RANKS)), ""))
    if not prefix and rank and not message.startswith("["):
        prefix = f"[{rank.group(0).strip()}] "
    if not trace or trace in message:
        return prefix + message
    return f"{prefix}{message}\n{trace}"


def _bare_exception(said: dict[str, Any]) -> str:
    """An exception that is told by its type and its text alone."""
    inner = said.get("exception")
    for item in (*(inner if isinstance(inner, list) else ()), said):
        kind, value = (_values(item, _TYPES), _values(item, _VALUES)) if isinstance(item, dict) else ([], [])
        if kind:
            return f"Traceback (most recent call last):\n{kind[0]}: {value[0] if value else ''}"
    return ""


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
