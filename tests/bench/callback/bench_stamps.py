# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes down when each task of a measured play came back to the controller."""

from __future__ import annotations

import json
import os
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: bench_stamps
type: aggregate
short_description: Stamps of task results for measurements
description: Writes one JSON line for each final task result to the file named by BENCH_STAMPS.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bench_stamps"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, result, failed):
        line = {"host": result.host.name, "task": result.task.name, "failed": failed, "at": time.monotonic(), "verdict": result.result.get("verdict"),
                "told_at": result.result.get("ended_monotonic"), "cause": (result.result.get("cause") or {}).get("code")}
        with open(os.environ["BENCH_STAMPS"], "a", encoding="utf-8") as stamps:
            stamps.write(json.dumps(line) + "\n")

    def v2_runner_on_ok(self, result):
        self._write(result, False)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write(result, True)

    def v2_runner_on_unreachable(self, result):
        self._write(result, True)
