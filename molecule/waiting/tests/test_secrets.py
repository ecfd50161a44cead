# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that were not written by the role and show their keys: none of them is repeated by a wait, a stop or a check."""

from __future__ import annotations

import json

import pytest

from nodes import argv
from trials import Trial, code

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
    trial.service("ExecStart=", f"ExecStart={SERVER} --api-key {KEY}")
    return trial


def hidden(trial, answer: dict) -> dict:
    for text in (trial.outcome.text, json.dumps(answer)):
        assert "5ecret" not in text
    return answer["wait"]


@pytest.mark.parametrize("options", [{}, {"api_key": KEY}], ids=["key unknown to the wait", "key given"])
def test_error_that_quotes_the_keys(open_unit, options):
    open_unit.stand_in(fault="line", fault_line=LINE)
    answer = hidden(open_unit, open_unit.go("-vvvv", "--diff", stop={}, start=True, wait=options))
    assert (answer["verdict"], code(answer)) == ("failed", "exited")
    assert "RuntimeError: refused" in answer["msg"]
    assert open_unit.logged(KEY), "the journal itself has it"


def test_key_that_is_refused(open_unit):
    answer = hidden(open_unit, open_unit.go("-vvvv", stop={}, start=True, wait={"api_key": "k-5ecret-2"}))
    assert (answer["verdict"], code(answer)) == ("failed", "auth")
    open_unit.outcome = open_unit.plays.run("stop.yml", "-vvvv", "--diff", sglang_server_api_key=KEY).succeeded()
    hidden(open_unit, {"wait": None})


def test_server_that_repeats_what_it_was_sent(trial):
    trial.host.check_output("printf %%s %s > /run/echo.py", ECHO)
    trial.service("ExecStart=", "ExecStart=/usr/bin/python3 /run/echo.py")
    answer = hidden(trial, trial.go("-vvvv", stop={}, start=True, wait={"api_key": KEY}))
    assert (answer["verdict"], code(answer)) == ("failed", "not_our_server")
    assert trial.logged(KEY), "it has really been sent"


def test_deployment_in_place_of_a_unit_with_a_key_in_its_arguments(open_unit):
    open_unit.start_by_hand()
    open_unit.until(lambda: open_unit.logged("ready to roll!"))
    assert KEY in argv(open_unit.host, "sglang-k26-ep8")
    open_unit.outcome = open_unit.plays.run("deploy_ep8.yml", "-vvvv", "--diff", "--check").succeeded()
    hidden(open_unit, {"wait": None})
