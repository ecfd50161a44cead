# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text to token counts and token numbers to text, and the prefix cache over them."""

from __future__ import annotations

import zlib

BYTES_PER_TOKEN = 4
PAGE_BYTES = 64  # 16 tokens
MAX_PAGES = 400_000
PIECES = (
    " the", " load", " of", " weights", ",", " a", " rank", " is", " ready", " to", " serve", ".", " each", " token", " and",
    " graph", " in", " the", " queue", " runs", " on", " eight", " cards", " by", " stage", ";", " then", " it", " waits",
    " for", " more", " work",
)
# tokens that end inside a character give no text of their own: 12 of 32, so 32 tokens come as 20 pieces of text
SILENT = frozenset((2, 5, 7, 10, 13, 15, 18, 21, 23, 26, 29, 30))


def count(text: str) -> int:
    """Tokens of a text: one for four bytes."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def piece(seed: int, number: int) -> str:
    """Text of one output token; the same prompt gives the same text."""
    return PIECES[(seed + number * 7) % len(PIECES)]


def is_silent(number: int) -> bool:
    """Does this token (counted from 1) give its text only with the next one?"""
    return (number - 1) % 32 in SILENT


class PrefixCache:
    """Which beginnings of prompts were seen, in pages of 16 tokens."""

    def __init__(self, enabled: bool):
        self.enabled = enabled
        self.pages = set()

    def look_up(self, text: str) -> int:
        """Tokens at the beginning that need not be computed again; the last token always is."""
        if not self.enabled:
            return 0
        data = text.encode("utf-8", "replace")
        known = 0
        for key in self._keys(data):
            if key not in self.pages:
                break
            known += PAGE_BYTES // BYTES_PER_TOKEN
        return min(known, max(count(text) - 1, 0))

    def remember(self, text: str) -> None:
        """Keep the prompt for the next one."""
        if not self.enabled:
            return
        if len(self.pages) > MAX_PAGES:
            self.pages.clear()
        self.pages.update(self._keys(text.encode("utf-8", "replace")))

    @staticmethod
    def _keys(data: bytes):
        check = 1
        for at in range(0, len(data) - PAGE_BYTES + 1, PAGE_BYTES):
            page = data[at:at + PAGE_BYTES]
            check = zlib.crc32(page, check)
            yield check, at, page[:8]

    def clear(self) -> None:
        """Forget everything."""
        self.pages.clear()
