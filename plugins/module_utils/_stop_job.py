# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stops units on the node, and waits until their processes, ports and GPUs are given back."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils import _follow, _gpu, _stopping, _unit
from ansible_collections.gpuops.sglang.plugins.module_utils._journal import Decoder
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._sockets import SocketTable

_PAUSE = 0.25
_GPU_PAUSE = 1.0
_LATE_LINES = 1.5  # the journal may be a moment behind the state
_AFTER_KILL = 15.0  # seconds for killed processes to be gone
_PORT_PATIENCE = 10.0
_VERSION = re.compile(r"/(\d+\.\d+[^/]*)/bin$")


class StoppingUnit:
    """One unit on its way down."""

    def __init__(self, unit: str, properties: dict[str, str], commands: _unit.Commands, version: str) -> None:
        state = _unit.unit_state(properties)
        self.properties = properties
        self.seen = _stopping.StopSeen(unit=unit, before=state, now=state, version=version or version_of(state.main_pid))
        self._commands = commands
        self._group = properties.get("ControlGroup", "")
        self._decoder = Decoder(unit)
        self._follower: _follow.JournalFollower | None = None
        self.warnings: list[str] = []
        self.down_at = 0.0

    def follow(self, cursor: str, now: float) -> None:
        start = _follow.from_cursor(cursor) if cursor else ["--since=now"]
        self._follower = _follow.JournalFollower(self.seen.unit, self._commands, start, self.warnings.append, cursor)
        self._follower.open(now)

    def look(self, now: float) -> None:
        """Take in the journal, the state, and what is left in the control group."""
        if self._follower is not None:
            entries = self._decoder.feed(self._follower.read(now, self._decoder.cursor))
            self.seen.texts += [entry.text for entry in entries if entry.source != "kernel"]
        answer = _unit.show(self._commands, [self.seen.unit])
        if answer:
            self.seen.now = _unit.unit_state(answer[0])
        self.seen.pids = _unit.cgroup_pids(self._group)

        if self.down and not self.down_at:
            self.down_at = now

    @property
    def told(self) -> bool:
        """Whether systemd's last words on the unit are in."""
        return any(text.startswith("Stopped ") for text in self.seen.texts)

    @property
    def down(self) -> bool:
        return _stopping.is_down(self.seen.now) and not self.seen.pids

    def kill(self) -> None:
        """Kill what is in the unit's own control group, and nothing else."""
        self.seen.forced = True
        if not _stopping.is_down(self.seen.now):
            self._commands.run(["systemctl", "kill", "--signal=SIGKILL", self.seen.unit])
        for pid in _unit.cgroup_pids(self._group):
            send(pid, signal.SIGKILL)

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()


def version_of(pid: int, proc: str = "/proc") -> str:
    """The version that a process runs, as the folder of its interpreter has it; links to that folder are followed."""
    try:
        with open("%s/%d/cmdline" % (proc, pid), "rb") as handle:
            interpreter = handle.read(4096).split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        return ""
    match = _VERSION.search(os.path.realpath(os.path.dirname(interpreter)))
    return match.group(1) if match else ""


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return


