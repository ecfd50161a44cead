# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets deployments fail in every way a person meets, and looks at what the host serves afterwards."""

from __future__ import annotations

import os
import signal
import time

import pytest

from nodes import after, answer, argv, assert_rests, assert_serves, known_good, main_pid, prop

EP8 = "sglang-k26-ep8.service"
TP8 = "sglang-k26-tp8.service"


def told(fault: str, seconds: int = 2) -> dict:
    """Variables that make the stand-in of this deployment fail."""
    return {"sglang_server_environment": {"MOCK_SGLANG_LOAD_SECONDS": str(seconds), "MOCK_SGLANG_FAULT": fault}}


def test_first_start_fails_and_says_that_nothing_served_before(host, plays, node):
    outcome = plays.run("deploy_ep8.yml", **told("cuda_oom")).failed_with("cuda_oom", "CUDA out of memory", "Nothing served here before")
    assert outcome.recap[node]["failed"] == 1
    assert_rests(host, EP8)
    assert not host.file("/var/lib/gpuops-sglang/known_good.json").exists


def test_the_next_deployment_is_a_good_one(host, plays):
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, EP8)


@pytest.mark.parametrize(("fault", "words"), [
    ("kv_pool_too_small", ["kv_pool_too_small", "increase --mem-fraction-static"]),
    ("exit0@weights", ["Put back"]),
])
def test_other_strategy_fails_and_the_former_serves_again(host, plays, node, fault, words):
    outcome = plays.run("deploy_tp8.yml", **told(fault)).failed_with(*words, f"Put back: {EP8} serves again")
    assert outcome.recap[node]["failed"] == 1
    assert_serves(host, EP8)
    assert_rests(host, TP8)
    assert list(known_good(host)) == ["k26-ep8"]


def test_changed_flags_fail_and_the_former_flags_serve_again(host, plays):
    before = host.file(f"/etc/systemd/system/{EP8}").content_string
    variables = {"sglang_server_flags": {"max-running-requests": 7}, **told("graph_capture_oom")}
    plays.run("deploy_ep8.yml", **variables).failed_with("graph_capture_oom", f"Put back: {EP8} serves again")
    assert_serves(host, EP8)
    assert "--max-running-requests" not in argv(host, EP8)
    assert host.file(f"/etc/systemd/system/{EP8}").content_string == before
    assert host.run("ls -A /var/lib/gpuops-sglang/previous").stdout == ""


def test_crash_loop(host, plays):
    variables = {**told("cuda_oom", 1), "sglang_server_restart_limit": 2, "sglang_server_restart_delay": 1}
    plays.run("deploy_tp8.yml", **variables).failed_with("crash_loop", "CUDA out of memory", f"Put back: {EP8}")
    assert_serves(host, EP8)
    assert_rests(host, TP8)


def test_killed_while_it_loads(host, plays):
    process = plays.start("deploy_tp8.yml", sglang_server_environment={"MOCK_SGLANG_LOAD_SECONDS": "60"})
    started = time.monotonic()
    while not main_pid(host, TP8):
        assert time.monotonic() - started < 60
        time.sleep(0.2)
    host.check_output("systemctl kill --kill-whom=main -s KILL %s", TP8)
    plays.finish(process, started).failed_with(f"Put back: {EP8} serves again")
    assert_serves(host, EP8)


def test_run_that_died_half_way_is_finished_by_the_next(host, plays, node):
    """The unit is written and the controller is gone before the restart: the next run must not take what is on disk for what runs."""
    flags = {"sglang_server_flags": {"max-running-requests": 9}}
    process = plays.start("deploy_ep8.yml", **flags)
    for line in process.stdout:
        if "Write the unit" in line:
            break
    while "--max-running-requests 9" not in host.file(f"/etc/systemd/system/{EP8}").content_string:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    running = argv(host, EP8)
    plays.run("deploy_ep8.yml", **flags).succeeded()
    assert after(argv(host, EP8), "--max-running-requests") == "9" and argv(host, EP8) != running
    assert plays.run("deploy_ep8.yml", **flags).succeeded().changed(node) == 0
    plays.run("deploy_ep8.yml").succeeded()


def test_put_back_that_fails_too_says_so(host, plays):
    host.check_output("echo MOCK_SGLANG_FAULT=cuda_oom > /run/mock_sglang.env")
    plays.run("deploy_tp8.yml").failed_with("CUDA out of memory", f"Then putting back {EP8} failed too", "Nothing serves here now")
    host.check_output("rm /run/mock_sglang.env")
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, EP8)


