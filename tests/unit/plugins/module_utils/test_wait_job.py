# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests a whole wait on this machine: a pretended systemd, a journal that is a file, and a real server on a real port."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _history
from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox, told
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_job import Job, go_on_alone

UNIT = "sglang-test-tp1.service"
INVOCATION = "i" * 32
KEY = "k-5ecret-1"
RUNNING = {"ActiveState": "active", "SubState": "running", "MainPID": str(os.getpid())}
CRASHED = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainCode": "1", "ExecMainStatus": "1", "MainPID": "0"}
DEFAULTS = dict(
    host="127.0.0.1", scheme="http", ca_path=None, api_key=KEY, model="demo-model", strategy="tp1", version="0.5.23", wait_timeout=20.0, wait_sleep=0.2,
    stall_timeout=None, extend_while_progress=False, restart_limit=0, probe_timeout=5.0, heartbeat=15.0, journal_lines=20, error_patterns=None,
    ready_query=None, generate=True, cursor=None, invocation_id=None, history=None, nnodes=1, node_rank=0, dist_init_addr=None,
)


class Node:
    """systemctl and journalctl as scripts that print files; the test writes the files."""

    def __init__(self, folder, monkeypatch):
        self._folder = folder
        self.journal = folder / "journal"
        self.journal.touch()
        self._script("systemctl", "cat %s/unit" % folder)
        self._script("journalctl", 'case "$*" in *--follow*) exec tail -n +1 -f %s;; esac' % self.journal)
        monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
        self.begin()

    def begin(self):
        self.started = time.monotonic()
        self.unit(RUNNING)

    def _script(self, name, text):
        path = self._folder / name
        path.write_text("#!/bin/sh\n%s\n" % text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def unit(self, state):
        properties = dict({"Id": UNIT, "LoadState": "loaded", "Result": "success", "NRestarts": "0", "ExecMainCode": "0", "ExecMainStatus": "0",
                           "InvocationID": INVOCATION, "ExecMainStartTimestampMonotonic": str(int(self.started * 1e6)),
                           "InactiveExitTimestampMonotonic": str(int(self.started * 1e6))}, **state)
        draft = self._folder / "unit.new"
        draft.write_text("".join("%s=%s\n" % pair for pair in properties.items()))
        draft.rename(self._folder / "unit")

    def log(self, *texts, systemd=False):
        fields = {"UNIT": UNIT, "INVOCATION_ID": INVOCATION, "_PID": "1"} if systemd else {"_SYSTEMD_INVOCATION_ID": INVOCATION, "_PID": "4100"}
        with open(self.journal, "a", encoding="utf-8") as journal:
            for text in texts:
                journal.write(json.dumps(dict(fields, MESSAGE=text, __CURSOR="c", __MONOTONIC_TIMESTAMP=str(int(time.monotonic() * 1e6)))) + "\n")


class Handler(BaseHTTPRequestHandler):
    def _answer(self, body):
        status = 200 if self.headers.get("Authorization") == "Bearer " + KEY or self.path == "/ready" else 401
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self._answer({"object": "list", "data": [{"id": "demo-model"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"choices": [{"text": "a"}]})

    def log_message(self, *args):
        """Keep the tests quiet."""


@pytest.fixture(name="node")
def make_node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


@pytest.fixture(name="port")
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(name="serve")
def make_server(port):
    servers = []

    def start():
        servers.append(HTTPServer(("127.0.0.1", port), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def job(port, **params):
    return Job(dict(DEFAULTS, name="sglang-test-tp1", port=port, **params))


def test_a_start_that_becomes_ready_is_told_and_remembered(node, port, serve, tmp_path):
    history = str(tmp_path / "loads.jsonl")
    first = job(port, history=history)
    node.begin()
    node.log("Load weight begin. avail mem=94.51 GB")

    def serve_once_it_was_seen_closed():
        while not first.watch.saw_unready:
            time.sleep(0.05)
        time.sleep(1.5)
        serve()

    threading.Thread(target=serve_once_it_was_seen_closed, daemon=True).start()
    result = first.to_the_end()
    assert (result["verdict"], result["changed"], "failed" in result) == ("ready", False, False)
    kept = _history.load(history)
    assert [(one["strategy"], one["model"], one["invocation_id"]) for one in kept] == [("tp1", "demo-model", INVOCATION)]
    assert "weights" in kept[0]["phases"]
    again = job(port, history=history).to_the_end()
    assert again["usual_seconds"]["total"] == kept[0]["total"]
    assert len(_history.load(history)) == 1, "a service that was ready already is no new start"


def test_a_crash_is_told_at_once_with_its_line(node, port):
    def crash():
        node.log("[2026-01-05 10:00:12 TP1] Scheduler hit an exception: Traceback (most recent call last):",
                 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. key %s" % KEY)
        node.unit(CRASHED)
        node.log("%s: Main process exited, code=exited, status=1/FAILURE" % UNIT, systemd=True)

    threading.Timer(0.4, crash).start()
    began = time.monotonic()
    result = job(port).to_the_end()
    assert time.monotonic() - began < 10
    assert (result["failed"], result["verdict"], result["cause"]["code"], result["cause"]["rank"]) == (True, "failed", "cuda_oom", "TP1")
    assert result["unit"]["exit_status"] == 1
    assert result["commands"]
    assert KEY not in json.dumps(result)


def test_a_missing_answer_of_systemd_is_no_crash_of_the_module(node, port, tmp_path):
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    result = job(port, wait_timeout=1.5).to_the_end()
    assert result["verdict"] in ("timeout", "failed", "stalled")


def test_a_look_does_not_wait_and_does_not_fail(node, port, serve):
    began = time.monotonic()
    looked = job(port).look()
    assert time.monotonic() - began < 10
    assert (looked["verdict"], "failed" in looked) == ("waiting", False)
    serve()
    assert job(port).look()["verdict"] == "ready"


def test_the_limit_of_a_wait_begun_anew_is_what_was_left_of_it(node, port):
    renewed = Job(dict(DEFAULTS, name=UNIT, port=port), elapsed=15.0)
    assert renewed.wait.options.wait_timeout == 5.0
    assert any("begun anew" in text for text in renewed.wait.result(time.monotonic())["warnings"])


def test_a_wait_can_be_cut_and_goes_on(node, port, serve):
    node.log("Load weight begin. avail mem=94.51 GB")
    first = job(port)
    first.watch.run(time.monotonic() + 0.5, lambda now, progress: True)
    state = json.loads(json.dumps(first.state()))
    first.watch.close()
    serve()
    second = Job(dict(DEFAULTS, name=UNIT, port=port), state=state)
    result = second.to_the_end()
    assert result["verdict"] == "ready"
    assert result["elapsed"] > 0.5
    assert [step["what"] for step in result["timeline"]].count("waiting") == 1


@pytest.fixture(name="mailbox")
def make_mailbox(tmp_path):
    box = Mailbox(str(tmp_path / "box"))
    box.create()
    return box


def test_a_wait_that_goes_on_by_itself_tells_its_progress_and_its_end(node, port, serve, mailbox):
    node.log("Load weight begin. avail mem=94.51 GB", "Loading safetensors checkpoint shards:  62% Completed | 41/66 [00:02<00:06,  2.1s/it]")
    go_on_alone(job(port), mailbox, idle=30)
    progress = progress_with(mailbox, "62 %")
    assert os.path.isdir("/proc/%d" % progress["pid"])
    serve()
    result = told(mailbox, 20)["result"]
    assert result["verdict"] == "ready"
    assert not [text for text in (mailbox.read("state.json"), result) if KEY in json.dumps(text)]
    mailbox.remove()
    wait_until_gone(progress["pid"])


def test_a_wait_nobody_asks_about_ends_by_itself(node, port, mailbox):
    go_on_alone(job(port), mailbox, idle=1.0)
    pid = progress_with(mailbox, "")["pid"]
    wait_until_gone(pid)
    assert not os.path.exists(mailbox.folder)


def progress_with(mailbox, words, seconds=15.0):
    deadline = time.monotonic() + seconds
    while True:
        progress = told(mailbox, 0.2)["progress"]
        if "pid" in progress and words in progress["text"]:
            return progress
        assert time.monotonic() < deadline, progress


def wait_until_gone(pid, seconds=20.0):
    deadline = time.monotonic() + seconds
    while os.path.isdir("/proc/%d" % pid):
        assert time.monotonic() < deadline, "the wait is still there"
        time.sleep(0.05)
