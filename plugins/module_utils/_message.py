# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what a person reads when a wait ends: cause and remedy first, then the line, then its surroundings."""

from __future__ import annotations

import textwrap
import time
from typing import Any

_LINE_SHOWN = 300


def failure_message(result: dict[str, Any], unit: str = "") -> str:
    """One paragraph: the cause and the remedy in two sentences, then the line with its rank and time."""
    verdict = result.get("verdict") or "unfinished"
    name = unit or "the unit"
    if verdict == "ready":
        return f"{name} is ready after {result['elapsed']:.0f} s."
    cause = result.get("cause")
    if not cause:
        return f"{name} is not ready yet (phase {result.get('phase')})."
    parts = [_sentence(cause["summary"]), _sentence(cause["hint"])]
    if cause.get("line"):
        line = cause["line"] if len(cause["line"]) <= _LINE_SHOWN else cause["line"][:_LINE_SHOWN] + "…"
        parts.append(f"The line{_marks(cause)}: {line}")
    code = f", cause {cause['code']}" if cause.get("code") else ""
    parts.append(f"({name}: {verdict} in phase {result['phase']} after {result['elapsed']:.0f} s{code})")
    return " ".join(part for part in parts if part)


def failure_lines(result: dict[str, Any], unit: str = "", width: int = 78) -> list[str]:
    """The same for a log: wrapped, followed by the journal's lines around the cause, each shortened to the width."""
    lines = textwrap.wrap(failure_message(result, unit), max(width, 40), break_on_hyphens=False) or [""]
    context = result.get("journal") or []
    if context:
        lines.append(f"Journal, {len(context)} line{'s' if len(context) != 1 else ''}:")
        lines += [_shorten("  " + line, max(width, 40)) for line in context]
    return lines


def _marks(cause: dict[str, Any]) -> str:
    marks = []
    if cause.get("rank"):
        marks.append(cause["rank"])
    if cause.get("time_us"):
        marks.append(time.strftime("%H:%M:%S", time.localtime(cause["time_us"] / 1e6)))
    if cause.get("seen", 1) > 1:
        marks.append(f"seen {cause['seen']} times")
    return f" ({', '.join(marks)})" if marks else ""


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else text + "."


def _shorten(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
