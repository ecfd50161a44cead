# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for systemd's files, written so that the process gets them byte for byte."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_text(text: str) -> None:
    """Refuse what cannot stand in one line of a unit file."""
    if "\n" in text or "\r" in text:
        raise ValueError("holds a newline")
    if "\0" in text:
        raise ValueError("holds a NUL byte")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("is not valid UTF-8") from None


def _quoted(text: str) -> str:
    quote = "'" if '"' in text and "'" not in text else '"'  # JSON stays readable
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("%", "%%")
    escaped = "".join(f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char for char in escaped)
    return quote + escaped + quote


def exec_word(word: str) -> str:
    """One argument of ``ExecStart=``: there ``$`` starts a variable and ``%`` a specifier."""
    check_text(word)
    if _PLAIN.fullmatch(word):
        return word
    return _quoted(word).replace("$", "$$")


def environment_word(name: str, value: str) -> str:
    """One assignment of ``Environment=``: there ``$`` means nothing and ``%`` starts a specifier."""
    check_name(name)
    check_text(value)
    assignment = f"{name}={value}"
    if _PLAIN.fullmatch(assignment):
        return assignment
    return _quoted(assignment)


def environment_file_line(name: str, value: str) -> str:
    """One line of an ``EnvironmentFile=``, which has a shell's quoting, no variables and no specifiers."""
    check_name(name)
    check_text(value)
    escaped = re.sub(r'(["\\$`])', r"\\\1", value)
    return f'{name}="{escaped}"'


def check_name(name: str) -> None:
    """Refuse what is no name of an environment variable."""
    if not _NAME.fullmatch(name):
        raise ValueError("is no name of an environment variable")
