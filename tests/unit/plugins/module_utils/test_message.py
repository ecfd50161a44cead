# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The message names cause and remedy first, then the line, and stays readable in a narrow log."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._message import failure_lines, failure_message

RESULT = {
    "verdict": "failed",
    "phase": "weights",
    "elapsed": 42.4,
    "cause": {
        "code": "cuda_oom",
        "summary": "A GPU ran out of memory while loading (GPU 3).",
        "hint": "Lower mem_fraction_static.",
        "line": "torch.OutOfMemoryError: CUDA out of memory.",
        "rank": "TP3",
        "seen": 8,
        "time_us": 1767607230000000,
    },
    "journal": ["[10:00:30 TP3] Scheduler hit an exception: Traceback (most recent call last):", "x" * 300],
}


def test_cause_and_remedy_come_first():
    message = failure_message(RESULT, "sglang-k26-ep8.service")
    assert message.startswith("A GPU ran out of memory while loading (GPU 3). Lower mem_fraction_static. The line (TP3, ")
    assert "seen 8 times): torch.OutOfMemoryError: CUDA out of memory." in message
    assert message.endswith("(sglang-k26-ep8.service: failed in phase weights after 42 s, cause cuda_oom)")
    assert "\n" not in message


def test_a_very_long_line_is_shortened():
    cause = {**RESULT["cause"], "line": "y" * 5000}
    assert len(failure_message({**RESULT, "cause": cause})) < 700


def test_a_narrow_log_keeps_its_width():
    lines = failure_lines(RESULT, "sglang-k26-ep8.service", 60)
    assert max(map(len, lines)) <= 60
    assert lines[-3] == "Journal, 2 lines:" and lines[-1].endswith("…")


def test_ready_and_unfinished_waits_have_words_too():
    assert failure_message({"verdict": "ready", "elapsed": 12.0}, "u") == "u is ready after 12 s."
    assert "not ready yet" in failure_message({"verdict": "", "phase": "graphs", "elapsed": 1.0, "cause": None}, "u")
