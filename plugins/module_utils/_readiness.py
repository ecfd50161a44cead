# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision of a wait: observations and a clock in, the next probe and the verdict out; nothing here touches the system."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils import _wait_cause as causes
from ansible_collections.gpuops.sglang.plugins.module_utils._causes import version_words
from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import split
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Context, Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._message import failure_message
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Cause, Entry, Listener, Probe, UnitState, Verdict
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import Phases
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Diagnosis
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_http import Ladder, describe_answer
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_peers import Peers, gpu_holders
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_story import Story
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_unit import NEVER_STARTED, SETTLE, Run, UnitWatch

LOOK_EVERY = 1.0
SETTLE_SILENT = 1.0  # seconds the journal may take to bring the cause after the unit has ended
SETTLE_TOLD = 0.3  # the same, once systemd's own line about the end has been read
DOOM_GRACE = 2.0  # seconds from a line that no server survives to the verdict, if systemd does not say it first
SUSPECT_GRACE = 5.0  # seconds without progress after the line of an error that a server might survive
ECHO_GRACE = 3.0  # seconds for the cause, when only an echo of it was seen
FOREIGN_LOOK = 0.3  # seconds to the second look at somebody else's listener
STOP_GRACE = 2.0  # seconds that a unit in deactivating has to say how it ended
PEER_GRACE = 1.0
DEFAULT_STALL = 600.0
COMPILE_STALL = 1800.0  # a first compilation of kernels says nothing for up to 20 minutes
_BUFFER = 5000
_KEEPS_CODE = ("scheduler_crashed", "exited", "nccl_error", "nccl_timeout", "peer_lost")  # told as engine_dead while HTTP lives on


@dataclass
class WaitOptions:
    """What a wait is for, with the words of the module's options; times are seconds."""

    unit: str = ""
    port: int = 30000
    model: str = ""  # the id expected in /v1/models; "" accepts any
    api_key_given: bool = False
    version: str = ""
    wait_timeout: float = 1800
    stall_timeout: float | None = None  # None: from usual_seconds where known, else 600
    restart_limit: int = 0
    extend_while_progress: bool = False
    generate: bool = True
    probe_timeout: float = 25
    wait_sleep: float = 1
    error_patterns: list = field(default_factory=list)  # dicts: regex, code, hint
    ready_query: str = ""
    journal_lines: int = 20
    nnodes: int = 1
    node_rank: int = 0
    dist_init_addr: str = ""
    invocation_id: str = ""  # the start that is waited for; "" adopts the first one seen
    usual_seconds: dict = field(default_factory=dict)  # phase -> seconds, from earlier starts
    secrets: tuple = ()


