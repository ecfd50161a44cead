# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks for changes before making them, and looks for two secrets everywhere they could have gone."""

from __future__ import annotations

import pytest

from nodes import answer, argv, ask, assert_serves, main_pid

EP8 = "sglang-k26-ep8.service"
KEY, ADMIN, TOKEN = "k-5ecret-1$a", "k-5ecret-admin", 'hf_5ecret2"quoted"$x'
SECRETS = {
    "sglang_server_api_key": KEY,
    "sglang_server_admin_api_key": ADMIN,
    "sglang_server_secret_environment": {"HF_TOKEN": TOKEN},
}


def assert_hidden(text: str) -> None:
    for secret in ("5ecret", KEY, ADMIN, TOKEN):
        assert secret not in text


def test_check_mode_on_a_bare_host_touches_nothing(host, plays, node):
    outcome = plays.run("deploy_ep8.yml", "--check", "--diff", **SECRETS).succeeded()
    assert outcome.changed(node) > 0
    assert_hidden(outcome.text)
    for path in ("/opt/sglang", "/var/lib/sglang", "/var/lib/gpuops-sglang", "/etc/sglang", f"/etc/systemd/system/{EP8}"):
        assert not host.file(path).exists
    assert not host.user("sglang").exists


def test_deployed_with_keys(host, plays, node):
    outcome = plays.run("deploy_ep8.yml", "-vvv", "--diff", **SECRETS).succeeded()
    assert_hidden(outcome.text)
    assert_serves_with_key(host, KEY)
    assert plays.run("deploy_ep8.yml", **SECRETS).succeeded().changed(node) == 0


def assert_serves_with_key(host, key: str) -> None:
    assert answer(host, "/v1/models")[0] == 401
    assert answer(host, "/v1/models", key=key)[0] == 200


def test_only_files_of_root_hold_them(host):
    for path in ("/etc/sglang/k26-ep8.yaml", "/etc/sglang/k26-ep8.env"):
        entry = host.file(path)
        assert (entry.user, entry.mode) == ("root", 0o600)
        assert "5ecret" in entry.content_string
    assert_hidden(host.check_output("systemctl show %s; systemctl cat %s", EP8, EP8))
    assert_hidden(" ".join(argv(host, EP8)))
    found = host.run("grep -rl 5ecret /etc /opt /var/lib /var/cache /tmp /root").stdout.split()
    assert sorted(found) == ["/etc/sglang/k26-ep8.env", "/etc/sglang/k26-ep8.yaml"]
    token = ask(host, "tr '\\0' '\\n' < /proc/%s/environ | grep ^HF_TOKEN=", main_pid(host, EP8))
    assert token == f"HF_TOKEN={TOKEN}"


@pytest.mark.parametrize("arguments", [[], ["-v"], ["-vvv"], ["--diff"], ["--check", "--diff"]], ids=" ".join)
def test_a_failing_start_shows_the_cause_and_no_secret(host, plays, arguments):
    variables = {**SECRETS, "sglang_server_environment": {"MOCK_SGLANG_LOAD_SECONDS": "1", "MOCK_SGLANG_FAULT": "cuda_oom"}}
    outcome = plays.run("deploy_tp8.yml", *arguments, **variables)
    assert_hidden(outcome.text)
    if "--check" not in arguments:
        outcome.failed_with("CUDA out of memory", f"Put back: {EP8} serves again")
        assert "censored" not in outcome.text or "-v" in " ".join(arguments)
    assert_serves_with_key(host, KEY)


def test_check_mode_tells_what_the_run_then_does(host, plays, node):
    before = main_pid(host, EP8)
    variables = {**SECRETS, "sglang_server_flags": {"max-running-requests": 33}}
    said = plays.run("deploy_ep8.yml", "--check", "--diff", **variables).succeeded()
    assert "+  --max-running-requests 33" in said.text
    assert main_pid(host, EP8) == before
    assert "33" not in host.file(f"/etc/systemd/system/{EP8}").content_string
    plays.run("deploy_ep8.yml", **variables).succeeded()
    assert main_pid(host, EP8) != before
    assert plays.run("deploy_ep8.yml", "--check", "--diff", **variables).succeeded().changed(node) == 0


def test_a_rotated_key_restarts_the_server(host, plays, node):
    before = main_pid(host, EP8)
    variables = {**SECRETS, "sglang_server_flags": {"max-running-requests": 33}, "sglang_server_api_key": "k-5ecret-2"}
    outcome = plays.run("deploy_ep8.yml", "--diff", **variables).succeeded()
    assert_hidden(outcome.text)
    assert main_pid(host, EP8) != before
    assert_serves_with_key(host, "k-5ecret-2")


def test_a_key_taken_away_leaves_no_file(host, plays):
    plays.run("deploy_ep8.yml").succeeded()
    assert_serves(host, EP8)
    assert host.run("ls /etc/sglang/k26-ep8.*").rc != 0
