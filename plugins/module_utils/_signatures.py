# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the lines of a start one by one and knows at any time which of them is the cause, whichever rank wrote it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._signature_table import NOISE, SIGNATURES, WORTH_TELLING

_LONGEST = 2000  # characters of a line that are matched and quoted
_FINDINGS_KEPT = 400
_TRACEBACKS_KEPT = 64

_BRACKET = re.compile(r"^\s?\[(?P<inside>[^\]]{0,120})\]:? ?")
_RANK_WORDS = re.compile(r"\b(?:DP|PP|CP|ATTN_CP|MOE_DP|TP|EP)\d+\b")
_RANK_NUMBER = re.compile(r"\brank ?(\d{1,5})\b", re.IGNORECASE)
_LEVEL = re.compile(r"^(?:INFO|ERROR|CRITICAL|WARNING|FATAL)\b ?:?\s+")
_HEADER = re.compile(
    r"(?P<head>\w+ hit an exception|initialization failed\. ?warmup error)(?:: ?(?P<rest>.*))?$|^(?P<plain>Traceback \(most recent call last\))", re.IGNORECASE)
_HARMLESS_HEADER = re.compile(r"exception in ASGI application|task exception was never retrieved|exception ignored in|ignore import error", re.IGNORECASE)
_CHAIN = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_FRAME = re.compile(r"^\s+\S|^\^+$|^File \"|^\.\.\.$|^\[Previous line repeated")
_EXCEPTION_IN_TRACEBACK = re.compile(r"^[A-Za-z_][\w.]{0,120}(?::\s|:$|$)")
_EXCEPTION = re.compile(r"^(?:-\s)?(?:[A-Za-z_]\w{0,60}(?:\.|::)){0,8}[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt|OutOfResources|Timeout|Failure)\b(?::|$)|^Exception(?::|$)")
_PROXY = re.compile(r"Response \[(?:403|407|511)\]|Response \[50[234]\].{0,200}<html|proxy|tunnel connection failed", re.IGNORECASE)
_OURS = re.compile(r"sglang|python|pt_main|multiproc|uvicorn|ray::", re.IGNORECASE)
_VARYING = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_TRIGGER = re.compile(
    r"error|exception|traceback|fail|fatal|memory|killed|oom|timed? ?out|sigquit|crash|died|divisible|please make sure|in use|denied|no such|not found|cannot|could not|couldn't"
    r"|mismatch|bound to|xid|fallen|rejected|unable|peer|nccl|errno|no space|dumped|abort|terminate|retries|gated|trust|architecture|not available|undefined|kernel image|segfault"
    r"|usage: |using|compiler|driver|is not|does not|must|403|401|reset|initialized|offline|segmentation|ptx|capability|authorized", re.IGNORECASE)
_CAPABILITY = re.compile(r"compute capability:? (\d+(?:\.\d)?)\b|\bsm_?(\d{2,3})a?\b", re.IGNORECASE)
_GPU_NUMBER = re.compile(r"\bGPU (\d{1,3})\b")
_PORT_NUMBER = re.compile(r"\bport:? ?=?(\d{2,5})\b|'[^']{0,80}', (\d{2,5})\)|\w*port=(\d{2,5})\b|\bat (\d{2,5}) is not", re.IGNORECASE)

_GENERIC = ("scheduler_crashed", "exited")
_GRAPH_INNER = ("no_kernel_for_arch", "shared_memory_limit", "attention_backend", "jit_failed", "jit_tool_missing", "missing_cuda_lib")
_STRENGTH = {"fatal": 0, "evidence": 0, "wrapper": 1, "plain": 2, "weak": 3}


@dataclass
class Finding:
    """One line that may be the cause, with what is known of it."""

    code: str
    line: str
    kind: str  # fatal, evidence, wrapper, plain (an exception nobody knows), weak
    order: int
    at: float  # seconds of the wait's clock
    rank: str = ""
    time_us: int = 0
    run: str = ""
    proof: bool = False
    shaped: bool = False  # the line has the form of an exception
    pending: bool = False  # a traceback whose last line has not come yet
    head: str = ""
    hint: str = ""
    phase: str = ""
    steps: int = 0  # progress of the start when it was seen
    seen: int = 1
    runs: list = field(default_factory=list)
    words: dict = field(default_factory=dict)
    yields_to: list = field(default_factory=list)


