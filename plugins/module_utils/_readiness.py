# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision of a wait: observations and a clock in, the next probe and the verdict out; nothing here touches the system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Entry, Listener, Probe, UnitState, Verdict


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

    def wants(self, now: float) -> list[str]:
        """What should be looked at now: any of ``unit``, ``listener``; call it after every event and at every wake-up."""
        raise NotImplementedError

    def on_unit(self, now: float, state: UnitState) -> None:
        raise NotImplementedError

    def on_journal(self, now: float, entries: list[Entry]) -> None:
        raise NotImplementedError

    def on_kernel(self, now: float, entries: list[Entry]) -> None:
        raise NotImplementedError

    def on_listener(self, now: float, listener: Listener) -> None:
        raise NotImplementedError

    def on_gpu(self, now: float, data: Any) -> None:
        raise NotImplementedError

    def on_peers(self, now: float, data: dict[str, Any]) -> None:
        raise NotImplementedError

    def on_answer(self, now: float, probe: Probe, answer: Answer) -> None:
        raise NotImplementedError

    def note(self, now: float, text: str) -> None:
        """Add a warning to the result, such as ``journal_unreadable: …``; it never fails the wait."""
        raise NotImplementedError

    @property
    def send_key(self) -> bool:
        """Whether the API key may be sent to whoever listens: not to a process outside the unit."""
        raise NotImplementedError

    def next_probe(self, now: float) -> Probe | None:
        """The request to make now, at most one in flight; None when there is none to make yet."""
        raise NotImplementedError

    def next_wakeup(self, now: float) -> float:
        """The latest moment to call ``wants``, ``next_probe`` and ``verdict`` again when nothing else happens."""
        raise NotImplementedError

    def verdict(self, now: float) -> Verdict | None:
        raise NotImplementedError

    def progress(self, now: float) -> dict[str, Any]:
        """``phase``, ``percent`` (None when not known), ``text``, ``elapsed``, ``changed`` since the last call."""
        raise NotImplementedError

    def result(self, now: float) -> dict[str, Any]:
        """verdict, phase, elapsed, timeline[], cause{}|None, unit{}, http{}, journal[], warnings[], msg; ready to be JSON."""
        raise NotImplementedError

    def dump(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def load(cls, options: WaitOptions, state: dict[str, Any], query: Callable[[str, Any], Any] | None = None) -> Wait:
        raise NotImplementedError
