# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests how a wait that goes on by itself is asked how it stands."""

from __future__ import annotations

import os
import stat
import threading
import time

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox


@pytest.fixture(name="mailbox")
def make_mailbox(tmp_path):
    mailbox = Mailbox(str(tmp_path / "box"))
    assert mailbox.create()
    return mailbox


def test_only_the_owner_can_look_in(mailbox):
    mailbox.write("result.json", {"verdict": "ready"})
    assert stat.S_IMODE(os.stat(mailbox.folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(mailbox.path("result.json")).st_mode) == 0o600
    assert mailbox.read("result.json") == {"verdict": "ready"}
    assert mailbox.read("progress.json") is None


def test_a_second_call_finds_the_first_ones_folder(mailbox):
    assert mailbox.create() is False


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    os.symlink(str(tmp_path), str(tmp_path / "trap"))
    with pytest.raises(PermissionError):
        Mailbox(str(tmp_path / "trap")).create()


@pytest.mark.parametrize("token", ["", "../../etc", "0123", "z" * 32, "0" * 65])
def test_a_token_is_no_path(token):
    with pytest.raises(ValueError):
        Mailbox.of(token)


def test_the_bell_wakes_the_one_who_listens(mailbox):
    mailbox.open_bell()
    threading.Timer(0.05, mailbox.ring).start()
    began = time.monotonic()
    mailbox.listen(30)
    assert time.monotonic() - began < 15


def test_ringing_never_blocks(mailbox):
    mailbox.open_bell()
    for _turn in range(70000):
        mailbox.ring()
    mailbox.listen(0)


def test_asking_is_seen_and_a_folder_taken_away_too(mailbox):
    before = mailbox.asked()
    time.sleep(0.02)
    mailbox.touch()
    assert mailbox.asked() != before
    mailbox.remove()
    assert mailbox.asked() == 0


def test_a_wait_is_alive_while_its_process_is_or_when_it_has_told_its_end(mailbox):
    assert mailbox.alive() is False
    mailbox.write("progress.json", {"pid": os.getpid()})
    assert mailbox.alive() is True
    mailbox.write("progress.json", {"pid": 2 ** 22 + 1})
    assert mailbox.alive() is False
    mailbox.write("result.json", {})
    assert mailbox.alive() is True
