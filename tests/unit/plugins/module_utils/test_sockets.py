# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests who is found to listen on a port."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils import _sock_diag, _sockets

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7531 00000000:0000 0A 00000000:00000000 00:00000000 00000000   997        0 111 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
   2: 0100007F:7531 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   997        0 333 1 0 100 0 0 10 0
   3: 0100007F:9C40 0100007F:7531 01 00000000:00000000 00:00000000 00000000   997        0 444 1 0 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:7532 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 555 1 0
   1: 00000000000000000000000001000000:7533 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 666 1 0
   2: 0000000000000000FFFF00000100007F:7534 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0
"""


def test_only_listening_sockets_of_the_port_count():
    assert _sockets.parse_table(TCP, 30001) == [_sockets.Socket("127.0.0.1", 30001, 111, 997)]
    assert [entry.port for entry in _sockets.parse_table(TCP)] == [30001, 22]


@pytest.mark.parametrize("port, address", [(30002, "::"), (30003, "::1"), (30004, "127.0.0.1")])
def test_addresses_of_ipv6(port, address):
    assert [entry.address for entry in _sockets.parse_table(TCP6, port)] == [address]


@pytest.mark.parametrize("bound, asked, found", [
    ("0.0.0.0", "127.0.0.1", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("10.0.0.5", "127.0.0.1", False),
    ("10.0.0.5", "10.0.0.5", True),
    ("::", "127.0.0.1", True),
    ("::", "::1", True),
    ("0.0.0.0", "::1", False),
])
def test_which_socket_a_connection_reaches(bound, asked, found):
    assert bool(_sockets.reached([_sockets.Socket(bound, 1, 1, 0)], [asked])) is found


def test_the_exact_address_wins_over_the_wildcard():
    ours, other = _sockets.Socket("0.0.0.0", 1, 1, 0), _sockets.Socket("127.0.0.1", 1, 2, 0)
    assert _sockets.reached([ours, other], ["127.0.0.1"]) == [other]


@pytest.mark.parametrize("host, address", [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("[::1]", "::1"), ("localhost", "127.0.0.1"), ("10.0.0.5", "10.0.0.5")])
def test_where_to_ask(host, address):
    assert _sockets.probe_address(host) == address


def _process(proc, pid, inode, unit):
    (proc / str(pid) / "fd").mkdir(parents=True)
    os.symlink("socket:[%d]" % inode, str(proc / str(pid) / "fd" / "7"))
    (proc / str(pid) / "status").write_text("Name:\tpython3\nUid:\t0\t0\t0\t0\n")
    (proc / str(pid) / "cgroup").write_text("0::/system.slice/%s\n" % unit)


@pytest.mark.parametrize("pid, unit, ours", [(100, "sglang-a.service", True), (200, "sglang-b.service", False)])
def test_the_owner_tells_ours_from_foreign(tmp_path, pid, unit, ours):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    _process(tmp_path, pid, 111, unit)
    listener = _sockets.SocketTable("0.0.0.0", 30001, "sglang-a.service", str(tmp_path)).look(lambda: [100])
    assert (listener.listening, listener.pid, listener.name, listener.in_unit) == (True, pid, "python3", ours)


def test_an_owner_that_cannot_be_seen_is_not_called_foreign(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    listener = _sockets.SocketTable("127.0.0.1", 30001, "sglang-a.service", str(tmp_path)).look(lambda: [100])
    assert (listener.listening, listener.pid, listener.in_unit) == (True, 0, None)


def test_a_new_owner_is_noticed(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    _process(tmp_path, 100, 111, "sglang-a.service")
    table = _sockets.SocketTable("127.0.0.1", 30001, "sglang-a.service", str(tmp_path))
    assert table.look(lambda: [100]).in_unit is True
    os.unlink(str(tmp_path / "100/fd/7"))
    _process(tmp_path, 300, 111, "other.service")
    assert table.look(lambda: [100]).pid == 300


@pytest.mark.parametrize("family, bound, address", [
    (socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "0.0.0.0", "0.0.0.0"), (socket.AF_INET6, "::1", "::1"), (socket.AF_INET6, "::", "::"),
])
def test_netlink_and_the_table_agree(family, bound, address):
    with socket.create_server((bound, 0), family=family) as server:
        port = server.getsockname()[1]
        asked = _sock_diag.listening(port)
        with open("/proc/net/tcp6" if family == socket.AF_INET6 else "/proc/net/tcp", encoding="ascii") as table:
            read = _sockets.parse_table(table.read(), port)
    assert asked == [(address, read[0].inode, read[0].uid)]


def test_the_table_is_read_where_netlink_is_not_to_be_had(monkeypatch):
    def refuse(port):
        raise PermissionError("not here")

    monkeypatch.setattr(_sock_diag, "listening", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert _sockets.SocketTable("127.0.0.1", server.getsockname()[1]).look(lambda: []).listening


def test_a_real_socket_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        listener = _sockets.SocketTable("127.0.0.1", port).look(lambda: [os.getpid()])
    assert (listener.listening, listener.pid, listener.in_unit) == (True, os.getpid(), True)
    assert _sockets.SocketTable("127.0.0.1", port).look(lambda: []).listening is False
