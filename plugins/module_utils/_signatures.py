# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the lines of a start one by one and knows at any time which of them is the cause, whichever rank wrote it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._exceptions import named, unknown
from ansible_collections.gpuops.sglang.plugins.module_utils._findings import GOES_ON, LAST_ERROR, SAYS_MORE, Findings
from ansible_collections.gpuops.sglang.plugins.module_utils._kernel_log import FOREIGN, NAMESAKE, OURS
from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import Dull, bare, has_any, shape, split
from ansible_collections.gpuops.sglang.plugins.module_utils._log_noise import TRIGGERS, WORTH_TELLING, is_noise
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import LONGEST, Context, Finding, Line, finding, match
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._tracebacks import Traceback, Tracebacks, is_exception
from ansible_collections.gpuops.sglang.plugins.module_utils._weighing import OF_THE_DRIVER, outer_is_better, survived, weigh

_WARNINGS_KEPT = 20
_LOGGING_ERROR = 80
_STRAY_CLIENT = re.compile(r"(?:ConnectionReset|BrokenPipe|ConnectionAborted|CancelledError|ClientDisconnect|disconnected from the client)")
_CARD = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?\b", re.IGNORECASE)
_STARTS_ANEW = re.compile(  # a wrapper's word, or a container engine's
    r"\b(?:restarting|respawning|relaunching|next attempt in|will (?:be )?restart\w*)\b|\bstarting (?:it )?(?:again|anew|without)\b", re.IGNORECASE
)
_GROUP_MARGIN = re.compile(r"^\s*[|+] ")  # before each line of a group of exceptions
_CAPABILITY = re.compile(r"compute capability:? (\d+(?:\.\d)?)\b|\bsm_?(\d{2,3})a?\b", re.IGNORECASE)


