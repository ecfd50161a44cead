# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the real server a question, then breaks it in ways of its own, and expects the right cause each time.

Every test takes ``host``, since pytest runs those that do before those that do not, and here the order is the story.
"""

from __future__ import annotations

import json
import time

from conftest import CHECKOUT
from nodes import answer, main_pid, prop

UNIT = "sglang-tiny-cpu.service"
RESTART = str(CHECKOUT / "molecule/real/restart.yml")
COMMON = "--device cpu --attention-backend torch_native --mem-fraction-static 0.2 --max-total-tokens 8192 --disable-overlap-schedule --served-model-name tiny"
QUESTION = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}


def ask(host) -> dict:
    command = "curl -s -m 60 -H 'Content-Type: application/json' -d %s http://127.0.0.1:30001/v1/chat/completions"
    return json.loads(host.check_output(command, json.dumps(QUESTION)))


def pid_of(host, title: str) -> int:
    """The child of the running unit with that process title; it is waited for, since children come late in a start."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        group = prop(host, UNIT, "ControlGroup")
        for line in host.run("cat /sys/fs/cgroup%s/cgroup.procs", group).stdout.split():
            if host.run("cat /proc/%s/cmdline", line).stdout.startswith(title):
                return int(line)
        time.sleep(0.5)
    raise AssertionError(f"no process {title} in {UNIT}")


def told_of_the_engine(outcome) -> bool:
    """A subprocess that died behind a server that still listens, or whose main process is ending already: what is seen first decides."""
    return "engine_dead" in outcome.words or "scheduler_crashed" in outcome.words


def test_it_serves(host):
    assert answer(host, "/ready")[0] == 200
    assert json.loads(answer(host, "/v1/models")[1])["data"][0]["id"] == "tiny"
    assert ask(host)["usage"]["completion_tokens"] > 0
    assert prop(host, UNIT, "User") == "sglang"


def test_unknown_flag_is_refused_before_anything_is_touched(host, plays, node):
    before = main_pid(host, UNIT)
    outcome = plays.run("deploy.yml", sglang_server_flags={"cuda-graph-max-bs": 8}).failed_with("bad_flags", "cuda-graph-max-bs-decode")
    assert outcome.changed(node) == 0 and main_pid(host, UNIT) == before


def test_missing_model_is_refused_before_anything_is_touched(host, plays, node):
    before = main_pid(host, UNIT)
    outcome = plays.run("deploy.yml", sglang_server_model_path="/srv/models/none").failed_with("model_not_found", "/srv/models/none")
    assert outcome.changed(node) == 0 and main_pid(host, UNIT) == before


def test_bad_flag_in_the_words_of_the_server(host, plays):
    plays.run(RESTART, arguments=f"{COMMON} --model-path /srv/models/tiny --no-such-flag").failed_with("bad_flags", "--no-such-flag")


def test_missing_model_in_the_words_of_the_server(host, plays):
    plays.run(RESTART, arguments=f"{COMMON} --model-path /srv/models/none").failed_with("model_not_found", "/srv/models/none")


def test_context_longer_than_the_model_s(host, plays):
    arguments = f"{COMMON} --model-path /srv/models/tiny --context-length 100000"
    plays.run(RESTART, arguments=arguments).failed_with("bad_flags", "context_length (100000)")


def test_scheduler_killed_while_it_loads(host, plays):
    process = plays.start(RESTART)
    started = time.monotonic()
    host.check_output("kill -9 %s", str(pid_of(host, "sglang::scheduler")))
    plays.finish(process, started).failed_with("scheduler_crashed")


def test_it_recovers(host, plays):
    plays.run(RESTART).succeeded()
    assert ask(host)["usage"]["completion_tokens"] > 0


def test_scheduler_killed_while_it_serves(host, plays):
    host.check_output("kill -9 %s", str(pid_of(host, "sglang::scheduler")))
    outcome = plays.run(RESTART, restart=False).failed_with("exit code -9")
    assert told_of_the_engine(outcome), outcome.text
    plays.run(RESTART).succeeded()


def test_engine_dead_behind_a_server_that_accepts(host, plays):
    """Without its detokenizer the server accepts connections for a minute and answers nothing; systemd calls it active all that time."""
    pid = main_pid(host, UNIT)
    host.check_output("kill -9 %s", str(pid_of(host, "sglang::detokenizer")))
    outcome = plays.run(RESTART, restart=False).failed_with("exit code -9")
    assert told_of_the_engine(outcome), outcome.text
    assert main_pid(host, UNIT) == pid and outcome.seconds < 45
    plays.run(RESTART).succeeded()
