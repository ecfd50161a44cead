# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins the lines of tracebacks, each rank's on its own, until the line of the exception has come."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._log_line import has_any
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry

_KEPT = 64

_HEADER = re.compile(
    r"(?<!\w)(?P<head>\w*(?:Scheduler|Manager|Controller|Worker|Engine|Process|Client) hit an exception"
    r"|exception in run_\w+(?=:)"
    r"|initialization failed\. ?warmup error)(?:: ?(?P<rest>.*))?$|^(?P<plain>(?:Exception Group )?Traceback(?: \(most recent call last\))?:?(?: \.\.\.)?$)",
    re.IGNORECASE,
)
_THREAD = re.compile(r"exception in thread \S", re.IGNORECASE)
_OPENING = ("exception", "traceback", "warmup error")  # no traceback opens without one of these words
_HARMLESS = re.compile(
    r"exception in ASGI application|task exception was never retrieved|(?P<ignored>exception ignored (?:in|while))|exception in callback", re.IGNORECASE
)
_PLACES = (
    ("config", re.compile(r"/configs/(?!model_config|load_config|device_config)\w+\.py|/configuration_\w+\.py")),
    ("library", re.compile(r"/(?:transformers|tokenizers|huggingface_hub|safetensors|torch|pydantic|flashinfer|triton)/[\w/.]*\.py\"?")),
    ("arguments", re.compile(r"server_args|arg_groups|argument|launch_server|function_call_parser|reasoning_parser", re.IGNORECASE)),
    ("weights", re.compile(r"/(?:model_loader|models|layers|quantization|model_executor)/")),
    ("python", re.compile(r"/lib/python[\d.]+/(?!site-packages|dist-packages)")),
)
_PARSES = re.compile(r"\bfrom_cli_args\(|\bprepare_server_args\(|\bcheck_server_args\(|\bServerArgs\(")
_REQUEST = re.compile(r"^(?:Receive|Finish): obj=|^\w+ReqInput\(")  # what clients wrote, whatever it looks like
# Of an exception that only holds others.
_HOLDS = re.compile(r"^(?:[\w.]+\.)?(?:(?:Base)?ExceptionGroup: |BackendCompilerFailed: .*raised:\s*$|SubprocException: .*:\s*$)")
_OF_A_CLIENT = re.compile(r"^(?:starlette|uvicorn|anyio|asyncio|concurrent\.futures)\.[\w.]*(?:ClientDisconnect|ClientDisconnected|CancelledError|EndOfStream)")
_CHAIN = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_FRAME = re.compile(r"^\s+\S|^\^+$|^File \"|^\.\.\.$|^\[Previous line repeated")
# A lower-case word without a dot is a tool that speaks (ninja, nvcc), not an exception.
_ANY_EXCEPTION = re.compile(r"^(?!(?:Killed|Terminated|Aborted)\b)(?=[\w.]*[A-Z.])[A-Za-z_][\w.]{0,120}(?::\s|:$|$)")
_EXCEPTION = re.compile(
    r"^(?:-\s)?(?:(?:[A-Za-z_]\w{0,60}(?:\.|::)){0,8}[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt|OutOfResources|Timeout|Failure)"
    r"(?:_\w{1,40})?|Exception)\b(?::|$)"
)


def is_exception(body: str) -> bool:
    """Has the line the form of the last line of a traceback?"""
    return bool(_EXCEPTION.match(body))


@dataclass
class Traceback:
    rank: str
    pid: int
    head: str  # scheduler, warmup: no server survives it; plain; thread: the process goes on; harmless: logged by the web server and survived
    order: int
    time_us: int
    frames: int = 0
    finding: int = -1  # order of the finding that stands for it, -1 when there is none yet
    chained: bool = False  # another exception follows, raised while this one was handled
    untold: bool = False  # harmless, and not worth a word either
    place: str = ""  # what its last file is about: arguments, config (of the model), weights (or the model's layers), library, python
    parses: bool = False  # it went through the reading of the command line
    mixed: bool = False  # the exception may as well be that of another rank
    asserted: str = ""  # the source of the assertion that it went through last


