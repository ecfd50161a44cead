# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what was found: the same line of other ranks and runs once, and a line that says an earlier one better in its place."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Iterator

from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import shape
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import GENERIC, Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._weighing import may_go_on, merge

SAYS_MORE = 6  # lines after an error in which its own text may name it better
GOES_ON = 3  # lines after an exception in which its own text may name the exception inside it
LAST_ERROR = "NCCL last error: "
_KEPT = 400


class Findings:
    """In the order in which they were read; bounded."""

    def __init__(self) -> None:
        self.items: list[Finding] = []

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def of_order(self, order: int) -> Finding | None:
        return next((item for item in self.items if item.order == order), None)

    def stand_in(self, found: Finding) -> None:
        """Keep a finding that another one will take the place of."""
        self.items.append(found)

    def add(self, found: Finding) -> bool:
        """False when there is no more room for it."""
        twin = self._twin(found)
        if twin is not None:
            merge(twin, found)
            return True
        standing = self._said_better_by(found)
        if standing is not None:
            found.order, found.rank = standing.order, found.rank or standing.rank
            if found.line.startswith(LAST_ERROR):
                found.line = f"{standing.line} ({found.line})"
            self.items.remove(standing)
        if len(self.items) >= _KEPT:
            return False
        self.items.append(found)
        return True

    def replace(self, standing: Finding, found: Finding) -> None:
        """Put what an exception says in the place of its header, or of the exception inside it."""
        if found.code == "graph_capture_failed" and standing.code == "cuda_oom":
            found.code = "graph_capture_oom"
        found.order, found.seen, found.runs, found.rank = standing.order, standing.seen, standing.runs, standing.rank or found.rank
        found.proof = found.proof or standing.proof
        self.items[self.items.index(standing)] = found
        twin = self._twin(found)
        if twin is not None:
            self.items.remove(found)
            merge(twin, found)

    def _twin(self, found: Finding) -> Finding | None:
        """The same line, of another rank or run."""
        wanted = shape(found.line)
        return next(
            (item for item in self.items if item is not found and not item.pending and item.code == found.code and shape(item.line) == wanted),
            None,
        )

    def _said_better_by(self, found: Finding) -> Finding | None:
        """The earlier finding of this run that the new one only says better."""
        for item in self.items:
            if found.run not in item.runs:
                continue
            near = found.last - item.last <= SAYS_MORE and not found.rank
            better = found.kind == "fatal" or found.kind == "wrapper" and bool(found.hint) and not item.hint
            if better and found.code in item.yields_to and (item.kind == "wrapper" or near and (found.hint or found.code != item.code)):
                return item
            other_death = found.code in GENERIC and bool(item.words.get("exit")) and "what():" not in found.line  # a death says itself only once
            if may_go_on(item) and found.kind == "fatal" and not other_death and not found.rank and found.last - item.last <= GOES_ON:
                return item
            same_rank = not item.rank or not found.rank or item.rank == found.rank
            if item.code == "cuda_oom" and found.code == "graph_capture_oom" and same_rank:
                return item
        return None

    def leave_behind(self, run: str) -> bool:
        """Something within the unit has begun the server anew: what was found so far no longer ends it. False when there was nothing."""
        left = [item for item in self.items if run in item.runs]
        for item in left:
            item.former = True
        return bool(left)

    def dump(self) -> list[dict[str, Any]]:
        return [asdict(item) for item in self.items]

    def restore(self, state: list[dict[str, Any]]) -> None:
        self.items = [Finding(**item) for item in state]
