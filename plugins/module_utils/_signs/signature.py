# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a signature is, and what several tables share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

# fatal: names a cause. evidence: seen from outside the process, beats what the process could only guess.
# wrapper: says that something failed whose real error stands in another line. weak: counts only when the unit ends and nothing
# better is known. prelude: says what an exception after it that says little would need to say. doom: names no cause, but the server cannot live on.
KINDS = ("fatal", "evidence", "wrapper", "plain", "weak", "prelude", "doom", "echo")


@dataclass(frozen=True)
class Signature:
    code: str
    cues: tuple[str, ...]  # one of these, in lower case, must be in the line before the regex is tried
    regex: re.Pattern
    kind: str = "fatal"
    proof: bool = False  # the process cannot survive what this line tells
    sources: tuple[str, ...] = ("unit",)
    hint: str = ""  # instead of the code's own
    yields_to: tuple[str, ...] = ()  # a wrapper: codes that take its place when they follow


def sign(
    code: str,
    cues: Sequence[str] | str,
    regex: str,
    kind: str = "fatal",
    proof: bool = False,
    sources: tuple[str, ...] = ("unit",),
    hint: str = "",
    yields_to: tuple[str, ...] = (),
) -> Signature:
    words = (cues,) if isinstance(cues, str) else tuple(cues)
    return Signature(code, words, re.compile(regex, re.IGNORECASE), kind, proof, sources, hint, yields_to)


HOST_MEMORY_HINT = "Give the unit more host memory (MemoryMax=, RAM), or use fewer loader threads, no CPU offload and smaller caches on the host."
COMPILER_KILLED_HINT = (
    "The kernel killed the compiler, as a rule because the host ran out of memory (journalctl -k): give the unit more host memory (MemoryMax=, RAM), "
    "or let fewer compilers run at once (MAX_JOBS)."
)
OLD_CARD_HINT = "This card is too old or too small for what was chosen: take another quantisation, dtype or backend that it knows, or another card."
FILES_HINT = "Raise LimitNOFILE= of the unit (the role sets 1048576)."
CONTAINER_HINT = (
    "The container got no GPUs: see that nvidia-smi works on the node, that the container toolkit fits the driver (nvidia-ctk), and that MIG or CDI devices "
    "which are asked for exist."
)
