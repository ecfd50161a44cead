# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the remote calls of a deploy that has nothing to do, and sets its wall time against that of one ping.

The host is the demo's, deployed as `make demo` deploys it; a host that was not up before is removed again. Every call is seen
where it leaves this machine: a wrapper writes down each time Ansible runs ssh, sftp or scp.
"""

from __future__ import annotations

import argparse
import json
import re
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from standin_host import CHECKOUT, HOSTS, ansible_environment

INVENTORY = CHECKOUT / "inventories" / "demo"
PLAYBOOK = CHECKOUT / "playbooks" / "deploy_ep8.yml"
MOST_CALLS = 12
WRAPPER = """\
#!/bin/sh
printf '%s\\n' "$*" | tr '\\n' ' ' >> '{log}'
echo >> '{log}'
exec {program} "$@"
"""


def hosts(*argv: str) -> str:
    return subprocess.run([str(HOSTS), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout


class Ansible:
    """Runs Ansible's commands with the demo's inventory, timed, their remote calls written down."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls"
        self._env = ansible_environment()
        for program in ("ssh", "sftp", "scp"):
            wrapper = folder / program
            wrapper.write_text(WRAPPER.format(log=self._log, program=program), encoding="utf-8")
            wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
            self._env[f"ANSIBLE_{program.upper()}_EXECUTABLE"] = str(wrapper)

    def run(self, program: str, *argv: str) -> tuple[float, int, str]:
        """Wall seconds, remote calls and output of one command."""
        self._log.write_text("", encoding="utf-8")
        began = time.monotonic()
        done = subprocess.run(
            [program, "-i", str(INVENTORY), *argv],
            cwd=CHECKOUT, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        spent = time.monotonic() - began
        if done.returncode:
            sys.exit(f"{program} {' '.join(argv)} ended with {done.returncode}:\n{done.stdout}")
        # Ansible also asks the ssh program what it can do; such a call goes to no host.
        calls = [line for line in self._log.read_text(encoding="utf-8").splitlines() if "User=" in line or "@" in line]
        return spent, len(calls), done.stdout

    def ping(self) -> float:
        return self.run("ansible", "sglang", "-m", "ansible.builtin.ping")[0]

    def deploy(self) -> tuple[float, int, int]:
        """Wall seconds, remote calls, changed tasks."""
        spent, calls, output = self.run("ansible-playbook", str(PLAYBOOK))
        return spent, calls, sum(int(number) for number in re.findall(r"changed=(\d+)", output))


def measure(ansible: Ansible, repeats: int) -> dict[str, float]:
    print("first deploy", flush=True)
    ansible.deploy()
    pings, walls, calls, changed = [], [], [], []
    for number in range(1, repeats + 1):
        pings.append(ansible.ping())
        wall, called, altered = ansible.deploy()
        walls.append(wall)
        calls.append(called)
        changed.append(altered)
        print(f"re-run {number}: {called} remote calls, {altered} changed, {wall:.1f} s; ping {pings[-1]:.1f} s", flush=True)
    return {
        "remote_calls": max(calls),
        "changed": max(changed),
        "wall_s": round(median(walls), 2),
        "ratio_to_ping": round(median(walls) / median(pings), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="how many re-runs are measured")
    options = parser.parse_args()
    was_up = "gpu-demo" in hosts("ps")
    hosts("up", "--set", "demo", "gpu-demo")
    try:
        with tempfile.TemporaryDirectory(prefix="roundtrips-") as folder:
            result = measure(Ansible(Path(folder)), options.repeats)
    finally:
        if not was_up:
            hosts("down", "--set", "demo")
    print(json.dumps(result))
    return 0 if result["remote_calls"] <= MOST_CALLS and result["changed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
