# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences of a cause, filled in with what was seen and with the words of the server's version."""

from __future__ import annotations

import re
import signal

from ansible_collections.gpuops.sglang.plugins.module_utils._flag_table import TABLES
from ansible_collections.gpuops.sglang.plugins.module_utils._flags import canonical
from ansible_collections.gpuops.sglang.plugins.module_utils._cause_table import CAUSES, HARD_DEATH, SIGNAL_HINTS

# Words that changed between versions of the server: (first version, the words from it on), newest first.
VERSION_WORDS: tuple[tuple[tuple[int, ...], dict[str, str]], ...] = (
    ((0, 5, 15), {"graph_bs": "cuda_graph_max_bs_decode", "no_graphs": "cuda_graph_backend_decode: disabled"}),
    ((0,), {"graph_bs": "cuda_graph_max_bs", "no_graphs": "disable_cuda_graph"}),
)


def version_words(version: str) -> dict[str, str]:
    """Flag names as this version of the server knows them; those of the newest where the version is not known."""
    parts = []
    for part in version.split("+")[0].split("."):
        digits = "".join(char for char in part if char.isdigit())
        if not digits:
            break
        parts.append(int(digits[:6]))
    for since, words in VERSION_WORDS:
        if not parts or tuple(parts) >= since:
            return words
    return VERSION_WORDS[-1][1]


_EXIT_CODE = re.compile(r"exit code (-?\d+)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_KNOWN = {name for rows in TABLES.values() for name in rows}  # flags of any version: other words with underlines are values or classes
# What follows these words is no mistake.
_OFFERED = re.compile(r"\b(?:must be one of|could match|choose from|supported (?:values|ones|architectures)|available)\b", re.IGNORECASE)
_SETTING = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")


class _Filled(dict):
    def __missing__(self, key: str) -> str:
        return ""


def signal_hint(status: int) -> str:
    """Where to look after the death by a signal (11, or -11 as Python has it); empty for one that says nothing."""
    try:
        return SIGNAL_HINTS.get(signal.Signals(abs(status)).name, "")
    except ValueError:
        return ""


def _crash(words: dict[str, str]) -> tuple[str, str, dict[str, str]] | None:
    """Sentences for a process that died without an exception of Python, told by its exit code or by how it died."""
    told = words.get("exit", "")
    code = _EXIT_CODE.search(told)
    if not told or (code and int(code.group(1)) > 0):
        return None
    if not code:
        return HARD_DEATH.summary, HARD_DEATH.hint, {**words, "exit": told.replace("exit code ", "")}
    return HARD_DEATH.summary, signal_hint(int(code.group(1))) or HARD_DEATH.hint, words


def _settings(told: str) -> str:
    """The flags, or else the settings, that an error of the arguments names."""
    told = _OFFERED.split(told)[0]
    names = _FLAG.findall(told) or [name for name in _SETTING.findall(told) if canonical(name) in _KNOWN]
    return " and ".join(dict.fromkeys(names[:2])) or "that setting"


def names_setting(message: str) -> bool:
    """Does a message name a flag of the server?"""
    told = [name.lstrip("-") for name in _FLAG.findall(message)] + _SETTING.findall(message)
    return any(canonical(name) in _KNOWN for name in told)


def describe(code: str, words: dict[str, str]) -> tuple[str, str]:
    """Summary and hint of a code, with what was seen filled in."""
    summary, hint = CAUSES[code].summary, CAUSES[code].hint
    if code == "scheduler_crashed":
        summary, hint, words = _crash(words) or (summary, hint, words)
    filled = _Filled({"setting": _settings(words.get("flag", "")), **words})
    return summary.format_map(filled), hint.format_map(filled)
