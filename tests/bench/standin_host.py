# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A booted host with the stand-in server on it, for measurements of starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
HOSTS = CHECKOUT / "tests" / "hosts" / "hosts"
WHEELS = CHECKOUT / ".cache" / "wheelhouse" / "standin"
PYTHON = "/opt/standin/bin/python"
STAMPS = "/run/bench-stamps"
UNIT = """\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=exec
KillMode=mixed
TimeoutStopSec=20
LogRateLimitIntervalSec=0
Environment=PYTHONUNBUFFERED=1 HOME=/root MOCK_SGLANG_LOAD_BY_STRATEGY=0 MOCK_SGLANG_TIME_SCALE=0.1 MOCK_SGLANG_STAMPS={stamps}/{name}
# Cards of its own, so that many servers can be up at once and none finds its memory taken.
Environment=FAKE_GPU_DIR=/run/bench-gpu-{name}
{environment}
{service}
ExecStart={python} -m sglang.launch_server --model-path {model} --served-model-name demo-model --port {port} {flags}
"""


class StandInHost:
    """One host of a set of its own, always booted afresh."""

    def __init__(self, set_name: str, host: str = "node1") -> None:
        self.set_name = set_name
        self.host = host

    def hosts(self, *argv: str, text: str | None = None) -> str:
        command = [str(HOSTS), argv[0], "--set", self.set_name, *argv[1:]]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, stdin=None if text is not None else subprocess.DEVNULL)
        return done.stdout

    def run(self, script: str) -> str:
        """Run a shell script on the host over ssh."""
        return self.hosts("ssh", self.host, "bash", "-s", text="set -eu\n" + script)

    def up(self) -> None:
        wheels = sorted(WHEELS.glob("sglang-*.whl"))
        if not wheels:
            raise SystemExit("build the stand-in first: make standin")
        self.down()
        self.hosts("up", "--volume", "%s:/mnt/wheelhouse:ro" % WHEELS.parent, self.host)
        self.run(
            "[ -x %(python)s ] || python3 -m venv /opt/standin\n"
            "%(python)s -m pip install --quiet --force-reinstall --no-index --no-deps /mnt/wheelhouse/standin/%(wheel)s\n"
            "mkdir -p %(stamps)s /srv/bench-model\n"
            "[ -e /srv/bench-model/config.json ] || echo '{}' > /srv/bench-model/config.json\n"
            % {"python": PYTHON, "wheel": wheels[-1].name, "stamps": STAMPS})

    def write_units(self, units: dict[str, dict[str, object]]) -> None:
        """Lay down a unit a start: name -> port, environment and flags."""
        script = ""
        for name, wanted in units.items():
            environment = "\n".join("Environment=%s=%s" % pair for pair in dict(wanted.get("environment", {})).items())
            text = UNIT.format(name=name, port=wanted["port"], environment=environment, flags=wanted.get("flags", ""), service=wanted.get("service", ""),
                               python=PYTHON, stamps=STAMPS, model="/srv/bench-model")
            script += "cat > /etc/systemd/system/%s.service <<'END'\n%sEND\nrm -f %s/%s\n" % (name, text, STAMPS, name)
        self.run(script + "systemctl daemon-reload\n")

    def ansible_vars(self) -> dict[str, object]:
        """How Ansible reaches the host, for inventories with several names for it."""
        inventory = self.hosts("inventory").strip()
        command = [sys.executable, "-m", "ansible", "inventory", "-i", inventory, "--host", self.host]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=ansible_environment(), stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)

    def down(self) -> None:
        self.hosts("down")


def ansible_environment(**more: str) -> dict[str, str]:
    path = "%s:%s" % (Path(sys.executable).parent, os.environ.get("PATH", "/usr/bin:/bin"))
    return dict(os.environ, PATH=path, ANSIBLE_CONFIG=str(CHECKOUT / "ansible.cfg"), ANSIBLE_NOCOLOR="1",
                ANSIBLE_DEPRECATION_WARNINGS="0", **more)
