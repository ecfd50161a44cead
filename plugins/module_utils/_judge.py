# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what a wait has seen: is the server ready, can it still become so, and if not, why."""

from __future__ import annotations

import re
from functools import partial

from ansible_collections.gpuops.sglang.plugins.module_utils import _wait_cause as causes
from ansible_collections.gpuops.sglang.plugins.module_utils._judge_http import FOREIGN_ANSWER, FOREIGN_DRAIN, FOREIGN_LOOK, of_answers, of_listener
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause, Verdict
from ansible_collections.gpuops.sglang.plugins.module_utils._seen import Seen
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_unit import NEVER_STARTED, SETTLE, Run, UnitWatch

SETTLE_SILENT = 1.0  # seconds the journal may take to bring the cause after the unit has ended
SETTLE_MUTE = 0.7  # the same, once systemd's own line about the end has been read and no line speaks of a failure
SETTLE_TOLD = 0.2  # the same, where what is known explains the end
DOOM_GRACE = 2.0  # seconds from a line that no server survives to the verdict, if systemd does not say it first
SUSPECT_GRACE = 5.0  # seconds without progress after the line of an error that a server might survive
NAMESAKE_QUIET = 30.0  # seconds without progress after the kernel's word on a process that is perhaps ours
NAMESAKE_HUNG = 8.0  # the same, while a request goes unanswered
ECHO_GRACE = 3.0  # seconds for the cause, when only an echo of it was seen
STOP_GRACE = 2.0  # seconds that a unit in deactivating has to say how it ended
PEER_GRACE = 1.0
_SGLANG_PROCESS = re.compile(r"(?:\(|task=|name=|^)sglang")  # any python may be anybody's
_MOVED_LATELY = 15.0  # seconds after a step of progress, at least, for which a start that runs out of time was still moving
_ZOMBIE_CODES = ("scheduler_crashed", "exited", "nccl_error", "nccl_timeout", "peer_lost")  # told as engine_dead while HTTP lives on
# An optional part of the server may fail so, and the start goes on; if it does not, the process ends at once.
_SURVIVABLE = (
    "missing_cuda_lib",
    "jit_tool_missing",
    "jit_failed",
    "hub_unreachable",
    "model_auth_missing",
    "model_auth_denied",
    "model_not_found",
    "remote_code",
    "bad_flags",
    "no_permission",
    "cache_not_writable",
    "driver_missing",
    "driver_too_old",
    "attention_backend",
    "unsupported_model",
    "disk_full",
)


