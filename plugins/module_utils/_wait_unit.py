# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows one unit through the runs of a start: which invocation is ours, whether it ended, and how."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry, UnitState

SETTLE = 2.0  # seconds that a unit found failed at the first look may take to begin the start we wait for
NEVER_STARTED = 10.0  # seconds that a unit which never ran may stay so
_SIGTERM = 15

_ENDED_LINE = re.compile(
    r"main process exited|control process exited|failed with result|deactivated successfully|start request repeated too quickly", re.IGNORECASE
)
_STOPPING_LINE = re.compile(r"^(?:\S+: )?stopp(?:ing|ed) ", re.IGNORECASE)
_STOP_TIMED_OUT = re.compile(r"state '?(?:final-|stop-)\S* timed out|stop-(?:sigterm|post|sigkill)\S* timed out|stopping timed out", re.IGNORECASE)
_MISSING_LINE = re.compile(r"unit \S+ (?:could not be found|not found|does not exist)|failed to (?:start|load) .{0,200}not found", re.IGNORECASE)
_NOT_STARTED_LINE = re.compile(
    r"dependency failed for|failed with result 'dependency'|unmet condition|condition check resulted in|refusing\b|asserts? failed|assertion failed for"
    r"|skipped due to ",
    re.IGNORECASE,
)
_EXITED_LINE = re.compile(r"main process exited, code=(\w+), status=(\d+)", re.IGNORECASE)
_RESTART_LINE = re.compile(r"scheduled restart job", re.IGNORECASE)
_MASKED_LINE = re.compile(r"unit \S+ is masked", re.IGNORECASE)


@dataclass
class Run:
    """One invocation of the unit during this wait."""

    invocation: str
    began: float
    pid: int = 0
    restarts: int | None = None  # systemd's counter when it began, where that was seen
    ended: float | None = None
    exit_code: str = ""
    exit_status: int | None = None
    result: str = "success"
    end_line_at: float | None = None  # when systemd's own line about the end was read
    stop_asked: float | None = None  # when somebody was seen to stop it
    stop_line: str = ""  # the server's own word of it
    was_starting: bool = False  # seen before systemd called it active
    was_active: bool = False


