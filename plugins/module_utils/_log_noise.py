# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a log is not worth a closer look: lines that look ill and mean no harm, and lines without any word of a signature."""

from __future__ import annotations

import re

# Of lines that hold words of the signatures and mean no harm: a word that each of them has, and where it is not enough, the whole shape.
_NOISE = tuple(
    (cue, re.compile(pattern) if pattern else None)
    for cue, pattern in (
        ("ignore import error", ""),
        ("deprecated", ""),
        ("deprecation", ""),
        ("warning: ", r"\wwarning: "),
        ("warnings.warn", ""),
        ("rlimit_", r"\brlimit_"),
        ("will be ignored", ""),
        ("falling back", ""),
        ("fall back", ""),
        ("fallback", ""),
        ("retry", r"\bretry(?:ing)?\b"),
        ("trying ", r"trying (?:another|the next|next|port|\d{4,5}\b)"),
        (" http/", r"\"(?:get|post|head|put|delete|options) \S+ http/[\d.]+\" \d{3}"),
        ("receive: obj=", ""),
        ("finish: obj=", ""),
        ("reqinput(", r"\wreqinput\("),
        ("[autotuner]", ""),
        ("select_algorithm.py", ""),
        ("to silence this warning", ""),
        ("pyspy failed to dump", ""),
        ("error while downloading from", ""),
        ("skipping tactic", ""),
        ("dlerror=", ""),
        ("net/plugin", r"net/plugin ?: "),
        ("libibverbs: warning", ""),
        ("mkdir -p failed for path", ""),
        ("created a temporary cache directory", ""),
        ("will try to load from", ""),
        ("load", r"load(?:ed|ing)? from (?:the )?(?:local )?cache"),
        ("disabled", r"graphs? (?:are |is )?disabled"),
        ("ninja: no work to do", ""),
        ("failed to ", r"failed to (?:save|write|store|dump|persist|update) (?:the )?(?:[\w-]+ ){0,2}(?:cache|config|statistics|stats)\b"),
        ("can not initialize openaiserving", ""),
        ("health check failed. server couldn't get a response", ""),
        ("exception ignored in", ""),
        ("_array_api not found", ""),
        ("should dump", ""),
        ("[w", r"\[w\d{3}"),
        ("using default moe kernel config", ""),
        ("openai responses api", ""),
        ("incompatible with overlap schedule", ""),
        ("possible solutions:", ""),
        (". ", r"^\d\. "),
    )
)
# Of the noise, what is worth telling beside a healthy start.
WORTH_TELLING = re.compile(r"\bis deprecated\b|deprecated[.:]|NCCL WARN|is not compatible with the current PyTorch", re.IGNORECASE)

# A cheap first look: a line without any of these words matches no signature. None has a digit, so that it holds for all lines alike.
# fmt: off
TRIGGERS = (
    "error", "exception", "deprecat", "traceback", "fail", "fatal", "memory", "kill", "oom", "timed out", "timeout", "sigquit", "crash",
    "died", "divisible", "make sure", "in use", "denied", "no such", "not found", "cannot", "can't", "could", "mismatch", "bound to", "xid",
    "fallen", "reject", "unable", "peer", "nccl", "errno", "no space", "dumped", "abort", "terminate", "retries", "gated", "trust",
    "architecture", "not available", "undefined", "kernel image", "segfault", "[-h]", "using", "compiler", "driver", "is not", "does not",
    "must", "should", "reset", "initialized", "offline", "segmentation", "ptx", "apability", "authorized", "forbidden", "quota",
    "read-only", "permitted", "unreachable", "interface", "ninja", "nvcc", "ecc", "require", "awaiting", "expired", "restricted",
    "unsupported", "unrecognized", "broken", "no route", "stuck", "busy", "invalid", "enospc", "no address",
    "no module", "stale", "traps", "dead", "exit code", "result=", "aligned", "unknown error", "requirement", "allocated",
    "rope_", "exited with", "too many", "corrupt", "double free", "smashing", "received at time", "unaligned",
)
# fmt: on


def is_noise(lowered: str) -> bool:
    """Does a line, given in lower case, mean no harm although it may hold words of a signature?"""
    for cue, shape in _NOISE:
        if cue in lowered and (shape is None or shape.search(lowered)):
            return True
    return False
