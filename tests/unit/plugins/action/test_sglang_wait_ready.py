# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests what a wait shows on the controller, and that a lost connection costs a question and not the wait."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail, AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible_collections.gpuops.sglang.plugins.action import sglang_wait_ready as action

READY = {"verdict": "ready", "elapsed": 135.4, "started_at": "19:02:11", "cause": None, "phase": "ready",
         "timeline": [{"at": 90.0, "phase": "warmup", "what": "port 30001: open"}]}
FAILED = {"verdict": "failed", "failed": True, "elapsed": 47.0, "phase": "weights", "cause": {"code": "cuda_oom"}, "msg": "A GPU ran out of memory."}
FOLDER = "/run/sglang-wait-00ff"


def waiting(text="weights 62 % (41 of 66 shards), 74 GB free of 95 GB", elapsed=90.0, pid=77):
    return {"waiting": {"folder": FOLDER, "progress": {"text": text, "elapsed": elapsed, "pid": pid, "phase": "weights"}}}


def told(data):
    return {"stdout": "a banner\r\n%s\r\n%s\r\n" % (action.MARK, data if isinstance(data, str) else json.dumps(data))}


def progress(text, elapsed, pid=77):
    return told({"text": text, "elapsed": elapsed, "pid": pid, "phase": "weights"})


