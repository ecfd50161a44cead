# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 by hand: request bytes out, the head and the chunks of an answer in."""

from __future__ import annotations

from dataclasses import dataclass

CHUNKED, LENGTH, TO_CLOSE = "chunked", "length", "close"
LAST_CHUNK = b"0\r\n\r\n"


class NotHttp(ValueError):
    """What came is not an HTTP answer."""


@dataclass(frozen=True)
class Head:
    """Status line and the headers that matter to a reader."""

    status: int
    size: int  # bytes of the head, blank line included
    framing: str
    length: int  # of the body, for LENGTH
    keep_alive: bool
    content_type: str


def post(path: str, host: str, headers: dict[str, str]) -> bytes:
    """Everything of a POST in front of the length of its body."""
    lines = ["POST %s HTTP/1.1" % path, "Host: %s" % host, "Content-Type: application/json", "Accept: text/event-stream"]
    lines += ["%s: %s" % pair for pair in headers.items()]
    return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")


def with_body(start: bytes, body: bytes) -> bytes:
    """A whole request."""
    return start + b"%d\r\n\r\n" % len(body) + body


def head(raw: bytes) -> Head | None:
    """The head at the start of ``raw``; ``None`` while it is not whole."""
    if raw[:5] != b"HTTP/"[: len(raw[:5])]:
        raise NotHttp(repr(raw[:80]))
    end = raw.find(b"\r\n\r\n")
    if end < 0:
        if len(raw) > 65536:
            raise NotHttp("a head of more than 64 KiB")
        return None
    first, *rest = raw[:end].split(b"\r\n")
    words = first.split(None, 2)
    if len(words) < 2 or not words[1].isdigit():
        raise NotHttp(repr(first[:80]))
    fields = {}
    for line in rest:
        name, _colon, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    status = int(words[1])
    if 100 <= status < 200:  # 100 Continue and its like come before the real head
        later = head(raw[end + 4 :])
        return later and Head(later.status, later.size + end + 4, later.framing, later.length, later.keep_alive, later.content_type)
    connection = fields.get(b"connection", b"").lower()
    keep_alive = b"close" not in connection and (words[0] != b"HTTP/1.0" or b"keep-alive" in connection)
    framing, length = TO_CLOSE, 0
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        framing = CHUNKED
    elif fields.get(b"content-length", b"").isdigit():
        framing, length = LENGTH, int(fields[b"content-length"])
    content_type = fields.get(b"content-type", b"").decode("latin-1")
    return Head(status, end + 4, framing, length, keep_alive and framing != TO_CLOSE, content_type)


def chunk(raw: bytes, start: int) -> tuple[bytes, int] | None:
    """The chunk of ``raw`` at ``start`` and the offset behind it, ``None`` while it is not whole; the last chunk is ``b""``."""
    line_end = raw.find(b"\r\n", start)
    if line_end < 0:
        return None
    line = raw[start:line_end].split(b";", 1)[0]
    try:
        length = int(line, 16)
    except ValueError:
        raise NotHttp("chunk size %r" % line[:20]) from None
    begin = line_end + 2
    end = begin + length
    return (raw[begin:end], end + 2) if end + 2 <= len(raw) else None