def test_copies_that_a_killed_run_left(host, plays, node):
    """What served after them is what a failure comes back to; a run that finds everything right drops them."""
    path, previous = f"/etc/systemd/system/{EP8}", "/var/lib/gpuops-sglang/previous"
    before = host.file(path).content_string
    leave = "sed s/^Description=.*/Description=old/ %s > %s"
    host.check_output(leave, path, f"{previous}/{EP8}")
    assert plays.run("deploy_ep8.yml").succeeded().changed(node) == 1
    assert host.run("ls -A %s", previous).stdout == ""
    assert plays.run("deploy_ep8.yml").succeeded().changed(node) == 0

    host.check_output(leave, path, f"{previous}/{EP8}")
    variables = {"sglang_server_flags": {"max-running-requests": 7}, **told("graph_capture_oom")}
    plays.run("deploy_ep8.yml", **variables).failed_with("graph_capture_oom", f"Put back: {EP8} serves again")
    assert host.file(path).content_string == before
    assert host.run("ls -A %s", previous).stdout == ""


def test_a_unit_with_its_key_on_the_command_line_is_put_back_and_the_key_not_shown(host, plays):
    path = f"/etc/systemd/system/{EP8}"
    text = host.file(path).content_string.replace("# Written by Ansible (gpuops.sglang).\n", "")
    host.check_output("printf %%s %s > %s", text.replace("  --host ", "  --api-key k-5ecret \\\n  --host ", 1), path)
    host.check_output("systemctl daemon-reload; systemctl restart %s; until curl -sf http://127.0.0.1:30001/ready; do sleep 0.5; done", EP8)
    before = host.file(path).content_string
    outcome = plays.run("deploy_ep8.yml", "-vvv", "--diff", **told("cuda_oom"))
    outcome.failed_with("CUDA out of memory", f"{EP8} is up again, but asks for a key that is not known here (401)")
    assert "5ecret" not in outcome.text
    assert host.file(path).content_string == before and answer(host, "/v1/models", key="k-5ecret")[0] == 200
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, EP8)


HALF = {"half": {"summary": "Tensor parallelism over half of the cards.", "flags": {"tp-size": 4}}}


def test_one_that_is_lost_keeps_no_other_from_serving_again(host, plays):
    for name, port, gpus in (("left", 30101, [0, 1, 2, 3]), ("right", 30201, [4, 5, 6, 7])):
        settings = {"name": name, "port": port, "gpus": gpus, "strategy": "half", "strategies": HALF}
        plays.run("deploy.yml", **{f"sglang_server_{key}": value for key, value in settings.items()}).succeeded()
    folder = "/etc/systemd/system/sglang-left-half.service.d"
    host.check_output("mkdir %s && printf '[Service]\\nEnvironment=MOCK_SGLANG_FAULT=cuda_oom\\n' > %s/spoilt.conf", folder, folder)
    plays.run("deploy_ep8.yml", **told("graph_capture_oom")).failed_with(
        "graph_capture_oom", "Put back: sglang-right-half.service serves again.", "Then putting back sglang-left-half.service failed too: ")
    assert_serves(host, "sglang-right-half.service", 30201)
    host.check_output("rm -r %s", folder)
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, EP8)


def test_an_interpreter_that_cannot_ask_the_server_is_found_before_anything_is_stopped(host, plays):
    before = main_pid(host, EP8)
    host.check_output("python3 -m venv --without-pip /opt/bare")
    outcome = plays.run("deploy_tp8.yml", "-e", "ansible_python_interpreter=/opt/bare/bin/python")
    outcome.failed_with("no_requests", "/opt/bare/bin/python", "ansible_python_interpreter")
    assert main_pid(host, EP8) == before


BAD = [
    ({"sglang_server_strategy": "tp9"}, ["unknown strategy 'tp9'", "ep8_tuned"]),
    ({"sglang_server_flags": {"tp-size": 3}}, ["bad_sizes", "3"]),
    ({"sglang_server_port": 70000}, ["70000"]),
    ({"sglang_server_port": "http"}, ["sglang_server_port"]),
    ({"sglang_server_model_path": "/srv/models/nothing"}, ["model_not_found", "/srv/models/nothing"]),
    ({"sglang_server_flags": {"ssl-keyfile": "/etc/shadow", "ssl-certfile": "/etc/hostname"}}, ["no_permission", "/etc/shadow: Permission denied"]),
    ({"sglang_server_flags": {"enable-ep-moe": True}}, ["bad_flags", "enable-ep-moe"]),
    ({"sglang_server_flags": {"chat-template": "one\ntwo"}}, ["newline"]),
    ({"sglang_server_name": "K26"}, ["lower-case"]),
    ({"sglang_server_api_key": "one\ntwo"}, ["line break"]),
    ({"sglang_server_environment": {"A B": "x"}}, ["A B"]),
]


@pytest.mark.parametrize(("variables", "words"), BAD, ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_bad_input_changes_nothing(host, plays, node, variables, words):
    before = main_pid(host, EP8), prop(host, EP8, "NRestarts")
    outcome = plays.run("deploy.yml", **{"sglang_server_strategy": "ep8", **variables}).failed_with(*words)
    assert outcome.changed(node) == 0
    assert (main_pid(host, EP8), prop(host, EP8, "NRestarts")) == before
