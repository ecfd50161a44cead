# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries one wait out on the node: in one go, or by itself in the background with a mailbox for those who ask."""

from __future__ import annotations

import os
import re
import time
import traceback
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils import _history, _unit
from ansible_collections.gpuops.sglang.plugins.module_utils._http import HttpClient
from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox, leave_behind
from ansible_collections.gpuops.sglang.plugins.module_utils._readiness import Wait, WaitOptions
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.module_utils._sockets import SocketTable
from ansible_collections.gpuops.sglang.plugins.module_utils._watch import UnitLook, Watch

_LOOK_SECONDS = 3.0  # what a look without a wait may take, when the server is slow to answer
_TELL_PAUSE = 2.0
_KEEP_PAUSE = 10.0
_WORTH_TELLING = 10**9  # bytes read
_WITNESSED = 0.8  # the part of a start that must have been watched for its phases to be worth keeping
_LINGER = 120.0  # how long a result lies in the mailbox for somebody to fetch
_PASSED_ON = (
    "port", "version", "wait_timeout", "stall_timeout", "restart_limit", "extend_while_progress", "generate", "probe_timeout",
    "wait_sleep", "journal_lines", "nnodes", "node_rank",
)


class Job:
    """One wait with all it needs, made from the module's parameters."""

    def __init__(
        self, params: dict[str, Any], query: Callable[[str, Any], Any] | None = None, state: dict[str, Any] | None = None, elapsed: float = 0.0
    ) -> None:
        self.params = params
        self.unit = _unit.unit_name(params["name"])
        self.commands = _unit.Commands()
        secrets = tuple(filter(None, [params["api_key"]]))
        self.redactor = Redactor(secrets)
        self.records = _history.load(params["history"]) if params["history"] else []
        self.usual = _history.usual(self.records, *self._kind())
        unit = UnitLook(self.unit, self.commands)
        unit.look(time.monotonic())
        options = self._options(secrets, params["invocation_id"] or unit.invocation_after(params["cursor"] or ""))
        if state is not None:
            self.wait = Wait.load(options, state["wait"], query)
        else:
            options.wait_timeout = max(options.wait_timeout - elapsed, 1.0)
            self.wait = Wait(options, query)
            if elapsed:
                self.wait.note(time.monotonic(), "the wait was begun anew after %d s, because nothing was left of it on the node" % elapsed)
        client = HttpClient(params["scheme"], params["host"], params["port"], params["api_key"] or "", params["ca_path"] or "", self.redactor.clean)
        sockets = SocketTable(params["host"], params["port"], self.unit)
        self.watch = Watch(self.wait, unit, client, sockets, self.commands, state["cursor"] if state is not None else params["cursor"] or "")

    def _kind(self) -> tuple[str, str, str]:
        return self.params["strategy"] or "", self.params["version"] or "", self.params["model"] or ""

    def _options(self, secrets: tuple[str, ...], invocation: str) -> WaitOptions:
        options = {name: self.params[name] for name in _PASSED_ON if self.params[name] is not None}
        return WaitOptions(
            unit=self.unit,
            model=self.params["model"] or "",
            api_key_given=bool(secrets),
            error_patterns=self.params["error_patterns"] or [],
            ready_query=self.params["ready_query"] or "",
            dist_init_addr=self.params["dist_init_addr"] or "",
            invocation_id=invocation,
            usual_seconds={phase: seconds for phase, seconds in self.usual.items() if phase != "total"},
            secrets=secrets,
            **options,
        )

    def to_the_end(self) -> dict[str, Any]:
        """Wait until there is a verdict, and return the module's result."""
        self.watch.run(float("inf"), lambda now, progress: True)
        return self.finish()

    def look(self) -> dict[str, Any]:
        """What can be told now, without waiting for anything but the answers to the requests of this moment."""
        limit = time.monotonic() + _LOOK_SECONDS
        began = time.monotonic()
        verdict = self.watch.run(limit, lambda now, progress: self.watch.busy or now - began < 0.5)
        result = self._result()
        if verdict is None:
            result.update(verdict="waiting", msg="%s is not ready yet: %s" % (self.unit, self.wait.progress(time.monotonic())["text"]))
        self.watch.close()
        return result

    def finish(self) -> dict[str, Any]:
        """The result after the verdict; a start that was watched from its beginning enters the history."""
        result = self._result()
        if result["verdict"] == "ready":
            self._record(result)
        else:
            result["failed"] = True
        self.watch.close()
        return result

    def _result(self) -> dict[str, Any]:
        now = time.monotonic()
        started = self.watch.unit.main_started()
        result = self.wait.result(now)
        result.update(
            changed=False,
            commands=self.commands.lines,
            usual_seconds=self.usual,
            started_at=time.strftime("%H:%M:%S", time.localtime(time.time() - (now - started))) if started else "",
            load_seconds=self._load_seconds(result, now - started if started else None),
            ended_monotonic=round(now, 3),
        )
        return self.redactor.clean_all(result)

    def _load_seconds(self, result: dict[str, Any], age: float | None) -> float | None:
        """Of the start that was watched, else of the record that an earlier wait left of it."""
        if result["verdict"] != "ready":
            return None
        if age is not None and self.watch.saw_unready:
            return round(age, 1)
        known = _history.of_invocation(self.records, result["unit"].get("invocation_id", ""))
        return known["total"] if known else None

    def _record(self, result: dict[str, Any]) -> None:
        invocation = result["unit"].get("invocation_id", "")
        seen_whole = result["load_seconds"] is not None and result["elapsed"] >= _WITNESSED * result["load_seconds"]
        if not self.params["history"] or not seen_whole or _history.of_invocation(self.records, invocation):
            return
        strategy, version, model = self._kind()
        record = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "unit": self.unit,
            "invocation_id": invocation,
            "strategy": strategy,
            "version": version,
            "model": model,
            "total": result["load_seconds"],
            "phases": result["phases"],
        }
        try:
            _history.append(self.params["history"], record)
        except OSError as error:
            result["warnings"].append("the load time could not be recorded in %s: %s" % (self.params["history"], error.strerror))

    def words(self, progress: dict[str, Any]) -> str:
        """How the wait stands, with what only the node knows: the size of its GPUs, and how much was read so far."""
        text = self.redactor.clean(progress["text"])
        size = self.watch.gpu_memory_mib // 1024
        if size:
            text = re.sub(r"(\d+) GB free\b", r"\1 GB free of %d GB" % size, text)
        if progress["phase"] == "weights" and progress["percent"] is None and self.watch.transfer.total >= _WORTH_TELLING:
            text = text.replace("weights", "weights, %d GB read" % (self.watch.transfer.total // 10**9), 1)
        return text

    def state(self) -> dict[str, Any]:
        """What another process needs to go on with this wait."""
        return {"wait": self.wait.dump(), "cursor": self.watch.cursor}


def go_on_alone(job: Job, mailbox: Mailbox, idle: float) -> None:
    """Leave a process behind that waits to the end and drops its result into the mailbox."""
    leave_behind(mailbox, "sglang-wait", lambda: _wait_and_tell(job, mailbox, idle))


def _wait_and_tell(job: Job, mailbox: Mailbox, idle: float) -> None:
    reporter = _Reporter(job, mailbox, idle)
    mailbox.write("progress.json", {"phase": "", "text": "", "elapsed": 0.0, "pid": os.getpid()})
    try:
        verdict = job.watch.run(float("inf"), reporter)
        if verdict is None:
            mailbox.remove()
            return
        result = job.finish()
    except Exception:  # whatever it was, the one who asks must hear of it
        result = {"failed": True, "changed": False, "msg": "the wait broke off: " + job.redactor.clean(traceback.format_exc(limit=-3))}
    mailbox.write("result.json", result)
    mailbox.ring()
    _linger(mailbox)


def _linger(mailbox: Mailbox) -> None:
    deadline = time.monotonic() + _LINGER
    while time.monotonic() < deadline and mailbox.asked():
        time.sleep(1)
    mailbox.remove()


class _Reporter:
    """Keeps the mailbox up to date, and ends the wait when nobody has asked for a long time."""

    def __init__(self, job: Job, mailbox: Mailbox, idle: float) -> None:
        self._job = job
        self._mailbox = mailbox
        self._idle = idle
        self._asked = 0
        self._asked_at = 0.0
        self._told_at = self._kept_at = float("-inf")
        self._phase = ""

    def __call__(self, now: float, progress: dict[str, Any]) -> bool:
        asked = self._mailbox.asked()
        if asked != self._asked:
            self._asked, self._asked_at = asked, now
        if not asked or now - self._asked_at > self._idle:
            return False
        news = progress["phase"] != self._phase
        if news or progress["changed"] or now - self._told_at >= _TELL_PAUSE:
            self._phase, self._told_at = progress["phase"], now
            self._mailbox.write("progress.json", dict(progress, text=self._job.words(progress), pid=os.getpid()))
        if news or now - self._kept_at >= _KEEP_PAUSE:
            self._kept_at = now
            self._mailbox.write("state.json", self._job.state())
        if news:
            self._mailbox.ring()
        return True
