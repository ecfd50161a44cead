# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests where the reading of a journal begins, and that it goes on when journalctl ends."""

from __future__ import annotations

import os
import stat
import time

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _follow
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands

BOOT = "d0c8c885ea5b4d9297f366a53513b07c"
CURSOR = "s=5360561b58204426a56188cee2826722;i=1f;b=%s;m=5f5e100;t=66170da07a60b;x=49e247e637512dda" % BOOT  # 100 s after boot


def test_a_cursor_tells_its_boot_and_time():
    assert _follow.cursor_monotonic(CURSOR) == (BOOT, 100.0)
    assert _follow.cursor_monotonic("nonsense") is None


@pytest.mark.parametrize("started, boot, older", [(90.0, BOOT, True), (110.0, BOOT, False), (90.0, "another", False), (None, BOOT, False)])
def test_whether_the_start_is_older_than_the_cursor(started, boot, older):
    assert _follow.begin_before(CURSOR, started, boot) is older


@pytest.fixture(name="journalctl")
def make_journalctl(tmp_path, monkeypatch):
    def install(script):
        path = tmp_path / "journalctl"
        path.write_text("#!/bin/sh\necho \"$@\" >> %s/calls\n%s\n" % (tmp_path, script))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", "%s:%s" % (tmp_path, os.environ["PATH"]))
        return tmp_path / "calls"

    return install


FIRST = "echo '{\"__CURSOR\": \"s=first\"}'"


@pytest.mark.parametrize("cursor, invocation, started, script, expected", [
    (CURSOR, "i1", 110.0, FIRST, ["--cursor=" + CURSOR]),
    (CURSOR, "i1", 90.0, FIRST, ["--cursor=s=first"]),
    ("", "i1", 110.0, FIRST, ["--cursor=s=first"]),
    ("", "i1", 110.0, "true", ["--since=@989"]),
    ("", "", None, "true", ["--since=@999"]),
])
def test_where_reading_begins(journalctl, cursor, invocation, started, script, expected):
    journalctl(script)
    assert _follow.start_arguments(Commands(), cursor, invocation, started, BOOT, now=120.0, wall=1000.0) == expected


def read_for(follower, seconds=3.0, cursor="", until=lambda data: False):
    data, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline and not until(data):
        data += follower.read(time.monotonic(), cursor)
        time.sleep(0.02)
    return data


def test_lines_come_as_they_are_written(journalctl):
    calls = journalctl("echo one; sleep 0.2; echo two; exec sleep 30")
    follower = _follow.JournalFollower("sglang-a.service", Commands(), ["--cursor=c0"], [].append)
    follower.open(time.monotonic())
    assert read_for(follower, until=lambda data: b"two" in data) == b"one\ntwo\n"
    follower.close()
    asked = calls.read_text()
    for word in ("--cursor=c0", "_SYSTEMD_UNIT=sglang-a.service", "UNIT=sglang-a.service", "_TRANSPORT=kernel"):
        assert word in asked


def test_reading_goes_on_behind_the_last_line(journalctl, monkeypatch):
    monkeypatch.setattr(_follow, "_RETRY_PAUSE", 0.05)
    calls = journalctl("echo again")
    notes = []
    follower = _follow.JournalFollower("sglang-a.service", Commands(), ["--since=@1"], notes.append)
    follower.open(time.monotonic())
    read_for(follower, cursor="c9", until=lambda data: data.count(b"again") >= 3)
    follower.close()
    assert "--since=@1" in calls.read_text().splitlines()[0]
    assert "--cursor=c9" in calls.read_text().splitlines()[1]
    assert notes == [] or notes[0].startswith("journal_unreadable")


@pytest.mark.parametrize("first, kept", [
    ('{"__CURSOR": "c9", "MESSAGE": "old"}', b""),
    ('{"__CURSOR": "c10", "MESSAGE": "new"}', b'{"__CURSOR": "c10", "MESSAGE": "new"}\n'),
])
def test_the_line_of_the_cursor_itself_is_not_read_again(journalctl, first, kept):
    journalctl("echo '%s'; echo two; exec sleep 30" % first)
    follower = _follow.JournalFollower("sglang-a.service", Commands(), _follow.from_cursor("c9"), [].append, '"c9"')
    follower.open(time.monotonic())
    assert read_for(follower, until=lambda data: b"two" in data) == kept + b"two\n"
    follower.close()


@pytest.mark.parametrize("script, told", [
    ("echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", True),
    ("echo 'Hint: You are currently not seeing messages from other users and the system.' >&2; echo '-- No entries --'", True),
    ("echo 'No journal files were found.' >&2", True),
    ("echo '-- No entries --'", False),
])
def test_a_journal_that_cannot_be_read_is_never_taken_for_an_empty_one(journalctl, script, told):
    journalctl(script)
    assert bool(_follow.complaint(Commands())) is told


def test_no_journalctl_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_follow, "_RETRY_PAUSE", 0.01)
    notes = []
    follower = _follow.JournalFollower("sglang-a.service", Commands(), [], notes.append)
    follower.open(time.monotonic())
    read_for(follower, 1.0, until=lambda data: bool(notes))
    assert notes[0].startswith("journal_unreadable")
