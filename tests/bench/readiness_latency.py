# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how long after the true event a wait says ready or failed, beside a retried uri task and a 15-second shell loop.

All three watch the very same starts of the stand-in, on one host, in one run. The stand-in writes down when /ready turns 200 and when
it dies; the host's monotonic clock is this machine's, so what comes back here can be set against it. The ratios take the moment at
which a task is back on the controller for all three; the medians are the module's own verdict.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from standin_host import CHECKOUT, STAMPS, StandInHost, ansible_environment

HERE = Path(__file__).resolve().parent
PERIOD = 15  # seconds between two looks of the peers
SHORTEST, SPREAD = 28.0, 15.0  # load seconds: long enough for every watcher to be watching, spread over one period of the peers
FIRST_PORT = 31000
ENDS = {  # how a start may end, and the knobs of the stand-in that make it so
    "ready": {},
    "exit 1, no word": {"MOCK_SGLANG_FAULT": "exit@graphs", "MOCK_SGLANG_EXIT_STATUS": "1"},
    "out of memory": {"MOCK_SGLANG_FAULT": "cuda_oom@graphs"},
    "exit 0": {"MOCK_SGLANG_FAULT": "exit0@graphs"},
    "killed, no word": {"MOCK_SGLANG_FAULT": "killed_unknown@graphs"},
}
WAYS = ("module", "uri", "loop")
LOOP = """\
while true; do
  curl -sf -m 5 http://127.0.0.1:{port}/ready >/dev/null && exit 0
  systemctl is-active --quiet {unit} || exit 1
  journalctl -q -u {unit} --since '-5min' -o cat | grep -qE 'Error|Traceback|error:' && exit 1
  sleep {period}
done
"""


def play() -> list[dict]:
    # As tight as a healthy start allows: uri cannot see a crash and ends only when its tries are used up.
    tries = math.ceil((SHORTEST + SPREAD) / PERIOD) + 2
    return [{
        "name": "Watch the same starts in three ways",
        "hosts": "all",
        "gather_facts": False,
        "strategy": "free",
        "tasks": [
            {"name": "module", "when": "way == 'module'", "ignore_errors": True, "gpuops.sglang.sglang_wait_ready": {
                "name": "{{ unit }}", "port": "{{ server_port }}", "model": "demo-model", "cursor": "{{ cursor }}", "heartbeat": PERIOD,
                "wait_timeout": 300, "restart_limit": "{{ restart_limit }}"}},
            {"name": "uri", "when": "way == 'uri'", "ignore_errors": True, "register": "answer", "until": "answer.status == 200",
             "retries": tries, "delay": PERIOD, "ansible.builtin.uri": {"url": "http://127.0.0.1:{{ server_port }}/ready", "timeout": 5}},
            {"name": "loop", "when": "way == 'loop'", "ignore_errors": True, "changed_when": False,
             "ansible.builtin.shell": LOOP.format(port="{{ server_port }}", unit="{{ unit }}", period=PERIOD)},
        ],
    }]


def inventory(host: dict, units: dict[str, dict], cursor: str) -> dict:
    aliases = {}
    for unit, wanted in units.items():
        for way in wanted.get("ways", WAYS):
            aliases["%s.%s" % (unit, way)] = dict(
                host, unit=unit, way=way, server_port=wanted["port"], cursor=cursor, restart_limit=wanted.get("restart_limit", 0))
    return {"all": {"hosts": aliases}}


def one_wave(host: StandInHost, address: dict, ends: list[str], number: int, folder: Path) -> list[dict]:
    """Some starts at once, each watched in three ways; one row for each start and way."""
    units = {}
    for place, end in enumerate(ends):
        load = SHORTEST + random.random() * SPREAD
        environment = dict(ENDS[end], MOCK_SGLANG_LOAD_SECONDS="%.2f" % load)
        # A name of its own for each wave: the loop greps the journal of the unit, whose earlier life would give it false alarms.
        units["sglang-bench-%d-%d" % (number, place)] = {"port": FIRST_PORT + 20 * place, "environment": environment, "end": end}
    return watch(host, address, units, number, folder)


