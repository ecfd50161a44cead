# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one deployment leaves on the newer release, and one switch there."""

from __future__ import annotations

from nodes import assert_rests, assert_serves


def test_release(host):
    assert host.system_info.codename == "trixie"
    assert host.check_output("/opt/sglang/current/bin/python -c 'import sys; print(sys.version_info[:2])'") == "(3, 13)"


def test_serves(host):
    assert_serves(host, "sglang-k26-ep8.service")
    assert host.run("systemd-analyze verify /etc/systemd/system/sglang-k26-ep8.service").stderr == ""


def test_switch(host, plays, node):
    plays.run("deploy_tp8.yml").succeeded()
    assert_serves(host, "sglang-k26-tp8.service")
    assert_rests(host, "sglang-k26-ep8.service")
    assert plays.run("deploy_tp8.yml").succeeded().changed(node) == 0
