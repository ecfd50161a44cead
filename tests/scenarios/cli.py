# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays scenario files and prints one JSON object a file; with --check compares each with its own expectation."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from answers import ScenarioError  # noqa: E402
from player import play  # noqa: E402
from reading import read  # noqa: E402


def told(path: str, scenario: dict[str, Any]) -> dict[str, Any]:
    """The output for one file."""
    verdict, at, wait = play(scenario)
    result = wait.result(at)
    cause = result["cause"] or {}
    return {
        "file": path,
        "verdict": verdict.verdict,
        "phase": verdict.phase,
        "cause": cause.get("code") or None,
        "line": cause.get("line") or "",
        "rank": cause.get("rank") or "",
        "at": at,
        "hint": cause.get("hint") or "",
        "elapsed": result["elapsed"],
        "summary": cause.get("summary") or "",
        "seen": cause.get("seen", 0),
        "warnings": result["warnings"],
        "msg": result["msg"],
        "phases": result["phases"],
        "timeline": result["timeline"],
        "journal": result["journal"],
    }


def differences(expect: dict[str, Any], output: dict[str, Any]) -> list[str]:
    """How the output differs from what the file expects."""
    found = []
    for key in ("verdict", "cause", "phase", "rank", "seen"):
        if key in expect and output[key] not in _listed(expect[key]) and (output[key] or None) not in _listed(expect[key]):
            found.append(f"{key} is {output[key]!r}, expected {expect[key]!r}")
    first, last = expect.get("at") or (None, None)
    if first is not None and output["at"] < first - 1e-6 or last is not None and output["at"] > last + 1e-6:
        found.append(f"at is {output['at']}, expected {expect['at']}")
    everything = json.dumps(output, ensure_ascii=False)
    for key, text in (("line", output["line"]), ("output", everything), ("warnings", "\n".join(output["warnings"]))):
        found += [f"{key} lacks {part!r}" for part in _listed(expect.get(f"{key}_has", [])) if str(part) not in text]
        found += [f"{key} has {part!r}" for part in _listed(expect.get(f"{key}_not", [])) if str(part) in text]
    for regex in _listed(expect.get("hint_has", [])):
        if not re.search(str(regex), output["hint"], re.IGNORECASE):
            found.append(f"hint lacks {regex!r}")
    for regex in _listed(expect.get("hint_not", [])):
        if re.search(str(regex), output["hint"], re.IGNORECASE):
            found.append(f"hint has {regex!r}")
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/scenarios/run", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE.yml")
    parser.add_argument("--check", action="store_true", help="compare with each file's own expect, exit 1 on a difference")
    arguments = parser.parse_args()
    malformed = differs = False
    for path in arguments.files:
        try:
            scenario = read(path)
        except ScenarioError as error:
            malformed = True
            sys.stderr.write(f"{path}: {error}\n")
            continue
        output = told(path, scenario)
        if arguments.check and scenario.get("expect"):
            output["differences"] = differences(scenario["expect"], output)
            for line in output["differences"]:
                differs = True
                sys.stderr.write(f"{path}: {line}\n")
        sys.stdout.write(json.dumps(output, ensure_ascii=True) + "\n")
    return 2 if malformed else int(differs)


if __name__ == "__main__":
    sys.exit(main())
