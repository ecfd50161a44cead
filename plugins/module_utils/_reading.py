# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the lines of the journals for a wait: which run they are of, and what they tell of phases, causes and losses."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._journal import UNSHOWN
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Context
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import Phases
from ansible_collections.gpuops.sglang.plugins.module_utils._seen import Seen

_HELD = 5000


class Reading:
    """Puts what it reads into what a wait has seen."""

    def __init__(self, seen: Seen):
        self.seen = seen
        self._last_context: Context | None = None

    def journal(self, now: float, entries: list[Entry]) -> None:
        for entry in entries:
            run = self._run_of(entry)
            if run is None:
                if entry.source == "systemd" and not self.seen.watch.runs:
                    self.seen.watch.overhear(now, entry)
                elif self.seen.watch.runs and entry.invocation_id not in self.seen.between:
                    self.seen.between = [*self.seen.between[-50:], entry.invocation_id]
                if entry.source == "systemd" or entry.invocation_id not in self.seen.strangers:
                    self.seen.unit_due = True
                    self.seen.strangers = [*self.seen.strangers[-50:], entry.invocation_id]
                if len(self.seen.held) < _HELD:
                    self.seen.held.append(entry)
            else:
                self._take(now, entry, run)

    def _run_of(self, entry: Entry) -> str | None:
        runs = self.seen.watch.runs
        if not runs:
            return None
        if not entry.invocation_id or not runs[-1].invocation:
            return str(len(runs))
        for number in range(len(runs), 0, -1):
            if runs[number - 1].invocation == entry.invocation_id:
                return str(number)
        return None

    def _take(self, now: float, entry: Entry, run: str) -> None:
        current = run == self.seen.watch.run_key
        if entry.source == "systemd":
            self.seen.unit_due = True
            self.seen.watch.read(now, entry)
        before = self.seen.phases.phase
        if entry.source == "unit":
            self.seen.kernel.own(entry.pid)
        if entry.source == "unit" and current:
            announced = self.seen.phases.announced
            if self.seen.phases.feed(now, entry):
                self.seen.progress_at = now
                self.seen.story.last_step = entry.text
            if "Init COMPLETE" in entry.text or "spans across nodes" in entry.text:
                self.seen.joined = True
            if "SIGTERM received" in entry.text:
                self.seen.watch.was_told_to_stop(now, entry.text)
            if self.seen.phases.announced and not announced:
                self.seen.tell(now, "the server says it is ready")
                self.seen.ladder.hurry(now)
                self.seen.listener_due = True
            if self.seen.phases.phase != before:
                self.seen.tell(now, entry.text[:160])
                self.seen.listener_due = self.seen.listener_due or self.seen.phases.phase in ("bind", "warmup")
        if self.seen.kernel.foreign:
            for line in self.seen.kernel.claimed_by(entry.text):
                self.seen.diagnosis.feed(line, self._context(now, run))
        known, lives = len(self.seen.diagnosis.findings), self.seen.diagnosis.lives
        self.seen.diagnosis.feed(entry, self._context(now, run))
        self.seen.story.line(entry, len(self.seen.diagnosis.findings) > known)
        if self.seen.diagnosis.lives != lives:
            self.begin_again(now, "started again within the same run of the unit")
        self._note_losses(now, entry)

    def _context(self, now: float, run: str) -> Context:
        """What a line is read with; the same object as long as nothing has changed, since most lines change nothing."""
        phases, last = self.seen.phases, self._last_context
        serving = phases.announced or self.seen.ladder.was_ready
        if last is not None and (last.now, last.steps, last.run, last.phase, last.serving) == (now, phases.steps, run, phases.phase, serving):
            return last
        self._last_context = Context(now, phases.phase, serving, phases.capturing, phases.steps, run)
        return self._last_context

    def _note_losses(self, now: float, entry: Entry) -> None:
        if entry.source != "systemd":
            return
        if entry.text.startswith("Suppressed ") and " messages from" in entry.text:
            self._warn(f"journal_unreadable: lines are missing, journald says: {entry.text}")
        elif entry.text.startswith(UNSHOWN):
            self._warn(f"journal_unreadable: {entry.text}")

    def kernel(self, now: float, entries: list[Entry]) -> None:
        for entry in entries:
            line = Entry(entry.text, "kernel", "", 0, entry.time_us, entry.monotonic_us)
            whose = self.seen.kernel.whose(entry.text)
            self.seen.kernel.keep(line, whose)
            self.seen.diagnosis.feed(line, self._context(now, self.seen.watch.run_key), whose)

    def begin_again(self, now: float, what: str) -> None:
        self.seen.tell(now, what)
        self.seen.phases = Phases()
        self.seen.phases.start(now)
        self.seen.progress_at = now

    def release(self, now: float) -> None:
        """Lines that came before their invocation was known to be ours."""
        held, self.seen.held = self.seen.held, []
        self.journal(now, held)

    def _warn(self, text: str) -> None:
        self.seen.story.warn(self.seen.redactor.clean(text))
