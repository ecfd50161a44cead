# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures processor time and memory that a wait takes on the node during a long load, beside a 15-second shell loop.

The wait is run as a playbook runs it, heartbeats included; counted are the process it leaves on the node and that one's children.
`all_cpu_percent` is everything that came in over ssh meanwhile: module start, heartbeats, sshd itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from standin_host import CHECKOUT, StandInHost, ansible_environment

UNIT, PORT = "sglang-bench-long", 31500
LIMITS = {"cpu_percent": 1.0, "memory_mib": 40.0}
LOOP = """\
while true; do
  curl -sf -m 5 http://127.0.0.1:%d/ready >/dev/null && exit 0
  systemctl is-active --quiet %s || exit 1
  journalctl -q -u %s --since -5min -o cat | grep -qE 'Error|Traceback|error:' && exit 1
  sleep 15
done
""" % (PORT, UNIT, UNIT)
# Jiffies of the process and of its children, living and reaped, and the memory of the living ones in KiB.
SAMPLE = """\
tree() { echo "$1"; for child in $(pgrep -P "$1"); do tree "$child"; done; }
top=$(pgrep -x sglang-wait | head -n 1)
ticks=0 memory=0
for pid in $(tree "$top"); do
  ticks=$((ticks + $(cut -d' ' -f14-17 /proc/$pid/stat | tr ' ' '+')))
  memory=$((memory + $(awk '/^VmRSS/ {print $2}' /proc/$pid/status)))
done
loop=$(systemctl show --property=CPUUsageNSec --value bench-loop.service)
loop_memory=$(awk '/^VmRSS/ {print $2}' "/proc/$(systemctl show --property=MainPID --value bench-loop.service)/status")
ssh=$(awk '/^usage_usec/ {print $2}' /sys/fs/cgroup/system.slice/ssh.service/cpu.stat)
printf '{"ticks": %d, "hertz": %d, "memory_kib": %d, "loop_ns": %d, "loop_kib": %d, "ssh_us": %d}\\n' \\
  "$ticks" "$(getconf CLK_TCK)" "$memory" "${loop:-0}" "$loop_memory" "$ssh"
"""


def play(heartbeat: float) -> list[dict]:
    return [{"name": "Wait for a long load", "hosts": "all", "gather_facts": False, "tasks": [
        {"name": "Wait", "gpuops.sglang.sglang_wait_ready": {"name": UNIT, "port": PORT, "heartbeat": heartbeat, "wait_timeout": 7200}}]}]


def sample(host: StandInHost) -> dict:
    return dict(json.loads(host.run(SAMPLE)), at=time.monotonic())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="length of the load (default: 600)")
    parser.add_argument("--heartbeat", type=float, default=15)
    parser.add_argument("--keep", action="store_true", help="leave the host up")
    arguments = parser.parse_args()
    host = StandInHost("bench-wait-cost")
    host.up()
    try:
        result = measure(host, arguments)
    finally:
        if not arguments.keep:
            host.down()
    print(json.dumps(result))
    return 0 if all(result[name] < limit for name, limit in LIMITS.items()) else 1


def measure(host: StandInHost, arguments: argparse.Namespace) -> dict:
    host.run("systemctl stop %s bench-loop 2>/dev/null || true" % UNIT)
    host.write_units({UNIT: {"port": PORT, "environment": {"MOCK_SGLANG_LOAD_SECONDS": arguments.seconds * 1.3 + 90}}})
    host.run("systemctl start --no-block %s; systemd-run --quiet --collect --unit=bench-loop --property=CPUAccounting=yes"
             " bash -c %s" % (UNIT, "'%s'" % LOOP.replace("'", "'\\''")))
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+", encoding="utf-8") as log:
        (Path(folder) / "play.json").write_text(json.dumps(play(arguments.heartbeat)))
        waiting = subprocess.Popen(
            ["ansible-playbook", "-i", host.hosts("inventory").strip(), str(Path(folder) / "play.json")], cwd=CHECKOUT, env=ansible_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            time.sleep(20)
            before = sample(host)
            time.sleep(arguments.seconds)
            if waiting.poll() is not None:
                log.seek(0)
                raise SystemExit("the wait ended too early:\n" + log.read())
            after = sample(host)
        finally:
            waiting.terminate()
            waiting.wait()
        log.seek(0)
        lines = [line for line in log if "s] " in line]
    print("".join(lines[:3]) + "…  (%d lines in all)" % len(lines))
    host.run("systemctl stop %s bench-loop 2>/dev/null || true" % UNIT)
    seconds = after["at"] - before["at"]
    result = {
        "seconds": round(seconds),
        "cpu_percent": round(100 * (after["ticks"] - before["ticks"]) / after["hertz"] / seconds, 3),
        "memory_mib": round(max(before["memory_kib"], after["memory_kib"]) / 1024, 1),
        "all_cpu_percent": round(100 * (after["ssh_us"] - before["ssh_us"]) / 1e6 / seconds, 3),
        "loop_cpu_percent": round(100 * (after["loop_ns"] - before["loop_ns"]) / 1e9 / seconds, 3),
        "loop_memory_mib": round(after["loop_kib"] / 1024, 1),
    }
    print("%-24s %10s %10s" % ("", "wait", "15-s loop"))
    print("%-24s %10.2f %10.2f" % ("% of one core", result["cpu_percent"], result["loop_cpu_percent"]))
    print("%-24s %10.1f %10.1f" % ("MiB", result["memory_mib"], result["loop_memory_mib"]))
    return result


if __name__ == "__main__":
    sys.exit(main())
