# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person finds on the host after `deploy_ep8`: one service of its own user that answers, and readable traces of it."""

from __future__ import annotations

import json

UNIT = "sglang-k26-ep8.service"
URL = "http://127.0.0.1:30001"


def shown(host, key: str) -> str:
    return host.check_output("systemctl show --value --property %s %s", key, UNIT)


def test_service_runs_and_is_meant_to(host):
    service = host.service(UNIT)
    assert service.is_running
    assert service.is_enabled


def test_it_runs_as_its_own_user(host):
    assert shown(host, "User") == "sglang"
    process = host.process.get(pid=int(shown(host, "MainPID")))
    assert process.user == "sglang"
    assert "--ep-size 8" in process.args


def test_it_answers_from_outside_the_loopback_too(host):
    assert host.socket("tcp://0.0.0.0:30001").is_listening


def test_it_serves_the_model(host):
    models = json.loads(host.check_output("curl --silent --fail --max-time 5 %s/v1/models", URL))
    assert [model["id"] for model in models["data"]] == ["kimi-k2.6"]


def test_it_completes_a_chat(host):
    body = json.dumps({"model": "kimi-k2.6", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
    answer = json.loads(host.check_output(
        "curl --silent --fail --max-time 20 --header 'Content-Type: application/json' --data %s %s/v1/chat/completions", body, URL,
    ))
    assert answer["choices"][0]["message"]["content"]


def test_version_is_linked_for_people(host):
    assert host.file("/opt/sglang/current").linked_to == "/opt/sglang/0.5.23+standin"
