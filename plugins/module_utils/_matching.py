# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matches one line against the signatures: which cause it names, how surely, and with which details."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._signs import SIGNATURES
from ansible_collections.gpuops.sglang.plugins.module_utils._tracebacks import is_exception

LONGEST = 2000  # characters of a line that are matched and quoted
GENERIC = ("scheduler_crashed", "exited")  # what is said of an error that no signature knows
STRENGTH = {"fatal": 0, "evidence": 0, "wrapper": 1, "plain": 2, "weak": 3, "prelude": 3, "hearsay": 4}

_GPU_NUMBER = re.compile(r"\bGPU (\d{1,3})\b")
_OTHERS_MEMORY = re.compile(r"\bProcess (\d+) has ([1-9][\d.]*) GiB memory in use")
_FRACTION = re.compile(r"mem_fraction_static=([\d.]*\d)")
_TP_BY_EP = re.compile(r"tp_size \(?(\d{1,4})\)? must be divisible by ep_size", re.IGNORECASE)
_PORT_NUMBER = re.compile(
    r"\bport:? ?=?(\d{2,5})\b|'[^']{0,80}', (\d{2,5})\)|port[= ](\d{2,5})\b|\bat (\d{2,5}) is not|\]?:(\d{4,5})\b", re.IGNORECASE
)
_PORT_SETTING = re.compile(r"port\w*=\d+")
_NOT_INNER = ("graph_capture_failed", "graph_capture_oom", "cuda_oom", "scheduler_crashed", "exited", "bad_flags", "bad_sizes", "watchdog", "")
# A word -> the places of the signatures that it may lead to: most lines are done with after these words.
_BY_CUE: dict[str, list[int]] = {}
for _place, _signature in enumerate(SIGNATURES):
    for _cue in _signature.cues:
        _BY_CUE.setdefault(_cue, []).append(_place)

_WARNING = re.compile(r"(?:\[[^\]]{0,80}\] ?)?(?:WARNING\b|W\d{4} )")
_OWN_MODEL_HINT = (
    "This start's own model holds the memory, and another one (a draft model) is loaded beside it: set SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0 in the "
    "unit, or deploy a newer version; nothing need be stopped."
)
_HELD_HINT = "No weights are loaded yet, so another process holds that GPU's memory: nvidia-smi names it; end it, or choose other GPUs."
_OTHER_FIRST = "Look at the first error of the other ranks, rank 0 before all: this one only lost the connection."
_OF_NCCL = re.compile(r"DistBackendError|NCCL error|ncclRemoteError")
_ELSEWHERE = re.compile(r"by peer \[(?!127\.|::1|localhost|0\.0\.0\.0)[\w.:-]+\]", re.IGNORECASE)
_PEER_WENT = re.compile(r"connection (?:reset|closed) by peer", re.IGNORECASE)
_GAI = re.compile(r"gaierror|name or service not known|name resolution", re.IGNORECASE)
_OF_THE_HUB = re.compile(r"https?|hugging|hf\.|hub|url|requests\.|modelscope", re.IGNORECASE)


@dataclass
class Finding:
    """One line that may be the cause, with what is known of it."""

    code: str
    line: str
    kind: str  # fatal, evidence, wrapper, plain (an exception nobody knows), weak, hearsay (only an echo); doom and echo never stand for a cause
    order: int  # place of its first line among all lines
    last: int  # place of the line itself
    at: float  # seconds of the wait's clock
    rank: str = ""
    time_us: int = 0
    run: str = ""
    proof: bool = False
    shaped: bool = False  # the line has the form of an exception
    namesake: bool = False  # a line of the kernel about a process that has no more than the name of one of ours
    former: bool = False  # something within the unit has begun the server anew since
    pending: bool = False  # a traceback whose last line has not come yet
    hint: str = ""
    phase: str = ""
    steps: int = 0  # progress of the start when it was seen
    seen: int = 1
    runs: list = field(default_factory=list)
    words: dict = field(default_factory=dict)
    yields_to: list = field(default_factory=list)

    @property
    def strong(self) -> bool:
        return self.kind in ("fatal", "evidence")


@dataclass(frozen=True)
class Context:
    """What is known of the start when a line is read."""

    now: float = 0.0
    phase: str = "process"
    serving: bool = False
    capturing: Callable[[str], bool] | None = None  # asks whether a rank is capturing graphs just now
    steps: int = 0
    run: str = ""


@dataclass(frozen=True)
class Line:
    """A line with what its prefix told and when it came."""

    entry: Entry
    text: str
    rank: str
    body: str
    order: int
    context: Context


def finding(code: str, line: Line, kind: str = "fatal", proof: bool = False, hint: str = "") -> Finding:
    context = line.context
    return Finding(
        code=code,
        line=line.text.strip(),
        kind=kind,
        order=line.order,
        last=line.order,
        at=context.now,
        rank=line.rank,
        time_us=line.entry.time_us,
        run=context.run,
        proof=proof,
        shaped=is_exception(line.body),
        hint=hint,
        phase=context.phase,
        steps=context.steps,
        runs=[context.run],
    )


