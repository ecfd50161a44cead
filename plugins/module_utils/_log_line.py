# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes a line of SGLang's log apart: the rank in its prefix, what it says, and what it has in common with others."""

from __future__ import annotations

import re
from functools import lru_cache

_BRACKET = re.compile(r"^\s?\[(?P<inside>[^\]]{0,120})\]:? ?")
_RANK_WORDS = re.compile(r"\b(?:DP|PP|CP|ATTN_CP|MOE_DP|TP|EP)\d+\b")
_RANK_NUMBER = re.compile(r"\brank ?(\d{1,5})\b", re.IGNORECASE)
_LEVEL = re.compile(r"^(?:INFO|ERROR|CRITICAL|WARNING|FATAL)\b ?:?\s+")
_VARYING = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)

# What collectors and launchers put before each line: docker logs -t, the container runtimes of Kubernetes, docker compose, ray, mpirun.
_COLLECTOR = re.compile(
    r"20\d\d-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?(?=\S|  )|\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} "
    r"|[\w.-]{1,64} {1,20}\| |\((?:[\w:.-]{1,64} )?pid=\d+(?:, ip=[\d.:a-f]+)?\) ?|\[\d{1,4},\d{1,5}\]<std(?:err|out)>: ?"
)
_COLLECTED = tuple("0123456789(")  # how their prefixes begin, where they have no other mark
# The prefix of a line that was written behind another one without an end, as a progress bar is.
_GLUED = re.compile(r"(?=\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[ \w]{0,60}\])")

_QUOTING = re.compile(r"['\"{}=]|: ")  # what follows is quoted, such as the text of a request
_FIRST_PREFIX = re.compile(r"^\[[^\]]{0,80}\] ?")
_BAR_END = re.compile(r"\d%.{0,300}\|.{0,300}\]\s*$")

_CACHED = 1000  # characters: some hundred lines are kept, since each is asked for by several readers
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}


def bare(text: str) -> str:
    """A line without its digits: what has once been seen to be of no interest need not be looked at again."""
    return _bare(text) if len(text) < _CACHED else text.translate(_NO_DIGITS)


@lru_cache(maxsize=512)
def _bare(text: str) -> str:
    return text.translate(_NO_DIGITS)


def is_parted(text: str) -> bool:
    """May there be more in a line than one line of a log? A quick look, for most lines."""
    start = text[:80]
    return start[:1] in _COLLECTED or " | " in start or "]<std" in start or text.find("[20", 1) > 0


def parted(text: str) -> list[str]:
    """The lines that one line of a log holds, without what a collector put before them."""
    match = _COLLECTOR.match(text)
    text = text[match.end() :] if match else text
    parts = [part for part in _GLUED.split(text) if part.strip()]
    is_quoted = len(parts) > 1 and _QUOTING.search(_FIRST_PREFIX.sub("", parts[0])) and not _BAR_END.search(parts[0])
    return [text] if is_quoted else parts


def has_any(lowered: str, words: tuple[str, ...]) -> bool:
    """Has a line, given in lower case, any of the words?"""
    for word in words:  # three times as fast as any() over a generator
        if word in lowered:
            return True
    return False


class Dull:
    """Remembers the bare lines that a reader has found to be of no interest; bounded, and only a shortcut."""

    _KEPT = 4096

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __contains__(self, shape_of_line: str) -> bool:
        return shape_of_line in self._known

    def add(self, shape_of_line: str) -> None:
        if len(self._known) >= self._KEPT:
            self._known.clear()
        self._known.add(shape_of_line)


def split(text: str) -> tuple[str, str]:
    """The rank that a line's prefix names ("TP3", "PP1 TP0", "rank4", ""), and the line without its prefixes."""
    rank, body = "", text
    for _prefix in range(3):
        match = _BRACKET.match(body)
        if not match:
            break
        inside = match["inside"]
        words = _RANK_WORDS.findall(inside)
        number = _RANK_NUMBER.search(inside)
        if words:
            rank = " ".join(words)
        elif number:
            rank = rank or f"rank{number.group(1)}"
        elif not (":" in inside or ".." in inside or "…" in inside):
            break
        body = body[match.end() :]
    level = _LEVEL.match(body)
    return rank, body[level.end() :] if level else body


def shape(line: str) -> str:
    """A line without what differs between ranks, runs and moments."""
    return _VARYING.sub("#", split(line)[1])[:300]
