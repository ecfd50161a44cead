# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep knows of the start of the server that runs now."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.node import Node


class Systemd:
    """Shows one unit under one invocation."""

    def run(self, argv, timeout=30):
        return 0, "Id=sglang-k26-ep8.service\nLoadState=loaded\nActiveState=active\nInvocationID=mine\n", ""


@pytest.mark.parametrize("unit,invocation,seconds", [("sglang-k26-ep8", "mine", 135.0), ("sglang-k26-ep8", "older", None), ("", "mine", None)])
def test_the_load_of_what_runs_now_is_found_in_the_record_of_the_node(tmp_path, unit, invocation, seconds):
    loads = tmp_path / "loads.jsonl"
    loads.write_text(json.dumps({"invocation_id": invocation, "total": 135.0, "phases": {"weights": 78.0}}) + "\n")
    assert Node(Systemd(), unit, [], control=None).load_seconds(str(loads)) == seconds


def test_without_a_record_nothing_is_known(tmp_path):
    assert Node(Systemd(), "sglang-k26-ep8", [], control=None).load_seconds(str(tmp_path / "none.jsonl")) is None
