# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the requests of a run: prompts of a wanted length that no prefix cache has seen, a file's, or a shared prefix."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field
from typing import Any, Callable

from . import http1

# Common words, nearly all of which are one token in nearly all vocabularies.
WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand part place case week company system "
    "program question work government number night point home water room mother area money story fact month lot right study book eye job word business "
    "issue side kind head house service friend father power hour game line end member law car city community name president team minute idea body "
    "information back parent face others level office door health person art war history party result change morning reason research girl guy moment air "
    "teacher force education foot boy age policy process music market sense nation plan college interest death experience effect use class control care "
    "field development role effort rate heart drug show leader light voice wife whole police mind price report decision son view relationship town road "
    "arm difference value building action season society tax director position player record paper space ground form event matter center couple site "
    "project activity star table need court oil situation cost industry figure street image phone data picture practice piece land product doctor wall "
    "patient worker news test movie north love step capital sign weight model summer board bank material peace machine stone river winter garden window"
).split()
SALT = 10  # words at the start that make a prompt unlike any other
BODIES = 61  # different texts behind the salt

Source = Callable[[], "tuple[bytes, int] | None"]


@dataclass
class Workload:
    """What the requests are made of."""

    model: str
    endpoint: str = "chat"
    output_len: int = 256
    words: int = 1024  # of a prompt, set by the calibration
    prefix_words: int = 0
    prefix_groups: int = 1
    range_ratio: float = 1.0
    seed: int = 42
    nonce: str = ""  # makes the prompts of this campaign unlike those of any other
    extra_body: dict[str, Any] = field(default_factory=dict)
    continuous_usage: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)  # of a prompts file
    request_start: bytes = b""  # everything in front of the length of the body


def salt(*parts: Any) -> str:
    """Words that depend on all the parts, and are unlike those of any other parts."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode("utf-8")).digest()
    return " ".join(WORDS[byte % len(WORDS)] for byte in digest[:SALT])


def text(words: int, generator: random.Random) -> str:
    """So many random words."""
    return " ".join(generator.choices(WORDS, k=max(words, 0)))


def body(workload: Workload, prompt: Any, output_len: int, stream: bool = True) -> dict[str, Any]:
    """The JSON of one request; ``prompt`` is a text or a list of chat messages."""
    made: dict[str, Any] = {"model": workload.model, "max_tokens": output_len, "temperature": 0.0, "ignore_eos": True, "stream": stream}
    if workload.endpoint == "chat":
        made["messages"] = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    else:
        made["prompt"] = prompt
    if stream:
        made["stream_options"] = {"include_usage": True}
        if workload.continuous_usage:
            made["stream_options"]["continuous_usage_stats"] = True
    made.update(workload.extra_body)
    return {name: value for name, value in made.items() if value is not None}


class Prompts:
    """Requests by number: the same number of the same run gives the same request, another one another prefix."""

    def __init__(self, workload: Workload, run: str, at_most: int | None = None) -> None:
        self.workload = workload
        self.run = run
        self.at_most = at_most or 1 << 30  # output tokens, for a warm-up
        generator = random.Random("%s %s" % (workload.seed, workload.words))
        self.bodies = [text(workload.words - SALT, generator).encode("ascii") for _body in range(BODIES if not workload.lines else 0)]
        self.prefixes = [text(workload.prefix_words, generator) + " " for _group in range(workload.prefix_groups if workload.prefix_words else 0)]
        self.frames: dict[int, tuple[bytes, bytes]] = {}

    def request(self, number: int) -> tuple[bytes, int]:
        """Bytes of the request, and how many tokens it asks for."""
        if self.workload.lines:
            return self._from_file(number)
        asked, content = min(self.workload.output_len, self.at_most), self.bodies[number % BODIES]
        if self.workload.range_ratio < 1.0:
            chance = random.Random("%s %s %d" % (self.workload.seed, self.run, number))
            asked = max(1, round(asked * chance.uniform(self.workload.range_ratio, 1.0)))
            content = content[: round(len(content) * chance.uniform(self.workload.range_ratio, 1.0))]
        prefix = self.prefixes[number % len(self.prefixes)] if self.prefixes else ""
        start = prefix + salt(self.workload.nonce, self.run, number) + " "
        before, after = self._frame(asked)
        return http1.with_body(self.workload.request_start, before + start.encode("ascii") + content + after), asked

    def _frame(self, asked: int) -> tuple[bytes, bytes]:
        """The JSON around the prompt, which is plain words and needs no escapes."""
        if asked not in self.frames:
            whole = json.dumps(body(self.workload, "\u0000", asked)).encode("ascii")
            before, after = whole.split(b"\\u0000")
            self.frames[asked] = (before, after)
        return self.frames[asked]

    def _from_file(self, number: int) -> tuple[bytes, int]:
        line = self.workload.lines[number % len(self.workload.lines)]
        asked = min(int(line["output_len"] or self.workload.output_len), self.at_most)
        made = body(self.workload, line["prompt"], asked)
        return http1.with_body(self.workload.request_start, json.dumps(made).encode("utf-8")), asked

    def source(self, total: int | None) -> Callable[[int, int], Source]:
        """Sources for the load processes, which share the numbers among them; without a total they never end."""

        def of_process(process: int, processes: int) -> Source:
            numbers = iter(range(process, total, processes)) if total is not None else _endless(process, processes)

            def following() -> tuple[bytes, int] | None:
                number = next(numbers, None)
                return None if number is None else self.request(number)

            return following

        return of_process


def _endless(start: int, step: int) -> Any:
    while True:
        yield start
        start += step


def read_lines(lines: Any) -> list[dict[str, Any]]:
    """The prompts of a JSON lines file: ``prompt`` or ``text``, or ``messages``; ``output_len`` or ``max_tokens`` if given."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            raise ValueError("line %d is no JSON" % number) from None
        prompt = entry.get("messages") or entry.get("prompt") or entry.get("text") if isinstance(entry, dict) else entry
        if not prompt or not isinstance(prompt, (str, list)):
            raise ValueError("line %d has neither prompt, text nor messages" % number)
        length = entry.get("output_len") or entry.get("max_tokens") if isinstance(entry, dict) else None
        found.append({"prompt": prompt, "output_len": length})
    if not found:
        raise ValueError("there is no prompt in it")
    return found


def words_for(tokens: int, measure: Callable[[int], int], longest: int | None = None) -> tuple[int, int]:
    """How many words make a prompt of so many tokens, and how many tokens the chat template adds; asks for the count of a few prompts."""
    short, wide = SALT + 6, max(SALT + 10, min(256, (longest or 1 << 30) // 12))
    low, high = measure(short), measure(wide)
    each = (high - low) / (wide - short)
    if each <= 0:
        return max(tokens, SALT), 0
    overhead = min(max(round(low - short * each), 0), 64)
    wanted = max(round(short + (tokens - low) / each), SALT)
    if wanted > wide:
        wanted = max(round(wanted + (tokens - measure(wanted)) / each), SALT)
    return wanted, overhead
