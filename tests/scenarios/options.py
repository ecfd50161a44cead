# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a wait, as the variables of a scenario name them."""

from __future__ import annotations

import re
from typing import Any

from collection import readiness
from world import UNIT_IN_TEXT

_UNIT_NAMED = re.compile(r"\b([\w@:.\\-]+\.service)\b")
_SECRET_NAME = re.compile(r"key|token|password|secret", re.IGNORECASE)


def options_of(scenario: dict[str, Any]) -> Any:
    told = scenario.get("vars") or {}
    first = {key: value for key, value in told.items() if value is not None}
    options = readiness.WaitOptions(
        unit=_unit_name(scenario),
        port=int(first.get("port", 30000)),
        model=str(first.get("served_model_name", first.get("model", "demo-model"))),
        api_key_given=bool(first.get("api_key")),
        version=str(first.get("version", "")),
        wait_timeout=float(scenario.get("budget", first.get("wait_timeout", 1800))),
        restart_limit=int(first.get("restart_limit_during_wait", first.get("restart_limit", 0))),
        nnodes=int(first.get("nnodes", 1)),
        node_rank=int(first.get("node_rank", 0)),
        dist_init_addr=str(first.get("dist_init_addr", "")),
        error_patterns=[{"regex": item} if isinstance(item, str) else item for item in listed(first.get("error_patterns"))],
        ready_query=str(first.get("ready_query", "")),
        extend_while_progress=bool(first.get("extend_while_progress", False)),
        generate=bool(first.get("generate", True)),
        probe_timeout=float(first.get("probe_timeout", 25)),
        wait_sleep=float(first.get("wait_sleep", 1)),
        journal_lines=int(first.get("journal_lines", 20)),
        invocation_id=str(first.get("invocation_id", "")),
        usual_seconds=first.get("usual_seconds") or {},
        secrets=tuple(_secrets(told)),
    )
    stall = scenario.get("no_progress_limit", first.get("stall_timeout"))
    if stall is not None:
        options.stall_timeout = float(stall)
    return options


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _secrets(told: Any, secret: bool = False) -> list[str]:
    """Every value whose name sounds like a secret, however deep."""
    if isinstance(told, dict):
        return [text for name, value in told.items() for text in _secrets(value, secret or bool(_SECRET_NAME.search(str(name))))]
    if isinstance(told, list):
        return [text for value in told for text in _secrets(value, secret)]
    return [str(told)] if secret and isinstance(told, str) else []


def _unit_name(scenario: dict[str, Any]) -> str:
    told = scenario.get("vars") or {}
    name = told.get("unit") or told.get("name") or ""
    if name:
        return str(name) if str(name).endswith(".service") else f"{name}.service"
    texts = [line.get("MESSAGE", "") if isinstance(line, dict) else line for entry in scenario["timeline"] for line in entry.get("journal") or []]
    for regex in (UNIT_IN_TEXT, _UNIT_NAMED):
        for text in texts:
            match = regex.search(text) if isinstance(text, str) else None
            if match and match.group(1) != "system.slice":
                return match.group(1)
    return "sglang-demo.service"
