# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences of a cause, filled in with what was seen and with the words of the server's version."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._cause_table import CAUSES

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


class _Filled(dict):
    def __missing__(self, key: str) -> str:
        return ""


def describe(code: str, words: dict[str, str]) -> tuple[str, str]:
    """Summary and hint of a code, with what was seen filled in."""
    text = CAUSES[code]
    filled = _Filled(words)
    return text.summary.format_map(filled), text.hint.format_map(filled)