class Diagnosis:
    """Fed with the entries of this start's runs in order; earlier runs must not be fed."""

    def __init__(self, error_patterns: Iterable[dict[str, Any]] = (), nnodes: int = 1):
        self._patterns = [(re.compile(item["regex"]), item.get("code") or "error_pattern", item.get("hint") or "") for item in error_patterns]
        self._tracebacks = Tracebacks()
        self._dull = Dull()
        self.findings = Findings()
        self.nnodes = nnodes
        self.echoes = 0  # lines that only follow from the cause
        self.doom_at: float | None = None  # when a line first told that the server cannot live on
        self.doom_run = ""
        self.warnings: list[str] = []
        self.order = 0
        self.reached: dict[str, str] = {}  # run -> the phase that its last line was read in
        self.lives = 0  # how often a wrapper or a container began the server anew, within one run of the unit
        self.capability = ""
        self._last_error_follows = False
        self._logging_error = 0  # lines that such a block may still have
        self._card = (-SAYS_MORE - 1, "")  # order and address of the card that the kernel named last

    # -- choosing

    def best(self, run: str | None = None, ended: float | None = None) -> Finding | None:
        """The cause among the lines of one run, or of all: the first in time of the surest kind; ``ended`` is when the run did."""
        candidates = [item for item in self.findings if run is None or run in item.runs]
        return weigh([item for item in candidates if not survived(item, self.reached.get(item.run, ""), ended)])

    def secondary(self) -> int:
        """How many lines of failure are not the cause."""
        chosen = self.best()
        return self.echoes + sum(item.seen for item in self.findings if item is not chosen)

    @property
    def in_traceback(self) -> bool:
        return self._tracebacks.waiting

    def new_run(self) -> None:
        self._tracebacks.clear()
        for item in self.findings:
            item.pending = False

    def _new_life(self, run: str) -> None:
        if self.findings.leave_behind(run):
            self.lives, self.doom_at, self.doom_run = self.lives + 1, None, ""
            self._tracebacks.clear()

    # -- reading

    def feed(self, entry: Entry, context: Context, whose: str = OURS) -> None:
        """Read one line; ``whose`` tells of a kernel line whom it is about."""
        self.order += 1
        self.reached[context.run] = context.phase
        text = entry.text
        shape_of_line = bare(text)
        if shape_of_line in self._dull and (not self._tracebacks.open or text.startswith(("[", "INFO:"))):
            return
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"  # an exception names its reason at the end, or at the beginning
        if "server_args=" in text:
            self._new_life(context.run)
            return
        if entry.source == "unit" and self._in_logging_error(text):
            return
        in_group = text.lstrip()[:2] in ("| ", "+ ") and (bool(self._tracebacks.open) or "Exception Group" in text)
        if in_group:
            text = _GROUP_MARGIN.sub("", text)
        rank, body = split(text)
        if self._last_error_follows and entry.source == "unit":
            body = text = f"{LAST_ERROR}{body}"  # it says more than the exception above it
            rank = rank or next((item.rank for item in reversed(self.findings.items) if self.order - item.last <= SAYS_MORE), "")
        self._last_error_follows = body == "Last error:"
        line = Line(entry, text, rank, body, self.order, context)
        self._go_on(line)
        for regex, code, hint in self._patterns:
            if regex.search(text):
                self._add(finding(code, line, proof=True, hint=hint))
                return
        if entry.source == "unit" and self._tracebacks:
            is_part, ended = self._tracebacks.take(entry, text, rank, body)
            if ended is not None:
                self._conclude(ended, line)
            if is_part or in_group and self._tracebacks.waiting and body.startswith("Traceback"):
                return
        lowered = text.lower()
        if entry.source != "unit":
            self._take_line(line, whose)
        elif self.doom_at is not None and _STARTS_ANEW.search(text):
            self._new_life(context.run)
        elif not has_any(lowered, TRIGGERS):
            self._find_dull(shape_of_line)
        elif not self._take_unit_line(line, lowered):
            self._find_dull(shape_of_line)

    def _in_logging_error(self, text: str) -> bool:
        """Is the line a part of what Python's logging prints when it cannot write a message? It says nothing of the server."""
        if text.startswith("--- Logging error ---"):
            self._logging_error = _LOGGING_ERROR
        elif self._logging_error:
            self._logging_error = 0 if text.startswith(("Arguments:", "[20")) else self._logging_error - 1
            return not text.startswith("[20")
        return self._logging_error > 0

    def _go_on(self, line: Line) -> None:
        """An exception whose text only begins in the line after it."""
        last = self.findings.items[-1] if len(self.findings) else None
        if last is None or not last.line.endswith("Error:") or not line.text.strip() or line.entry.source != "unit":
            return
        if line.order - last.last <= GOES_ON and line.text[:1].isspace():
            last.line = f"{last.line} {line.text.strip()}"

    def _find_dull(self, shape_of_line: str) -> None:
        if not self._patterns:
            self._dull.add(shape_of_line)

    def _take_unit_line(self, line: Line, lowered: str) -> bool:
        """False when the line, and every one like it, is known to mean no harm."""
        if "apability" in line.text:
            seen = _CAPABILITY.search(line.text)
            self.capability = (seen.group(1) or seen.group(2)) if seen else self.capability
        started = self._tracebacks.start(line.entry, line.order, line.text, line.rank, line.body)
        if started is not None:
            self._open(started[0], line)
            if started[1]:
                self._conclude(started[0], replace(line, body=started[1]))
        elif is_noise(lowered) and not line.body.startswith(LAST_ERROR):
            self._take_warning(line)
            if WORTH_TELLING.search(line.text):
                self.warn(line.text)
            return False
        else:
            self._take_line(line if line.rank else replace(line, rank=self._tracebacks.rank_of(line.entry)))
        return True

    def _take_warning(self, line: Line) -> None:
        """A warning of the driver is survived or not, but it says more than the error that may come of it."""
        found = match(line, self.nnodes, self.capability)
        if found is not None and found.code in OF_THE_DRIVER:
            found.kind, found.proof = "weak", False
            self._add(found)

    def warn(self, text: str) -> None:
        text = text[:300]
        if len(self.warnings) < _WARNINGS_KEPT and all(shape(known) != shape(text) for known in self.warnings):
            self.warnings.append(text)

    def _take_line(self, line: Line, whose: str = OURS) -> None:
        found = match(line, self.nnodes, self.capability)
        if line.entry.source == "kernel":
            self._name_card(line, found)
        unnamed_card = found is not None and found.code == "gpu_lost" and line.entry.source == "kernel" and whose != OURS
        if found is not None and (whose in (FOREIGN, NAMESAKE) or unnamed_card):
            if whose == FOREIGN and found.code == "host_oom":
                return
            if whose == FOREIGN:
                found.kind = "weak"
            found.namesake = True
            found.proof = False
        if found is None and line.entry.source == "unit" and is_exception(line.body):
            found = unknown(line)
        if found is None:
            return
        if found.kind in ("doom", "echo"):
            self.echoes += 1
            if found.kind == "echo":
                return
            self._doom(line.context.now, line.context.run)
            if not found.code:
                return
            found.kind = "weak"
        self._add(found)

    def _name_card(self, line: Line, found: Finding | None) -> None:
        """The driver may name the card in a line before the one that says what became of it."""
        card = _CARD.search(line.text)
        if card:
            self._card = (line.order, card.group(0))
        elif found is not None and found.code == "gpu_lost" and line.order - self._card[0] <= SAYS_MORE:
            found.words["gpu"] = f" ({self._card[1]})"

    # -- tracebacks

    def _open(self, traceback: Traceback, line: Line) -> None:
        """A traceback that no server survives stands for itself until its exception has come."""
        if traceback.head not in ("scheduler", "warmup") or traceback.finding >= 0:
            return
        found = finding("warmup_failed" if traceback.head == "warmup" else "scheduler_crashed", line, proof=True)
        found.pending = True
        traceback.finding = found.order
        self.findings.stand_in(found)
        self._doom(line.context.now, line.context.run)

    def _conclude(self, traceback: Traceback, line: Line) -> None:
        """The line of a traceback's exception has come."""
        if traceback.head == "harmless":
            if not _STRAY_CLIENT.search(line.body):
                self.warn(line.text)
            return
        found = named(traceback, line, self.nnodes, self.capability)
        standing = self.findings.of_order(traceback.finding)
        if standing is not None and traceback.mixed:
            standing.rank = ""
        if standing is None:
            traceback.finding = found.order
            self._add(found)
        elif standing.pending or outer_is_better(standing, found):
            self.findings.replace(standing, found)

    # -- keeping what was found

    def _add(self, found: Finding) -> None:
        if found.proof:
            self._doom(found.at, found.run)
        if not self.findings.add(found):
            self.echoes += 1

    def _doom(self, now: float, run: str) -> None:
        if self.doom_at is None or self.doom_run != run:
            self.doom_at, self.doom_run = now, run

    def dump(self) -> dict[str, Any]:
        state = {key: value for key, value in vars(self).items() if key not in ("_patterns", "_dull", "findings", "_tracebacks")}
        return {**state, "findings": self.findings.dump(), "_tracebacks": self._tracebacks.dump()}

    def restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.findings.restore(state.pop("findings"))
        self._tracebacks.restore(state.pop("_tracebacks"))
        vars(self).update(state)
