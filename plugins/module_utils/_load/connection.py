# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One non-blocking connection of the load engine, plain or TLS."""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from dataclasses import dataclass
from select import EPOLLIN, EPOLLOUT
from time import time
from typing import Any

from .answer import Answer

# Linux's number; the socket module has no name for it.
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("ll")
WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

CONNECTING, SHAKING, SENDING, READING, IDLE = range(5)


@dataclass(frozen=True)
class Target:
    """Where the load goes."""

    host: str
    port: int
    family: int
    address: Any
    tls: ssl.SSLContext | None = None
    connect_timeout: float = 10.0


def resolve(host: str, port: int, tls: ssl.SSLContext | None = None) -> Target:
    """Look the name up once, before any clock runs."""
    family, _kind, _proto, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return Target(host, port, family, address, tls)


class Connection:
    """A socket and what it is doing; the engine's epoll drives it."""

    __slots__ = ("target", "sock", "fd", "state", "answer", "request", "out", "plain", "stamps", "recv", "idle_since")

    def __init__(self, target: Target, stamps: list[float] | None = None) -> None:
        self.target = target
        self.state = CONNECTING
        self.answer: Answer | None = None
        self.request = b""
        self.out = b""  # of the request, what is not sent yet
        self.plain = False  # the body is chunked and its head has been read: a read needs no look but at its last bytes
        self.stamps = stamps  # where the kernel's receive times are compared with ours; on some connections only, as it costs
        self.idle_since = 0.0  # when its last answer ended
        self.sock = socket.socket(target.family, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self.sock.fileno()
        self.recv = self.sock.recv

    def open_now(self) -> None:
        """Connect and shake hands, waiting; for the time before the load starts."""
        self.sock.settimeout(self.target.connect_timeout)
        self.sock.connect(self.target.address)
        self._wrap()
        if self.target.tls:
            self.sock.do_handshake()
        self.sock.setblocking(False)
        self.state = IDLE

    def open_later(self) -> int:
        """Start to connect; gives back the events to wait for."""
        self.sock.setblocking(False)
        code = self.sock.connect_ex(self.target.address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connect")
        return EPOLLOUT

    def _wrap(self) -> None:
        if self.target.tls:
            self.sock = self.target.tls.wrap_socket(self.sock, server_hostname=self.target.host, do_handshake_on_connect=False)
            self.recv = self.sock.recv
        elif self.stamps is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self.recv = self._stamped

    def _stamped(self, size: int) -> bytes:
        data, notes, _flags, _peer = self.sock.recvmsg(size, 64)
        if notes and len(notes[0][2]) == _STAMP.size:
            seconds, nanoseconds = _STAMP.unpack(notes[0][2])
            self.stamps.append(time() - seconds - nanoseconds * 1e-9)
        return data

    def advance(self) -> int:
        """Go on as far as possible without waiting; gives back the events to wait for next."""
        if self.state == CONNECTING:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "connect")
            self._wrap()
            self.state = SHAKING if self.target.tls else SENDING
        if self.state == SHAKING:
            try:
                self.sock.do_handshake()
            except ssl.SSLWantReadError:
                return EPOLLIN
            except ssl.SSLWantWriteError:
                return EPOLLOUT
            self.state = SENDING
        while self.out:
            try:
                sent = self.sock.send(self.out)
            except WAIT:
                return EPOLLOUT | EPOLLIN
            self.out = self.out[sent:]
        self.state = READING if self.answer else IDLE
        return EPOLLIN

    def read(self, size: int) -> bytes | None:
        """What is there; ``None`` when it was nothing after all."""
        try:
            return self.recv(size)
        except WAIT:
            return None

    def close(self) -> None:
        """Give the socket back."""
        self.answer = None
        try:
            self.sock.close()
        except OSError:
            pass


def kind_of(problem: OSError) -> str:
    """The error kind of a failed connection."""
    if isinstance(problem, ssl.SSLError):
        return "tls"
    if problem.errno == errno.ECONNREFUSED:
        return "refused"
    if problem.errno in (errno.ECONNRESET, errno.EPIPE):
        return "reset"
    if isinstance(problem, socket.timeout) or problem.errno == errno.ETIMEDOUT:
        return "timeout"
    return "connect"