class Node:
    """A connection that plays a script: answers, or exceptions to raise."""

    def __init__(self, module=(), polls=(), args=None, no_log=False):
        self._module, self._polls = list(module), list(polls)
        self._task = SimpleNamespace(args=dict({"name": "sglang-k26-ep8", "model": "kimi-k2.6"}, **(args or {})), no_log=no_log)
        self._connection = SimpleNamespace(reset=lambda: self.calls.append("reset"))
        self.calls = []

    def _execute_module(self, module_name, module_args, task_vars):
        self.calls.append(module_args)
        return self._next(self._module)

    def _low_level_execute_command(self, command):
        self.calls.append(command)
        return {} if command.startswith("rm ") else self._next(self._polls)

    @staticmethod
    def _next(script):
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture(name="lines", autouse=True)
def catch_lines(monkeypatch):
    shown, clock = [], {"now": 1000.0}
    monkeypatch.setattr(action.display, "display", shown.append)
    monkeypatch.setattr(action.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(action.time, "sleep", lambda seconds: clock.update(now=clock["now"] + seconds))
    return shown


def wait(node, hosts=("gpu-node-1", "gpu-node-10")):
    return action.RemoteWait(node, {"inventory_hostname": "gpu-node-1", "ansible_play_batch": list(hosts)}).run()


def test_a_service_that_is_ready_already_costs_one_call(lines):
    node = Node([dict(READY, elapsed=0.4)])
    assert wait(node)["verdict"] == "ready"
    assert len(node.calls) == 1
    assert lines == ["gpu-node-1   [  0s] ready: kimi-k2.6 (unit sglang-k26-ep8, started 19:02:11)"]


def test_heartbeats_then_the_end(lines):
    node = Node([waiting()], [progress("graphs", 120.0), told(READY)])
    assert wait(node, ["gpu-node-1"])["verdict"] == "ready"
    assert lines == [
        "gpu-node-1  [ 90s] weights 62 % (41 of 66 shards), 74 GB free of 95 GB",
        "gpu-node-1  [120s] graphs",
        "gpu-node-1  [135s] ready: kimi-k2.6 (unit sglang-k26-ep8, started 19:02:11)",
    ]
    assert node.calls[-1] == "rm -rf " + FOLDER


def test_a_failure_is_the_tasks_own_result(lines):
    result = wait(Node([waiting()], [told(FAILED)]))
    assert (result["failed"], result["msg"]) == (True, "A GPU ran out of memory.")
    assert lines[-1].endswith("failed in phase weights: cuda_oom")


LOSSES = [AnsibleConnectionFailure("Connection timed out"), {"stdout": ""}, told('{"verdict": "rea'), action.Overdue("no answer within 35 s")]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_connection_costs_a_question(lines, loss):
    node = Node([waiting()], [loss, loss, told(READY)])
    assert wait(node)["verdict"] == "ready"
    assert sum("connection lost" in line for line in lines) == 1
    assert sum("connection is back" in line for line in lines) == 1
    assert node.calls.count("reset") == 2


@pytest.mark.parametrize("loss", [AnsibleConnectionFailure("gone"), {"rc": -13, "failed": True, "msg": "MODULE FAILURE"}, {"rc": 255, "failed": True}])
def test_the_first_call_may_be_lost_too_and_finds_its_wait_again(loss):
    node = Node([loss, READY])
    assert wait(node)["verdict"] == "ready"
    tokens = {call["watch"]["token"] for call in node.calls if isinstance(call, dict)}
    assert len(tokens) == 1


def test_a_wait_that_was_killed_on_the_node_is_begun_again(lines):
    node = Node([waiting(elapsed=90.0), READY], [told("gone")])
    assert wait(node)["verdict"] == "ready"
    assert [call["watch"]["elapsed"] for call in node.calls if isinstance(call, dict)] == [0, 90.0]


def test_a_wait_that_cannot_stay_on_the_node_is_given_up():
    with pytest.raises(AnsibleActionFail, match="KillUserProcesses"):
        wait(Node([waiting(elapsed=0.0)], [told("gone")]))


def test_a_node_that_stays_away_ends_as_unreachable_with_what_was_last_seen(lines):
    node = Node([waiting()], [AnsibleConnectionFailure("No route to host")], args={"wait_timeout": 300})
    with pytest.raises(AnsibleConnectionFailure, match="last seen: weights 62 %"):
        wait(node)
    said = [line for line in lines if "no connection" in line]
    assert len(said) >= 5, "a host that is away is still spoken of"


def test_a_refused_login_is_not_tried_again():
    node = Node([waiting()], [AnsibleAuthenticationFailure("Permission denied")])
    with pytest.raises(AnsibleAuthenticationFailure):
        wait(node)
    assert len(node.calls) == 2


def test_a_module_that_fails_by_itself_is_no_lost_connection():
    node = Node([{"failed": True, "rc": 1, "msg": "Failed to import the required Python library (requests)"}])
    assert wait(node)["failed"] is True
    assert len(node.calls) == 1


def test_a_task_with_no_log_shows_nothing(lines):
    wait(Node([waiting()], [told(READY)], no_log=True))
    assert lines == []


def test_the_key_goes_to_the_module_and_nowhere_else(lines):
    node = Node([waiting()], [AnsibleConnectionFailure("lost"), progress("graphs", 120.0), told(READY)], args={"api_key": "k-5ecret"})
    wait(node)
    assert node.calls[0]["api_key"] == "k-5ecret"
    assert not [text for text in lines + [call for call in node.calls if isinstance(call, str)] if "5ecret" in text]


@pytest.mark.parametrize("folder", ["/run/x; reboot", "$(id)", "/run/a b"])
def test_a_folder_is_never_read_as_shell(folder):
    node = Node([READY], [told(READY)])
    with pytest.raises(AnsibleConnectionFailure, match="odd name"):
        action.RemoteWait(node, {"inventory_hostname": "n"}).ask({"folder": folder, "pid": 1})


@pytest.mark.parametrize("files, pid, expected", [
    ({"result.json": '{"verdict": "ready"}'}, 2 ** 22 + 1, {"result": {"verdict": "ready"}}),
    ({"progress.json": '{"pid": 1, "text": "weights"}'}, 1, {"progress": {"pid": 1, "text": "weights"}}),
    ({"progress.json": '{"pid": 1, "text": "weights"}'}, 2 ** 22 + 1, {"gone": True}),
    (None, 2 ** 22 + 1, {"gone": True}),
])
def test_the_question_in_a_real_shell(tmp_path, files, pid, expected):
    folder = tmp_path / "box"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    done = subprocess.run(["sh", "-c", action.poll_command(str(folder), pid, 1)], capture_output=True, text=True, check=True)
    assert action.parse_poll(done.stdout) == expected
    assert folder.exists() is (files is not None)


def test_a_call_that_hangs_is_broken_off(monkeypatch):
    monkeypatch.undo()
    began = time.monotonic()
    with pytest.raises(action.Overdue):
        with action.at_most(0.1):
            time.sleep(30)
    assert time.monotonic() - began < 15


def test_the_alarm_of_a_tasks_own_timeout_is_left_alone(monkeypatch):
    monkeypatch.undo()
    mine = signal.signal(signal.SIGALRM, lambda *_args: None)
    try:
        handler = signal.getsignal(signal.SIGALRM)
        with action.at_most(0.01):
            assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.signal(signal.SIGALRM, mine)
