# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the server's processes: watchdogs, crashes, the first request."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import sign

_OTHER_RANK_HINT = "Look at the rank that did not come: its own first error, its disk or mount; when it is only slow, raise dist_timeout."
_BUS_HINT = "Give /dev/shm more room (a bus error in shared memory means that it is full), then look at the core dump (coredumpctl)."
_DUMP_HINT = "Read the core dump (coredumpctl), the stacks above the line and the kernel log (Xid, segfault)."
_CUDA_ERROR_HINT = (
    "Read the traceback above the line, and the kernel log (Xid) for a failing card; CUDA_LAUNCH_BLOCKING=1 makes the traceback point to the kernel "
    "that failed."
)

SERVER = (
    sign(
        "scheduler_crashed", ("hsa_status_error", "memory access fault by gpu"), r"HSA_STATUS_ERROR\w*|memory access fault by GPU", proof=True, hint=_DUMP_HINT
    ),
    sign("watchdog", "watchdog timeout", r"(?<!soft )watchdog timeout ?\((?!.{0,200}soft ?= ?True)", proof=True),
    sign("watchdog", "watchdog", r"(?:scheduler|detokenizer|tokenizer)\w* watchdog.{0,60}(?:timed out|timeout)(?!.{0,200}soft ?= ?True)", proof=True),
    sign(
        "scheduler_crashed",
        ("crashed with exit code", "died during initialization", "initialization failed", "crashed with signal"),
        r"subprocess \S+ (?:\(pid=\d+\) )?crashed with (?:exit code|signal) ?(?P<exit>-?\d+)?|(?:scheduler|detokenizer"
        r"|worker)\S*(?: \S+)? died during initialization(?:.{0,20}exit code: ?(?P<exit2>-?\d+))?"
        r"|initialization failed\. please see the error messages above",
        "doom",
        True,
    ),
    sign(
        "scheduler_crashed",
        ("device-side assert", "illegal memory", "launch failure", "misaligned", "illegal instruction"),
        r"^(?!.*captur\w* (?:\w+ ){0,3}graphs? failed).*"
        r"(?:(?:CUDA error|Triton Error \[CUDA\]): (?:device-side assert|an illegal (?:memory|instruction)|unspecified launch failure|misaligned address)"
        r"|illegal memory access was encountered)",
        hint=_CUDA_ERROR_HINT,
    ),
    sign("scheduler_crashed", "failed (exitcode", r"failed \(exitcode: (?P<exit>-?\d+)\) local_rank", "plain"),  # torchrun's word of a rank
    sign("", "childfailederror", r"\bChildFailedError:", "echo"),
    sign("scheduler_crashed", ("is dead", "exit code"), r"rank \d+ scheduler is dead|^Exit code: ?(?P<exit>-\d+)$", "doom", True),
    sign("exited", "eoferror", r"^EOFError:?$", "echo"),  # the pipe from a process that is gone
    sign(
        "scheduler_crashed",
        "finish loading",
        r"other ranks that didn't finish loading",
        "weak",
        hint=_OTHER_RANK_HINT,
    ),
    sign("", "monitoredbarrier", r"reached monitoredBarrier, but", "echo"),
    sign("warmup_failed", "warmup failed", r"server warmup failed; aborting", proof=True),
    sign(
        "scheduler_crashed",
        "bus error",
        r"fatal python error: (?P<exit>bus error)|(?P<exit2>bus error) encountered|^(?P<exit3>bus error)\b",
        proof=True,
        hint=_BUS_HINT,
    ),
    sign(
        "scheduler_crashed",
        ("corrupt", "invalid pointer", "double free", "smashing", "unaligned", "invalid size", "assertion", "received at time", "check failed", "segfault enc"),
        r"^(?:free|(?:m|re|c)alloc|malloc_consolidate|munmap_chunk|realloc|corrupted|double free or|_int_malloc|tcache)\b.{0,60}"
        r"(?P<exit>invalid|corrupt\w*|unaligned"
        r"|double[- ]\w+|memory)|^\*{3} (?P<exit2>stack smashing|SIG[A-Z]+ received|buffer overflow)|\b(?P<exit3>Assertion [`'].{1,200}' failed)"
        r"|^[FE]\d{4} [\d:.]+ .{0,120}(?P<exit4>Check failed)|(?P<exit5>Segfault encountered)",
        proof=True,
        hint=_DUMP_HINT,
    ),
    sign(
        "scheduler_crashed",
        ("segmentation fault", "fatal python error", "terminate called", "aborted", "core dumped"),
        r"fatal python error: (?P<exit>[^\n]{1,60})|(?<![\d] )(?P<exit2>segmentation fault)"
        r"|(?P<exit3>terminate called) (?:after|without)|(?P<exit4>core dumped)\)(?: .*(?:python|sglang))?$",
        proof=True,
        hint=_DUMP_HINT,
    ),
    sign(
        "scheduler_crashed",
        ("segfault at", "general protection", "traps:"),
        r"\bsglang\S*\[\d+\]: (?P<exit>segfault) at|(?P<exit2>traps): sglang",
        "weak",
        True,
        sources=("kernel",),
    ),
    sign(
        "scheduler_crashed",
        ("segfault at", "dumped core", "general protection"),
        r"(?:sglang|python|pt_)\S*\[\d+\]: (?P<exit>segfault) at|process \d+ \((?:sglang|python|pt_)[^)]{0,64}\).{0,60}(?P<exit2>dumped core)"
        r"|(?P<exit3>traps): (?:sglang|python)",
        "weak",
        sources=("kernel", "systemd"),
    ),
    sign("", ("sigquit", "child failed"), r"received sigquit from a child|SIGQUIT received|it usually means (?:one|the) child failed", "doom", True),
)

# After all the others: they may know what is told.
LAST_WORDS = (
    sign(
        "graph_capture_failed",
        "capturing stream",
        r"watchdog thread terminated with exception: .{0,200}capturing stream",
        proof=True,
    ),
    sign("scheduler_crashed", "thread terminated with exception", r"watchdog thread terminated with exception: \S", proof=True, hint=_CUDA_ERROR_HINT),
    sign("scheduler_crashed", "what():", r"^\s*what\(\): +(?P<exit>\S.{0,40})", proof=True, hint=_DUMP_HINT),
)
