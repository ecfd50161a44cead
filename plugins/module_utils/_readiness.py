# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision of a wait: observations and a clock in, the next probe and the verdict out; nothing here touches the system."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._judge import Judge
from ansible_collections.gpuops.sglang.plugins.module_utils._judge_http import FOREIGN_LOOK
from ansible_collections.gpuops.sglang.plugins.module_utils._message import failure_message
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Entry, Listener, Probe, UnitState, Verdict
from ansible_collections.gpuops.sglang.plugins.module_utils._reading import Reading
from ansible_collections.gpuops.sglang.plugins.module_utils._seen import Seen, WaitOptions
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_http import describe_answer

__all__ = ("Wait", "WaitOptions")

LOOK_EVERY = 1.0
PORT_EVERY = 0.25  # while nobody listens: no event tells that somebody else has taken the port
_BEFORE = 1.0  # seconds of a wait in which what holds the port had it before the start that is waited for
_ASKED_OF_A_STRANGER = ("/v1/models", "/ready")


class Wait:
    """One wait for one start of one unit. ``now`` is always monotonic seconds of the node."""

    def __init__(self, options: WaitOptions, query: Callable[[str, Any], Any] | None = None):
        self.options = options
        self.query = query
        self.seen = Seen(options)
        self._judge = Judge(self.seen)
        self._reading = Reading(self.seen)
        self._verdict: Verdict | None = None

    def wants(self, now: float) -> list[str]:
        """What should be looked at now: any of ``unit``, ``listener``; call it after every event and at every wake-up."""
        self.seen.start(now)
        wanted = []
        done = self.seen.ladder.done_at
        looks = (
            ("unit", self.seen.watch.looked_at, self.seen.unit_due, LOOK_EVERY),
            ("listener", self.seen.listener_at, self.seen.listener_due, self._port_pace),
        )
        for name, at, due, pace in looks:
            if due or at is None or now - at >= pace - 1e-6 or done is not None and at < done:
                wanted.append(name)
        if (
            self.seen.foreign_since is not None
            and self.seen.foreign_looks < 2
            and now - self.seen.foreign_since >= FOREIGN_LOOK
            and "listener" not in wanted
        ):
            wanted.append("listener")
        return wanted

    @property
    def _port_pace(self) -> float:
        return LOOK_EVERY if self.seen.listener is not None and self.seen.listener.listening else PORT_EVERY

    @property
    def send_key(self) -> bool:
        """Whether the API key may be sent to whoever listens: not to a process outside the unit."""
        return self.seen.listener is None or self.seen.listener.in_unit is not False

    def next_probe(self, now: float) -> Probe | None:
        """The request to make now, at most one in flight; None when there is none to make yet."""
        self.seen.start(now)
        if self._verdict is not None or self.seen.listener is None or not self.seen.listener.listening or not self.seen.watch.active:
            return None
        if self.seen.too_early:
            return None
        if self.seen.listener.in_unit is False:
            left = [path for path in _ASKED_OF_A_STRANGER if path not in self.seen.foreign_asked]
            if not left or self.seen.foreign_since is None or self.seen.ladder.in_flight:
                return None
            self.seen.foreign_asked = [*self.seen.foreign_asked, left[0]]
            self.seen.ladder.in_flight = left[0]
            return Probe(left[0], timeout=1.0)
        return self.seen.ladder.next_probe(now)

    def on_unit(self, now: float, state: UnitState) -> None:
        self.seen.start(now)
        self.seen.unit_due = False
        if self.seen.watch.look(now, state):
            self.seen.tell(now, _unit_words(state))
            if state.active_state == "active" and self.seen.watch.active:
                self.seen.listener_due = True
        self._after_unit(now)

    def _after_unit(self, now: float) -> None:
        if len(self.seen.watch.runs) != self.seen.runs_seen:
            self.seen.watch.fill_in(now, self.seen.between)
            if len(self.seen.watch.runs) > 1:
                self._reading.begin_again(now, f"started again (restart {self.seen.watch.restarts})")
                self.seen.diagnosis.new_run()
            if self.seen.runs_seen or len(self.seen.watch.runs) > 1:
                self.seen.ladder.reset()
            self.seen.runs_seen = len(self.seen.watch.runs)
            self.seen.progress_at = now
            self._reading.release(now)

    def on_journal(self, now: float, entries: list[Entry]) -> None:
        self.seen.start(now)
        self._reading.journal(now, entries)

    def on_kernel(self, now: float, entries: list[Entry]) -> None:
        self.seen.start(now)
        self._reading.kernel(now, entries)

    def on_listener(self, now: float, listener: Listener) -> None:
        self.seen.start(now)
        self.seen.listener_due = False
        self.seen.listener_at = now
        before = self.seen.listener
        self.seen.listener = listener
        if before is None or (before.listening, before.pid) != (listener.listening, listener.pid):
            self.seen.tell(now, _listener_words(listener, self.options.port))
            if before is not None and before.listening and before.pid != listener.pid:
                self.seen.ladder.reset()
        foreign = listener.listening and listener.in_unit is False and self.seen.watch.active
        if foreign:
            self.seen.foreign_before = self.seen.foreign_before or now - (self.seen.began or now) <= _BEFORE
            self.seen.foreign_looks += 1
            self.seen.foreign_since = now if self.seen.foreign_since is None else self.seen.foreign_since
        else:
            self.seen.foreign_since, self.seen.foreign_looks, self.seen.foreign_asked, self.seen.foreign_drains = None, 0, [], False
            if listener.listening and self.seen.watch.active and not self.seen.too_early and self.seen.phases.enter(now, "warmup"):
                self.seen.progress_at = now
                self.seen.tell(now, f"listening on port {self.options.port}")

    def on_gpu(self, now: float, data: Any) -> None:
        self.seen.start(now)
        self.seen.gpu = data
        if self.seen.phases.steps == 0 and now - self.seen.began < 5:
            self.seen.gpu_before = data

    def on_transfer(self, now: float) -> None:
        """The unit's processes have read or written much: a load moves, although its log is silent."""
        self.seen.start(now)
        if self.seen.phases.phase in ("process", "download", "weights"):
            self.seen.progress_at = now

    def on_peers(self, now: float, data: dict[str, Any]) -> None:
        self.seen.start(now)
        self.seen.peers.take(now, data)
        dead = self.seen.peers.dead()
        if dead and self.seen.peer_dead_since is None:
            self.seen.peer_dead_since = now
            self.seen.tell(now, f"the unit on {dead} has ended")
        elif not dead:
            self.seen.peer_dead_since = None

    def on_answer(self, now: float, probe: Probe, answer: Answer) -> None:
        self.seen.start(now)
        if not self.send_key:
            self.seen.ladder.in_flight = ""
            if probe.path == "/v1/models":
                self.seen.foreign_ids = self.seen.ladder.hear_foreigner(answer)
            self.seen.foreign_drains = self.seen.foreign_drains or answer.kind == "status" and answer.status == 503
            return
        if self.seen.ladder.on_answer(now, probe, answer, self.query):
            self.seen.tell(now, f"{probe.path}: {describe_answer(answer)}")

    def note(self, now: float, text: str) -> None:
        """Add a warning to the result, such as ``journal_unreadable: …``; it never fails the wait."""
        self.seen.start(now)
        self.seen.story.warn(self.seen.redactor.clean(text))

    def next_wakeup(self, now: float) -> float:
        """The latest moment to call ``wants``, ``next_probe`` and ``verdict`` again when nothing else happens."""
        self.seen.start(now)
        moments = [now + LOOK_EVERY, self.seen.ladder.next_at, *self._judge.moments()]
        looks = ((self.seen.watch.looked_at, LOOK_EVERY), (self.seen.listener_at, self._port_pace))
        moments += [at + pace for at, pace in looks if at is not None]
        return min(moment for moment in moments if moment > now + 1e-6)

    def verdict(self, now: float) -> Verdict | None:
        self.seen.start(now)
        if self._verdict is None:
            self.seen.watch.settle(now)
            self._after_unit(now)
            self._verdict = self._judge.decide(now)
            if self._verdict is not None:
                if self._verdict.verdict == "ready":
                    self.seen.phases.finish(now)
                cause = self._verdict.cause
                self.seen.tell(now, self._verdict.verdict + (f": {cause.code}" if cause and cause.code else ""))
        return self._verdict

    def progress(self, now: float) -> dict[str, Any]:
        """``phase``, ``percent`` (None when not known), ``text``, ``elapsed``, ``changed`` since the last call."""
        self.seen.start(now)
        text = self.seen.phases.text()
        state = self.seen.watch.state
        if state.active_state == "activating" and state.sub_state not in ("start", ""):
            text += f" (unit {state.sub_state})"
        usual = sum(self.options.usual_seconds.values())
        if usual:
            text += f", usually {usual:.0f} s in all"
        changed, self.seen.told = text != self.seen.told, text
        return {
            "phase": self.seen.phases.phase,
            "percent": self.seen.phases.percent,
            "text": text,
            "elapsed": round(now - self.seen.began, 1),
            "changed": changed,
        }

    def result(self, now: float) -> dict[str, Any]:
        """verdict, phase, elapsed, timeline[], cause{}|None, unit{}, http{}, journal[], warnings[], msg; ready to be JSON."""
        self.seen.start(now)
        verdict = self._verdict
        cause = asdict(verdict.cause) if verdict is not None and verdict.cause is not None else None
        if cause is not None:
            cause["line"] = cause["line"][:1000]
        state = asdict(self.seen.watch.state)
        told = {
            "verdict": verdict.verdict if verdict else "",
            "phase": verdict.phase if verdict else self.seen.phases.phase,
            "elapsed": round(now - self.seen.began, 3),
            "timeline": self.seen.story.timeline,
            "phases": {**self.seen.phases.seconds},
            "cause": cause,
            "secondary": self.seen.diagnosis.secondary() if cause else 0,
            "unit": {"name": self.options.unit, **state, "restarts_during_wait": self.seen.watch.restarts},
            "http": {path: item["text"] for path, item in self.seen.ladder.seen.items()},
            "journal": self.seen.story.context(cause["line"] if cause else "", self.options.journal_lines),
            "warnings": verdict.warnings if verdict else self.seen.warnings(),
        }
        told = self.seen.redactor.clean_all(told)
        told["msg"] = failure_message(told, self.options.unit)
        return told

    def dump(self) -> dict[str, Any]:
        """What another process needs to go on with this wait, ready to be JSON."""
        return self.seen.dump()

    @classmethod
    def load(cls, options: WaitOptions, state: dict[str, Any], query: Callable[[str, Any], Any] | None = None) -> Wait:
        wait = cls(options, query)
        wait.seen.restore(state)
        return wait


def _unit_words(state: UnitState) -> str:
    text = f"unit {state.active_state}/{state.sub_state}"
    if state.exit_code:
        text += f", {state.exit_code}/{state.exit_status}"
    return text if state.result in ("success", "") else f"{text}, result {state.result}"


def _listener_words(listener: Listener, port: int) -> str:
    if not listener.listening:
        return f"port {port}: refused, nothing listens"
    whose = {True: "this unit's", False: "outside this unit", None: "owner unknown"}[listener.in_unit]
    return f"port {port}: open, pid {listener.pid} ({whose})"
