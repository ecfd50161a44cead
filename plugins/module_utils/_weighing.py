# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weighs findings against each other: which of several lines is the cause, and which only says the same again or worse."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpuops.sglang.plugins.module_utils._matching import GENERIC, STRENGTH, Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import PHASES

_OUTLIVED = 3.0  # seconds after which a line that is no exception was only a warning, when another one ends the server
_OUTLIVED_EXCEPTION = 10.0
_OUTLIVED_SERVING = 15.0  # seconds after which an error that a server has logged while it answers was not what ended it
_SERVING = ("warmup", "ready")
_PRELUDE = 5.0  # seconds between the line of a part in another language and the exception that follows from it
_TOGETHER = ("kv_cache", "graphs", "bind", "warmup", "ready")  # phases that all ranks enter together
# What the server says when it finds no card, and what tells why.
_FOR_WANT_OF_A_DRIVER = ("gpu_count", "driver_missing")
OF_THE_DRIVER = ("driver_mismatch", "driver_too_old", "fabric_manager", "module_conflict", "module_not_built", "secure_boot", "gpu_lost")


def weigh(candidates: list[Finding]) -> Finding | None:
    """The cause among these: the first in time of the surest kind, unless another one explains it or it was outlived."""
    if not candidates:
        return None
    chosen = min(candidates, key=_surest)
    if chosen.strong and not chosen.proof:
        chosen = next((item for item in sorted(candidates, key=lambda item: item.order) if _outlived(chosen, item)), chosen)
    if chosen.code in GENERIC and (chosen.strong or chosen.kind == "plain"):
        chosen = next((item for item in candidates if _is_told_inside(chosen, item)), chosen)
        before = next((item for item in candidates if _is_told_before(chosen, item)), None)
        chosen = replace(before, rank=before.rank or chosen.rank, proof=chosen.proof) if before is not None else chosen
    if chosen.code in _FOR_WANT_OF_A_DRIVER:
        chosen = next((item for item in candidates if item.code in OF_THE_DRIVER), chosen)
    if chosen.code == "nccl_error" and not chosen.hint:
        told = next((item for item in candidates if item.code == "nccl_error" and item.hint), None)
        chosen = replace(chosen, line=told.line, hint=told.hint, time_us=told.time_us) if told is not None else chosen
    if chosen.code in GENERIC or not chosen.strong:
        evidence = [item for item in candidates if item.kind == "evidence"]
        if evidence:
            return min(evidence, key=lambda item: item.order)
    return chosen


def _surest(item: Finding) -> tuple[int, bool, int]:
    """A traceback whose exception has not come says less than a line that names a cause; of weak lines the one with the exit code says more."""
    says_nothing = item.line.rstrip().endswith(("Error:", "Error"))
    return STRENGTH["plain" if item.pending else item.kind], says_nothing or item.kind == "weak" and not item.words.get("exit"), item.order


def survived(item: Finding, reached: str, ended: float | None = None) -> bool:
    """Did its run go on to a later phase, which no rank enters without the others? Then the line was no more than a warning."""
    if item.proof or item.kind == "evidence" and not item.namesake or reached not in _TOGETHER:
        return False
    if ended is not None and item.phase in _SERVING and ended - item.at > _OUTLIVED_SERVING:
        return True  # of a request, or of a part that the server does without
    return PHASES.index(item.phase or "process") < PHASES.index(reached)


def _outlived(early: Finding, late: Finding) -> bool:
    """Did the server go on after the early line, until the late one ended it?"""
    if early.kind == "evidence" and not early.namesake or early.run != late.run or late.order < early.order:
        return False
    if not (late.strong and (late.proof or late.shaped)):
        return False
    gap, moved = late.at - early.at, late.steps > early.steps
    if early.shaped:
        return moved and gap > _OUTLIVED_EXCEPTION
    return moved or gap > _OUTLIVED


def _is_told_inside(generic: Finding, item: Finding) -> bool:
    """Did the lines of a traceback whose exception says nothing hold the reason?"""
    between = generic.order < item.order < generic.last and item.run == generic.run
    return between and item.kind == "fatal" and item.code not in GENERIC and item.rank in ("", generic.rank)


def _is_told_before(generic: Finding, item: Finding) -> bool:
    """Did a part in another language say a moment before what failed?"""
    lately = item.order < generic.last and generic.at - item.at <= _PRELUDE and generic.last - item.order <= 60
    return item.kind == "prelude" and item.run == generic.run and lately and not generic.words.get("exit")


def merge(twin: Finding, found: Finding) -> None:
    twin.seen += found.seen
    twin.former = twin.former and found.former
    twin.proof = twin.proof or found.proof
    twin.runs += [run for run in found.runs if run not in twin.runs]
    if found.order < twin.order:
        twin.order, twin.rank, twin.line, twin.time_us = found.order, found.rank, found.line, found.time_us


def may_go_on(item: Finding) -> bool:
    """May the text of an exception that nobody knows go on in the next lines?"""
    return item.code in GENERIC and (item.proof or item.kind == "plain")


def outer_is_better(inner: Finding, outer: Finding) -> bool:
    """Of two exceptions in a chain the inner one is the cause, unless the outer one says more."""
    if outer.code in ("graph_capture_oom", "graph_capture_failed"):
        return inner.code in ("cuda_oom", "bad_flags", *GENERIC) or inner.kind == "weak"
    if (inner.code == "exited" or inner.kind == "hearsay") and outer.code == "scheduler_crashed" and outer.proof and outer.kind != "hearsay":
        return True  # the pipe to a dead rank ends with an EOFError; the exception around it says which rank, and how
    if outer.strong and outer.code in inner.yields_to:
        return True
    known = outer.strong and outer.code not in GENERIC
    return known and (inner.code in GENERIC or not inner.strong)
