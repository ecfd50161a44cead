# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything one wait has seen so far, and the words that can be made of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._causes import version_words
from ansible_collections.gpuops.sglang.plugins.module_utils._kernel_log import KernelLog
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry, Listener
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import Phases
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Diagnosis
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_http import Ladder
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_peers import Peers, gpu_holders
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_story import Story
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_unit import UnitWatch

DEFAULT_STALL = 600.0
WARMUP_STALL = 780.0  # the server itself gives its first request 120 + 600 s, and then says what was wrong
COMPILE_STALL = 1800.0  # a first compilation of kernels says nothing for up to 20 minutes


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


class Seen:
    """The state of a wait: its parts, and plain values that are kept as they are."""

    PARTS = ("watch", "diagnosis", "phases", "ladder", "peers", "story", "kernel")
    PLAIN = (
        "began",
        "progress_at",
        "listener_at",
        "unit_due",
        "listener_due",
        "foreign_since",
        "foreign_looks",
        "foreign_ids",
        "foreign_asked",
        "foreign_before",
        "foreign_drains",
        "peer_dead_since",
        "gpu",
        "gpu_before",
        "told",
        "runs_seen",
        "strangers",
        "between",
        "joined",
    )

    def __init__(self, options: WaitOptions):
        self.options = options
        self.redactor = Redactor(options.secrets)
        self.watch = UnitWatch(options.invocation_id)
        self.diagnosis = Diagnosis(options.error_patterns, options.nnodes)
        self.phases = Phases()
        self.ladder = Ladder(options.model, options.node_rank > 0, options.generate, options.probe_timeout, options.wait_sleep, options.ready_query)
        self.peers = Peers()
        self.story = Story(options.journal_lines)
        self.kernel = KernelLog(options.unit)
        self.listener: Listener | None = None
        self.held: list[Entry] = []  # lines of invocations that are not ours, or not yet
        self.began: float | None = None
        self.progress_at = 0.0
        self.listener_at: float | None = None
        self.unit_due = True
        self.listener_due = True
        self.foreign_since: float | None = None
        self.foreign_looks = 0
        self.foreign_ids: list[str] | None = None
        self.foreign_asked: list[str] = []  # paths
        self.foreign_before = False  # it had the port before our start could
        self.foreign_drains = False  # it says itself that it is not ready
        self.peer_dead_since: float | None = None
        self.gpu: Any = None
        self.gpu_before: Any = None  # who held the GPUs before this start could
        self.told = ""
        self.runs_seen = 0
        self.joined = False  # the ranks of all nodes have found each other
        self.between: list[str] = []  # invocations first heard of while another one was ours
        self.strangers: list[str] = []  # invocations that are not known as ours

    def start(self, now: float) -> None:
        if self.began is None:
            self.began = self.progress_at = now
            self.phases.start(now)
            self.tell(now, "waiting")

    def tell(self, now: float, what: str) -> None:
        self.story.tell(round(now - (self.began or 0.0), 3), self.phases.phase, what)

    def best(self) -> Finding | None:
        """The likely cause in the present run."""
        return self.diagnosis.best(self.watch.run_key)

    @property
    def too_early(self) -> bool:
        """Does a process of the unit listen that cannot be this run's server, one that stayed behind, say?"""
        listener, run, phases = self.listener, self.watch.run, self.phases
        if listener is None or run is None or not listener.in_unit or not listener.pid or not run.pid or listener.pid == run.pid:
            return False
        return listener.leftover or not phases.announced and phases.phase in ("distributed", "weights", "kv_cache", "graphs")

    @property
    def listening(self) -> bool:
        """Does somebody listen who may be the unit?"""
        return self.listener is not None and self.listener.listening and self.listener.in_unit is not False

    def stall_limit(self) -> float:
        if self.options.stall_timeout is not None:
            return float(self.options.stall_timeout)
        usual = self.options.usual_seconds.get(self.phases.phase)
        limit = min(max(2.0 * usual, 120.0), COMPILE_STALL) if usual is not None else WARMUP_STALL if self.phases.phase == "warmup" else DEFAULT_STALL
        return max(limit, COMPILE_STALL) if self.phases.compiling else limit

    def words(self) -> dict[str, str]:
        """What the sentences of the catalogue may be filled in with."""
        options = self.options
        words = {
            **version_words(options.version),
            "unit": options.unit,
            "number": str(options.port),
            "address": options.dist_init_addr or "the address of rank 0",
        }
        words["holders"] = gpu_holders(self.gpu)
        words["peer"] = "the other node"
        words["journal"] = "what could be read of the journal" if self.story.has_losses else "the journal"
        listener = self.listener
        if listener is not None and listener.listening and listener.in_unit is False and listener.pid:
            whose = f" of {listener.unit}" if listener.unit else ""
            words["owner"] = " (" + f"pid {listener.pid} {listener.name}".strip() + f"{whose})"
        return words

    def warnings(self) -> list[str]:
        warnings = [*self.story.warnings, *(f"the log warns: {text}" for text in self.diagnosis.warnings)]
        if self.watch.restarts:
            found = self.diagnosis.best("1")
            warnings.append(f"the unit was restarted {self.watch.restarts} time(s) during the wait" + (f": {found.line[:200]}" if found else ""))
        if self.watch.state.sub_state.startswith("auto-restart"):
            warnings.append("systemd will start the unit again by itself (Restart=)")
        found, holders = self.best(), gpu_holders(self.gpu_before)
        if holders and found is not None and found.code in ("cuda_oom", "graph_capture_oom", "kv_pool_too_small"):
            warnings.append(f"GPU memory was held when the wait began{holders}")
        for phase, spent in self.phases.seconds.items():
            usual = self.options.usual_seconds.get(phase)
            if usual and spent > 2 * usual and spent - usual > 5:
                warnings.append(f"phase {phase} took {spent:.0f} s, usually {usual:.0f} s")
        return [self.redactor.clean(text) for text in warnings]

    def dump(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: getattr(self, name) for name in self.PLAIN}
        state["parts"] = {name: getattr(self, name).dump() for name in self.PARTS}
        state["listener"] = asdict(self.listener) if self.listener is not None else None
        state["held"] = [asdict(entry) for entry in self.held]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.PLAIN:
            setattr(self, name, state[name])
        for name in self.PARTS:
            getattr(self, name).restore(state["parts"][name])
        self.listener = Listener(**state["listener"]) if state["listener"] else None
        self.held = [Entry(**entry) for entry in state["held"]]
