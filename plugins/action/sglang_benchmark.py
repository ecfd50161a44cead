# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows on the controller how a benchmark on a host goes, and keeps the facts of those that were made before."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpuops.sglang.plugins.action.sglang_wait_ready import RemoteWait

MODULE = "gpuops.sglang.sglang_benchmark"
FACTS = "sglang_benchmarks"
PATIENCE = 600.0  # seconds a lost connection is tried for


def seconds(value: Any) -> str:
    """A span of time, short."""
    value = int(value)
    return "%d s" % value if value < 120 else "%d min" % round(value / 60)


def progress_text(progress: dict[str, Any]) -> str:
    """Where a sweep is, in one line."""
    if not progress.get("concurrency"):
        return str(progress.get("phase") or "starting")
    text = "point %(point)d of %(points)d, C=%(concurrency)d" % progress
    if progress["phase"] != "run":
        return "%s: %s" % (text, progress["phase"])
    done = progress["completed"] + progress["failed"]
    text += ", run %d: %d%s requests" % (progress["repeat"], done, " of %d" % progress["asked"] if progress.get("asked") else "")
    if progress["failed"]:
        text += " (%d failed)" % progress["failed"]
    if progress.get("tok_s") is not None:
        text += ", %.0f tok/s so far" % progress["tok_s"]
    left = progress.get("sweep_left_s") or progress.get("left_s")
    return text + (", about %s left" % seconds(left) if left else "")


def point_text(point: dict[str, Any]) -> str:
    """A finished point in one line."""
    if point["status"] == "failed":
        return "C=%d failed: %s" % (point["concurrency"], "; ".join(cause["code"] for cause in point["causes"]))
    text = "C=%d %.1f tok/s" % (point["concurrency"], point["output_tok_s"])
    if point["output_tok_s_ci95"] is not None:
        text += " ± %.1f" % point["output_tok_s_ci95"]
    text += ", TTFT p50 %.0f ms, ITL p50 %.1f ms" % (point["ttft_ms"]["p50"], point["itl_ms"]["p50"] or 0.0)
    if point["status"] != "valid":
        text = "(%s) invalid: %s" % (text, "; ".join(cause["code"] for cause in point["causes"]))
    return text


class ActionModule(ActionBase):

    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        args = dict(self._task.args)
        args.setdefault("inventory_host", str(task_vars.get("inventory_hostname") or ""))
        if self._task.check_mode or self._task.async_val:
            return self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars, wrap_async=bool(self._task.async_val))
        result = RemoteBenchmark(self, args, task_vars).run()
        facts = result.get("ansible_facts")
        if isinstance(facts, dict) and FACTS in facts:
            facts[FACTS] = dict(earlier(task_vars), **facts[FACTS])
        return result


def earlier(task_vars: dict[str, Any]) -> dict[str, Any]:
    """The results of this host's earlier benchmarks."""
    known = (task_vars.get("ansible_facts") or {}).get(FACTS)
    return dict(known) if known else {}


class RemoteBenchmark(RemoteWait):
    """One host's benchmark, seen from the controller; the calls, and what is done when one is lost, are those of a wait."""

    module = MODULE
    answer = "benchmark"

    def __init__(self, action: ActionBase, args: dict[str, Any], task_vars: dict[str, Any]) -> None:
        super().__init__(action, task_vars)
        self._args = {key: value for key, value in args.items() if key != "watch"}
        self._timeout, self._endless = PATIENCE, True
        self._points_told = 0

    def _watch(self) -> dict[str, Any]:
        return {"idle": max(120, 4 * self._heartbeat)}

    def _poll(self) -> dict[str, Any]:
        found = super()._poll()
        # The module turns the raw result into one of a task: facts, warnings, failure.
        return self._start() if "result" in found else found

    def _take(self, progress: dict[str, Any]) -> None:
        since = progress.get("since", 0.0)
        self._tell_points(progress.get("finished") or [], since)
        super()._take(dict(progress, text=progress_text(progress), elapsed=since))

    def _tell_points(self, points: list[dict[str, Any]], elapsed: float | None = None) -> None:
        """Each finished point once, as soon as it is known."""
        for point in points[self._points_told :]:
            self._say(point_text(point), elapsed)
        self._points_told = max(self._points_told, len(points))

    def _tell_end(self, result: dict[str, Any]) -> None:
        self._tell_points((result.get("benchmark") or {}).get("points") or [])

    def _clean_up(self) -> None:
        """The module has taken the mailbox away with the result."""
