# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a log is not worth a closer look: lines that look ill and mean no harm, and lines without any word of a signature."""

from __future__ import annotations

import re

# Lines that hold words of the signatures and mean no harm.
NOISE = re.compile(
    r"ignore import error|\bis deprecated\b|deprecat(?:ed|ion)|\w+Warning: |warnings\.warn|\bRLIMIT_|will be ignored|falling back|fall back|fallback"
    r"|retrying in|trying (?:another|the next|next|port)|\bretry(?:ing)?\b|\"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) \S+ HTTP/[\d.]+\" \d{3}"
    r"|Receive: obj=|Finish: obj=|\w+ReqInput\("
    r"|\[Autotuner\]|skipping tactic|dlerror=|NET/Plugin ?: |libibverbs: Warning|mkdir -p failed for path|created a temporary cache directory"
    r"|will try to load from|load(?:ed|ing)? from (?:the )?(?:local )?cache|graphs? (?:are |is )?disabled|ninja: no work to do"
    r"|failed to (?:save|write|store|dump|persist|update) (?:the )?(?:[\w-]+ ){0,2}(?:cache|config|statistics|stats)\b"
    r"|can not initialize OpenAIServing|health check failed\. server couldn't get a response|exception ignored in|should dump|\[W\d{3}[\d:. ]*"
    r"|using default MoE kernel config|OpenAI Responses API|incompatible with overlap schedule|possible solutions:|^\d\. ",
    re.IGNORECASE,
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
    "rope_", "exited with", "too many",
)
# fmt: on