def match(line: Line, nodes: int, capability: str) -> Finding | None:
    """What the first signature that fits makes of a line."""
    lowered = line.text.lower()
    source = line.entry.source
    if line.body.lstrip().startswith("raise ") or line.rank.startswith("rank") and line.body.startswith("    "):
        return None  # source code of a traceback
    for place in sorted({place for cue, places in _BY_CUE.items() if cue in lowered for place in places}):
        signature = SIGNATURES[place]
        if source not in signature.sources:
            continue
        fits = signature.regex.search(line.body) or signature.regex.search(line.text)
        if not fits:
            continue
        groups = {name.rstrip("0123456789"): value for name, value in fits.groupdict().items() if value}
        found = finding(signature.code, line, signature.kind, signature.proof, signature.hint)
        found.yields_to = list(signature.yields_to)
        found.words = _words(signature.code, line.text, groups, capability)
        _refine(found, line, nodes)
        return found
    return None


def _refine(found: Finding, line: Line, nodes: int) -> None:
    """What a line means can depend on when it came, and how it is meant."""
    context = line.context
    if found.kind == "fatal" and not found.proof and _WARNING.match(line.text):
        found.kind = "weak"
    if found.code == "cuda_oom":
        if context.capturing is not None and context.capturing(line.rank) or context.phase == "graphs" and "captur" in line.text.lower():
            found.code = "graph_capture_oom"
        elif context.serving:
            found.code = "runtime_oom"
        elif context.phase == "distributed" and not found.hint:
            found.hint = _HELD_HINT
    elif found.code == "gpu_busy" and context.phase in ("kv_cache", "graphs", "bind", "warmup"):
        found.hint = _OWN_MODEL_HINT
    elif found.code == "graph_capture_failed":
        inner = line.text.partition("failed")[2]
        if "No module named" in inner:
            found.hint = "A Python package is missing (the line names it): install the version's own dependencies in a fresh virtual environment."
        if _PEER_WENT.search(inner):
            found.kind, found.hint = "weak", "Look for the first error of another rank: this one only lost the connection to it."
            return
        for signature in SIGNATURES:
            names_it = signature.code not in _NOT_INNER and (signature.kind in ("fatal", "wrapper", "evidence") or signature.code == "host_oom")
            if names_it and any(cue in inner.lower() for cue in signature.cues) and signature.regex.search(inner):
                found.code, found.kind, found.hint = signature.code, signature.kind, signature.hint
                found.yields_to = list(signature.yields_to)
                break
    elif found.code == "hub_unreachable" and _GAI.search(line.text) and not _OF_THE_HUB.search(line.text):
        if nodes > 1 or context.phase == "distributed":
            found.code = "rendezvous_timeout"
        else:
            found.kind = "weak"
    elif found.code == "peer_lost" and found.kind == "weak" and nodes < 2 and _OF_NCCL.search(line.text):
        found.code, found.hint = "nccl_error", _OTHER_FIRST
    elif found.code == "wrong_interface" and found.kind == "weak" and nodes < 2 and "client socket has timed out" in line.text.lower():
        found.code, found.kind = "rendezvous_timeout", "fatal"
    elif found.code in ("peer_lost", "wrong_interface") and found.kind == "weak" and nodes < 2 and not _ELSEWHERE.search(line.text):
        found.kind = "echo"  # one node has no peers to lose: a rank of its own, or an HTTP client, went away


def shortened(text: str) -> str:
    """At most some twenty words, cut between two of them."""
    text = text.strip()
    return (text if len(text) <= 160 else text[:160].rpartition(" ")[0] + " …").rstrip(". ")


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _words(code: str, text: str, groups: dict[str, str], capability: str) -> dict[str, str]:
    """What the catalogue's sentences can be filled in with from this line."""
    words = {}
    if code == "kv_pool_too_small":
        fraction = _FRACTION.search(text)
        if fraction:
            words["value"] = f" ({fraction.group(1)})"
    if code in ("cuda_oom", "graph_capture_oom", "runtime_oom"):
        others = [f"pid {pid} ({size} GiB)" for pid, size in _OTHERS_MEMORY.findall(text)]
        if others and ("this process has" in text or len(others) > 1):  # a single one is as a rule the rank itself
            words["others"] = f" The line names another holder of that GPU: {', '.join(others[:3])}; see whether it should be there."
    gpu = _GPU_NUMBER.search(text)
    if gpu:
        words["gpu"] = f" (GPU {gpu.group(1)})"
    if code == "port_in_use":
        number = _PORT_NUMBER.search(text)
        several = len(_PORT_SETTING.findall(text)) > 1  # which of them was taken is not said
        port = groups.get("number") or (next((part for part in number.groups() if part), "") if number and not several else "")
        if port:
            words["port"] = f" ({port})"
    if code == "no_kernel_for_arch" and capability:
        words["capability"] = f" (compute capability {capability})"
    sizes = _TP_BY_EP.search(text) if code == "bad_sizes" else None
    if sizes:
        words["fits"] = f" (with tp {sizes.group(1)}: ep {', '.join(map(str, _divisors(int(sizes.group(1)))))})"
    flag = groups.get("flag", "")
    if flag:
        words["flag"] = f": {shortened(flag)}"
    if groups.get("exit"):
        words["exit"] = f" (exit code {groups['exit']})"
    for name in ("lib", "tool", "path"):
        if groups.get(name):
            words[name] = f" ({groups[name][:160]})"
    return words
