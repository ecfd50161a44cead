# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masks secrets in text: the ones that are given, and whatever has the shape of one in SGLang's logs and answers."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable
from urllib.parse import quote

from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import Dull, bare, has_any

MASK = "********"
_SHORTEST = 3  # a shorter secret would mask ordinary words all over

_NAME = (
    r"(?:api[_-]?key|password|passwd|hf[_-]token|hub[_-]token|(?:access|auth|refresh)[_-]token|(?<=[\"'])(?:token|secret)(?=[\"'])"
    r"|secret[_-]?(?:access[_-])?key|client[_-]secret|(?:TOKEN|SECRET)(?==))"
)
_QUOTE = r"(?:\\*[\"'])"
_NOTHING = r"(?:None|null|True|False|true|false)\b"
# name='value', "name": "value", \"name\": \"value\", --name value, '--name', 'value'
_QUOTED = re.compile(rf"({_NAME}(?:{_QUOTE}?\s{{0,4}}[:=]|{_QUOTE}\s{{0,4}},|(?<=-key) )\s{{0,4}})(\\*)([\"'])((?:(?!\2\3).)*)(\2\3)?", re.IGNORECASE)
# Words that go on a sentence about a flag or a setting, and are no value of it.
_PROSE = (
    r"(?:a|an|and|as|at|by|can|cannot|does|expected|expects|flag|for|from|given|has|if|in|into|invalid|is|must|needs?|not|of|on|only|option|or|requires?"
    r"|set|should|the|to|unexpected|was|when|with|without)(?=[\s.,;:)]|$)"
)
_PLAIN = re.compile(rf"({_NAME}{_QUOTE}?\s{{0,4}}[:=]\s{{0,4}})(?![\"'\\])(?!{_NOTHING})(?!{_PROSE})([^\s,;)}}\]&\"']+)", re.IGNORECASE)
_FLAG = re.compile(rf"(--(?:[\w-]{{0,40}}-)?{_NAME}[= ]\s{{0,4}})(?![\"'\\])(?!{_PROSE})([^\s\"']+)", re.IGNORECASE)
_SCHEME = re.compile(r"\b(Bearer|Basic)(\s{1,4}|%20)(?!authentication\b|realm\b|token\b)([^\s\"',;)}\]\\]+)", re.IGNORECASE)
_SIGNED = re.compile(
    r"([?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|signature|sig|key-pair-id|policy)=)[^&\s'\"<>]+", re.IGNORECASE
)
_HUB = re.compile(r"\bhf_(?:[A-Za-z0-9]{30,}|(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{6,})")
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)([^\s/@]{1,400})@", re.IGNORECASE)
# Each shape is looked for only where one of its words stands.
_NAME_WORDS = (
    "api_key",
    "api-key",
    "apikey",
    "hf_",
    "hf-",
    "passw",
    "hub_token",
    "hub-token",
    "access_token",
    "access-token",
    "auth_token",
    "auth-token",
    "refresh_token",
    "refresh-token",
    "token=",
    'token"',
    "token'",
    "secret",
)
_SCHEME_WORDS = ("bearer", "basic")


def _spellings(secret: str) -> set[str]:
    """The ways one secret may be written in a log, a JSON body or a URL."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe=""), repr(secret)[1:-1]}


class Redactor:
    """Masks the given secrets and everything that looks like one."""

    def __init__(self, secrets: Iterable[str] = ()):
        spellings = set()
        for secret in secrets:
            if secret and len(str(secret)) >= _SHORTEST:
                spellings |= _spellings(str(secret))
        self._given = sorted(spellings, key=lambda text: (-len(text), text))
        self._dull = Dull()

    def clean(self, text: str) -> str:
        for secret in self._given:
            if secret in text:
                text = text.replace(secret, MASK)
        shape_of_line = bare(text)
        if shape_of_line in self._dull:
            return text
        lowered = text.lower()
        if "&" in lowered and "sig" in lowered:
            text = _SIGNED.sub(rf"\1{MASK}", text)
        at, names, scheme = "@" in lowered and "://" in lowered, has_any(lowered, _NAME_WORDS), has_any(lowered, _SCHEME_WORDS)
        if not (at or names or scheme or "&" in lowered):
            self._dull.add(shape_of_line)
            return text
        if at:
            text = _USERINFO.sub(rf"\1{MASK}@", text)
        if names:
            text = _QUOTED.sub(_mask_quoted, text)
            text = _PLAIN.sub(rf"\1{MASK}", text)
            text = _FLAG.sub(rf"\1{MASK}", text)
        if scheme:
            text = _SCHEME.sub(rf"\1\2{MASK}", text)
        return _HUB.sub(MASK, text) if names else text

    def clean_all(self, value: Any) -> Any:
        """The same value with every string in it masked; mappings and lists are walked."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {key: self.clean_all(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean_all(item) for item in value]
        return value


def _mask_quoted(match: re.Match) -> str:
    before, slashes, mark, value, end = match.groups()
    if not value or value == "None":
        return match.group(0)
    return f"{before}{slashes}{mark}{MASK}{end or ''}"