class Wait:
    """One wait for one start of one unit. ``now`` is always monotonic seconds of the node."""

    def __init__(self, options: WaitOptions, query: Callable[[str, Any], Any] | None = None):
        self.options = options
        self.query = query
        self._redactor = Redactor(options.secrets)
        self._watch = UnitWatch(options.invocation_id)
        self._diagnosis = Diagnosis(options.error_patterns, options.nnodes)
        self._phases = Phases()
        self._ladder = Ladder(options.model, options.node_rank > 0, options.generate, options.probe_timeout, options.wait_sleep, options.ready_query)
        self._peers = Peers()
        self._story = Story(options.journal_lines)
        self._listener: Listener | None = None
        self._waiting: list[Entry] = []  # lines of invocations that are not ours, or not yet
        self._verdict: Verdict | None = None
        # Plain values, kept as they are by dump().
        self._began: float | None = None
        self._progress_at = 0.0
        self._listener_at: float | None = None
        self._unit_due = True
        self._listener_due = True
        self._foreign_since: float | None = None
        self._foreign_looks = 0
        self._foreign_ids: list[str] | None = None
        self._foreign_asked = False
        self._peer_dead_since: float | None = None
        self._gpu: Any = None
        self._told = ""
        self._runs_seen = 0
        self._strangers: list[str] = []  # invocations that are not known as ours

    # -- what to look at

    def wants(self, now: float) -> list[str]:
        """What should be looked at now: any of ``unit``, ``listener``; call it after every event and at every wake-up."""
        self._start(now)
        wanted = []
        done = self._ladder.done_at
        for name, at, due in (("unit", self._watch.looked_at, self._unit_due), ("listener", self._listener_at, self._listener_due)):
            if due or at is None or now - at >= LOOK_EVERY or done is not None and at < done:
                wanted.append(name)
        if self._foreign_since is not None and self._foreign_looks < 2 and now - self._foreign_since >= FOREIGN_LOOK and "listener" not in wanted:
            wanted.append("listener")
        return wanted

    @property
    def send_key(self) -> bool:
        """Whether the API key may be sent to whoever listens: not to a process outside the unit."""
        return self._listener is None or self._listener.in_unit is not False

    def next_probe(self, now: float) -> Probe | None:
        """The request to make now, at most one in flight; None when there is none to make yet."""
        self._start(now)
        if self._verdict is not None or self._listener is None or not self._listener.listening or not self._watch.active:
            return None
        if self._listener.in_unit is False:
            if self._foreign_asked or self._foreign_since is None or self._ladder.in_flight:
                return None
            self._foreign_asked = True
            self._ladder.in_flight = "/v1/models"
            return Probe("/v1/models", timeout=1.0)
        return self._ladder.next_probe(now)

    def next_wakeup(self, now: float) -> float:
        """The latest moment to call ``wants``, ``next_probe`` and ``verdict`` again when nothing else happens."""
        self._start(now)
        moments = [now + LOOK_EVERY, self._began + self.options.wait_timeout, self._progress_at + self._stall_limit()]
        for at in (self._watch.looked_at, self._listener_at):
            if at is not None:
                moments.append(at + LOOK_EVERY)
        moments.append(self._ladder.next_at)
        if self._watch.stale_since is not None:
            moments += [self._watch.stale_since + SETTLE, self._watch.stale_since + NEVER_STARTED]
        if self._watch.stopping_since is not None:
            moments.append(self._watch.stopping_since + STOP_GRACE)
        run = self._watch.run
        if run is not None and run.ended is not None:
            moments += [run.ended + SETTLE_SILENT, (run.end_line_at or run.ended) + SETTLE_TOLD]
        if self._foreign_since is not None:
            moments += [self._foreign_since + FOREIGN_LOOK, self._foreign_since + 1.5]
        if self._diagnosis.doom_at is not None:
            moments += [self._diagnosis.doom_at + DOOM_GRACE, self._diagnosis.doom_at + ECHO_GRACE]
        if self._peer_dead_since is not None:
            moments.append(self._peer_dead_since + PEER_GRACE)
        later = [moment for moment in moments if moment > now + 1e-6]
        return min(later)

    # -- what was seen

    def _start(self, now: float) -> None:
        if self._began is None:
            self._began = self._progress_at = now
            self._phases.start(now)
            self._tell(now, "waiting")

    def on_unit(self, now: float, state: UnitState) -> None:
        self._start(now)
        self._unit_due = False
        if self._watch.look(now, state):
            self._tell(now, _unit_words(state))
            if state.active_state == "active" and self._watch.active:
                self._listener_due = True
        self._after_unit(now)

    def _after_unit(self, now: float) -> None:
        if len(self._watch.runs) != self._runs_seen:
            if len(self._watch.runs) > 1:
                self._tell(now, f"started again (restart {self._watch.restarts})")
                self._phases = Phases()
                self._phases.start(now)
                self._diagnosis.new_run()
            if self._runs_seen or len(self._watch.runs) > 1:
                self._ladder.reset()
            self._runs_seen = len(self._watch.runs)
            self._progress_at = now
            self._release(now)

    def _release(self, now: float) -> None:
        """Lines that came before their invocation was known to be ours."""
        held, self._waiting = self._waiting, []
        self.on_journal(now, held)

    def on_journal(self, now: float, entries: list[Entry]) -> None:
        self._start(now)
        for entry in entries:
            run = self._run_of(entry)
            if run is None:
                if entry.source == "systemd" or entry.invocation_id not in self._strangers:
                    self._unit_due = True
                    self._strangers = [*self._strangers[-50:], entry.invocation_id]
                if len(self._waiting) < _BUFFER:
                    self._waiting.append(entry)
            else:
                self._take(now, entry, run)

    def _run_of(self, entry: Entry) -> str | None:
        runs = self._watch.runs
        if not runs:
            return None
        if not entry.invocation_id or not runs[-1].invocation:
            return str(len(runs))
        for number in range(len(runs), 0, -1):
            if runs[number - 1].invocation == entry.invocation_id:
                return str(number)
        return None

    def _take(self, now: float, entry: Entry, run: str) -> None:
        current = run == self._watch.run_key
        if entry.source == "systemd":
            self._unit_due = True
            self._watch.read(now, entry)
        before = self._phases.phase
        if entry.source == "unit" and current:
            announced = self._phases.announced
            if self._phases.feed(now, entry):
                self._progress_at = now
                self._story.last_step = entry.text
            if self._phases.announced and not announced:
                self._tell(now, "the server says it is ready")
                self._ladder.hurry(now)
                self._listener_due = True
            if self._phases.phase != before:
                self._tell(now, entry.text[:160])
                self._listener_due = self._listener_due or self._phases.phase in ("bind", "warmup")
        known = len(self._diagnosis.findings)
        context = Context(now, self._phases.phase, self._phases.announced, False, self._phases.steps, run)
        if "memory" in entry.text.lower():
            context = Context(now, self._phases.phase, self._phases.announced, self._phases.capturing(split(entry.text)[0]), self._phases.steps, run)
        self._diagnosis.feed(entry, context)
        self._story.line(entry, len(self._diagnosis.findings) > known)
        self._note_losses(now, entry)

    def _note_losses(self, now: float, entry: Entry) -> None:
        if entry.source == "systemd" and entry.text.startswith("Suppressed ") and " messages from" in entry.text:
            self.note(now, f"journal_unreadable: lines are missing, journald says: {entry.text}")

    def on_kernel(self, now: float, entries: list[Entry]) -> None:
        self._start(now)
        for entry in entries:
            context = Context(now, self._phases.phase, self._phases.announced, False, self._phases.steps, self._watch.run_key)
            self._diagnosis.feed(Entry(entry.text, "kernel", "", 0, entry.time_us, entry.monotonic_us), context)

    def on_listener(self, now: float, listener: Listener) -> None:
        self._start(now)
        self._listener_due = False
        self._listener_at = now
        before = self._listener
        self._listener = listener
        if before is None or (before.listening, before.pid) != (listener.listening, listener.pid):
            self._tell(now, _listener_words(listener, self.options.port))
            if before is not None and before.listening and before.pid != listener.pid:
                self._ladder.reset()
        foreign = listener.listening and listener.in_unit is False and self._watch.active
        if foreign:
            self._foreign_looks += 1
            self._foreign_since = now if self._foreign_since is None else self._foreign_since
        else:
            self._foreign_since, self._foreign_looks, self._foreign_asked = None, 0, False
            if listener.listening and self._watch.active and self._phases.enter(now, "warmup"):
                self._progress_at = now
                self._tell(now, f"listening on port {self.options.port}")

    def on_gpu(self, now: float, data: Any) -> None:
        self._start(now)
        self._gpu = data

    def on_peers(self, now: float, data: dict[str, Any]) -> None:
        self._start(now)
        self._peers.take(now, data)
        dead = self._peers.dead()
        if dead and self._peer_dead_since is None:
            self._peer_dead_since = now
            self._tell(now, f"the unit on {dead} has ended")
        elif not dead:
            self._peer_dead_since = None

    def on_answer(self, now: float, probe: Probe, answer: Answer) -> None:
        self._start(now)
        if not self.send_key:
            self._ladder.in_flight = ""
            self._foreign_ids = self._ladder.hear_foreigner(answer)
            return
        if self._ladder.on_answer(now, probe, answer, self.query):
            self._tell(now, f"{probe.path}: {describe_answer(answer)}")

    def note(self, now: float, text: str) -> None:
        """Add a warning to the result, such as ``journal_unreadable: …``; it never fails the wait."""
        self._start(now)
        self._story.warn(self._redactor.clean(text))

    def _tell(self, now: float, what: str) -> None:
        self._story.tell(round(now - (self._began or 0.0), 3), self._phases.phase, what)

    # -- the verdict

    def verdict(self, now: float) -> Verdict | None:
        self._start(now)
        if self._verdict is None:
            self._watch.settle(now)
            self._after_unit(now)
            self._verdict = self._decide(now)
            if self._verdict is not None:
                if self._verdict.verdict == "ready":
                    self._phases.finish(now)
                    self._verdict.phase = "ready"
                cause = self._verdict.cause
                self._tell(now, self._verdict.verdict + (f": {cause.code}" if cause and cause.code else ""))
        return self._verdict

    def _decide(self, now: float) -> Verdict | None:
        for judge in (self._judge_unit, self._judge_listener, self._judge_journal, self._judge_peers, self._judge_answers):
            cause = judge(now)
            if cause is not None:
                return self._fail("failed", cause)
        if self._is_ready(now):
            return Verdict("ready", "ready", None, self._warnings())
        return self._judge_clock(now)

    def _fail(self, verdict: str, cause: Cause) -> Verdict:
        return Verdict(verdict, self._phases.phase, cause, self._warnings())

    def _words(self) -> dict[str, str]:
        """What the sentences of the catalogue may be filled in with."""
        options = self.options
        words = {**version_words(options.version), "unit": options.unit, "number": str(options.port), "address": options.dist_init_addr or "the address of rank 0"}
        words["holders"] = gpu_holders(self._gpu)
        if self._listener is not None and self._listener.listening and self._listener.in_unit is False:
            words["owner"] = f" (pid {self._listener.pid} {self._listener.name})".replace(" )", ")") if self._listener.pid else ""
        return words

    def _judge_unit(self, now: float) -> Cause | None:
        watch, words = self._watch, self._words()
        if watch.missing and (watch.run is None or watch.run.ended is not None or watch.state.load_state != "loaded"):
            return causes.make(watch.missing, words, watch.line(r"not found|not be found|masked")["text"])
        if watch.state.load_state in ("bad-setting", "error"):
            return causes.make("unit_exec", {**words, "step": ": its file has a bad setting", "step_hint": "Run systemd-analyze verify on it."})
        if len(watch.runs) > 1:
            cause = self._judge_restart(now, watch, words)
            if cause is not None:
                return cause
        run = watch.run
        if run is None:
            return None
        if run.ended is None:
            if watch.stopping_since is not None and now - watch.stopping_since >= STOP_GRACE and run.stop_asked is not None and not self._best_is_strong():
                return causes.of_restart(watch, words)
            return None
        if not self._is_final(run) or not self._has_settled(now, run):
            return None
        return causes.of_end(self._diagnosis, watch, run, watch.run_key, words)

    def _judge_restart(self, now: float, watch: UnitWatch, words: dict[str, str]) -> Cause | None:
        limit = self.options.restart_limit
        previous = watch.runs[-2]
        found = self._diagnosis.best(str(len(watch.runs) - 1))
        failed = found is not None and found.kind != "weak" or previous.exit_code in ("killed", "dumped") or bool(previous.exit_status)
        if watch.replaced_without_failure() and not failed:
            return causes.of_restart(watch, words)
        if limit == 0:
            since = watch.run.began
            if now - since < SETTLE_TOLD and not (found and found.strong):
                return None
            return causes.of_end(self._diagnosis, watch, previous, str(len(watch.runs) - 1), words)
        if watch.restarts >= limit:
            return causes.of_crash_loop(self._diagnosis, watch, words)
        return None

    def _is_final(self, run: Run) -> bool:
        """Does this end of a run end the wait, or may systemd try again?"""
        if self.options.restart_limit == 0 or self._watch.gave_up():
            return True
        if run.exit_code == "exited" and run.exit_status == 2:
            return True
        found = self._diagnosis.best(self._watch.run_key)
        return found is not None and found.kind == "fatal" and found.code in causes.HOPELESS

    def _has_settled(self, now: float, run: Run) -> bool:
        """Has the journal had its moment to bring the cause?"""
        found = self._diagnosis.best(self._watch.run_key)
        if found is not None and found.strong and not found.pending and (found.code != "scheduler_crashed" or run.result != "oom-kill"):
            return True
        if run.result in ("oom-kill", "start-limit-hit") and self._watch.line(r"oom|repeated too quickly|start-limit")["text"]:
            return True
        if run.end_line_at is not None and not self._diagnosis.in_traceback and now - max(run.end_line_at, run.ended) >= SETTLE_TOLD - 1e-6:
            return True
        return now - run.ended >= SETTLE_SILENT - 1e-6

    def _best_is_strong(self) -> bool:
        found = self._diagnosis.best(self._watch.run_key)
        return found is not None and found.strong

    def _judge_listener(self, now: float) -> Cause | None:
        if self._foreign_since is None or self._foreign_looks < 2 or not self._watch.active:
            return None
        if self._ladder.in_flight and now - self._foreign_since < 1.5:
            return None
        found = self._diagnosis.best(self._watch.run_key)
        words = self._words()
        if found is not None and found.code == "port_in_use":
            return causes.of_finding(found, words)
        line = self._story.find("ready to roll")
        owner = words.get("owner", "")
        if self._foreign_ids is not None:
            owner += f", which serves {', '.join(self._foreign_ids[:3]) or 'no model'} (expected {self.options.model or 'any'})"
        return causes.make("foreign_listener", {**words, "owner": owner}, line)

    def _judge_journal(self, now: float) -> Cause | None:
        """A line that no server survives, though systemd has not seen an end yet."""
        diagnosis, run = self._diagnosis, self._watch.run_key
        if self._watch.run is None or self._watch.run.ended is not None:
            return None
        found = diagnosis.best(run)
        strong = found is not None and found.strong
        if diagnosis.doom_at is not None and diagnosis.doom_run == run:
            grace = DOOM_GRACE if strong else ECHO_GRACE
            if now - diagnosis.doom_at < grace - 1e-6:
                return None
        elif not (strong and found.shaped and found.steps == self._phases.steps and now - found.at >= SUSPECT_GRACE - 1e-6 and not self._phases.announced):
            return None
        return self._cause_while_alive(found)

    def _cause_while_alive(self, found: Finding | None) -> Cause:
        words = self._words()
        answers = self._listener is not None and self._listener.listening and self._listener.in_unit is not False
        if answers and (found is None or found.code in _KEEPS_CODE):
            return causes.of_zombie(found, words)
        if found is None:
            return causes.make("scheduler_crashed", words, self._story.find("sigquit", "child failed"))
        return causes.of_finding(found, words)

    def _judge_peers(self, now: float) -> Cause | None:
        if self._peer_dead_since is None or now - self._peer_dead_since < PEER_GRACE:
            return None
        name = self._peers.dead()
        found = self._peers.finding(name)
        words = {**self._words(), "peer": f": {name}"}
        if found is None:
            return causes.make("peer_lost", words)
        inner = causes.of_finding(found, words)
        words["peer"] = f": {name} ({inner.summary.rstrip('.')})"
        return causes.make("peer_lost", words, found.line, found.rank, seen=found.seen, time_us=found.time_us)

    def _judge_answers(self, now: float) -> Cause | None:
        meaning = self._ladder.persistent(now)
        if not meaning:
            return None
        item = self._ladder.bad[meaning]
        words, text = self._words(), self._redactor.clean(item["text"])
        if meaning == "auth":
            return causes.make("auth", {**words, "status": f" ({item['status']})"}, text, seen=item["count"])
        if meaning == "wrong_model":
            found = ", ".join(self._ladder.found[:4])
            return causes.make("wrong_model", {**words, "found": found, "wanted": self.options.model}, f"/v1/models: {found}", seen=item["count"])
        if meaning == "not_our_server":
            return causes.make("not_our_server", {**words, "got": f": {text}"}, text, seen=item["count"])
        if meaning == "refused_token":
            cause = causes.make("warmup_failed", words, text, hint="Set generate: false for a model that does not generate text, else see what the server refuses.", seen=item["count"])
            cause.summary = "The server refuses the one-token request of this wait."
            return cause
        return causes.make("engine_dead", words, text, hint="Read the journal of the unit, then restart it; the one-token request of this wait got no token.", seen=item["count"])

    def _is_ready(self, now: float) -> bool:
        done, watch = self._ladder.done_at, self._watch
        if done is None or not watch.active or watch.looked_at is None or watch.looked_at < done or self._diagnosis.doom_run == watch.run_key:
            return False
        if self._listener is None or not self._listener.listening or self._listener.in_unit is False or (self._listener_at or 0.0) < done:
            return False
        return True

    def _stall_limit(self) -> float:
        if self.options.stall_timeout is not None:
            return float(self.options.stall_timeout)
        usual = self.options.usual_seconds.get(self._phases.phase)
        limit = DEFAULT_STALL if usual is None else min(max(2.0 * usual, 120.0), COMPILE_STALL)
        return max(limit, COMPILE_STALL) if self._phases.compiling else limit

    def _judge_clock(self, now: float) -> Verdict | None:
        limit = self._stall_limit()
        quiet = now - self._progress_at
        if quiet >= limit - 1e-6:
            return self._fail("stalled", self._cause_of_silence(f"No progress for {quiet:.0f} s", now))
        if now - self._began < self.options.wait_timeout - 1e-6:
            return None
        moving = self._phases.steps > 0 and quiet < min(limit, max(60.0, self.options.wait_timeout / 4))
        if self.options.extend_while_progress and quiet < limit:
            return None
        return self._fail("timeout", self._cause_of_silence(f"Not ready after {now - self._began:.0f} s", now, moving))

    def _cause_of_silence(self, start: str, now: float, moving: bool = False) -> Cause:
        """A wait that ran out: no cause of the catalogue, unless the ranks of other nodes are missing."""
        words = self._words()
        if self.options.nnodes > 1 and self._phases.phase in ("process", "distributed"):
            found = self._diagnosis.best(self._watch.run_key)
            if found is not None and found.code == "wrong_interface":
                return causes.of_finding(found, words)
            elsewhere = self._peers.finding_of(("wrong_interface",))
            if elsewhere is not None:
                return causes.of_finding(elsewhere[1], words)
            names = self._peers.absent()
            told = {**words, "peer": f": {', '.join(names)}" if names else ""}
            return causes.make("waiting_for_peer", told, self._story.last_step)
        return self._story.silence(start, self._phases, self._ladder.summary() if self._listener and self._listener.listening else "", moving, self._watch.state)

    # -- telling

    def _warnings(self) -> list[str]:
        warnings = [*self._story.warnings, *(f"the log warns: {text}" for text in self._diagnosis.warnings)]
        if self._watch.restarts:
            found = self._diagnosis.best("1")
            warnings.append(f"the unit was restarted {self._watch.restarts} time(s) during the wait" + (f": {found.line[:200]}" if found else ""))
        for phase, spent in self._phases.seconds.items():
            usual = self.options.usual_seconds.get(phase)
            if usual and spent > 2 * usual and spent - usual > 5:
                warnings.append(f"phase {phase} took {spent:.0f} s, usually {usual:.0f} s")
        return [self._redactor.clean(text) for text in warnings]

    def progress(self, now: float) -> dict[str, Any]:
        """``phase``, ``percent`` (None when not known), ``text``, ``elapsed``, ``changed`` since the last call."""
        self._start(now)
        text = self._phases.text()
        state = self._watch.state
        if state.active_state == "activating" and state.sub_state not in ("start", ""):
            text += f" (unit {state.sub_state})"
        usual = sum(self.options.usual_seconds.values())
        if usual:
            text += f", usually {usual:.0f} s in all"
        changed, self._told = text != self._told, text
        return {"phase": self._phases.phase, "percent": self._phases.percent, "text": text, "elapsed": round(now - self._began, 1), "changed": changed}

    def result(self, now: float) -> dict[str, Any]:
        """verdict, phase, elapsed, timeline[], cause{}|None, unit{}, http{}, journal[], warnings[], msg; ready to be JSON."""
        self._start(now)
        verdict = self._verdict
        cause = asdict(verdict.cause) if verdict is not None and verdict.cause is not None else None
        if cause is not None:
            cause["line"] = cause["line"][:1000]
        state = asdict(self._watch.state)
        told = {
            "verdict": verdict.verdict if verdict else "",
            "phase": verdict.phase if verdict else self._phases.phase,
            "elapsed": round(now - self._began, 3),
            "timeline": self._story.timeline,
            "phases": {**self._phases.seconds},
            "cause": cause,
            "secondary": self._diagnosis.secondary() if cause else 0,
            "unit": {"name": self.options.unit, **state, "restarts_during_wait": self._watch.restarts},
            "http": {path: item["text"] for path, item in self._ladder.seen.items()},
            "journal": self._story.context(cause["line"] if cause else "", self.options.journal_lines),
            "warnings": verdict.warnings if verdict else self._warnings(),
        }
        told = self._redactor.clean_all(told)
        told["msg"] = failure_message(told, self.options.unit)
        return told

    # -- keeping

    _PLAIN = ("_began", "_progress_at", "_listener_at", "_foreign_since", "_foreign_looks", "_foreign_ids", "_foreign_asked", "_peer_dead_since", "_gpu", "_told", "_runs_seen", "_strangers")
    _PARTS = ("_watch", "_diagnosis", "_phases", "_ladder", "_peers", "_story")

    def dump(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: getattr(self, name) for name in self._PLAIN}
        state["parts"] = {name: getattr(self, name).dump() for name in self._PARTS}
        state["listener"] = asdict(self._listener) if self._listener is not None else None
        state["waiting"] = [asdict(entry) for entry in self._waiting]
        return state

    @classmethod
    def load(cls, options: WaitOptions, state: dict[str, Any], query: Callable[[str, Any], Any] | None = None) -> Wait:
        wait = cls(options, query)
        for name in cls._PLAIN:
            setattr(wait, name, state[name])
        for name in cls._PARTS:
            getattr(wait, name).restore(state["parts"][name])
        wait._listener = Listener(**state["listener"]) if state["listener"] else None
        wait._waiting = [Entry(**entry) for entry in state["waiting"]]
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