class Tracebacks:
    """The tracebacks that are open, and the last ones that were closed."""

    def __init__(self) -> None:
        self.open: list[Traceback] = []
        self.closed: list[Traceback] = []

    def __bool__(self) -> bool:
        return bool(self.open or self.closed)

    @property
    def waiting(self) -> bool:
        """Is the line of an exception still to come that may name a cause?"""
        return any(item.head != "harmless" for item in self.open)

    def rank_of(self, entry: Entry) -> str:
        """The rank whose traceback is open where a line without a prefix stands, if that can only be one."""
        writers = {item.rank for item in self.open if not (entry.pid and item.pid) or item.pid == entry.pid}
        return writers.pop() if len(writers) == 1 else ""

    def start(self, entry: Entry, order: int, text: str, rank: str, body: str) -> tuple[Traceback, str] | None:
        """The traceback that a line opens, with the exception where it stands in the same line."""
        if not has_any(text.lower(), _OPENING) or _REQUEST.match(body):
            return None
        if _THREAD.search(text):
            return self._push(Traceback(rank, entry.pid, "thread", order, entry.time_us)), ""
        harmless = _HARMLESS.search(text)
        if harmless:
            return self._push(Traceback(rank, entry.pid, "harmless", order, entry.time_us, untold=bool(harmless["ignored"]))), ""
        match = _HEADER.search(body)
        if not match or has_any(body[: match.start()], ("'", '"', "{")):  # somebody else's text is quoted
            return None
        if match["plain"]:
            return self._plain(entry, order, rank), ""
        traceback = Traceback(rank, entry.pid, "warmup" if "warmup" in match["head"].lower() else "scheduler", order, entry.time_us)
        self.open = [item for item in self.open if item.head != "harmless" or entry.pid and item.pid and item.pid != entry.pid]
        rest = (match["rest"] or "").strip()
        if rest.strip(".") and not rest.lower().startswith("traceback") and _ANY_EXCEPTION.match(rest):
            self._remember(traceback)
            return traceback, rest
        return self._push(traceback), ""

    def _plain(self, entry: Entry, order: int, rank: str) -> Traceback:
        """A bare "Traceback" line: of a known header, of a chain, or on its own."""
        for traceback in reversed(self.open):
            if traceback.head != "plain" and not traceback.frames and _same_writer(traceback, rank, entry.pid):
                return traceback
        for closed in reversed(self.closed):
            if closed.chained and _same_writer(closed, rank, entry.pid):
                self.closed.remove(closed)
                closed.frames, closed.chained = 0, False
                return self._push(closed)
        return self._push(Traceback(rank, entry.pid, "plain", order, entry.time_us))

    def _push(self, traceback: Traceback) -> Traceback:
        self.open.append(traceback)
        del self.open[:-_KEPT]
        return traceback

    def _remember(self, traceback: Traceback) -> None:
        self.closed.append(traceback)
        del self.closed[:-_KEPT]

    def take(self, entry: Entry, text: str, rank: str, body: str) -> tuple[bool, Traceback | None]:
        """Is the line a part of a traceback, and of which one is it the exception?"""
        if _CHAIN.match(body):
            for closed in reversed(self.closed):
                if _same_writer(closed, rank, entry.pid):
                    closed.chained = True
                    break
            return True, None
        if _REQUEST.match(body):
            return False, None
        has_own_prefix = body != text and not rank.startswith("rank")
        traceback = None if has_own_prefix or not self.open else self._writer(rank, entry.pid)
        if traceback is None:
            return False, None
        if _FRAME.match(body):
            traceback.frames += 1
            if body.lstrip().startswith("File "):
                traceback.place = next((place for place, pattern in _PLACES if pattern.search(body)), "")
            elif _PARSES.search(body):
                traceback.parses = True
            if body.lstrip().startswith("assert "):
                traceback.asserted = body.strip()
            return not ("fatal error: " in body or is_exception(body.strip())), None
        if not _ANY_EXCEPTION.match(body) or _HEADER.search(body):
            return False, None
        if _HOLDS.match(body) or traceback.head != "harmless" and _OF_A_CLIENT.match(body):
            return True, None  # what it holds follows; that a client went away ends no rank
        if traceback.head == "plain" and not traceback.frames and not is_exception(body):
            return False, None
        alike = [item for item in self.open if item.head != "harmless" and item.rank and item.pid == entry.pid]
        if not rank and len({item.rank for item in alike}) > 1:
            for item in alike:
                item.mixed = True
        self.open.remove(traceback)
        self._remember(traceback)
        return True, None if traceback.untold else traceback

    def _writer(self, rank: str, pid: int) -> Traceback | None:
        """Which open traceback a line without a header belongs to."""
        if pid:
            by_pid = [item for item in self.open if item.pid == pid]
            if by_pid:
                return by_pid[-1]
            if all(item.pid for item in self.open):
                return None
        if rank:
            by_rank = [item for item in self.open if item.rank == rank]
            return by_rank[-1] if by_rank else None
        return self.open[-1] if self.open[-1].frames else self.open[0]

    def clear(self) -> None:
        self.open, self.closed = [], []

    def dump(self) -> dict[str, Any]:
        return {"open": [asdict(item) for item in self.open], "closed": [asdict(item) for item in self.closed]}

    def restore(self, state: dict[str, Any]) -> None:
        self.open = [Traceback(**item) for item in state["open"]]
        self.closed = [Traceback(**item) for item in state["closed"]]


def _same_writer(traceback: Traceback, rank: str, pid: int) -> bool:
    if pid and traceback.pid:
        return pid == traceback.pid
    return not rank or rank == traceback.rank
