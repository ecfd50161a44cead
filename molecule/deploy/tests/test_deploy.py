# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploys each strategy as a person would, and looks at what is left on the host."""

from __future__ import annotations

import json
import re

import pytest

from nodes import after, argv, assert_rests, assert_serves, environ, known_good, main_pid, prop

EXPECTED = {
    "tp8": {"--tp-size": "8"},
    "ep8": {"--tp-size": "8", "--ep-size": "8"},
    "pp8": {"--tp-size": "1", "--pp-size": "8", "--pp-async-batch-depth": "8", "--pp-max-micro-batch-size": "64", "--max-running-requests": "64"},
    "tp8_tuned": {"--tp-size": "8", "--max-running-requests": "256", "--num-continuous-decode-steps": "8", "--attention-backend": "triton"},
    "ep8_tuned": {"--ep-size": "8", "--max-running-requests": "256", "--num-continuous-decode-steps": "8", "--attention-backend": "triton"},
    "ep4": {"--tp-size": "8", "--ep-size": "4"},
}
HALVES = {"half": {"summary": "Tensor parallelism over half of the cards.", "flags": {"tp-size": 4}}}


def test_installation(host):
    version = "0.5.23+standin"
    assert host.file("/opt/sglang/current").linked_to == f"/opt/sglang/{version}"
    assert host.file(f"/opt/sglang/{version}").user == "root"
    home = host.file("/var/lib/sglang")
    assert (home.user, home.group, home.mode) == ("sglang", "sglang", 0o750)
    for name in (version, "huggingface"):
        cache = host.file(f"/var/cache/sglang/{name}")
        assert (cache.user, cache.mode) == ("sglang", 0o750), name
    assert host.user("sglang").shell == "/usr/sbin/nologin"
    assert not host.file(f"/opt/sglang/{version}.wheels").exists


def test_unit_is_sound_and_readable(host):
    unit = "sglang-k26-ep8.service"
    text = host.file(f"/etc/systemd/system/{unit}").content_string
    assert "  --tp-size 8 \\\n" in text and "  --ep-size 8 \\\n" in text
    assert "Expert parallelism" in prop(host, unit, "Description")
    assert host.run("systemd-analyze verify %s", f"/etc/systemd/system/{unit}").stderr == ""
    for name, value in {
        "User": "sglang", "Restart": "always", "KillMode": "mixed", "TimeoutStopUSec": "6min 30s", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
        "RestartPreventExitStatus": "2 3", "PrivateDevices": "no", "LogRateLimitIntervalUSec": "0",
    }.items():
        assert prop(host, unit, name) == value, name
    variables = environ(host, unit)
    assert variables["PATH"].startswith("/opt/sglang/0.5.23+standin/bin:/usr/local/cuda-13.0/bin:")
    assert {"127.0.0.1", "localhost", "0.0.0.0"} <= set(variables["NO_PROXY"].split(","))
    assert variables["HOME"] == "/var/lib/sglang" and variables["TRITON_CACHE_DIR"].startswith("/var/cache/sglang/")


def test_rerun_touches_nothing(host, plays, node):
    before = main_pid(host, "sglang-k26-ep8")
    assert plays.run("deploy_ep8.yml").succeeded().changed(node) == 0
    assert main_pid(host, "sglang-k26-ep8") == before


def test_an_account_that_is_there_keeps_its_shell(host, plays, node):
    host.check_output("usermod --shell /bin/bash sglang")
    assert plays.run("deploy_ep8.yml").succeeded().changed(node) == 0
    assert host.user("sglang").shell == "/bin/bash"
    host.check_output("usermod --shell /usr/sbin/nologin sglang")


def test_a_download_that_fails_leaves_the_installation(host, plays, tmp_path):
    venv, info = "/opt/sglang/0.5.23+standin", "sglang-0.5.23+standin.dist-info"
    package = host.check_output(f"ls -d {venv}/lib/python3*/site-packages")
    host.check_output(f"mv {package}/{info} {package}/kept && touch {venv}/mine")
    (tmp_path / "no-wheel").touch()
    before = main_pid(host, "sglang-k26-ep8")
    plays.run("deploy_ep8.yml", sglang_runtime_wheelhouse=str(tmp_path)).failed_with("No matching distribution found for sglang")
    host.check_output(f"mv {package}/kept {package}/{info} && rm {venv}/mine")
    assert host.check_output("ls /opt/sglang").split() == ["0.5.23+standin", "current"]
    assert plays.run("deploy_ep8.yml").succeeded() and main_pid(host, "sglang-k26-ep8") == before


def test_other_arguments_of_pip_are_used_once(host, plays, node):
    wanted = {"sglang_runtime_pip_arguments": "--upgrade"}
    assert plays.run("deploy_ep8.yml", **wanted).succeeded().changed(node) > 0
    assert plays.run("deploy_ep8.yml", **wanted).succeeded().changed(node) == 0


