# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the kernel for listening TCP sockets over netlink, which costs a fraction of reading its table of all connections."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import Iterator

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20
_DUMP_REQUEST = 0x301
_ERROR, _DONE = 2, 3
_LISTENING = 1 << 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ANSWER = struct.Struct("!4xHH16s16s4x8x")  # inet_diag_msg up to the end of its socket identity
_OWNER = struct.Struct("=12xII")
_TIMEOUT = 2.0


def listening(port: int) -> list[tuple[str, int, int]]:
    """Address, inode and user of every socket that listens on the port; raises OSError where the kernel does not tell."""
    found: list[tuple[str, int, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as link:
        link.settimeout(_TIMEOUT)
        for family in (socket.AF_INET, socket.AF_INET6):
            link.send(request(family, port))
            for body in _bodies(link):
                entry = parse(body)
                if entry[1] == port:
                    found.append((entry[0], entry[2], entry[3]))
    return found


def request(family: int, port: int) -> bytes:
    identity = struct.pack("!HH", port, 0).ljust(48, b"\0")
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTENING) + identity
    return _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _DUMP_REQUEST, 1, 0) + body


def _bodies(link: socket.socket) -> Iterator[bytes]:
    while True:
        data = link.recv(65536)
        while len(data) >= _HEADER.size:
            size, kind, _flags, _turn, _sender = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR or size < _HEADER.size:
                raise OSError("the kernel does not list its sockets")
            yield data[_HEADER.size:size]
            data = data[(size + 3) & ~3:]


def parse(body: bytes) -> tuple[str, int, int, int]:
    """Address, port, inode and user of one answer."""
    port, _peer_port, address, _peer = _ANSWER.unpack_from(body)
    user, inode = _OWNER.unpack_from(body, _ANSWER.size)
    raw = address[:4] if body[0] == socket.AF_INET else address
    return str(ipaddress.ip_address(raw)), port, inode, user
