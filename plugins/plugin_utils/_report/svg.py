# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns a matplotlib figure into SVG that can stand in a page: unique ids, a text for screen readers, colours as CSS variables."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

# Colours that stand for a variable of the page; matplotlib writes them out and they are exchanged afterwards.
INK, MUTED, GRID = "#010a01", "#010a02", "#010a03"
SERIES = 8
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", **{f"#010b{n:02x}": f"--s{n}" for n in range(SERIES)}}


def series(number: int) -> str:
    """The colour of the n-th line."""
    return f"#010b{number % SERIES:02x}"


def inline(figure: Any, prefix: str, description: str) -> str:
    """The figure as an ``<svg>`` element."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}", text)
    text = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1sans-serif", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        lambda found: f'<svg {found[1]} xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{escape(description)}">',
        text,
        count=1,
    )