class Judge:
    """Reads what was seen and changes nothing of it."""

    def __init__(self, seen: Seen):
        self.seen = seen

    def decide(self, now: float) -> Verdict | None:
        for judge in (self._judge_unit, partial(of_listener, self.seen), self._judge_journal, self._judge_peers, partial(of_answers, self.seen)):
            cause = judge(now)
            if cause is not None:
                return self._fail("failed", cause)
        if self._is_ready(now):
            return Verdict("ready", "ready", None, self.seen.warnings())
        return self._judge_clock(now)

    def moments(self) -> list[float]:
        """When the judgement may change though nothing is seen."""
        seen, watch = self.seen, self.seen.watch
        moments = [seen.began + seen.options.wait_timeout, seen.progress_at + seen.stall_limit()]
        for since, spans in (
            (watch.stale_since, (SETTLE, NEVER_STARTED)),
            (watch.stopping_since, (STOP_GRACE,)),
            (seen.foreign_since, (FOREIGN_LOOK, FOREIGN_ANSWER, FOREIGN_DRAIN)),
            (seen.diagnosis.doom_at, (DOOM_GRACE, ECHO_GRACE)),
            (seen.peer_dead_since, (PEER_GRACE,)),
        ):
            if since is not None:
                moments += [since + span for span in spans]
        run = watch.run
        if run is not None and run.ended is not None:
            told = max(run.end_line_at or run.ended, run.ended)
            moments += [run.ended + SETTLE_SILENT, told + SETTLE_MUTE, told + SETTLE_TOLD]
        if len(watch.runs) > 1:
            moments.append(run.began + SETTLE_TOLD)
        found = seen.best()
        if found is not None:
            moments.append(found.at + SUSPECT_GRACE)
            if found.namesake:
                moments += [max(found.at, seen.progress_at) + self._namesake_quiet(), max(found.at, seen.ladder.asked_at) + NAMESAKE_HUNG]
        return moments

    def _fail(self, verdict: str, cause: Cause) -> Verdict:
        return Verdict(verdict, self.seen.phases.phase, cause, self.seen.warnings())

    def _judge_unit(self, now: float) -> Cause | None:
        watch, words = self.seen.watch, self.seen.words()
        if watch.missing and (watch.run is None or watch.run.ended is not None or watch.state.load_state != "loaded"):
            return causes.make(watch.missing, words, watch.line(r"not found|not be found|masked")["text"])
        if watch.state.load_state in ("bad-setting", "error"):
            told = {**words, "step": ": its file has a bad setting", "step_hint": "Run systemd-analyze verify on it."}
            return causes.make("unit_exec", told, watch.why_not_started()["text"])
        if len(watch.runs) > 1:
            cause = self._judge_restart(now, watch, words)
            if cause is not None:
                return cause
        run = watch.run
        if run is None:
            return None
        if len(watch.runs) == 1 and not watch.gave_up() and 0 < watch.restarts >= self.seen.options.restart_limit:
            return causes.of_crash_loop(self.seen.diagnosis, watch, words, self.seen.story.last_own)  # the counter alone tells of them
        if run.ended is None:
            if (
                watch.stopping_since is not None
                and now - watch.stopping_since >= STOP_GRACE
                and run.stop_asked is not None
                and not self._best_is_strong()
            ):
                return causes.of_restart(watch, words)
            return None
        watch.how_it_ended(run)
        if not self._is_final(run) or not self._has_settled(now, run):
            return None
        if watch.never_started:
            return causes.of_never_started(watch, words)
        cause = causes.of_end(self.seen.diagnosis, watch, run, watch.run_key, words, self.seen.story.last_own)
        return self._cause_of_peer(self.seen.peers.dead()) if cause.code == "peer_lost" and self.seen.peers.dead() else cause

    def _judge_restart(self, now: float, watch: UnitWatch, words: dict[str, str]) -> Cause | None:
        limit = self.seen.options.restart_limit
        previous = watch.runs[-2]
        found = self.seen.diagnosis.best(str(len(watch.runs) - 1))
        failed = found is not None and found.kind not in ("weak", "hearsay") or previous.exit_code in ("killed", "dumped") or bool(previous.exit_status)
        if watch.replaced_without_failure() and not failed:
            return causes.of_restart(watch, words)
        if limit == 0:
            since = watch.run.began
            if now - since < SETTLE_TOLD and not (found and found.strong):
                return None
            return causes.of_end(self.seen.diagnosis, watch, previous, str(len(watch.runs) - 1), words, self.seen.story.last_own)
        if watch.restarts >= limit:
            return causes.of_crash_loop(self.seen.diagnosis, watch, words, self.seen.story.last_own)
        return None

    def _is_final(self, run: Run) -> bool:
        """Does this end of a run end the wait, or may systemd try again?"""
        if self.seen.options.restart_limit == 0 or self.seen.watch.gave_up():
            return True
        if run.exit_code == "exited" and (run.exit_status == 2 or 200 <= (run.exit_status or 0) <= 245):
            return True
        found = self.seen.best()
        return found is not None and found.kind == "fatal" and found.code in causes.HOPELESS

    def _has_settled(self, now: float, run: Run) -> bool:
        """Has the journal had its moment to bring the cause?"""
        found = self.seen.best()
        if found is not None and found.strong and not found.pending and (found.code != "scheduler_crashed" or run.result != "oom-kill"):
            return True
        if run.result in ("oom-kill", "start-limit-hit") and self.seen.watch.line(r"oom|repeated too quickly|start-limit")["text"]:
            return True
        explained = found is not None and found.kind == "plain" or run.stop_asked is not None or (run.exit_status or 0) >= 200
        settle = SETTLE_TOLD if explained else SETTLE_MUTE if found is None and not self.seen.diagnosis.echoes else SETTLE_SILENT
        if run.end_line_at is not None and not self.seen.diagnosis.in_traceback and now - max(run.end_line_at, run.ended) >= settle - 1e-6:
            return True
        return now - run.ended >= SETTLE_SILENT - 1e-6

    def _best_is_strong(self) -> bool:
        found = self.seen.best()
        return found is not None and found.strong

    def _judge_journal(self, now: float) -> Cause | None:
        """A line that no server survives, though systemd has not seen an end yet."""
        diagnosis, run = self.seen.diagnosis, self.seen.watch.run_key
        if self.seen.watch.run is None or self.seen.watch.run.ended is not None:
            return None
        found = diagnosis.best(run)
        if found is not None and found.former:
            return None  # something within the unit has begun the server anew since
        strong = found is not None and found.strong
        if diagnosis.doom_at is not None and diagnosis.doom_run == run:
            grace = DOOM_GRACE if strong and not self._is_zombie(found) else ECHO_GRACE
            if now - diagnosis.doom_at < grace - 1e-6:
                return None
        elif found is not None and found.namesake:
            if not self._misses_it(now, found):
                return None
        elif not (
            strong
            and found.shaped
            and found.code not in _SURVIVABLE
            and found.steps == self.seen.phases.steps
            and now - found.at >= SUSPECT_GRACE - 1e-6
        ):
            return None
        return self._cause_while_alive(found)

    def _misses_it(self, now: float, found: Finding) -> bool:
        """Has all stood still since the kernel spoke of a process that is perhaps ours?"""
        if not _SGLANG_PROCESS.search(found.line):
            return False
        ladder = self.seen.ladder
        hung = self.seen.listening and bool(ladder.in_flight) and now - max(found.at, ladder.asked_at) >= NAMESAKE_HUNG - 1e-6
        return hung or now - max(found.at, self.seen.progress_at) >= self._namesake_quiet() - 1e-6

    def _namesake_quiet(self) -> float:
        return NAMESAKE_QUIET / 2 if self.seen.listening else NAMESAKE_QUIET

    def _is_zombie(self, found: Finding | None) -> bool:
        """Does HTTP still answer, though what was read means that the engine is gone?"""
        return self.seen.listening and (found is None or found.code in _ZOMBIE_CODES)

    def _cause_while_alive(self, found: Finding | None) -> Cause:
        words = self.seen.words()
        if self._is_zombie(found):
            return causes.of_zombie(found, words)
        if found is None:
            return causes.make("scheduler_crashed", words, self.seen.story.find("sigquit", "child failed"))
        return causes.of_finding(found, words)

    def _judge_peers(self, now: float) -> Cause | None:
        if self.seen.peer_dead_since is None or now - self.seen.peer_dead_since < PEER_GRACE:
            return None
        return self._cause_of_peer(self.seen.peers.dead())

    def _cause_of_peer(self, name: str) -> Cause:
        found = self.seen.peers.finding(name)
        words = {**self.seen.words(), "peer": name}
        if found is None:
            return causes.make("peer_lost", words)
        if found.code in ("rendezvous_timeout", "wrong_interface"):
            return causes.of_finding(found, words)
        words["inner"] = f" ({causes.of_finding(found, words).summary.rstrip('.')})"
        return causes.make("peer_lost", words, found.line, found.rank, seen=found.seen, time_us=found.time_us)

    def _is_ready(self, now: float) -> bool:
        done, watch = self.seen.ladder.done_at, self.seen.watch
        if done is None or not watch.active or watch.looked_at is None or watch.looked_at < done or self.seen.diagnosis.doom_run == watch.run_key:
            return False
        if (
            self.seen.listener is None
            or not self.seen.listener.listening
            or self.seen.listener.in_unit is False
            or self.seen.too_early
            or (self.seen.listener_at or 0.0) < done
        ):
            return False
        return True

    def _judge_clock(self, now: float) -> Verdict | None:
        limit = self.seen.stall_limit()
        quiet = now - self.seen.progress_at
        over = quiet >= limit - 1e-6 or now - self.seen.began >= self.seen.options.wait_timeout - 1e-6
        pending = self._pending(now) if over else None
        if pending is not None:
            return self._fail("failed", pending)
        if quiet >= limit - 1e-6:
            return self._fail("stalled", self._cause_of_silence(f"No progress for {quiet:.0f} s", now))
        if now - self.seen.began < self.seen.options.wait_timeout - 1e-6:
            return None
        moving = self.seen.phases.steps > 0 and quiet <= min(limit, max(_MOVED_LATELY, self.seen.options.wait_timeout / 30))
        if self.seen.options.extend_while_progress and quiet < limit:
            return None
        return self._fail("timeout", self._cause_of_silence(f"Not ready after {now - self.seen.began:.0f} s", now, moving))

    def _pending(self, now: float) -> Cause | None:
        """A failure that was still given its moment when the time ran out."""
        diagnosis, watch = self.seen.diagnosis, self.seen.watch
        if watch.run is None or watch.run.ended is not None:
            return None
        found = diagnosis.best(watch.run_key)
        if found is not None and found.namesake:
            return self._cause_while_alive(found)
        fresh = found is not None and found.strong and found.shaped and now - found.at <= SUSPECT_GRACE and found.steps == self.seen.phases.steps
        if diagnosis.doom_run == watch.run_key or fresh and found.code not in _SURVIVABLE:
            return self._cause_while_alive(found)
        return None

    def _cause_of_silence(self, start: str, now: float, moving: bool = False) -> Cause:
        """A wait that ran out: no cause of the catalogue, unless the ranks of other nodes are missing."""
        words = self.seen.words()
        if self.seen.options.nnodes > 1 and self.seen.phases.phase in ("process", "distributed"):
            found = self.seen.best()
            if found is not None and found.code == "wrong_interface":
                return causes.of_finding(found, words)
            elsewhere = self.seen.peers.finding_of(("wrong_interface",))
            if elsewhere is not None:
                return causes.of_finding(elsewhere[1], words)
            if self.seen.joined and not self.seen.peers.absent():
                cause = causes.make("nccl_timeout", words, self.seen.story.last_step)
                cause.summary = "The ranks of all nodes have come, and then hang in their first collective operation."
                return cause
            names = self.seen.peers.absent()
            told = {**words, "peer": " and ".join(names) or "each other node"}
            return causes.make("waiting_for_peer", told, self.seen.story.last_step)
        last = self.seen.diagnosis.best(self.seen.watch.run_key)
        if self.seen.watch.run is not None and self.seen.watch.run.ended is not None and last is not None and last.kind not in ("weak", "hearsay", "prelude"):
            return causes.of_finding(last, words)  # systemd waits to start it again
        earlier = self.seen.diagnosis.best() if len(self.seen.watch.runs) > 1 else None
        cause = self.seen.story.silence(
            start,
            self.seen.phases,
            self.seen.ladder.summary() if self.seen.listener and self.seen.listener.listening else "",
            moving,
            self.seen.watch.state,
        )
        if earlier is not None:
            before = causes.of_finding(earlier, words)
            cause.hint = f"An earlier run of this start failed: {before.summary} {before.hint}"
        elif self.seen.phases.phase == "download" and not moving:
            cause.code = "hub_unreachable"
        return cause
