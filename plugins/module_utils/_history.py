# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps how long earlier starts took, so that the next one knows what is usual."""

from __future__ import annotations

import json
import os
from statistics import median
from typing import Any, Iterable

_KEPT = 500  # lines
_COMPARED = 5  # the last starts of the same kind
_READ_AT_MOST = 1024 * 1024


def parse(text: str) -> list[dict[str, Any]]:
    """Records of a file of JSON lines; a line that is cut or foreign is left out."""
    records = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("phases"), dict) and _is_seconds(record.get("total")):
            records.append(record)
    return records


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def load(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _READ_AT_MOST))
            return parse(handle.read().decode("utf-8", "replace"))
    except OSError:
        return []


def usual(records: Iterable[dict[str, Any]], strategy: str, version: str, model: str) -> dict[str, float]:
    """Median seconds of each phase, and ``total``, over the last starts of the same kind; empty when there were none."""
    same = [one for one in records if (one.get("strategy"), one.get("version"), one.get("model")) == (strategy, version, model)][-_COMPARED:]
    if not same:
        return {}
    seconds: dict[str, list[float]] = {}
    for record in same:
        for phase, value in record["phases"].items():
            if _is_seconds(value):
                seconds.setdefault(phase, []).append(value)
    usual_seconds = {phase: round(median(values), 1) for phase, values in seconds.items()}
    usual_seconds["total"] = round(median(one["total"] for one in same), 1)
    return usual_seconds


def of_invocation(records: Iterable[dict[str, Any]], invocation: str) -> dict[str, Any] | None:
    """The record of one start, by the unit's InvocationID."""
    return next((one for one in records if invocation and one.get("invocation_id") == invocation), None)


def append(path: str, record: dict[str, Any]) -> None:
    """Add one start; the oldest are dropped when there are many."""
    os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
    with open(path, "a", encoding="utf-8") as handle:
        handle.write(json.dumps(record, sort_keys=True) + "\n")
    with open(path, encoding="utf-8", errors="replace") as handle:
        lines = handle.readlines()
    if len(lines) > 2 * _KEPT:
        draft = path + ".new"
        with open(draft, "w", encoding="utf-8") as handle:
            handle.writelines(lines[-_KEPT:])
        os.replace(draft, path)
