# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One streamed answer: bytes and their arrival times in, tokens with their times and a kind of end out."""

from __future__ import annotations

import json
import re
from typing import Any

from . import http1

# The first sign inside the quotes, in any of the fields that carry generated text.
_TEXT = re.compile(rb'"(?:content|text|reasoning_content|arguments)": ?"[^"]')
# A chunk that is one whole event, as uvicorn sends them; anything else is taken apart the long way.
_FRAME = re.compile(rb"[0-9A-Fa-f]+\r\ndata: (\{[^\n]*\})\n\n\r\n").match
_CONTENT = b'"content":"'
_QUOTE, _BRACE = ord('"'), ord("}")
_SO_FAR = re.compile(rb'"completion_tokens": ?(\d+)')
_OPEN, _OPEN_WIDE = b'"finish_reason":null', b'"finish_reason": null'


class Answer:
    """Raw reads are only kept; ``digest`` turns them into times and counts when there is time for it."""

    __slots__ = (
        "due",
        "sent",
        "asked",
        "at",
        "data",
        "queued",
        "head",
        "ended",
        "size",
        "error",
        "detail",
        "times",
        "counts",
        "tokens",
        "prompt_tokens",
        "cached_tokens",
        "finish",
        "done",
        "_raw",
        "_text",
        "_body",
    )

    def __init__(self, due: float, sent: float, asked: int) -> None:
        self.due = due  # when it was meant to be sent
        self.sent = sent
        self.asked = asked  # tokens
        self.at: list[float] = []
        self.data: list[bytes] = []
        self.queued = False  # waits for a digest
        self.head: http1.Head | None = None
        self.ended = False  # the whole answer is here, in ``data`` or digested
        self.size = 0  # bytes, kept up by the reader for bodies of a known length
        self.error = ""  # kind of failure, "" for none so far
        self.detail = ""
        self.times: list[float] = []  # one per event that carries text
        self.counts: list[int] = []  # tokens so far at each of these events, where the server says so
        self.tokens = 0  # from usage; 0 when there was none
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.finish = ""
        self.done = False
        self._raw = b""  # not digested yet: a part of a head, a chunk or an event
        self._text = b""
        self._body = b""

    def digest(self) -> None:
        """Work off the reads so far and forget their bytes."""
        at, data = self.at, self.data
        self.at, self.data, self.queued = [], [], False
        raw = self._raw + b"".join(data)
        ends, total = [], len(self._raw)
        for piece in data:
            total += len(piece)
            ends.append(total)
        try:
            left = self._walk(raw, ends, at)
        except http1.NotHttp as refusal:
            self.error, self.detail, left = "not_http", str(refusal), len(raw)
        self._raw = raw[left:]

    def _walk(self, raw: bytes, ends: list[int], at: list[float]) -> int:
        start = 0
        if self.head is None or self.head.size:
            self.head = http1.head(raw)
            if self.head is None:
                return 0
            start = self.head.size
            self.head = self.head.__class__(self.head.status, 0, self.head.framing, self.head.length, self.head.keep_alive, self.head.content_type)
        if self.head.status != 200:
            self._body = (self._body + raw[start:])[:4096]
            return len(raw)
        if self.head.framing != http1.CHUNKED:
            for end, now in zip(ends, at):
                if end > start:
                    self._payload(raw[start:end], now)
                    start = end
            return len(raw)
        return self._chunks(raw, start, ends, at)

    def _chunks(self, raw: bytes, start: int, ends: list[int], at: list[float]) -> int:
        """Work off all whole chunks; gives back where the first one begins that is not."""
        read, last = 0, len(ends) - 1
        while True:
            frame = None if self._text else _FRAME(raw, start)
            if frame is not None:
                start = frame.end()
            else:
                found = http1.chunk(raw, start)
                if found is None:
                    return start
                payload, start = found
            while read < last and ends[read] < start:
                read += 1
            now = at[read] if at else self.sent
            if frame is not None:
                self._event(frame.group(1), now)
            elif payload:
                self._payload(payload, now)
            else:
                return start

    def _payload(self, payload: bytes, now: float) -> None:
        if self._text:
            payload = self._text + payload
            self._text = b""
        payload = payload.replace(b"\r\n", b"\n")
        *events, self._text = payload.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line[:5] == b"data:":
                    self._event(line[5:].strip(), now)

    def _event(self, event: bytes, now: float) -> None:
        place = event.find(_CONTENT)
        has_text = place > 0 and event[place + 11] != _QUOTE or _TEXT.search(event) is not None
        if has_text and (event.find(_OPEN, max(place, 0)) > 0 or _OPEN_WIDE in event):
            self.times.append(now)
            if event[-2] == _BRACE:  # an object at the end is usage
                so_far = _SO_FAR.search(event)
                if so_far:
                    self.counts.append(int(so_far.group(1)))
            return
        if event == b"[DONE]":
            self.done = True
            return
        try:
            found = json.loads(event)
        except ValueError:
            self.error, self.detail = self.error or "sse_error", "no JSON: %r" % event[:120]
            return
        if isinstance(found, dict):
            self._slow_event(found, has_text, now)

    def _slow_event(self, found: dict[str, Any], has_text: bool, now: float) -> None:
        """The few events of an answer that are more than a piece of text: role, end, usage, error."""
        if found.get("error") or found.get("object") == "error":
            told = found.get("error") if isinstance(found.get("error"), dict) else found
            self.error, self.detail = "sse_error", str(told.get("message") or found)[:300]
            return
        usage = found.get("usage") or {}
        for choice in found.get("choices") or ():
            if choice.get("finish_reason"):
                self.finish = choice["finish_reason"]
            if has_text:
                self.times.append(now)
                if usage:
                    self.counts.append(usage.get("completion_tokens") or 0)
        if usage:
            self.tokens = usage.get("completion_tokens") or self.tokens
            self.prompt_tokens = usage.get("prompt_tokens") or self.prompt_tokens
            self.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or self.cached_tokens

    def tail(self) -> bytes:
        """The last five bytes so far, digested or not."""
        return (self._raw[-5:] + b"".join(self.data[-5:]))[-5:]

    def close(self) -> None:
        """Decide how it ended, once nothing more will come."""
        if self.data or self._raw:
            self.digest()
        if self._text.strip():
            self._payload(b"\n\n", self.times[-1] if self.times else self.sent)
        if self.head is not None and self.head.status != 200:
            self.error, self.detail = "http_%d" % self.head.status, message_of(self._body)
        elif self.error:
            pass
        elif not self.ended:
            self.error = "cut"
        elif self.finish == "abort":
            self.error, self.detail = "sse_error", "finish_reason abort"
        elif not self.times:
            self.error = "empty"
        elif not self.done or not self.finish:
            self.error = "unfinished"

    def tokens_or_chunks(self) -> int:
        """What came, by the server's count when it gave one."""
        if self.tokens:
            return self.tokens
        return self.counts[-1] if self.counts else len(self.times)


def message_of(body: bytes) -> str:
    """The server's own words in the body of an error."""
    try:
        found = json.loads(body.split(b"\r\n", 1)[-1] if body[:1] not in (b"{", b"[") else body)
    except ValueError:
        return body[:200].decode("utf-8", "replace").strip()
    if isinstance(found, dict):
        inner = found.get("error")
        told = inner.get("message") if isinstance(inner, dict) else inner
        return str(told or found.get("message") or found.get("detail") or found)[:300]
    return str(found)[:300]
