# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refusal: an input that cannot work, with the code of the catalogue and a sentence that says what would."""

from __future__ import annotations


class Refusal(ValueError):
    """Raised before anything is touched; its text starts with the code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