def watch(host: StandInHost, address: dict, units: dict[str, dict], number: int, folder: Path) -> list[dict]:
    """Start the units, watch each in its ways, and set what came back beside what happened."""
    names = " ".join(units)
    host.run("systemctl stop 'sglang-bench-*'; systemctl reset-failed")
    host.write_units(units)
    cursor = host.run("journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p'; systemctl start --no-block %s" % names).strip()
    (folder / "play.json").write_text(json.dumps(play()))
    (folder / "inventory.json").write_text(json.dumps(inventory(address, units, cursor)))
    stamps = folder / ("stamps-%d" % number)
    environment = ansible_environment(
        BENCH_STAMPS=str(stamps), ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callback"), ANSIBLE_CALLBACKS_ENABLED="bench_stamps", ANSIBLE_FORKS=str(3 * len(units)))
    with open(folder / ("log-%d" % number), "w", encoding="utf-8") as log:
        subprocess.run(["ansible-playbook", "-i", str(folder / "inventory.json"), str(folder / "play.json")], cwd=CHECKOUT, env=environment,
                       stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    broken = [row for row in map(json.loads, stamps.read_text().splitlines()) if row["task"] == "module" and not row["verdict"]]
    if broken:
        raise SystemExit("the module gave no verdict:\n" + (folder / ("log-%d" % number)).read_text())
    return [dict(row, end=units[row["host"].rpartition(".")[0]]["end"], event=events(host, row["host"].rpartition(".")[0]))
            for row in map(json.loads, stamps.read_text().splitlines())]


def events(host: StandInHost, unit: str) -> dict[str, float]:
    """When what happened: the last time, and under NAME:N the Nth time."""
    found: dict[str, float] = {}
    counts: dict[str, int] = {}
    for row in map(json.loads, host.run("cat %s/%s" % (STAMPS, unit)).splitlines()):
        counts[row["event"]] = counts.get(row["event"], 0) + 1
        found[row["event"]] = found["%s:%d" % (row["event"], counts[row["event"]])] = row["monotonic"]
    return found


def other_verdicts(host: StandInHost, address: dict, count: int, folder: Path) -> dict[str, float]:
    """Median delay to a crash loop, told at the first restart, and to a stranger on the port, told when he binds it."""
    units: dict[str, dict] = {}
    for place in range(count):
        load = "%.2f" % (SHORTEST + random.random() * SPREAD)
        port = FIRST_PORT + 20 * place
        units["sglang-bench-loop%d" % place] = {
            "port": port, "ways": ["module"], "restart_limit": 1, "service": "Restart=always\nRestartSec=1", "end": "crash_loop",
            "environment": {"MOCK_SGLANG_FAULT": "exit@graphs", "MOCK_SGLANG_EXIT_STATUS": "1", "MOCK_SGLANG_LOAD_SECONDS": load}}
        units["sglang-bench-ours%d" % place] = {
            "port": port + 10, "ways": ["module"], "end": "foreign_listener", "environment": {"MOCK_SGLANG_LOAD_SECONDS": 120}}
        units["sglang-bench-stranger%d" % place] = {"port": port + 10, "ways": [], "end": "", "environment": {"MOCK_SGLANG_LOAD_SECONDS": load}}
    rows = watch(host, address, units, 0, folder)
    delays_of: dict[str, list[float]] = {"crash_loop": [], "foreign_listener": []}
    for row in (row for row in rows if row["task"] == "module"):
        if row["cause"] != row["end"]:
            raise SystemExit("%s was expected: %s" % (row["end"], row))
        at = row["event"]["started:2"] if row["end"] == "crash_loop" else events(host, row["host"].rpartition(".")[0].replace("ours", "stranger"))["bound"]
        delays_of[row["end"]].append(max(row["told_at"] - at, 0.0))
    for name, seconds in delays_of.items():
        print("%-28s %8.2f %8s %8.2f %8d" % ("module's verdict, " + name, median(seconds), "", max(seconds), len(seconds)))
    return {name + "_median_s": round(median(seconds), 3) for name, seconds in delays_of.items()}


def delays(rows: list[dict], way: str, ready: bool, moment: str) -> list[float]:
    event = "ready" if ready else "died"
    found = []
    for row in rows:
        if row["task"] == way and (row["end"] == "ready") is ready:
            if row["failed"] is ready:
                raise SystemExit("%s of %s was taken for the opposite by %s: %s" % (row["end"], row["host"], way, row))
            if event not in row["event"]:
                raise SystemExit("the stand-in of %s left no stamp of %s: %s" % (row["host"], event, row))
            found.append(row[moment] - row["event"][event])
    return found


def report(rows: list[dict]) -> dict:
    ours = {ready: delays(rows, "module", ready, "told_at") for ready in (True, False)}
    print("\n%-28s %8s %8s %8s %8s" % ("seconds after the event", "median", "p90", "worst", "starts"))
    ratios = {}
    for way in ("module", "uri", "loop"):
        for ready in (True, False):
            seconds = sorted(delays(rows, way, ready, "at"))
            print("%-28s %8.2f %8.2f %8.2f %8d" % (
                "%s %s" % (way, "ready" if ready else "failed"), median(seconds), seconds[int(len(seconds) * 0.9)], seconds[-1], len(seconds)))
            ratios[way, ready] = median(seconds)
    for end in ENDS:
        seconds = [row["told_at"] - row["event"]["ready" if end == "ready" else "died"] for row in rows if row["task"] == "module" and row["end"] == end]
        if seconds:
            print("%-28s %8.2f %8s %8.2f %8d" % ("module's verdict, " + end, median(seconds), "", max(seconds), len(seconds)))
    return {
        "ready_median_s": round(median(ours[True]), 3),
        "failed_median_s": round(median(ours[False]), 3),
        "ratio_to_uri": round(max(ratios["module", ready] / ratios["uri", ready] for ready in (True, False)), 4),
        "ratio_to_loop": round(max(ratios["module", ready] / ratios["loop", ready] for ready in (True, False)), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20, help="starts that become ready, and as many that crash (default: 20)")
    parser.add_argument("--at-once", type=int, default=10, help="starts watched at the same time (default: 10)")
    parser.add_argument("--others", type=int, default=4, help="crash loops, and strangers on the port, beside them (default: 4)")
    parser.add_argument("--keep", action="store_true", help="leave the host up")
    arguments = parser.parse_args()
    crashes = [end for end in ENDS if end != "ready"]
    ends = [end for turn in range(arguments.starts) for end in ("ready", crashes[turn % len(crashes)])]
    host = StandInHost("bench-readiness")
    host.up()
    address = host.ansible_vars()
    rows: list[dict] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, first in enumerate(range(0, len(ends), arguments.at_once)):
                rows += one_wave(host, address, ends[first:first + arguments.at_once], number, Path(folder))
                print("%d of %d starts watched" % (min(first + arguments.at_once, len(ends)), len(ends)), flush=True)
            result = report(rows)
            if arguments.others:
                (Path(folder) / "stamps-0").unlink()
                result.update(other_verdicts(host, address, arguments.others, Path(folder)))
    finally:
        if not arguments.keep:
            host.down()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
