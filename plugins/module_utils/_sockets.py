# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds who listens on a TCP port in the kernel's socket table, without sending anything."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from dataclasses import dataclass
from typing import Callable, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils import _sock_diag
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Listener
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import name_of_pid, unit_of_pid

_LISTEN = "0A"


@dataclass(frozen=True)
class Socket:
    """A listening socket as the kernel lists it."""

    address: str
    port: int
    inode: int
    uid: int


def parse_table(text: str, port: int = 0) -> list[Socket]:
    """Listening sockets of ``/proc/net/tcp`` or ``tcp6``; those of one port when it is given."""
    wanted = ":%04X " % port if port else ""
    found = []
    for line in text.splitlines():
        if wanted not in line:
            continue
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        address, _colon, number = fields[1].rpartition(":")
        if port and int(number, 16) != port:
            continue
        found.append(Socket(_address(address), int(number, 16), int(fields[9]), int(fields[7])))
    return found


def _address(words: str) -> str:
    raw = b"".join(struct.pack("=I", int(words[at:at + 8], 16)) for at in range(0, len(words), 8))
    return _plain(str(ipaddress.ip_address(raw)))


def _plain(address: str) -> str:
    """An IPv4 address in its own form, also where an IPv6 socket holds it."""
    mapped = getattr(ipaddress.ip_address(address), "ipv4_mapped", None)
    return str(mapped or address)


def probe_address(host: str) -> str:
    """The address to talk to when a server was told to listen on ``host``."""
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)


def resolve(host: str) -> list[str]:
    """Addresses behind a name; an address is its own."""
    host = probe_address(host)
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)})
    except OSError:
        return []


def reached(sockets: Iterable[Socket], addresses: Iterable[str]) -> list[Socket]:
    """Those sockets that a connection to one of the addresses can reach, the most specific first."""
    wanted = set(addresses)
    exact = [entry for entry in sockets if entry.address in wanted]
    wild = [entry for entry in sockets if entry.address == "::" or (entry.address == "0.0.0.0" and any("." in one for one in wanted))]
    return exact or wild


class SocketTable:
    """Looks at one port again and again; the owner of a socket is searched for once."""

    def __init__(self, host: str, port: int, unit: str = "", proc: str = "/proc") -> None:
        self.host = host
        self.port = port
        self._unit = unit
        self._proc = proc
        self._addresses: list[str] = []
        self._owners: dict[int, str] = {}

    def look(self, unit_pids: Callable[[], list[int]]) -> Listener:
        """Who listens there now, and whether it is one of the unit's own processes; these are asked for only when someone listens."""
        if not self._addresses:
            self._addresses = resolve(self.host)
        sockets = reached(self.listening(), self._addresses)
        if not sockets:
            self._owners.clear()
            return Listener()
        own = unit_pids()
        listeners = [self._listener(entry.inode, own) for entry in sockets]
        for listener in listeners:
            if listener.in_unit is False:
                return listener
        return listeners[0]

    def listening(self) -> list[Socket]:
        """Every socket that listens on the port, on any address."""
        if self._proc == "/proc":
            try:
                return [Socket(_plain(address), self.port, inode, uid) for address, inode, uid in _sock_diag.listening(self.port)]
            except OSError:
                pass  # an old or locked-down kernel: its table of all connections tells the same, at more cost
        found: list[Socket] = []
        for name in ("tcp", "tcp6"):
            try:
                with open("%s/net/%s" % (self._proc, name), encoding="ascii", errors="replace") as handle:
                    found += parse_table(handle.read(), self.port)
            except OSError:
                continue
        return found

    def owner(self, inode: int, unit_pids: Iterable[int]) -> int:
        """The process that holds a socket, the unit's own looked at first; 0 when it cannot be seen."""
        target = "socket:[%d]" % inode
        known = self._owners.get(inode, "")
        if known and _points_to(known, target):
            return int(known.split("/")[-3])
        own = list(unit_pids)
        for pid in dict.fromkeys(own + self._processes()):
            path = self._descriptor(pid, target)
            if path:
                self._owners[inode] = path
                return pid
        return 0

    def _listener(self, inode: int, own: list[int]) -> Listener:
        pid = self.owner(inode, own)
        if not pid:
            return Listener(listening=True)
        unit = self._unit if pid in own else unit_of_pid(pid, self._proc)
        # Where the unit's own processes are known, a namesake in a container or under a user's systemd is another unit.
        in_unit = pid in own if own else unit == self._unit if unit else None
        return Listener(listening=True, pid=pid, name=name_of_pid(pid, self._proc), in_unit=in_unit, unit=unit)

    def _processes(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._proc) if name.isdigit()]
        except OSError:
            return []

    def _descriptor(self, pid: int, target: str) -> str:
        folder = "%s/%d/fd" % (self._proc, pid)
        try:
            names = os.listdir(folder)
        except OSError:
            return ""
        for name in names:
            path = os.path.join(folder, name)
            if _points_to(path, target):
                return path
        return ""


def _points_to(path: str, target: str) -> bool:
    try:
        return os.readlink(path) == target
    except OSError:
        return False