class StopJob:
    """The whole of one call of the module."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.commands = _unit.Commands()
        names = [_unit.unit_name(name) for name in params["names"]]
        found = _unit.show(self.commands, names, _unit.SHOW + ("UnitFileState",)) if names else []
        self.units = [
            StoppingUnit(name, properties, self.commands, params["version"] or "") for name, properties in zip(names, found)
        ]
        self.answered = len(found) == len(names)
        self.warnings: list[str] = []
        self.killed: list[dict[str, Any]] = []

    def to_stop(self) -> list[StoppingUnit]:
        return [unit for unit in self.units if _stopping.needs_stop(unit.seen.before) or _unit.cgroup_pids(unit.properties.get("ControlGroup", ""))]

    def to_reset(self) -> list[StoppingUnit]:
        return [unit for unit in self.units if _stopping.needs_reset(unit.seen.before)]

    def to_disable(self) -> list[StoppingUnit]:
        if not self.params["disable"]:
            return []
        return [unit for unit in self.units if unit.properties.get("UnitFileState") in ("enabled", "enabled-runtime")]

    def plan(self) -> dict[str, Any]:
        """What a run would do, for check mode."""
        changed = bool(self.to_stop() or self.to_reset() or self.to_disable())
        for unit in self.to_stop() + self.to_reset():
            unit.seen.now = replace(unit.seen.before, active_state="inactive", sub_state="dead", result="success")
        return dict(self._result("stopped", None, changed), cursor="")

    def run(self) -> dict[str, Any]:
        changed = bool(self.to_stop() or self.to_reset() or self.to_disable())
        self._disable()
        self._stop(self.to_stop())
        verdicts = {unit.seen.unit: _stopping.judge(unit.seen) for unit in self.units}
        self._reset()
        verdict = _stopping.worst(one for one, cause in verdicts.values())
        cause = next((cause for one, cause in verdicts.values() if one == verdict), None)
        if cause is not None and verdict != "stop_timeout":
            self.warnings.append("%s %s" % (cause.summary, cause.hint))
        if verdict != "stop_timeout":
            held = self._ports() or self._gpus()
            if held is not None:
                verdict, cause = held.code, held
        return dict(self._result(verdict, cause, changed or bool(self.killed)), cursor=_follow.cursor_now(self.commands))

    def _disable(self) -> None:
        names = [unit.seen.unit for unit in self.to_disable()]
        if not names:
            return
        code, _output, errors = self.commands.run(["systemctl", "disable"] + names)
        if code:
            self.warnings.append("%s will start at boot again: %s" % (", ".join(names), " ".join(errors.split())))

    def _stop(self, units: list[StoppingUnit]) -> None:
        """Order all to stop at once, and kill the group of each one whose time is over."""
        if not units:
            return
        cursor = _follow.cursor_now(self.commands)
        began = time.monotonic()
        for unit in units:
            unit.follow(cursor, began)
        self.commands.run(["systemctl", "stop", "--no-block"] + [unit.seen.unit for unit in units])
        pending = list(units)
        while pending:
            time.sleep(_PAUSE)
            pending = [unit for unit in pending if not self._settled(unit, began)]
        for unit in units:
            unit.close()
            self.warnings += unit.warnings

    def _settled(self, unit: StoppingUnit, began: float) -> bool:
        now = time.monotonic()
        unit.look(now)
        unit.seen.seconds = round(now - began, 1)
        if unit.down:
            return unit.told or now - unit.down_at > _LATE_LINES
        own = _unit.parse_span(unit.properties.get("TimeoutStopUSec", ""))
        over = now - began - _stopping.limit(own, self.params["timeout"])
        if over > _AFTER_KILL:
            return True
        if over > 0 or _stopping.is_down(unit.seen.now):
            unit.kill()
        return False

    def _reset(self) -> None:
        """A forced stop must not be the next start's failure, and starts that were asked for do not count against the start limit."""
        down = [unit for unit in self.units if unit.down]
        if down:
            self.commands.run(["systemctl", "reset-failed"] + [unit.seen.unit for unit in down])
        for unit in down:
            unit.seen.now = replace(unit.seen.now, active_state="inactive", sub_state="dead")

    def _ports(self) -> Cause | None:
        deadline = time.monotonic() + _PORT_PATIENCE
        for port in self.params["ports"]:
            table = SocketTable("", port)
            while True:
                sockets = table.listening()
                if not sockets:
                    break
                pid = table.owner(sockets[0].inode, [])
                if time.monotonic() < deadline:
                    time.sleep(_PAUSE)
                elif self.params["kill_foreign"] and pid and pid not in [one["pid"] for one in self.killed]:
                    self._end({"pid": pid, "name": _unit.name_of_pid(pid), "user": _unit.user_of_pid(pid), "unit": _unit.unit_of_pid(pid), "port": port})
                    deadline = time.monotonic() + _AFTER_KILL
                else:
                    return _stopping.port_busy(port, pid, _unit.name_of_pid(pid), _unit.unit_of_pid(pid))
        return None

    def _gpus(self) -> Cause | None:
        if not self.params["gpus"]:
            return None
        began = time.monotonic()
        deadline = began + self.params["gpu_timeout"]
        while True:
            gpus, facts = _gpu.list_gpus(self.commands)
            if not gpus:
                self.warnings.append("The GPUs could not be looked at: %s" % (facts.smi_text or "nvidia-smi gave no answer").splitlines()[0])
                return None
            holders = _stopping.gpu_holders(gpus, self.params["gpus"])
            if not holders:
                return None
            now = time.monotonic()
            foreign = [one for one in holders if one["pid"] and one["pid"] not in [gone["pid"] for gone in self.killed]]
            if now < deadline:
                time.sleep(_GPU_PAUSE)
            elif self.params["kill_foreign"] and foreign:
                for one in foreign:
                    self._end(one)
                deadline = time.monotonic() + _AFTER_KILL
            else:
                return _stopping.gpu_busy(holders, now - began)

    def _end(self, holder: dict[str, Any]) -> None:
        """End a process outside the units, as the user asked for: politely first."""
        self.killed.append(holder)
        send(holder["pid"], signal.SIGTERM)
        for _turn in range(20):
            if not os.path.isdir("/proc/%d" % holder["pid"]):
                return
            time.sleep(_PAUSE)
        send(holder["pid"], signal.SIGKILL)

    def _result(self, verdict: str, cause: Cause | None, changed: bool) -> dict[str, Any]:
        units = []
        for unit in self.units:
            one, own_cause = _stopping.judge(unit.seen)
            units.append(dict(
                name=unit.seen.unit,
                verdict=one,
                cause=vars(own_cause) if own_cause else None,
                before="%s/%s" % (unit.seen.before.active_state, unit.seen.before.sub_state),
                after="%s/%s" % (unit.seen.now.active_state, unit.seen.now.sub_state),
                load_state=unit.seen.before.load_state,
                seconds=unit.seen.seconds,
                remaining_requests=_stopping.remaining(unit.seen.texts),
                journal=unit.seen.texts[-self.params["journal_lines"]:] if self.params["journal_lines"] > 0 else [],
            ))
        return dict(
            changed=changed,
            verdict=verdict,
            cause=vars(cause) if cause else None,
            units=units,
            killed=self.killed,
            commands=self.commands.lines,
            diff=dict(
                before="".join("%s %s\n" % (one["name"], one["before"]) for one in units),
                after="".join("%s %s\n" % (one["name"], one["after"]) for one in units),
            ),
        )
