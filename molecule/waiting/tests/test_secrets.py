# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that were not written by the role and show their keys: none of them is repeated by a wait, a stop or a check."""

from __future__ import annotations

import json

import pytest

from trials import UNIT, Trial, code

SERVER = "/opt/sglang/0.5.23+standin/bin/python -m sglang.launch_server --model-path /srv/models/kimi-k2.6 --served-model-name kimi-k2.6 --port 30001"
KEY = "k-5ecret-1"
LINE = f"RuntimeError: refused: Authorization: Bearer {KEY}, HF_TOKEN=hf_5ecret9Abc, api_key='{KEY}'"
ECHO = """
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        print("key", self.headers["Authorization"], flush=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"refused": dict(self.headers)}).encode())
HTTPServer(("127.0.0.1", 30001), Echo).serve_forever()
"""


@pytest.fixture
def trial(host, plays):
    return Trial(host, plays)


@pytest.fixture
def open_unit(trial):
    """A unit with its key on the command line, from where the server writes it into the journal."""
    trial.service("Restart=no", "ExecStart=", f"ExecStart={SERVER} --api-key {KEY}")
    return trial


def assert_hidden(*texts: str) -> None:
    for text in texts:
        assert not [line for line in text.splitlines() if "5ecret" in line]


@pytest.fixture
def ask(trial, tmp_path):
    """Stops or waits, as loudly as can be; the options go by a file, since Ansible repeats its own command line."""

    def run(**steps) -> dict:
        (tmp_path / "steps.json").write_text(json.dumps(steps))
        answer = trial.go("-vvvv", "--diff", "--extra-vars", f"@{tmp_path}/steps.json")
        assert_hidden(trial.outcome.text, json.dumps(answer, indent=1))
        return answer

    return run


@pytest.mark.parametrize("options", [{}, {"api_key": KEY}], ids=["key unknown to the wait", "key given"])
def test_error_that_quotes_the_keys(open_unit, ask, options):
    open_unit.stand_in(fault="line", fault_line=LINE)
    open_unit.start_by_hand()
    answer = ask(wait=options)["wait"]
    assert answer["verdict"] == "failed" and "RuntimeError: refused" in answer["cause"]["line"]
    assert open_unit.logged(KEY), "the journal itself has it"


def test_key_that_is_refused(open_unit, ask):
    open_unit.start_by_hand()
    answer = ask(wait={"api_key": "k-5ecret-2"})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "auth")
    assert ask(stop={})["stop"]["verdict"] == "stopped"


def test_server_that_repeats_what_it_was_sent(trial, ask):
    trial.host.check_output("printf %%s %s > /run/echo.py", ECHO)
    trial.service("ExecStart=", "ExecStart=/usr/bin/python3 /run/echo.py")
    trial.start_by_hand()
    answer = ask(wait={"api_key": KEY})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "not_our_server")
    assert trial.logged(KEY), "it has really been sent"


def test_deployment_in_place_of_a_unit_with_its_key_in_the_open(trial):
    old = "sglang-old-ep8.service"
    trial.host.check_output(
        f"sed 's/--tp-size 8/--api-key {KEY} --tp-size 8/' /etc/systemd/system/%s > /etc/systemd/system/%s; systemctl daemon-reload; systemctl enable --now %s",
        UNIT, old, old)
    outcome = trial.plays.run("deploy_ep8.yml", "-vvvv", "--diff")
    enabled = trial.host.service(old).is_enabled
    trial.host.check_output("systemctl disable --now %s; rm /etc/systemd/system/%s; systemctl daemon-reload", old, old)
    assert_hidden(outcome.succeeded().text)
    assert not enabled
