# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides how a stop went: drained, killed after its limit, or fallen over; and who still holds the GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._gpu import busy_text, selected
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause, UnitState

MARGIN = 30.0  # seconds beside the unit's own limit: systemd still has to kill and to reap
UNBOUNDED = 600.0  # for a unit without a limit of its own
UNLISTED_MIB = 2048  # memory in use on a GPU without any process to it: more than an idle driver takes

_REMAINING = re.compile(r"Remaining number of requests (\d+)")
_TIMED_OUT = re.compile(r"State '[\w-]+' timed out|Stopping timed out\. (?:Killing|Terminating)|Failed with result 'timeout'")
_FELL_OVER = re.compile(
    r"crashed with exit code|hit an exception|Received sigquit from a child|SIGQUIT received|scheduler died", re.IGNORECASE)
_LAST_TO_KILL_ITSELF = (0, 5, 18)  # up to this version the main process kills itself even after a clean drain
_ORDER = ("stopped", "stopped_unclean", "stopped_forced", "stop_timeout")


@dataclass
class StopSeen:
    """What was seen of one unit from the order to stop it until now."""

    unit: str
    before: UnitState
    now: UnitState
    texts: list[str] = field(default_factory=list)  # the journal since the order
    pids: list[int] = field(default_factory=list)  # what is left in its control group
    forced: bool = False  # this stop's own limit was over and the group was killed
    version: str = ""
    seconds: float = 0.0


def is_down(state: UnitState) -> bool:
    return state.active_state in ("inactive", "failed", "")


def needs_stop(state: UnitState) -> bool:
    """Everything but a unit at rest, also one that waits for its next restart or is being stopped already."""
    return not is_down(state)


def needs_reset(state: UnitState) -> bool:
    return state.active_state == "failed"


def limit(unit_limit: float | None, asked: float | None) -> float:
    """Seconds to wait for one unit before its group is killed."""
    if asked is not None:
        return asked
    return (unit_limit if unit_limit is not None else UNBOUNDED) + MARGIN


def remaining(texts: Iterable[str]) -> int | None:
    """Requests that were still running when the server last said so."""
    found = [match.group(1) for match in map(_REMAINING.search, texts) if match]
    return int(found[-1]) if found else None


def version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def judge(seen: StopSeen) -> tuple[str, Cause | None]:
    """The verdict on one unit's stop, with the cause when it was not a clean one."""
    if not is_down(seen.now) or seen.pids:
        return "stop_timeout", Cause(
            "stop_timeout", "%s did not stop within %d s%s." % (seen.unit, seen.seconds, _left(seen)), _last(seen.texts),
            hint="Look at the processes that are left with `systemctl status %s`; one that hangs in the driver needs a reboot." % seen.unit)
    timed_out = _first(_TIMED_OUT, seen.texts)
    if seen.forced or timed_out or (seen.before.active_state != "failed" and seen.now.result == "timeout"):
        return "stopped_forced", Cause(
            "stopped_forced", "%s was killed because its drain outlasted the limit%s." % (seen.unit, _left(seen)),
            timed_out or next((text for text in reversed(seen.texts) if _REMAINING.search(text)), ""),
            hint="Take the node out of the router before the stop, or give it a longer TimeoutStopSec.")
    if needs_stop(seen.before) and _fell_over(seen):
        return "stopped_unclean", Cause(
            "stopped_unclean", "%s went down before it had drained (%s)%s." % (seen.unit, _end(seen.now), _left(seen)),
            _first(_FELL_OVER, seen.texts) or _last(seen.texts),
            hint="The unit needs KillMode=mixed: otherwise the ranks get the signal too and die first.")
    return "stopped", None


def _fell_over(seen: StopSeen) -> bool:
    if seen.before.sub_state in ("auto-restart", "auto-restart-queued") or is_down(seen.before):
        return False
    if _first(_FELL_OVER, seen.texts):
        return True
    if seen.now.result == "success":
        return False
    killed_itself = seen.now.exit_code == "killed" and seen.now.exit_status == 9
    drained = remaining(seen.texts) in (0, None)
    old = bool(seen.version) and version_tuple(seen.version) <= _LAST_TO_KILL_ITSELF
    return not (killed_itself and drained and (old or remaining(seen.texts) == 0))


def _end(state: UnitState) -> str:
    return "%s %s" % (state.exit_code, state.exit_status) if state.exit_code else "result %s" % state.result


def _left(seen: StopSeen) -> str:
    parts = []
    count = remaining(seen.texts)
    if count:
        parts.append("%d request%s still running" % (count, "" if count == 1 else "s"))
    if seen.pids:
        parts.append("processes left: %s" % ", ".join(map(str, seen.pids)))
    return "; " + "; ".join(parts) if parts else ""


def _first(pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    return next((text for text in texts if pattern.search(text)), "")


def _last(texts: list[str]) -> str:
    return texts[-1] if texts else ""


def worst(verdicts: Iterable[str]) -> str:
    """The verdict over several units: the least good of them."""
    return max(verdicts, key=_ORDER.index, default="stopped")


def gpu_holders(gpus: list[dict[str, Any]], wanted: Iterable[Any]) -> list[dict[str, Any]]:
    """Who holds memory on the wanted GPUs; pid 0 stands for memory in use without a process to it."""
    holders = []
    for gpu in selected(gpus, wanted):
        holders += [dict(one, gpu=gpu["index"]) for one in gpu["processes"]]
        if not gpu["processes"] and (gpu["memory_used_mib"] or 0) > UNLISTED_MIB:
            holders.append({"pid": 0, "name": "no process is listed", "memory_mib": gpu["memory_used_mib"], "user": "", "unit": "", "gpu": gpu["index"]})
    return holders


def gpu_busy(holders: list[dict[str, Any]], waited: float) -> Cause:
    return Cause(
        "gpu_busy", "GPU memory is still held after %d s: %s." % (waited, busy_text(holders)),
        hint="End that process if it is not needed (kill_foreign: true does it), or use other GPUs. Nothing outside the unit was killed.")


def port_busy(port: int, pid: int, name: str, unit: str) -> Cause:
    owner = "pid %d (%s%s)" % (pid, name, " of " + unit if unit else "") if pid else "a process that cannot be seen"
    return Cause("port_in_use", "Port %d is still held by %s." % (port, owner), hint="Stop that process, or use another port.")