class UnitWatch:
    """Takes looks at the unit and systemd's lines about it; all state is plain, so that it can be kept as JSON."""

    def __init__(self, invocation: str = ""):
        self.state = UnitState()
        self.looked_at: float | None = None
        self.runs: list[Run] = []
        self.expected = invocation
        self.restarts_before: int | None = None
        self.missing = ""  # "unit_missing" or "unit_masked"
        self.stale_since: float | None = None  # the first look found an earlier life of the unit, or none
        self.lines: list[dict[str, Any]] = []  # systemd's last lines: text, run, time_us
        self.stop_timed_out = False
        self.stopping_since: float | None = None
        self.never_started = False
        if invocation:
            self.runs.append(Run(invocation, 0.0))

    @property
    def run(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def run_key(self) -> str:
        return str(len(self.runs))

    @property
    def restarts(self) -> int:
        """Restarts during the wait, by systemd's counter or by new invocations, whichever saw more."""
        counted = self.state.restarts - (self.restarts_before or 0)
        return max(counted, len(self.runs) - 1, 0)

    @property
    def active(self) -> bool:
        return self.state.active_state == "active" and bool(self.runs) and self.run.ended is None

    def is_ours(self, invocation: str) -> bool:
        return not invocation or any(run.invocation == invocation for run in self.runs)

    # -- looks

    def look(self, now: float, state: UnitState) -> bool:
        """Take a look at the unit; True when something about it has changed."""
        before = self.state
        self.state, self.looked_at = state, now
        self.missing = {"not-found": "unit_missing", "masked": "unit_masked"}.get(state.load_state, "")
        if self.restarts_before is None:
            self.restarts_before = state.restarts
        if not self.runs and not self._adopt(now, state, before):
            return state != before
        self._follow(now, state, before)
        return state != before

    def _adopt(self, now: float, state: UnitState, before: UnitState) -> bool:
        """Find the run that this wait is about; an end that was there before us may be an earlier start's."""
        living = state.active_state in ("active", "activating", "reloading", "refreshing")
        if living and (state.sub_state != "auto-restart" or self.stale_since is None):
            self.runs.append(Run(state.invocation_id, now, state.main_pid, state.restarts))
            self.restarts_before = state.restarts
            self.stale_since = None
            return True
        changed = bool(before.active_state) and (state.invocation_id != before.invocation_id)
        if changed and state.invocation_id:
            self.runs.append(Run(state.invocation_id, now))
            return True
        if self.stale_since is None or state.active_state == "deactivating":
            self.stale_since = now
        return False

    def settle(self, now: float) -> None:
        """After a short time an end that was there at the first look is the end of our start."""
        if self.runs or self.stale_since is None or self.missing or self.state.active_state == "deactivating":
            return
        never_ran = not self.state.exit_code and self.state.active_state == "inactive"
        if now - self.stale_since >= (NEVER_STARTED if never_ran and not self.why_not_started()["text"] else SETTLE):
            self.runs.append(Run(self.state.invocation_id, self.stale_since))
            self._follow(now, self.state, self.state)
            self.run.ended = self.stale_since
            self.never_started = never_ran

    def _follow(self, now: float, state: UnitState, before: UnitState) -> None:
        run = self.run
        if self._is_new_run(state, run):
            if run.ended is None:
                self._end(run, now, before if before.exit_code else UnitState(result="", restarts=before.restarts))
            run = Run(state.invocation_id, now, state.main_pid, state.restarts)
            self.runs.append(run)
            self.stopping_since = None
        run.was_starting = run.was_starting or state.active_state == "activating" and not state.sub_state.startswith("auto-restart")
        run.was_active = run.was_active or state.active_state == "active"
        if state.main_pid:
            run.pid = state.main_pid
        if not run.invocation and state.invocation_id:
            run.invocation = state.invocation_id
        if self._has_ended(state):
            self._end(run, now, state)
        elif state.active_state == "deactivating" and self.stopping_since is None:
            self.stopping_since = now
            if state.result == "success" and run.stop_asked is None:
                run.stop_asked = now

    def _is_new_run(self, state: UnitState, run: Run) -> bool:
        alive = (
            bool(state.main_pid) or state.active_state in ("active", "activating") and state.sub_state not in ("auto-restart", "auto-restart-queued", "exited")
        )
        if state.invocation_id and run.invocation and state.invocation_id != run.invocation:
            return True
        if run.ended is not None:
            return alive and state.active_state in ("active", "activating")
        other_process = bool(state.main_pid and run.pid and state.main_pid != run.pid)
        return other_process and (state.restarts > (run.restarts or 0) or not state.invocation_id)

    def fill_in(self, now: float, heard: list[str]) -> None:
        """Runs that came and went between two looks: the counter says how many, the journal which."""
        missed = self.state.restarts - (self.restarts_before or 0) - (len(self.runs) - 1)
        known = {run.invocation for run in self.runs}
        for invocation in [name for name in heard if name and name not in known][: max(missed, 0)]:
            self.runs.insert(len(self.runs) - 1, Run(invocation, now, ended=now))

    def _has_ended(self, state: UnitState) -> bool:
        if state.active_state in ("failed", "inactive"):
            return True
        if state.sub_state.startswith("auto-restart") or (state.active_state, state.sub_state) == ("active", "exited"):
            return True
        return state.active_state == "deactivating" and not state.main_pid and bool(state.exit_code) and state.result != "success"

    def _end(self, run: Run, now: float, state: UnitState) -> None:
        if run.ended is None:
            run.ended = now
        run.exit_code, run.exit_status, run.result = state.exit_code, state.exit_status, state.result

    def how_it_ended(self, run: Run) -> None:
        """Fill in what the looks did not tell of the end: systemd's line says it too, and the result says a part."""
        told = _EXITED_LINE.search(self.line(r"main process exited")["text"])
        if not run.exit_code and told:
            run.exit_code, run.exit_status = told.group(1), int(told.group(2))
        elif not run.exit_code:
            run.exit_code = {"signal": "killed", "core-dump": "dumped"}.get(run.result, "")

    # -- systemd's lines

    def overhear(self, now: float, entry: Entry) -> None:
        """Keep a line that came before any run was seen: it may say why there is none."""
        self.lines.append({"text": entry.text, "run": self.run_key, "time_us": entry.time_us, "at": now})
        del self.lines[:-60]
        if _MISSING_LINE.search(entry.text):
            self.missing = self.missing or "unit_missing"
        elif _MASKED_LINE.search(entry.text):
            self.missing = self.missing or "unit_masked"

    def read(self, now: float, entry: Entry) -> None:
        text = entry.text
        self.overhear(now, entry)
        run = self.run
        if run is None:
            return
        if _STOP_TIMED_OUT.search(text):
            self.stop_timed_out = True
        elif _STOPPING_LINE.search(text):
            if run.stop_asked is None and run.end_line_at is None:  # after the end it is how systemd speaks of a restart
                run.stop_asked = now
        elif _ENDED_LINE.search(text) and run.end_line_at is None:
            run.end_line_at = now

    def was_told_to_stop(self, now: float, line: str) -> None:
        """The server itself has logged a SIGTERM."""
        if self.run is not None:
            self.run.stop_asked = now if self.run.stop_asked is None else self.run.stop_asked
            self.run.stop_line = self.run.stop_line or line

    def why_not_started(self) -> dict[str, Any]:
        """Systemd's word on why it did not even try."""
        return next((item for item in self.lines if _NOT_STARTED_LINE.search(item["text"])), {"text": "", "time_us": 0})

    def line(self, *patterns: str) -> dict[str, Any]:
        """The first of systemd's lines in the last run that holds a pattern; earlier patterns are better ones."""
        for pattern in patterns:
            for item in self.lines:
                if item["run"] == self.run_key and re.search(pattern, item["text"], re.IGNORECASE):
                    return item
        return {"text": "", "time_us": 0}

    # -- judgement

    def gave_up(self) -> bool:
        """Systemd will not start the unit again by itself."""
        return self.state.active_state in ("failed", "inactive") or self.state.sub_state == "exited"  # RemainAfterExit=

    def kept_from_restarting(self) -> bool:
        """Systemd has counted one more restart than there was: its start limit stood in the way."""
        return self.state.active_state == "failed" and self.run.restarts is not None and self.state.restarts > self.run.restarts

    def stopped_by_somebody(self, run: Run) -> bool:
        if run.result == "exit-code" and self.line(r"control process exited")["text"]:
            return False  # systemd itself ended the server, because a command beside it failed
        if run.exit_code == "killed" and run.exit_status == _SIGTERM or run.exit_code == "exited" and run.exit_status == 128 + _SIGTERM:
            return True
        clean = run.result in ("success", "") and run.exit_code in ("", "exited") and not run.exit_status
        return run.stop_asked is not None and clean

    def replaced_without_failure(self) -> bool:
        """A new invocation that systemd did not count as a restart: somebody started the unit anew."""
        if len(self.runs) < 2 or any(_RESTART_LINE.search(item["text"]) for item in self.lines):
            return False
        return self.state.restarts <= (self.restarts_before or 0)

    def dump(self) -> dict[str, Any]:
        return {**vars(self), "state": asdict(self.state), "runs": [asdict(run) for run in self.runs]}

    def restore(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self.state = UnitState(**kept["state"])
        self.runs = [Run(**run) for run in kept["runs"]]
