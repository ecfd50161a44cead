# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests what a stop finds out by itself about the units it is to stop."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _stop_job


@pytest.fixture
def proc(tmp_path):
    def started(interpreter: str) -> str:
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "cmdline").write_bytes(f"{interpreter}\0-m\0sglang.launch_server\0".encode())
        return str(tmp_path)

    return started


@pytest.mark.parametrize("interpreter, version", [
    ("/opt/sglang/0.5.18/bin/python", "0.5.18"),
    ("/opt/sglang/0.5.23+standin/bin/python3", "0.5.23+standin"),
    ("/usr/bin/python3", ""),
    ("python", ""),
])
def test_version_from_the_interpreter(proc, interpreter, version):
    assert _stop_job.version_of(7, proc(interpreter)) == version


def test_the_link_for_people_is_followed(proc, tmp_path):
    (tmp_path / "0.5.18" / "bin").mkdir(parents=True)
    (tmp_path / "current").symlink_to("0.5.18")
    assert _stop_job.version_of(7, proc(f"{tmp_path}/current/bin/python")) == "0.5.18"


def test_a_process_that_is_gone(tmp_path):
    assert _stop_job.version_of(0, str(tmp_path)) == ""


@pytest.mark.parametrize("given, version", [("", "0.5.18"), ("0.5.23", "0.5.23")])
def test_each_unit_is_judged_by_its_own_version(monkeypatch, given, version):
    monkeypatch.setattr(_stop_job, "version_of", {41: "0.5.18"}.get)
    unit = _stop_job.StoppingUnit("sglang-a.service", {"ActiveState": "active", "MainPID": "41"}, None, given)
    assert unit.seen.version == version
