# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal is decoded whatever bytes stand in it, and nothing in it can stop the wait."""

from __future__ import annotations

import json
import random
import time

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._journal import Decoder
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._readiness import Wait, WaitOptions

UNIT = "sglang-k26-ep8.service"


def texts(record):
    return [entry.text for entry in Decoder(UNIT).entries(record)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("one line", ["one line"]),
        ("a\nb\n\nc\n", ["a", "b", "c"]),
        ("  0% | 0/4\r 50% | 2/4\r100% | 4/4", ["  0% | 0/4", " 50% | 2/4", "100% | 4/4"]),
        ("\x1b[1;33mdeprecated\x1b[0m \x1b]0;title\x07text", ["deprecated text"]),
        ("nul\x00 and bell\x07", ["nul and bell"]),
        ([99, 97, 102, 195, 169, 10, 255], ["caf\u00e9", "\ufffd"]),
        (["first", "second"], ["first", "second"]),
        (12, ["12"]),
        ("    indented stays", ["    indented stays"]),
        ("", []),
    ],
)
def test_a_message_becomes_lines(message, expected):
    assert texts({"MESSAGE": message}) == expected


def test_a_message_that_the_journal_left_out_is_counted():
    decoder = Decoder(UNIT)
    told = decoder.entries({"MESSAGE": None})
    assert decoder.dropped == 1 and told[0].source == "systemd" and UNIT in told[0].text


def test_lines_that_journald_suppressed_are_counted():
    decoder = Decoder(UNIT)
    decoder.entries({"MESSAGE": f"Suppressed 123 messages from {UNIT}", "SYSLOG_IDENTIFIER": "systemd-journald"})
    decoder.entries({"MESSAGE": "whatever", "SYSLOG_IDENTIFIER": "systemd-journald", "N_DROPPED": "7"})
    assert decoder.dropped == 130


@pytest.mark.parametrize(
    ("record", "source"),
    [
        ({"_PID": "4100", "_SYSTEMD_UNIT": UNIT}, "unit"),
        ({"_PID": "1", "UNIT": UNIT}, "systemd"),
        ({"_PID": "77", "UNIT": UNIT, "SYSLOG_IDENTIFIER": "(python3)"}, "systemd"),
        ({"_TRANSPORT": "kernel"}, "kernel"),
    ],
)
def test_who_wrote_a_line(record, source):
    assert Decoder(UNIT).entries({"MESSAGE": "x", **record})[0].source == source


def test_systemds_lines_about_other_units_are_not_ours():
    assert texts({"MESSAGE": "x", "_PID": "1", "UNIT": "ssh.service"}) == []


def test_fields_and_cursor():
    decoder = Decoder(UNIT)
    entry = decoder.entries(
        {
            "MESSAGE": "x",
            "_PID": "4100",
            "_SYSTEMD_INVOCATION_ID": "i1",
            "__CURSOR": "s=1",
            "__REALTIME_TIMESTAMP": "17",
            "__MONOTONIC_TIMESTAMP": "5",
        }
    )[0]
    assert entry == Entry("x", "unit", "i1", 4100, 17, 5) and decoder.cursor == "s=1"


def test_records_cut_anywhere_are_put_together_again():
    stream = b"".join(json.dumps({"MESSAGE": f"line {number}"}).encode() + b"\n" for number in range(40))
    for size in (1, 3, 7, 64, 1000):
        decoder = Decoder(UNIT)
        read = [entry.text for start in range(0, len(stream), size) for entry in decoder.feed(stream[start : start + size])]
        assert read == [f"line {number}" for number in range(40)]


def test_a_broken_record_costs_only_itself():
    decoder = Decoder(UNIT)
    read = decoder.feed(b'{"MESSAGE": "a"}\n{"MESSAGE": "b\n[1, 2]\n\xff\xfe\n{"MESSAGE": "c"}\n')
    assert [entry.text for entry in read] == ["a", "c"] and decoder.broken == 3


def test_secrets_never_leave_the_decoder():
    assert "s3cret" not in str(Decoder(UNIT, ["s3cret"]).entries({"MESSAGE": "key s3cret\rapi_key='other'"}))


def test_a_huge_message_is_read_in_linear_time():
    decoder = Decoder(UNIT)
    began = time.process_time()
    decoder.feed(json.dumps({"MESSAGE": "x" * 4_000_000}).encode() + b"\n" + json.dumps({"MESSAGE": " 7%|# | 1/9\r" * 60_000}).encode() + b"\n")
    assert time.process_time() - began < 5


_PARTS = (
    "Traceback (most recent call last):",
    '  File "x", line 1',
    "ValueError: ",
    "[10:00:00 TP3] ",
    "Scheduler hit an exception: ",
    "CUDA out of memory",
    "\r",
    "\n",
    "\x1b[31m",
    "\x00",
    "\ud800",
    "\u2028",
    "100% Completed | 3/3",
    "server_args=",
    "api_key='",
    "[rank1]:",
    "During handling of the above exception",
    "[" * 50,
    "0x7f",
    "Capture cuda graph failed: ",
    "\t" * 20,
    "Load weight begin. avail mem=1..2.3 GB",
    "Xid (PCI:0000:81:00): 79",
    "Killed process 1 (sglang)",
    "\u0663\u0664%|",
    "port 99999 is in use",
    "{" * 30,
    "usage: x [-h]",
    "error: argument --x",
)


def _random_message(chance):
    kind = chance.randrange(6)
    if kind == 0:
        return [chance.randrange(-3, 300) if chance.random() < 0.01 else chance.randrange(256) for _byte in range(chance.randrange(60))]
    if kind == 1:
        return chance.choice([None, 3.5, True, {}, {"a": [1]}, [], [[1, 2], "x", None], -1])
    return "".join(chance.choice(_PARTS) if chance.random() < 0.7 else chr(chance.randrange(0x3000)) for _part in range(chance.randrange(8)))


def _random_journal(chance):
    lines = []
    for _record in range(chance.randrange(6)):
        record = {
            name: chance.choice(["1", "4100", "kernel", UNIT, "i1", "i2", None, 5, [1, 2], {}, "", "9" * 30])
            for name in chance.sample(
                [
                    "_PID",
                    "UNIT",
                    "_TRANSPORT",
                    "INVOCATION_ID",
                    "_SYSTEMD_INVOCATION_ID",
                    "SYSLOG_IDENTIFIER",
                    "__CURSOR",
                    "N_DROPPED",
                    "__REALTIME_TIMESTAMP",
                ],
                4,
            )
        }
        record["MESSAGE"] = _random_message(chance)
        raw = json.dumps(record, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
        if chance.random() < 0.1:
            raw = raw[: chance.randrange(len(raw))]
        if chance.random() < 0.1:
            raw = bytes(chance.randrange(256) for _byte in range(20)) + raw
        lines.append(raw)
    return b"\n".join(lines) + (b"\n" if chance.random() < 0.9 else b"")


def test_random_journals_stop_nothing():
    chance = random.Random(20260105)
    decoder = Decoder(UNIT, ["s3cret"])
    wait = Wait(WaitOptions(unit=UNIT, invocation_id="i1", secrets=("s3cret",)))
    for number in range(10_000):
        if number % 250 == 0:
            json.dumps(wait.result(float(number)))
            decoder, wait = Decoder(UNIT, ["s3cret"]), Wait.load(wait.options, json.loads(json.dumps(wait.dump())))
        entries = decoder.feed(_random_journal(chance))
        wait.on_journal(float(number % 250), entries)
        if number % 25 == 0:
            wait.verdict(float(number % 250))
