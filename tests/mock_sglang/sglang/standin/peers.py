# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Meeting of the nodes of one replica: rank 0's node listens at --dist-init-addr, the others come to it."""

from __future__ import annotations

import os
import select
import socket
import time

BYE = b"bye\n"
DEFAULT_TIMEOUT = 600


class Peers:
    """Connections between the first ranks of all nodes; nothing at all on a single node."""

    def __init__(self, layout, knobs):
        self.layout = layout
        self.scale = knobs.number("TIME_SCALE", 1.0)
        self.sockets = []
        self.barrier = os.pipe() if layout.nnodes > 1 else None

    def meet(self, process) -> None:
        """Wait for the other nodes; the load goes on from here, however long it took."""
        if not self.barrier:
            return
        if process.rank.index == 0:
            limit = (self.layout.args.dist_timeout or DEFAULT_TIMEOUT) * self.scale
            if self.layout.node_rank == 0:
                self._listen(limit)
            else:
                self._connect(limit)
            os.write(self.barrier[1], b"g" * (len(self.layout.ranks) - 1))
        else:
            os.read(self.barrier[0], 1)
        process.timeline.go_on_after("process")

    def _address(self) -> tuple[str, int]:
        host, _sep, port = (self.layout.args.dist_init_addr or "127.0.0.1:29500").rpartition(":")
        return host, int(port)

    def _listen(self, limit: float) -> None:
        port = self._address()[1]
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            raise RuntimeError(
                "The server socket has failed to listen on any local network address. port: %d, useIpv6: false, code: -98, name: "
                "EADDRINUSE, message: address already in use" % port
            ) from None
        listener.listen(16)
        listener.settimeout(limit)
        try:
            while len(self.sockets) < self.layout.nnodes - 1:
                self.sockets.append(listener.accept()[0])
        except OSError:
            raise RuntimeError(
                "Timed out after %d seconds waiting for clients. %d/%d clients joined." % (limit, len(self.sockets) + 1, self.layout.nnodes)
            ) from None
        for sock in self.sockets:
            sock.sendall(b"go\n")
        listener.close()

    def _connect(self, limit: float) -> None:
        address = self._address()
        end = time.monotonic() + limit
        while True:
            try:
                sock = socket.create_connection(address, timeout=5)
                sock.settimeout(max(end - time.monotonic(), 0.1))
                if sock.recv(3) == b"go\n":
                    sock.settimeout(None)
                    self.sockets.append(sock)
                    return
            except OSError:
                pass
            if time.monotonic() > end:
                raise RuntimeError(
                    "The client socket has timed out after %dms while trying to connect to (%s, %d)." % (limit * 1000, *address)
                )
            time.sleep(0.1)

    def wait(self, fd: int) -> bytes:
        """Data of the ring, or what a peer did: its goodbye, or b"lost ADDRESS"."""
        if not self.sockets:
            return os.read(fd, 4096)
        readable = select.select([fd, *self.sockets], [], [])[0]
        for sock in self.sockets:
            if sock in readable:
                return self._said(sock)
        return os.read(fd, 4096)

    def _said(self, sock) -> bytes:
        try:
            data = sock.recv(16)
            peer = "[%s]:%d" % sock.getpeername()[:2]
        except OSError:
            data, peer = b"", "[?]:0"
        if data.startswith(BYE):
            return BYE
        return b"lost " + peer.encode()

    def say_bye(self) -> None:
        """Tell the others that the end is wanted."""
        for sock in self.sockets:
            try:
                sock.sendall(BYE)
            except OSError:
                pass
