# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the short notation in which a scenario says what the server answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_STATUS = re.compile(r"^(?P<status>[1-5]\d\d)(?:\s+after\s+(?P<after>[\d.]+)\s*s(?:econds?)?)?(?:\s+(?P<rest>.*))?$", re.DOTALL)
_UNLESS = re.compile(r"^(?P<first>.*?)\s+unless header (?P<name>[\w-]+):\s*(?P<value>.*?),? then (?P<then>.*)$", re.DOTALL)
_TYPE = re.compile(r"^(?P<type>(?:text|application|image)/[\w.+-]+)(?:;\S*)?\s*(?P<body>.*)$", re.DOTALL)
_SHORT_LIST = re.compile(r"^\{?\.\.\.\s*(?P<name>[^{}]+?)\}?$")
_WORDS = {"refused": "refused", "hang": "hang", "hangs": "hang", "reset": "reset", "timeout": "hang", "tls": "tls"}


class ScenarioError(Exception):
    """A scenario is malformed; ``key`` says where."""

    def __init__(self, key: str, what: str):
        super().__init__(f"{key}: {what}" if key else what)
        self.key = key


@dataclass
class Unless:
    """Another answer for requests that carry a header."""

    name: str
    value: str
    reply: Reply


@dataclass
class Reply:
    kind: str  # status, refused, hang, reset, tls
    status: int = 0
    body: str = ""
    content_type: str = ""
    after: float = 0.0  # seconds until it is given
    unless: Unless | None = None


def parse_reply(key: str, path: str, told: Any) -> Reply:
    if isinstance(told, bool) or not isinstance(told, (str, int)):
        raise ScenarioError(key, "must be refused, hang or a status with an optional body")
    text = str(told).strip()
    unless = _UNLESS.match(text)
    if unless:
        reply = parse_reply(key, path, unless["first"])
        reply.unless = Unless(unless["name"], unless["value"].strip(), parse_reply(key, path, unless["then"]))
        return reply
    if text.lower() in _WORDS:
        return Reply(_WORDS[text.lower()])
    match = _STATUS.match(text)
    if not match:
        raise ScenarioError(key, f"must be refused, hang or a status with an optional body, not {text[:60]!r}")
    body, content_type = _body(path, int(match["status"]), (match["rest"] or "").strip())
    return Reply("status", int(match["status"]), body, content_type, float(match["after"] or 0))


def _body(path: str, status: int, rest: str) -> tuple[str, str]:
    typed = _TYPE.match(rest)
    if typed:
        return typed["body"], typed["type"]
    if not rest:
        return "", ""
    short = _SHORT_LIST.match(rest)
    if short:
        rest = short["name"].strip()
    if rest.startswith(("{", "[")):
        return rest, "application/json"
    if rest.startswith("<"):
        return rest, "text/html"
    if path == "/v1/models" and status == 200 and " " not in rest:
        return json.dumps({"object": "list", "data": [{"id": rest}]}), "application/json"
    return rest, "text/plain"
