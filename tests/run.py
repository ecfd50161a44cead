# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs named commands, all of them whatever fails, and closes with their times and one line of counts.

With ``--jobs 2`` two run at a time, and each one's output is shown in one piece when it has ended.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

COUNTS = re.compile(r"\b(\d+) (passed|failed|error|errors)\b")

# Everything goes through a pipe, most of it into a log: no colours, and nothing kept back in a buffer.
PLAIN = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", "PY_COLORS": "0"}


@dataclass
class Outcome:
    name: str
    seconds: float
    passed: int
    failed: int


def counts(line: str) -> dict[str, int]:
    """What a closing line of pytest, or of this runner, says; empty for any other line."""
    found = {word.rstrip("s"): int(number) for number, word in COUNTS.findall(line)}
    return found if "passed" in found or "failed" in found else {}


def carry_out(name: str, command: str, at_once: bool) -> Outcome:
    print(f"\n== {name}: {command}", flush=True)
    started = time.monotonic()
    seen: dict[str, int] = {}
    kept: list[str] = []
    with subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**os.environ, **PLAIN},
    ) as process:
        for line in process.stdout:
            if at_once:
                print(line, end="", flush=True)
            else:
                kept.append(line)
            seen = counts(line) or seen
    failed = seen.get("failed", 0) + seen.get("error", 0)
    if process.returncode and not failed:
        failed = 1
    passed = seen.get("passed", 0 if failed else 1)
    word = "FAILED" if process.returncode else "ok"
    outcome = Outcome(name, time.monotonic() - started, passed, failed if process.returncode else 0)
    print("".join(kept) + f"== {name}: {word} in {outcome.seconds:.1f} s", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at a time (default: 1)")
    arguments = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(carry_out, *part.split("=", 1), arguments.jobs == 1) for part in arguments.part]
        outcomes = [each.result() for each in waiting]
    width = max(len(outcome.name) for outcome in outcomes)
    print()
    for outcome in outcomes:
        print(f"{outcome.name:<{width}}  {outcome.seconds:7.1f} s  {'FAILED' if outcome.failed else 'ok'}")
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
