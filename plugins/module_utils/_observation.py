# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait can see at one moment, and how it may end: the plain records that all parts of a wait exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class UnitState:
    """One look at a systemd unit, with the words of ``systemctl show``."""

    load_state: str = "loaded"  # loaded, not-found, masked, bad-setting
    active_state: str = ""  # ActiveState: active, activating, deactivating, inactive, failed
    sub_state: str = ""  # SubState: running, start-pre, auto-restart, stop-sigterm, dead, failed
    result: str = "success"  # Result: success, exit-code, signal, oom-kill, timeout, start-limit-hit ...
    restarts: int = 0  # NRestarts
    exit_code: str = ""  # ExecMainCode as a word: exited, killed, dumped; "" while it runs
    exit_status: int | None = None  # ExecMainStatus
    main_pid: int = 0  # MainPID, 0 when there is none
    invocation_id: str = ""  # InvocationID


@dataclass(frozen=True)
class Entry:
    """One decoded line of a journal; a message of several lines is several entries."""

    text: str  # colour codes and carriage-return overwrites removed, secrets masked
    source: str = "unit"  # unit: the service wrote it; systemd: PID 1 about the unit; kernel: the kernel log
    invocation_id: str = ""
    pid: int = 0
    time_us: int = 0  # wall clock, microseconds since the epoch, 0 when not known
    monotonic_us: int = 0  # CLOCK_MONOTONIC of the node, 0 when not known


@dataclass(frozen=True)
class Listener:
    """Who listens on the port, from the kernel's socket table; asked before any request is sent."""

    listening: bool = False
    pid: int = 0  # 0 when the owner cannot be seen
    name: str = ""
    in_unit: bool | None = None  # is the owner inside the unit's control group; None when that cannot be told
    unit: str = ""  # the systemd unit of the owner, where that can be told
    leftover: bool = False  # the owner is older than the unit's main process: it stayed behind from an earlier run


@dataclass(frozen=True)
class Probe:
    """One HTTP request the wait wants to have made next."""

    path: str  # /ready, /health, /v1/models, /v1/chat/completions, /v1/completions
    method: str = "GET"
    body: dict[str, Any] | None = None
    timeout: float = 25.0  # seconds


@dataclass(frozen=True)
class Answer:
    """What came back for a probe."""

    kind: str  # status: an HTTP answer; refused, timeout, reset, tls, error: none
    status: int = 0
    body: str = ""  # at most 64 KiB
    content_type: str = ""
    elapsed: float = 0.0  # seconds
    detail: str = ""  # text of the error when there was no answer


@dataclass
class Cause:
    """Why a wait did not end in ``ready``; codes are listed in docs/causes.md."""

    code: str
    summary: str
    line: str = ""
    rank: str = ""  # as the log prefix has it: "TP3", "PP1 TP0"
    hint: str = ""
    seen: int = 1  # how many times the line was seen
    time_us: int = 0  # wall clock of the line, 0 when not known


@dataclass
class Verdict:
    """How a wait ended."""

    verdict: str  # ready, failed, stalled, timeout
    phase: str
    cause: Cause | None = None
    warnings: list[str] = field(default_factory=list)