@dataclass
class _Traceback:
    rank: str
    pid: int
    head: str  # scheduler, warmup, plain, harmless
    order: int
    time_us: int
    frames: int = 0
    finding: int = -1  # order of the finding that stands for it, -1 when there is none yet
    chained: bool = False  # its finding is the inner exception of a chain


@dataclass(frozen=True)
class Context:
    """What is known of the start when a line is read."""

    now: float = 0.0
    phase: str = "process"
    serving: bool = False
    capturing: bool = False
    steps: int = 0
    run: str = ""


class Diagnosis:
    """Fed with the entries of this start's runs in order; earlier runs must not be fed."""

    def __init__(self, error_patterns: Iterable[dict[str, Any]] = (), nnodes: int = 1):
        self._patterns = [(re.compile(item["regex"]), item.get("code") or "error_pattern", item.get("hint") or "") for item in error_patterns]
        self._nnodes = nnodes
        self.findings: list[Finding] = []
        self.echoes = 0  # lines that only follow from the cause
        self.doom_at: float | None = None  # when a line first told that the server cannot live on
        self.doom_run = ""
        self.warnings: list[str] = []
        self._tracebacks: list[_Traceback] = []
        self._closed: list[_Traceback] = []
        self._order = 0
        self._capability = ""

    # -- choosing

    def best(self, run: str | None = None) -> Finding | None:
        """The cause among the lines of one run, or of all."""
        candidates = [item for item in self.findings if run is None or run in item.runs]
        if not candidates:
            return None
        chosen = min(candidates, key=lambda item: (_STRENGTH[item.kind], item.order))
        if chosen.code in _GENERIC or _STRENGTH[chosen.kind] > 0:
            evidence = [item for item in candidates if item.kind == "evidence"]
            if evidence:
                return min(evidence, key=lambda item: item.order)
        return chosen

    def secondary(self, chosen: Finding | None) -> int:
        """How many lines of failure are not the chosen one."""
        return self.echoes + sum(item.seen for item in self.findings if item is not chosen)

    @property
    def in_traceback(self) -> bool:
        return any(item.pending for item in self.findings) or any(item.head == "plain" for item in self._tracebacks)

    def new_run(self) -> None:
        self._tracebacks, self._closed = [], []
        for item in self.findings:
            item.pending = False

    # -- reading

    def feed(self, entry: Entry, context: Context) -> None:
        self._order += 1
        text = entry.text[:_LONGEST]
        if "server_args=" in text:
            return
        for regex, code, hint in self._patterns:
            if regex.search(text):
                self._add(self._finding(code, entry, context, *_split(text), proof=True, hint=hint))
                return
        if entry.source != "unit":
            self._classify_line(entry, text, "", text, context)
            return
        rank, body = _split(text)
        if self._tracebacks or self._closed:
            if self._continue_traceback(entry, text, rank, body, context):
                return
        if not _TRIGGER.search(text):
            self._note_capability(text)
            return
        self._note_capability(text)
        if self._open_traceback(entry, text, rank, body, context):
            return
        if NOISE.search(text):
            self._note_noise(text)
            return
        self._classify_line(entry, text, rank, body, context)

    def _note_capability(self, text: str) -> None:
        if "apability" in text:
            match = _CAPABILITY.search(text)
            if match:
                self._capability = match.group(1) or match.group(2)

    def _note_noise(self, text: str) -> None:
        if WORTH_TELLING.search(text):
            self.warn(text)

    def warn(self, text: str) -> None:
        text = text[:300]
        shape = _VARYING.sub("#", text)
        if len(self.warnings) < 20 and all(_VARYING.sub("#", known) != shape for known in self.warnings):
            self.warnings.append(text)

    # -- tracebacks

    def _open_traceback(self, entry: Entry, text: str, rank: str, body: str, context: Context) -> bool:
        if _HARMLESS_HEADER.search(text):
            self._push(_Traceback(rank, entry.pid, "harmless", self._order, entry.time_us))
            return True
        match = _HEADER.search(body)
        if not match:
            return False
        if match["plain"]:
            return self._open_plain(entry, rank)
        head = "warmup" if "warmup" in match["head"].lower() else "scheduler"
        code = "warmup_failed" if head == "warmup" else "scheduler_crashed"
        finding = self._finding(code, entry, context, rank, body, proof=True)
        finding.pending, finding.head = True, head
        self.findings.append(finding)
        traceback = _Traceback(rank, entry.pid, head, self._order, entry.time_us, finding=finding.order)
        rest = (match["rest"] or "").strip()
        if rest and not rest.lower().startswith("traceback") and rest.strip(".") and _EXCEPTION_IN_TRACEBACK.match(rest):
            self._close(traceback, entry, rest, text, context)
        else:
            self._push(traceback)
        self._doom(context)
        return True

    def _open_plain(self, entry: Entry, rank: str) -> bool:
        """A bare "Traceback" line: of a known header, of a chain, or on its own."""
        for traceback in reversed(self._tracebacks):
            if traceback.head in ("scheduler", "warmup", "harmless") and not traceback.frames and _same_writer(traceback, rank, entry.pid):
                return True
        for closed in reversed(self._closed):
            if closed.chained and _same_writer(closed, rank, entry.pid):
                self._closed.remove(closed)
                closed.frames = 0
                self._push(closed)
                return True
        self._push(_Traceback(rank, entry.pid, "plain", self._order, entry.time_us))
        return True

    def _push(self, traceback: _Traceback) -> None:
        self._tracebacks.append(traceback)
        if len(self._tracebacks) > _TRACEBACKS_KEPT:
            self._tracebacks.pop(0)

    def _continue_traceback(self, entry: Entry, text: str, rank: str, body: str, context: Context) -> bool:
        """True when the line belongs to a traceback and is done with."""
        if _CHAIN.match(body):
            for closed in reversed(self._closed):
                if _same_writer(closed, rank, entry.pid):
                    closed.chained = True
                    break
            return True
        if not self._tracebacks:
            return False
        has_own_prefix = body != text and not rank.startswith("rank")
        if has_own_prefix:
            return False
        traceback = self._writer_of(rank, entry.pid)
        if traceback is None:
            return False
        if _FRAME.match(body):
            traceback.frames += 1
            return not ("fatal error: " in body or _EXCEPTION.match(body.strip()))
        if not _EXCEPTION_IN_TRACEBACK.match(body) or _HEADER.search(body):
            return False
        if traceback.head == "plain" and not traceback.frames and not _EXCEPTION.match(body):
            return False
        self._tracebacks.remove(traceback)
        self._close(traceback, entry, body, text, context)
        return True

    def _writer_of(self, rank: str, pid: int) -> _Traceback | None:
        """Which open traceback a line without a header belongs to."""
        if pid:
            by_pid = [item for item in self._tracebacks if item.pid == pid]
            if by_pid:
                return by_pid[-1]
            if all(item.pid for item in self._tracebacks):
                return None
        if rank:
            by_rank = [item for item in self._tracebacks if item.rank == rank]
            return by_rank[-1] if by_rank else None
        return self._tracebacks[-1] if self._tracebacks[-1].frames else self._tracebacks[0]

    def _close(self, traceback: _Traceback, entry: Entry, body: str, text: str, context: Context) -> None:
        """The exception line of a traceback has come."""
        self._closed.append(traceback)
        del self._closed[:-_TRACEBACKS_KEPT]
        if traceback.head == "harmless":
            self.warn(text)
            return
        found = self._exception(entry, traceback, body, text, context)
        if found is None:
            return
        standing = next((item for item in self.findings if item.order == traceback.finding), None)
        if standing is None:
            traceback.finding = found.order
            self._add(found)
        elif standing.pending or _outer_is_better(standing, found):
            self._replace(standing, found)

    def _exception(self, entry: Entry, traceback: _Traceback, body: str, text: str, context: Context) -> Finding | None:
        rank = traceback.rank
        found = self._match(entry, text, rank, body, context)
        proven = traceback.head in ("scheduler", "warmup")
        if traceback.head == "warmup" and (found is None or found.kind in ("weak", "wrapper") or found.code in ("http_proxy", "hub_unreachable", "model_auth_denied", "no_permission")):
            found = self._finding("http_proxy" if _PROXY.search(text) else "warmup_failed", entry, context, rank, body)
        if found is None:
            if not body.partition(":")[2].strip() and not proven:
                found = self._finding("exited", entry, context, rank, body, "wrapper")
                found.yields_to = ["missing_cuda_lib", "no_kernel_for_arch", "driver_too_old"]
            else:
                found = self._unknown(entry, context, rank, body, proven)
        found.order = traceback.order
        found.time_us = traceback.time_us or entry.time_us
        found.proof = found.proof or proven
        found.head = traceback.head
        found.shaped = True
        return found

    def _unknown(self, entry: Entry, context: Context, rank: str, body: str, proven: bool) -> Finding:
        """An exception of no known signature: of a rank, of the argument rules, or of anything else."""
        if proven:
            return self._finding("scheduler_crashed", entry, context, rank, body)
        name = body.partition(":")[0].rpartition(".")[2]
        if context.phase == "process" and not rank and name in ("AssertionError", "ValueError", "NotImplementedError"):
            return self._finding("bad_flags", entry, context, rank, body, "plain")
        return self._finding("exited", entry, context, rank, body, "plain")

    def _replace(self, standing: Finding, found: Finding) -> None:
        if found.code == "graph_capture_failed" and standing.code == "cuda_oom":
            found.code = "graph_capture_oom"
        found.order, found.seen, found.runs, found.rank = standing.order, standing.seen, standing.runs, standing.rank or found.rank
        found.proof = found.proof or standing.proof
        position = self.findings.index(standing)
        twin = self._twin(found)
        if twin is not None and twin is not standing:
            twin.seen += 1
            twin.proof = twin.proof or found.proof
            self.findings.pop(position)
        else:
            self.findings[position] = found

    # -- single lines

    def _classify_line(self, entry: Entry, text: str, rank: str, body: str, context: Context) -> None:
        found = self._match(entry, text, rank, body, context)
        if found is None:
            if entry.source == "unit" and _EXCEPTION.match(body):
                found = self._exception(entry, _Traceback(rank, entry.pid, "plain", self._order, entry.time_us), body, text, context)
            if found is None:
                return
        if found.kind == "doom":
            self.echoes += 1
            self._doom(context)
            if not found.code:
                return
            found.kind = "weak"
        self._add(found)

    def _match(self, entry: Entry, text: str, rank: str, body: str, context: Context) -> Finding | None:
        lowered = text.lower()
        for signature in SIGNATURES:
            if entry.source not in signature.sources or not any(cue in lowered for cue in signature.cues):
                continue
            match = signature.regex.search(body) or signature.regex.search(text)
            if not match:
                continue
            groups = {key.rstrip("0123456789"): value for key, value in match.groupdict().items() if value}
            victim = groups.get("victim") or groups.get("task")
            if victim and not _OURS.search(victim) and "sglang" not in text:
                continue
            found = self._finding(signature.code, entry, context, rank, body, signature.kind, signature.proof, signature.hint)
            found.yields_to = list(signature.yields_to)
            found.words = self._words(signature.code, text, groups)
            if self._refine(found, text, context):
                return found
            self.echoes += 1
            return None
        return None

    def _refine(self, found: Finding, text: str, context: Context) -> bool:
        """What a line means can depend on when it came; False when it means nothing here."""
        if found.code == "cuda_oom":
            if context.capturing or context.phase == "graphs" and "captur" in text.lower():
                found.code = "graph_capture_oom"
            elif context.serving:
                found.code = "runtime_oom"
        elif found.code == "graph_capture_failed":
            inner = text.partition("failed")[2]
            for signature in SIGNATURES:
                if signature.code in _GRAPH_INNER and signature.kind == "fatal" and signature.regex.search(inner):
                    found.code, found.kind = signature.code, "fatal"
                    break
        return not (found.code in ("peer_lost", "wrong_interface") and found.kind == "weak" and self._nnodes < 2)

    def _words(self, code: str, text: str, groups: dict[str, str]) -> dict[str, str]:
        words = {}
        if groups.get("value"):
            words["value"] = f" (it is {groups['value'].rstrip('.')})"
        gpu = _GPU_NUMBER.search(text)
        if gpu:
            words["gpu"] = f" (GPU {gpu.group(1)})"
        if code == "port_in_use":
            number = _PORT_NUMBER.search(text)
            port = groups.get("number") or (next((part for part in number.groups() if part), "") if number else "")
            if port:
                words["port"] = f" ({port})"
        if code == "no_kernel_for_arch" and self._capability:
            words["capability"] = f" (compute capability {self._capability})"
        flag = groups.get("flag", "")
        if flag:
            words["flag"] = f": {flag[:160].rstrip('. ')}"
        for name in ("lib", "tool", "path", "exit"):
            if groups.get(name):
                words[name] = f" (exit code {groups[name]})" if name == "exit" else f" ({groups[name][:160]})"
        return words

    def _finding(self, code: str, entry: Entry, context: Context, rank: str, body: str, kind: str = "fatal", proof: bool = False, hint: str = "") -> Finding:
        return Finding(
            code=code, line=entry.text[:_LONGEST].strip(), kind=kind, order=self._order, at=context.now, rank=rank, time_us=entry.time_us, run=context.run, proof=proof,
            shaped=bool(_EXCEPTION.match(body)), hint=hint, phase=context.phase, steps=context.steps, runs=[context.run])

    def _twin(self, found: Finding) -> Finding | None:
        shape = _shape(found.line)
        return next((item for item in self.findings if item is not found and not item.pending and item.code == found.code and _shape(item.line) == shape), None)

    def _add(self, found: Finding) -> None:
        if found.proof:
            self._doom_of(found)
        twin = self._twin(found)
        if twin is not None:
            twin.seen += 1
            twin.proof = twin.proof or found.proof
            if found.run not in twin.runs:
                twin.runs.append(found.run)
            return
        standing = self._displaced_by(found)
        if standing is not None:
            found.order, found.rank = standing.order, found.rank or standing.rank
            self.findings.remove(standing)
        if len(self.findings) < _FINDINGS_KEPT:
            self.findings.append(found)
        else:
            self.echoes += 1

    def _displaced_by(self, found: Finding) -> Finding | None:
        """The earlier finding of this run that the new one only says better."""
        for item in self.findings:
            if found.run not in item.runs:
                continue
            if item.kind == "wrapper" and found.kind == "fatal" and found.code in item.yields_to and (item.code != found.code or item.line != found.line):
                return item
            if item.code == "cuda_oom" and found.code == "graph_capture_oom" and (not item.rank or not found.rank or item.rank == found.rank):
                return item
        return None

    def _doom(self, context: Context) -> None:
        if self.doom_at is None or self.doom_run != context.run:
            self.doom_at, self.doom_run = context.now, context.run

    def _doom_of(self, found: Finding) -> None:
        if self.doom_at is None or self.doom_run != found.run:
            self.doom_at, self.doom_run = found.at, found.run

    # -- keeping

    def dump(self) -> dict[str, Any]:
        state = {key: value for key, value in vars(self).items() if key not in ("_patterns", "findings", "_tracebacks", "_closed")}
        for name in ("findings", "_tracebacks", "_closed"):
            state[name] = [asdict(item) for item in getattr(self, name)]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.findings = [Finding(**item) for item in state.pop("findings")]
        self._tracebacks = [_Traceback(**item) for item in state.pop("_tracebacks")]
        self._closed = [_Traceback(**item) for item in state.pop("_closed")]
        vars(self).update(state)


