# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for unit files are read back as systemd reads them, by the few of its rules that matter here."""

from __future__ import annotations

import random
import re
from functools import partial

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._systemd_quote import environment_file_line, environment_word, exec_word

AWKWARD = [
    "", "$HOME", "${HOME}", "$$", "%n", "100%", "#x", "; rm", ";", "\\;", '"', "'", "\\", "\\\\", "\\n", "a b", " lead", "trail ", "tab\there",
    "é ü 漢字", '{"a": "b c", "d": "$x %i"}', "$ % # \" '", "a=b", "~", "*", "`id`", "-x y", "@x", "!x", "\x01\x1f\x7f", "a\\", "%h/$USER\\x41",
]


def read_word(text: str, variables: bool) -> str:
    """One word of a unit file: specifiers, quotes and escapes, then the dollar where variables are replaced."""
    specifiers = re.findall(r"%(.)", text)
    assert set(specifiers) <= {"%"}, f"a specifier is left in {text}"
    text = text.replace("%%", "%")
    if text.startswith(('"', "'")):
        assert len(text) > 1 and text.endswith(text[0]) and not re.search(rf"(?<!\\)(\\\\)*{text[0]}", text[1:-1])
        text = re.sub(r"\\(x[0-9a-f]{2}|.)", lambda hit: chr(int(hit.group(1)[1:], 16)) if len(hit.group(1)) == 3 else hit.group(1), text[1:-1])
    else:
        assert re.fullmatch(r"[^\s\"'\\;#]+", text), f"{text} is not one plain word"
    if variables:
        assert re.fullmatch(r"([^$]|\$\$)*", text), f"a variable is left in {text}"
        text = text.replace("$$", "$")
    return text


def some_words() -> list[str]:
    dice = random.Random(4)
    return AWKWARD + ["".join(dice.choice("$%#\"'\\ ;{}=ab\t`~é") for _char in range(dice.randint(1, 12))) for _word in range(300)]


@pytest.mark.parametrize("word", some_words())
def test_word_arrives_as_it_was(word):
    assert read_word(exec_word(word), variables=True) == word
    assert read_word(environment_word("NAME", word), variables=False) == f"NAME={word}"


@pytest.mark.parametrize("word", some_words())
def test_environment_file_has_shell_quoting(word):
    line = environment_file_line("NAME", word)
    assert "\n" not in line and line.startswith('NAME="') and line.endswith('"')
    assert re.sub(r"\\([\"\\$`])", r"\1", line[len('NAME="') : -1]) == word


@pytest.mark.parametrize("plain", ["--tp-size", "/models/kimi-k2.6", "0.85", "a:b,c=d"])
def test_plain_words_stay_readable(plain):
    assert exec_word(plain) == plain


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "a\0b", "\udcff"])
def test_what_no_line_can_hold_is_refused(word):
    for quote in (exec_word, partial(environment_word, "NAME"), partial(environment_file_line, "NAME")):
        with pytest.raises(ValueError):
            quote(word)


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A-B", "A\nB"])
def test_bad_name_of_a_variable_is_refused(name):
    with pytest.raises(ValueError):
        environment_word(name, "x")
