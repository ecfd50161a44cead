# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests of a scenario run the collection's playbooks as a person would, and read what came of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
RECAP = re.compile(r"^(\S+)\s+: (ok=.*)$", re.MULTILINE)


@dataclass
class Outcome:
    """How one run of ansible-playbook ended."""

    code: int
    text: str
    seconds: float
    recap: dict[str, dict[str, int]] = field(default_factory=dict)

    def changed(self, host: str) -> int:
        return self.recap[host]["changed"]

    def succeeded(self) -> Outcome:
        assert self.code == 0, self.text[-6000:]
        return self

    def failed_with(self, *texts: str) -> Outcome:
        assert self.code != 0, self.text[-6000:]
        for text in texts:
            assert text in self.words, f"{text!r} is not in:\n{self.text[-6000:]}"
        return self

    @property
    def words(self) -> str:
        """The output with every run of white space as one blank, since Ansible wraps long lines."""
        return " ".join(self.text.split())


class Plays:
    """Runs playbooks of the checkout against the hosts of the scenario."""

    def start(self, playbook: str, *arguments: str, **variables) -> subprocess.Popen:
        path = playbook if playbook.startswith("/") else str(CHECKOUT / "playbooks" / playbook)
        command = ["ansible-playbook", "-i", os.environ["MOLECULE_EPHEMERAL_DIRECTORY"] + "/inventory", path, *arguments]
        if variables:
            command += ["--extra-vars", json.dumps(variables)]
        environment = {
            **os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "playbooks" / "collections"),
        }
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def finish(self, process: subprocess.Popen, started: float) -> Outcome:
        text = process.communicate()[0]
        recap = {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in RECAP.findall(text)}
        return Outcome(process.returncode, text, time.monotonic() - started, recap)

    def run(self, playbook: str, *arguments: str, **variables) -> Outcome:
        started = time.monotonic()
        return self.finish(self.start(playbook, *arguments, **variables), started)

    def hosts(self, *arguments: str) -> subprocess.CompletedProcess:
        """Runs the tool that booted the hosts, for what cannot be done over ssh."""
        command = [str(CHECKOUT / "tests/hosts/hosts"), arguments[0], "--set", "m-" + os.environ["MOLECULE_SCENARIO_NAME"], *arguments[1:]]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)


@pytest.fixture(scope="session")
def plays() -> Plays:
    return Plays()


@pytest.fixture
def node(host):
    """The name of the host as the inventory has it."""
    return host.backend.get_hostname() if hasattr(host.backend, "get_hostname") else host.backend.host