def _outer_is_better(inner: Finding, outer: Finding) -> bool:
    """Of two exceptions in a chain the inner one is the cause, unless the outer one says more."""
    if outer.code in ("graph_capture_oom", "graph_capture_failed"):
        return inner.code in ("cuda_oom", *_GENERIC, "bad_flags") or inner.kind == "weak"
    known = outer.kind in ("fatal", "evidence") and outer.code not in _GENERIC
    return known and (inner.code in _GENERIC or _STRENGTH[inner.kind] > 0)


def _same_writer(traceback: _Traceback, rank: str, pid: int) -> bool:
    if pid and traceback.pid:
        return pid == traceback.pid
    return not rank or rank == traceback.rank


def _split(text: str) -> tuple[str, str]:
    """The rank that a line's prefix names, and the line without prefixes."""
    rank, body = "", text
    for unused in range(3):
        match = _BRACKET.match(body)
        if not match:
            break
        inside = match["inside"]
        words = _RANK_WORDS.findall(inside)
        number = _RANK_NUMBER.search(inside)
        if words:
            rank = " ".join(words)
        elif number and not rank:
            rank = f"rank{number.group(1)}"
        elif not (":" in inside or ".." in inside or "…" in inside or inside.isdigit()):
            break
        body = body[match.end():]
    level = _LEVEL.match(body)
    return rank, body[level.end():] if level else body


def _shape(line: str) -> str:
    """A line with everything taken out that differs between ranks and runs."""
    return _VARYING.sub("#", _split(line)[1])[:300]