@pytest.mark.parametrize("strategy", ["tp8", "ep8", "tp8_tuned", "pp8", "ep8_tuned", "ep4"])
def test_switch(host, plays, node, strategy):
    former = next(iter(known_good(host).values()))["unit"]
    outcome = plays.run("deploy.yml", sglang_server_strategy=strategy).succeeded()
    assert outcome.changed(node) > 0
    assert "curl http://" in outcome.words
    unit = f"sglang-k26-{strategy}.service"
    assert_serves(host, unit)
    assert_rests(host, former)
    words = argv(host, unit)
    assert {flag: after(words, flag) for flag in EXPECTED[strategy]} == EXPECTED[strategy]
    assert list(known_good(host)) == [f"k26-{strategy}"]
    assert plays.run("deploy.yml", sglang_server_strategy=strategy).succeeded().changed(node) == 0


def test_every_byte_of_a_value_arrives(host, plays):
    value = "a $HOME ${HOME} 100% %n # 'single' \"double\" \\ back\\slash \t tab"
    variables = {"sglang_server_flags": {"file-storage-path": value}, "sglang_server_environment": {"MOCK_SGLANG_LOAD_SECONDS": "1", "ODD": value}}
    plays.run("deploy_ep4.yml", **variables).succeeded()
    assert after(argv(host, "sglang-k26-ep4"), "--file-storage-path") == value
    assert environ(host, "sglang-k26-ep4")["ODD"] == value


def half(name: str, port: int, gpus: list[int], **more) -> dict:
    return {
        "sglang_server_strategies": HALVES, "sglang_server_strategy": "half", "sglang_server_name": name, "sglang_server_port": port,
        "sglang_server_gpus": gpus, **more,
    }


def test_two_deployments_side_by_side(host, plays, node):
    plays.run("deploy.yml", **half("left", 30101, [0, 1, 2, 3])).succeeded()
    assert_rests(host, "sglang-k26-ep4.service")
    plays.run("deploy.yml", **half("right", 30201, [4, 5, 6, 7])).succeeded()
    assert_serves(host, "sglang-left-half", 30101)
    assert_serves(host, "sglang-right-half", 30201)
    assert environ(host, "sglang-right-half")["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert sorted(known_good(host)) == ["left-half", "right-half"]

    left = main_pid(host, "sglang-left-half")
    plays.run("deploy.yml", **half("right", 30201, [4, 5, 6, 7], sglang_server_flags={"max-running-requests": 32})).succeeded()
    assert main_pid(host, "sglang-left-half") == left
    assert after(argv(host, "sglang-right-half"), "--max-running-requests") == "32"


def test_one_that_needs_all_cards_replaces_both(host, plays):
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, "sglang-k26-ep8")
    assert_rests(host, "sglang-left-half")
    assert_rests(host, "sglang-right-half")


def test_settings_as_words_of_the_command_line(host, plays, node):
    """-e NAME=VALUE gives text for numbers and for yes and no; the server listens on one address, and its name has a quote."""
    words = [
        f"sglang_server_{name}" for name in
        ("drain_timeout=20", "gpu_wait=0", "seccomp=false", "stall_timeout=0", "generate=false", "kill_foreign=false", "heartbeat=2", "host=::1")
    ]
    arguments = [argument for word in words for argument in ("-e", word)]
    outcome = plays.run("deploy_ep8.yml", *arguments, sglang_server_served_model_name="kimi's").succeeded()
    unit = "sglang-k26-ep8.service"
    assert (prop(host, unit, "TimeoutStopUSec"), prop(host, unit, "RestrictRealtime")) == ("1min 50s", "no")
    assert known_good(host)["k26-ep8"]["probe_host"] == "::1"
    printed = re.search(r"curl http://\[::1\]:30001/.*", outcome.text).group(0)
    assert json.loads(host.check_output(printed.replace("curl", "curl -s", 1)))["choices"]
    assert "for that machine only" in outcome.words
    assert plays.run("deploy_ep8.yml", *arguments, sglang_server_served_model_name="kimi's").succeeded().changed(node) == 0
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, unit)


def test_what_the_plan_warns_of_is_shown(plays):
    stages = {"stages": {"summary": "Stages without a micro batch size.", "flags": {"tp-size": 1, "pp-size": 8, "max-running-requests": 64}}}
    outcome = plays.run("deploy.yml", "--check", sglang_server_strategies=stages, sglang_server_strategy="stages").succeeded()
    assert outcome.words.count("and starves") == 1


LONG = json.dumps({"model": "kimi-k2.6", "prompt": "Hello", "max_tokens": 20000, "ignore_eos": True})


def test_stop_and_remove(host, plays, node):
    host.check_output("systemd-run --quiet curl -sS -o /dev/null -d %s http://127.0.0.1:30001/v1/completions; sleep 2", LONG)
    outcome = plays.run("stop.yml", "-e", "sglang_server_drain_timeout=3").succeeded()
    assert "its drain outlasted the limit; 1 request still running" in outcome.words and outcome.seconds < 40
    assert_rests(host, "sglang-k26-ep8")
    assert known_good(host) == {}
    assert plays.run("stop.yml").succeeded().changed(node) == 0
    plays.run("stop.yml", sglang_stop_remove=True).succeeded()
    assert host.run("ls /etc/systemd/system/sglang-k26-*").rc != 0
    assert host.file("/etc/systemd/system/sglang-left-half.service").exists
    assert answer_is_refused(host)


def answer_is_refused(host) -> bool:
    return host.run("curl -s -m 5 http://127.0.0.1:30001/ready").rc == 7
