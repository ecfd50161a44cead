# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every scenario has its right answer, also when the wait is cut into slices, and the player says what is wrong with a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).resolve().parents[3] / "scenarios"
FILES = sorted(FOLDER.glob("*.yml"))


def run(*arguments):
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run([str(FOLDER / "run"), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60, env=environment)


@pytest.fixture(scope="module")
def played():
    done = run("--check", *FILES)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def test_all_files_are_played_in_order(played):
    done, outputs = played
    assert done.returncode in (0, 1), done.stderr
    assert [output["file"] for output in outputs] == [str(path) for path in FILES] and len(FILES) >= 100


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_answer_is_right(played, path):
    assert path.read_text(encoding="utf-8").count("\nexpect: ") == 1
    output = next(output for output in played[1] if output["file"] == str(path))
    assert output["differences"] == []


def test_an_output_has_what_the_format_promises(played):
    for output in played[1]:
        assert {"file", "verdict", "phase", "cause", "line", "rank", "at", "hint", "elapsed", "timeline"} <= set(output)
        assert output["verdict"] in ("ready", "failed", "stalled", "timeout")


def test_a_wait_cut_into_slices_ends_the_same(played, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import player
    import reading

    for path, output in zip(FILES, played[1]):
        verdict, at, _wait = player.play(reading.read(str(path)), sliced=True)
        assert (verdict.verdict, verdict.cause.code or None if verdict.cause else None, at) == (
            output["verdict"],
            output["cause"],
            output["at"],
        ), path.stem


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("- 1", "mapping"),
        ("timeline: 3", "timeline"),
        ("budget: soon\ntimeline: [{t: 0}]", "budget"),
        ("timeline: [{t: zero}]", "timeline[0].t"),
        ("timeline: [{t: 0}, {unit: {A: active}}]", "timeline[1].t"),
        ("timeline: [{t: 0, http: {/health: nonsense}}]", "timeline[0].http./health"),
        ("timeline: [{t: 0, http: [1]}]", "timeline[0].http"),
        ("timeline: [{t: 0, journal: {a: 1}}]", "timeline[0].journal"),
        ("timeline: [{t: 0, unit: {N: many}}]", "timeline[0].unit.N"),
        ("vars: [1]\ntimeline: [{t: 0}]", "vars"),
        ("vars: {port: web}\ntimeline: [{t: 0}]", "vars"),
        ("a: [", "YAML"),
        ("timeline: [{t: 0}]\nexpect: {at: 5}", "expect.at"),
        ("timeline: [{t: 0}]\nexpect: {hint_has: '('}", "expect.hint_has"),
        ("vars: {error_patterns: [{regex: '('}]}\ntimeline: [{t: 0}]", "vars"),
        ("{}", "timeline"),
    ],
)
def test_a_malformed_file_is_named_with_its_key(tmp_path, text, key):
    path = tmp_path / "bad.yml"
    path.write_text(text, encoding="utf-8")
    good = FOLDER / "f05_slow_health.yml"
    done = run(path, good)
    assert done.returncode == 2 and str(path) in done.stderr and key in done.stderr and "Traceback" not in done.stderr
    assert json.loads(done.stdout)["verdict"] == "ready"


def test_a_wrong_expectation_is_told_only_when_asked_for(tmp_path):
    path = tmp_path / "x.yml"
    path.write_text("budget: 5\ntimeline: [{t: 0, unit: {A: active, S: running, P: 1, I: a}}]\nexpect: {verdict: ready}\n", encoding="utf-8")
    assert run(path).returncode == 0
    done = run("--check", path)
    assert done.returncode == 1 and "verdict is 'timeout', expected 'ready'" in done.stderr
