# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server on the event loop: keep-alive, chunked streams, TLS; hundreds of streams on one core."""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import time
from urllib.parse import parse_qsl, unquote

from sglang.standin import log

REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    413: "Request Entity Too Large", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable",
}
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
MAX_BODY = 64 << 20
JSON = "application/json"


class Request:
    """One request and the way to answer it."""

    def __init__(self, connection, method: str, target: str, headers: dict[str, str], body: bytes):
        self.connection = connection
        self.method = method
        path, _sep, query = target.partition("?")
        self.target = target
        self.path = unquote(path)
        self.query = dict(parse_qsl(query))
        self.headers = headers
        self.body = body
        self.on_close = None  # called when the client leaves before the answer is complete
        self.streaming = False
        self.doomed = ""  # how a test wants this answer to break

    def reply(self, status: int, body=b"", content_type: str = JSON) -> None:
        """Answer at once; a mapping or list becomes JSON, an empty body has no content type."""
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        lines = ["content-length: %d" % len(body)]
        if body:
            lines.append("content-type: " + content_type)
        self.connection.send(self._head(status, lines) + body)
        self._log(status)
        self.connection.finished()

    def start_stream(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        """Begin an answer of unknown length."""
        self.streaming = True
        self.connection.send(self._head(200, ["content-type: " + content_type, "transfer-encoding: chunked"]))
        self._log(200)

    def chunk(self, data: bytes) -> None:
        """Send one piece of the stream."""
        self.connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """The stream is complete."""
        self.connection.send(b"0\r\n\r\n")
        self.connection.finished()

    def cut(self) -> None:
        """Break the connection off."""
        self.connection.close()

    @staticmethod
    def _head(status: int, lines: list[str]) -> bytes:
        first = "HTTP/1.1 %d %s" % (status, REASONS.get(status, ""))
        head = [first, time.strftime("date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime()), "server: uvicorn", *lines]
        return ("\r\n".join(head) + "\r\n\r\n").encode()

    def _log(self, status: int) -> None:
        if self.connection.server.logs(self.path):
            peer = "%s:%s" % self.connection.peer[:2]
            log.uvicorn('%s - "%s %s HTTP/1.1" %d %s' % (peer, self.method, self.target, status, REASONS.get(status, "")))


class Connection:
    """One client: reads requests one after the other, buffers what the socket does not take."""

    def __init__(self, server, sock, peer):
        self.server = server
        self.sock = sock
        self.peer = peer
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.request = None
        self.closed = False
        self.keep = True
        self.events = READ
        self.shaking = isinstance(sock, ssl.SSLSocket)
        self.idle = None
        server.loop.selector.register(sock, READ, self.on_event)
        self._wait_idle()

    def on_event(self, events: int) -> None:
        """The socket can be read or written."""
        try:
            if self.shaking:
                self._shake()
                return
            if events & WRITE:
                self._flush()
            if events & READ:
                self._read()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            pass
        except OSError:
            self.close()

    def _shake(self) -> None:
        try:
            self.sock.do_handshake()
        except ssl.SSLWantWriteError:
            self._listen(READ | WRITE)
            return
        self.shaking = False
        self._listen(READ)
        self._read()

    def _listen(self, events: int) -> None:
        if events != self.events and not self.closed:
            self.events = events
            self.server.loop.selector.modify(self.sock, events, self.on_event)

    def _read(self) -> None:
        while True:
            data = self.sock.recv(65536)
            if not data:
                self.close()
                return
            self.inbox += data
            if not (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
                break
        if not self.request:
            self._next_request()

    def _next_request(self) -> None:
        end = self.inbox.find(b"\r\n\r\n")
        if end < 0:
            if len(self.inbox) > 65536:
                self.close()
            return
        lines = self.inbox[:end].decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3:
            self.keep = False
            self.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 31\r\nconnection: close\r\n\r\nInvalid HTTP request received.\n")
            self.finished()
            return
        headers = {}
        for line in lines[1:]:
            name, _sep, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = self._body(headers, end + 4)
        if body is None:
            return
        self.keep = headers.get("connection", "").lower() != "close" and words[2] != "HTTP/1.0"
        if self.idle:
            self.idle.cancel()
        self.request = Request(self, words[0], words[1], headers, body)
        self.server.handle(self.request)

    def _body(self, headers, start: int) -> bytes | None:
        if headers.get("expect", "").lower() == "100-continue" and len(self.inbox) == start:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked_body(start)
        length = int(headers.get("content-length") or 0)
        if length > MAX_BODY or length < 0:
            self.close()
            return None
        if len(self.inbox) < start + length:
            return None
        body = bytes(self.inbox[start:start + length])
        del self.inbox[: start + length]
        return body

    def _chunked_body(self, at: int) -> bytes | None:
        body = b""
        while True:
            line_end = self.inbox.find(b"\r\n", at)
            if line_end < 0:
                return None
            size = int(self.inbox[at:line_end].split(b";")[0], 16)
            if len(self.inbox) < line_end + 4 + size:
                return None
            body += self.inbox[line_end + 2:line_end + 2 + size]
            at = line_end + 4 + size
            if not size:
                del self.inbox[:at]
                return body

    def send(self, data: bytes) -> None:
        """Write now, keep the rest for when the socket takes it."""
        if self.closed:
            return
        if self.outbox:
            self.outbox += data
            return
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self.outbox += data[sent:]
            self._listen(READ | WRITE)

    def _flush(self) -> None:
        while self.outbox:
            sent = self.sock.send(self.outbox)
            del self.outbox[:sent]
        self._listen(READ)
        if not self.keep and not self.request:
            self.close()

    def finished(self) -> None:
        """The answer is complete: take the next request or close."""
        self.request = None
        if self.closed:
            return
        if not self.keep or self.server.closing:
            self.keep = False
            if not self.outbox:
                self.close()
            return
        self._wait_idle()
        if self.inbox:
            self._next_request()

    def _wait_idle(self) -> None:
        if self.idle:
            self.idle.cancel()
        self.idle = self.server.loop.after(self.server.keep_alive, self._idle_over)

    def _idle_over(self) -> None:
        if not self.request:
            self.close()

    def close(self) -> None:
        """Forget the client; whoever works for it is told."""
        if self.closed:
            return
        self.closed = True
        if self.idle:
            self.idle.cancel()
        self.server.connections.discard(self)
        try:
            self.server.loop.selector.unregister(self.sock)
        except (KeyError, ValueError):
            pass
        self.sock.close()
        request, self.request = self.request, None
        if request and request.on_close:
            request.on_close()


class Server:
    """Listens and hands requests to a handler."""

    def __init__(self, loop, handler, keep_alive: float = 5.0, quiet: tuple[str, ...] = (), log_access: bool = True):
        self.loop = loop
        self.handle = handler
        self.keep_alive = keep_alive
        self.quiet = quiet
        self.log_access = log_access
        self.connections = set()
        self.context = None
        self.listener = None
        self.closing = False

    def logs(self, path: str) -> bool:
        """Is a request for this path written to the log?"""
        return self.log_access and not (self.quiet and path.startswith(self.quiet))

    def use_tls(self, certificate: str, key: str, password: str | None) -> None:
        """Speak HTTPS."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key, password)

    def listen(self, host: str, port: int) -> None:
        """Bind; the system's error is the caller's."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
        listener.setblocking(False)
        self.listener = listener
        self.loop.selector.register(listener, READ, self._accept)

    def _accept(self, events: int) -> None:
        for _turn in range(64):
            try:
                sock, peer = self.listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            self.connections.add(Connection(self, sock, peer))

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self.closing = True
        if self.listener:
            self.loop.selector.unregister(self.listener)
            self.listener.close()
            self.listener = None
        for connection in list(self.connections):
            connection.close()
