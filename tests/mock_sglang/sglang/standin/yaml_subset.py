# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the YAML a --config file holds: one mapping of scalars, lists and small mappings."""

from __future__ import annotations

import json
import re

WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None, "": None}


def _quoted(text: str):
    if text[0] == '"':
        return json.loads(text)
    return text[1:-1].replace("''", "'")


def _split_flow(text: str) -> list[str]:
    parts, depth, quote, word = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        if char == "," and not depth and not quote:
            parts.append(word)
            word = ""
        else:
            word += char
    return [*parts, word] if word.strip() else parts


def scalar(text: str):
    """One value: quoted text, number, truth, nothing, flow list or flow mapping."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        return _quoted(text)
    if text.startswith("["):
        return [scalar(part) for part in _split_flow(text[1:-1])]
    if text.startswith("{"):
        pairs = (part.partition(":") for part in _split_flow(text[1:-1]))
        return {str(scalar(key)): scalar(value) for key, _sep, value in pairs}
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?", text):
        return float(text)
    return text


def _without_comment(line: str) -> str:
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or line[at - 1] in " [{,:"):
            quote = char
        elif char == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at]
    return line


def _pair(line: str) -> tuple[str, str]:
    match = re.match(r"""\s*("[^"]*"|'[^']*'|[^:\s][^:]*?)\s*:(?:\s+(.*))?$""", line)
    if not match:
        raise ValueError("Config file must contain a dictionary at root level")
    return str(_quoted(match.group(1)) if match.group(1)[0] in "\"'" else match.group(1)), (match.group(2) or "").strip()


def load_mapping(text: str) -> dict:
    """The mapping a file holds; a block list or block mapping may follow a key, one level deep."""
    lines = [_without_comment(line).rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line.strip() and line.strip() not in ("---", "...")]
    result, key = {}, ""
    for line in lines:
        inner = line.strip()
        if key and (inner.startswith("- ") or inner == "-"):
            result[key] = result[key] or []
            result[key].append(scalar(inner[1:]))
        elif key and line[0] in " \t":
            result[key] = result[key] or {}
            name, value = _pair(line)
            result[key][name] = scalar(value)
        else:
            name, value = _pair(line)
            result[name] = scalar(value) if value else None
            key = "" if value else name
    return result
