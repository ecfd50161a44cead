# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows on the controller how a wait on a node goes, and goes on with it after a lost connection."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import signal
import threading
import time
from typing import Any, Callable, Iterator

from ansible.errors import AnsibleActionFail, AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

MODULE = "gpuops.sglang.sglang_wait_ready"
MARK = "SGLANG-WAIT"
GRACE = 3.0  # seconds within which a service that is ready already says so in the first call
POLL_OVERHEAD = 20.0  # what a question may take beside the time that it was asked to wait
CALL_OVERHEAD = 90.0  # what a call of the module may take beside it, over a slow line
LONGEST_PAUSE = 10.0
MOST_ENDS = 3  # times that the process on the node may end without a word, one after the other
LEAST_PATIENCE = 60.0  # a connection is tried for at least this long, though the wait's own time is over

display = Display()


class Overdue(BaseException):
    """A call that never came back; no Exception, because a connection plugin would take that for a reason to repeat it."""


class LostConnection(Exception):
    """One call was lost; the wait on the node is not."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Break a call off that hangs on a dead connection; leaves the alarm alone where a task's own timeout uses it."""
    taken = threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN)
    if taken:
        yield
        return

    def ring(_signal: int, _frame: Any) -> None:
        raise Overdue("no answer within %d s" % seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def poll_command(folder: str, pid: int, seconds: float) -> str:
    """Shell text that sleeps on the node until there is news or the time is over, then prints it."""
    return (
        "d={folder}; touch $d/asked 2>/dev/null; "
        "if [ ! -e $d/result.json ] && [ -d /proc/{pid} ]; then timeout {seconds:.0f} dd if=$d/bell of=/dev/null bs=4096 count=1 2>/dev/null; fi; "
        "echo {mark}; if [ -e $d/result.json ]; then cat $d/result.json; elif [ -d /proc/{pid} ]; then cat $d/progress.json; else echo gone; fi"
    ).format(folder=folder, pid=pid, seconds=max(seconds, 1), mark=MARK)


def parse_poll(output: str) -> dict[str, Any]:
    """What a poll printed: ``result``, ``progress`` or ``gone``; raises LostConnection for anything else."""
    before, mark, text = output.partition(MARK)
    text = text.strip()
    if text == "gone":
        return {"gone": True}
    try:
        data = json.loads(text)
    except ValueError:
        raise LostConnection("the answer was cut short") from None
    return {"progress": data} if "pid" in data else {"result": data}


def line(host: str, width: int, elapsed: float, text: str) -> str:
    return "%-*s  [%3ds] %s" % (width, host, elapsed, text)


def number(value: Any, otherwise: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return otherwise


class ActionModule(ActionBase):

    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        if self._task.check_mode or self._task.async_val:
            return self._execute_module(module_name=MODULE, task_vars=task_vars, wrap_async=bool(self._task.async_val))
        return RemoteWait(self, task_vars or {}).run()


class RemoteWait:
    """One host's wait, seen from the controller."""

    module = MODULE
    answer = "verdict"  # the key that only a module which came to its end returns

    def __init__(self, action: ActionModule, task_vars: dict[str, Any]) -> None:
        args = action._task.args
        self._action = action
        self._task_vars = task_vars
        self._args = {key: value for key, value in args.items() if key != "watch"}
        self._heartbeat = max(number(args.get("heartbeat"), 15), 1)
        self._timeout = number(args.get("wait_timeout"), 1800)
        self._endless = bool(args.get("extend_while_progress"))
        self._token = secrets.token_hex(16)
        self._host = str(task_vars.get("inventory_hostname", ""))
        self._width = min(max([len(str(name)) for name in task_vars.get("ansible_play_batch") or []] + [len(self._host)]), 30)
        self._began = time.monotonic()
        self._progress: dict[str, Any] = {}
        self._progress_at = self._began
        self._lost_at: float | None = None
        self._said_at = self._began

    def run(self) -> dict[str, Any]:
        found = self._again(self._start)
        gone = 0
        while "result" not in found:
            if "gone" in found:
                gone += 1
                if gone > MOST_ENDS:
                    raise AnsibleActionFail(
                        "The process that goes on by itself on the node ended %d times without a word. Something there ends it: KillUserProcesses= of "
                        "systemd-logind (loginctl enable-linger), a limit, or no /proc." % gone
                    )
                found = self._again(self._start)
                continue
            self._take(found["progress"])
            found = self._again(self._poll)
            gone = 0 if "progress" in found else gone
        result = found["result"]
        self._tell_end(result)
        if "folder" in self._progress:
            self._clean_up()
        return result

    def _watch(self) -> dict[str, Any]:
        return {"elapsed": self._elapsed() if self._progress else 0}

    def _start(self) -> dict[str, Any]:
        watch = dict(self._watch(), token=self._token, grace=min(GRACE, self._heartbeat))
        with at_most(GRACE + CALL_OVERHEAD):
            result = self._action._execute_module(module_name=self.module, module_args=dict(self._args, watch=watch), task_vars=self._task_vars)
        if result.get("rc", 0) not in (0, 1) and self.answer not in result:
            raise LostConnection("the module was cut off with status %s" % result["rc"])
        if result.get("unreachable"):
            raise LostConnection(str(result.get("msg", "")))
        if "waiting" not in result:
            result.get("invocation", {}).get("module_args", {}).pop("watch", None)
            return {"result": result}
        return {"progress": dict(result["waiting"]["progress"], folder=result["waiting"]["folder"])}

    def _poll(self) -> dict[str, Any]:
        return self.ask(self._progress)

    def ask(self, progress: dict[str, Any]) -> dict[str, Any]:
        """Ask the wait on the node how it stands; comes back with news, or after a heartbeat."""
        folder = progress["folder"]
        if not re.match(r"^[\w./-]+$", folder):
            raise AnsibleConnectionFailure("the node gave a folder with an odd name")
        with at_most(self._heartbeat + POLL_OVERHEAD):
            answer = self._action._low_level_execute_command(poll_command(folder, int(progress.get("pid", 0)), self._heartbeat))
        found = parse_poll(answer.get("stdout", ""))
        if "progress" in found:
            found["progress"]["folder"] = folder
        return found

    def _again(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Make a call until it comes back, or until the wait's time is over."""
        pause = 1.0
        while True:
            try:
                found = call()
            except AnsibleAuthenticationFailure:
                raise
            except (AnsibleConnectionFailure, LostConnection, Overdue) as error:
                self._note_loss(error)
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            self._note_return()
            return found

    def _note_loss(self, error: BaseException) -> None:
        now = time.monotonic()
        reason = " ".join(str(error).split())[:160]
        if self._lost_at is None:
            self._said_at = now
            self._lost_at = self._progress_at
            self._say("connection lost, the wait goes on: %s" % reason)
        elif now - self._said_at >= self._heartbeat:
            self._said_at = now
            self._say("still no connection, %d s without news: %s" % (now - self._lost_at, reason))
        limit = self._lost_at + self._timeout if self._endless else self._began + self._timeout
        if now > max(limit, self._lost_at + LEAST_PATIENCE):
            last = self._progress.get("text") or "nothing was heard of it"
            raise AnsibleConnectionFailure("No connection for %d s, so it is not known how the start ended; last seen: %s. %s" % (
                now - self._lost_at, last, reason))
        with contextlib.suppress(Exception):
            with at_most(POLL_OVERHEAD):
                self._action._connection.reset()

    def _note_return(self) -> None:
        if self._lost_at is not None:
            self._say("connection is back, %d s were without news" % (time.monotonic() - self._lost_at))
            self._lost_at = None

    def _take(self, progress: dict[str, Any]) -> None:
        self._progress = progress
        self._progress_at = time.monotonic()
        self._say(progress.get("text") or "waiting")

    def _elapsed(self) -> float:
        return number(self._progress.get("elapsed"), 0) + time.monotonic() - self._progress_at

    def _say(self, text: str, elapsed: float | None = None) -> None:
        if not self._action._task.no_log:
            display.display(line(self._host, self._width, self._elapsed() if elapsed is None else elapsed, text))

    def _tell_end(self, result: dict[str, Any]) -> None:
        verdict = result.get("verdict")
        if not verdict:
            return
        if verdict == "ready":
            unit = str(self._args.get("name", "")).replace(".service", "")
            text = "ready: %s (unit %s, started %s)" % (self._args.get("model") or "any model", unit, result.get("started_at") or "?")
        else:
            text = "%s in phase %s: %s" % (verdict, result.get("phase"), (result.get("cause") or {}).get("code", "no cause known"))
        self._say(text, number(result.get("elapsed"), 0))
        if not self._action._task.no_log:
            for entry in result.get("timeline") or []:
                display.v("%s" % timeline_text(entry), host=self._host)

    def _clean_up(self) -> None:
        with contextlib.suppress(Exception, Overdue):
            with at_most(POLL_OVERHEAD):
                self._action._low_level_execute_command("rm -rf %s" % self._progress["folder"])


def timeline_text(entry: dict[str, Any]) -> str:
    """One step of the timeline as a line."""
    return "[%6.1fs] %s: %s" % (number(entry.get("at"), 0), entry.get("phase", ""), entry.get("what", ""))
