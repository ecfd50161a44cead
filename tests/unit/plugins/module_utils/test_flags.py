# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags by version: names, kinds and values are checked, renamed ones are pointed out, and a help text is read back."""

from __future__ import annotations

import argparse

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _flags
from ansible_collections.gpuops.sglang.plugins.module_utils._flag_table import DEPRECATED, SGLANG_0_5_23
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

NEWEST = _flags.table("0.5.23")


@pytest.mark.parametrize("spelling", ["tp-size", "tp_size", "--tp-size", "tensor_parallel_size", "tensor-parallel-size"])
def test_one_name_for_every_spelling(spelling):
    assert _flags.canonical(spelling) == "tp-size"


@pytest.mark.parametrize("name", ["", "--", "a b", "tp$size", "ä", 7, None])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(Refusal, match="bad_flags"):
        _flags.canonical(name)


@pytest.mark.parametrize("flag, version, said", [
    ("enable-ep-moe", "0.5.23", "--enable-ep-moe was removed in 0.5.6: use --ep-size"),
    ("cuda-graph-max-bs", "0.5.23", "--cuda-graph-max-bs was removed in 0.5.20: use --cuda-graph-max-bs-decode"),
    ("cuda-graph-max-bs", "0.5.21", "--cuda-graph-max-bs was removed in 0.5.20: use --cuda-graph-max-bs-decode"),
    ("cuda-graph-max-bs", "0.5.19", ""),
    ("piecewise-cuda-graph-max-tokens", "0.5.23", "was removed in 0.5.20"),
    ("attn-dp-size", "0.5.21", "--attn-dp-size came with 0.5.22"),
    ("attn-dp-size", "0.5.23", ""),
    ("ssl-keyfile", "0.5.8", ""),
    ("ssl-keyfile", "0.5.6", "--ssl-keyfile came with 0.5.10"),
    ("tpsize", "0.5.23", "0.5.23 has no --tpsize: did you mean --tp-size"),
    ("pp", "0.5.23", "did you mean --pp-async-batch-depth, --pp-max-micro-batch-size, --pp-size?"),
    ("tp-size", "0.5.23", ""),
    ("no-such-thing-at-all", "0.4.0", ""),
])
def test_unknown_flag_says_what_to_write(flag, version, said):
    found = _flags.unknown(flag, version, _flags.table(version))
    assert (said in found) if said else (found == "")


def test_local_part_of_a_version_does_not_count():
    assert _flags.table("0.5.23+standin") is not None
    assert _flags.table("0.5.23.post1") is None
    assert _flags.table("9.9") is None


@pytest.mark.parametrize("name, value, words", [
    ("trust-remote-code", True, ["--trust-remote-code"]),
    ("trust-remote-code", False, []),
    ("tp-size", None, []),
    ("tp-size", 8, ["--tp-size", "8"]),
    ("tp-size", "8", ["--tp-size", "8"]),
    ("mem-fraction-static", 0.85, ["--mem-fraction-static", "0.85"]),
    ("chunked-prefill-size", -1, ["--chunked-prefill-size", "-1"]),
    ("context-length", "128k", ["--context-length", "128k"]),
    ("cuda-graph-bs-decode", [1, 2, 4], ["--cuda-graph-bs-decode", "1", "2", "4"]),
    ("cuda-graph-config", {"decode": {"backend": "full"}}, ["--cuda-graph-config", '{"decode": {"backend": "full"}}']),
    ("json-model-override-args", {"a": "ü"}, ["--json-model-override-args", '{"a": "ü"}']),
    ("enable-tf32-matmul", True, ["--enable-tf32-matmul"]),
    ("enable-tf32-matmul", False, ["--no-enable-tf32-matmul"]),
    ("chat-template", "--odd", ["--chat-template=--odd"]),
    ("chat-template", "", ["--chat-template", ""]),
    ("speculative-algorithm", "DFLASH", ["--speculative-algorithm", "DFLASH"]),
])
def test_values_as_words(name, value, words):
    assert _flags.words(name, value, NEWEST.get(name)) == words


@pytest.mark.parametrize("name, value, said", [
    ("tp-size", "eight", "whole number"),
    ("tp-size", 1.5, "whole number"),
    ("tp-size", True, "needs a value"),
    ("tp-size", [1, 2], "takes one value"),
    ("trust-remote-code", "yes", "takes no value"),
    ("mem-fraction-static", "much", "a number"),
    ("attention-backend", "magic", "takes one of triton"),
    ("cuda-graph-bs-decode", [], "empty list"),
    ("cuda-graph-bs-decode", [1, "two"], "whole numbers"),
    ("chat-template", "a\nb", "newline"),
    ("chat-template", "a\0b", "NUL"),
])
def test_values_that_the_server_would_refuse(name, value, said):
    with pytest.raises(Refusal, match=f"bad_flags: .*{said}"):
        _flags.words(name, value, NEWEST.get(name))


@pytest.mark.parametrize("value, words", [
    (True, ["--x"]), (False, []), (None, []), (3, ["--x", "3"]), (["a", 1], ["--x", "a", "1"]), ({"k": 1}, ["--x", '{"k": 1}']),
])
def test_without_a_table_the_value_decides(value, words):
    assert _flags.words("x", value) == words


def build_parser() -> argparse.ArgumentParser:
    """A parser with every flag of the table, declared as the server declares them."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    for name, row in SGLANG_0_5_23.items():
        kind, aliases, choices = (*row, (), ())[0], row[1] if len(row) > 1 else (), row[2] if len(row) > 2 else ()
        spellings = ["--" + spelling for spelling in (name, *aliases)]
        about = "Talks about --other and [things] at some length, so that the text has to go over several lines in any case."
        if kind == "flag":
            parser.add_argument(*spellings, action="store_true", help=about)
        elif kind == "switch":
            parser.add_argument(*spellings, action=argparse.BooleanOptionalAction, help=about)
        else:
            count = {"*": "*", "s": "+"}.get(kind[-1]) if kind.rstrip("*") in ("ints", "floats", "strs") else "?" if kind == "optional" else None
            parser.add_argument(*spellings, nargs=count, choices=choices or None, help=about)
    return parser


def test_help_of_an_installed_server_is_read_whole():
    found = _flags.parse_help(build_parser().format_help())
    assert set(found) == set(SGLANG_0_5_23)
    read, table = _flags.Known(found), NEWEST
    for name, row in SGLANG_0_5_23.items():
        for spelling in (name, *(row[1] if len(row) > 1 else ())):
            assert read.get(spelling).name == name
        assert read.get(name).takes_value == table.get(name).takes_value, name
        assert read.get(name).takes_list == table.get(name).takes_list, name
        assert read.get(name).choices == table.get(name).choices, name


def test_flags_out_of_the_help_are_still_known():
    known = _flags.installed("0.5.23+standin", {"only-here": ("str", (), ())})
    assert known.get("only-here") and known.get("tp-size")
    assert _flags.installed("9.9", {"only-here": ("str", (), ())}).get("tp-size") is None


def test_a_server_that_lists_nothing_gives_nothing():
    assert _flags.parse_help("") == {}
    assert _flags.parse_help("Traceback (most recent call last):\n  File x\nImportError: libcuda.so.1\n") == {}


def test_deprecated_flags_are_in_the_table():
    assert set(DEPRECATED) <= set(SGLANG_0_5_23)
