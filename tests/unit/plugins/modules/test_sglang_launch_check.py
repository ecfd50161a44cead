# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's words: what a person is warned of, and when it fails."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _installed, _node, _preflight
from ansible_collections.gpuops.sglang.plugins.module_utils._plan import build
from ansible_collections.gpuops.sglang.plugins.modules import sglang_launch_check as module

STAGES = {"s": {"flags": {"tp-size": 1, "pp-size": 8, "max-running-requests": 64}}}
NODE = {"ip_local_port_range": [30000, 60999]}


class Ended(Exception):
    """Takes the place of the end of the process."""


class Recorder:
    """An AnsibleModule that keeps what it is told."""

    check_mode = False

    def __init__(self, plan):
        self.params = {"plan": plan, "runtime": {}, "files": {}, "allow_busy_gpus": False}
        self.warnings: list[str] = []
        self.failed = ""

    def __call__(self, **_arguments):
        return self

    def warn(self, text):
        self.warnings.append(text)

    def exit_json(self, **result):
        raise Ended(result)

    def fail_json(self, msg, **_result):
        self.failed = msg
        raise Ended


@pytest.fixture
def check(monkeypatch):
    def run(plan, **facts):
        recorder = Recorder(plan)
        gpus = [{"index": index, "uuid": f"GPU-{index}", "processes": []} for index in range(8)]
        seen = _preflight.Facts(installed_version="0.5.23", gpus=gpus, models=[_preflight.Model("/m", "local")], **facts)
        monkeypatch.setattr(module, "AnsibleModule", recorder)
        monkeypatch.setattr(_node, "facts", lambda *_arguments: (seen, _installed.Installed("/v", "/v/bin/python", "0.5.23")))
        monkeypatch.setattr(_node, "cursor", lambda _commands: "")
        with pytest.raises(Ended):
            module.main()
        return recorder

    return run


def plan(**options):
    return build("s", STAGES, {"slug": "k", "model_path": "/m", "port": 30001, "version": "0.5.23", "gpu_count": 8, **options})


def test_what_the_plan_warns_of_is_shown(check):
    (warning,) = check(plan()).warnings
    assert "sglang-k-s.service" in warning and "starves" in warning


def test_what_plan_and_node_both_found_is_shown_once(check):
    warnings = check(plan(node=NODE), ephemeral=(30000, 60999)).warnings
    assert len([text for text in warnings if "ephemeral range" in text]) == 1


def test_an_interpreter_that_could_not_ask_the_server_is_refused(check):
    assert check(plan(), lacking="/opt/py/bin/python3").failed.startswith("no_requests: /opt/py/bin/python3")
