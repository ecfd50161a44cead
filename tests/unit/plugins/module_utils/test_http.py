# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests what a wait makes of whatever a server on the port may do, against real sockets."""

from __future__ import annotations

import datetime
import ipaddress
import select
import socket
import ssl
import struct
import threading
import time

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._http import HttpClient, ProbeThread
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Probe
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor

KEY = "k-5ecret-1"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each connection with the same bytes, or does something worse."""

    def __init__(self, answer=OK, behaviour="answer", context=None):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._context = context
        self._answer = answer
        self._behaviour = behaviour
        self.port = self._socket.getsockname()[1]
        self.requests: list[bytes] = []
        self._closing = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while not self._closing.is_set():
            try:
                peer = self._socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._handle, args=(peer,), daemon=True).start()

    def _handle(self, peer):
        try:
            if self._context is not None:
                peer = self._context.wrap_socket(peer, server_side=True)
            self.requests.append(peer.recv(65536))
            if self._behaviour == "answer":
                peer.sendall(self._answer)
            elif self._behaviour == "hang":
                self._closing.wait(20)
            elif self._behaviour == "drip":
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not self._closing.wait(0.05):
                    peer.sendall(b"x")
            elif self._behaviour == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        except OSError:
            return

    def close(self):
        self._closing.set()
        self._socket.close()


@pytest.fixture(name="serve")
def make_server():
    servers = []

    def start(*args, **kwargs):
        servers.append(Server(*args, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def ask(port, path="/ready", timeout=5.0, scheme="http", key=KEY, send_key=True, **kwargs):
    client = HttpClient(scheme, "127.0.0.1", port, key, clean=Redactor([KEY]).clean, **kwargs)
    return client.ask(Probe(path, timeout=timeout), send_key)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_an_answer_with_its_status_type_and_time(serve):
    answer = ask(serve().port)
    assert (answer.kind, answer.status, answer.body, answer.content_type) == ("status", 200, "{}", "application/json")
    assert 0 < answer.elapsed < 5


@pytest.mark.parametrize("behaviour, kind", [("hang", "timeout"), ("drip", "timeout"), ("reset", "reset"), ("close", "reset")])
def test_connections_that_go_wrong(serve, behaviour, kind):
    began = time.monotonic()
    answer = ask(serve(behaviour=behaviour).port, timeout=0.5)
    assert answer.kind == kind
    assert answer.detail
    assert time.monotonic() - began < 15


def test_a_closed_port_refuses():
    assert ask(free_port()).kind == "refused"


def test_what_is_no_http_is_an_error_and_no_exception(serve):
    assert ask(serve(b"SSH-2.0-OpenSSH_9.2p1\r\n").port).kind in ("error", "reset")


def test_a_redirect_is_told_and_not_followed(serve):
    target = serve()
    answer = ask(serve(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % target.port).port)
    assert (answer.status, target.requests) == (302, [])
    assert str(target.port) in answer.detail


def test_a_huge_body_is_cut(serve):
    answer = ask(serve(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + b"a" * 900000).port, timeout=60.0)
    assert len(answer.body) == 64 * 1024


def test_the_key_is_sent_as_a_bearer_token_and_only_when_it_may_be(serve):
    server = serve()
    ask(server.port)
    ask(server.port, send_key=False)
    assert b"Authorization: Bearer " + KEY.encode() in server.requests[0]
    assert KEY.encode() not in server.requests[1]


def test_the_key_is_not_in_what_comes_back(serve):
    body = b'{"error": "401 for Authorization: Bearer %s"}' % KEY.encode()
    answer = ask(serve(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n" % len(body) + body).port)
    assert answer.status == 401
    assert KEY not in answer.body


def test_a_key_that_cannot_be_sent_is_not_shown():
    client = HttpClient("http", "127.0.0.1", free_port(), "bad\nkey-5ecret", clean=Redactor(["bad\nkey-5ecret"]).clean)
    answer = client.ask(Probe("/ready", timeout=2))
    assert answer.kind == "error"
    assert "5ecret" not in answer.detail


def test_no_proxy_is_ever_used(serve, monkeypatch):
    proxy = serve(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:%d" % proxy.port)
    monkeypatch.delenv("no_proxy", raising=False)
    assert ask(serve().port).status == 200
    assert proxy.requests == []


@pytest.fixture(name="certificate", scope="module")
def make_certificate(tmp_path_factory):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpu-node-1")])
    today = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1)).not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "node.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM))
    return str(path)


@pytest.fixture(name="tls_server")
def make_tls_server(serve, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return serve(context=context)


def test_tls_with_the_right_ca(tls_server, certificate):
    assert ask(tls_server.port, scheme="https", ca_path=certificate).status == 200


def test_a_certificate_nobody_vouches_for_is_told_as_such(tls_server):
    answer = ask(tls_server.port, scheme="https")
    assert answer.kind == "tls"
    assert "certificate" in answer.detail


def test_a_ca_file_that_is_not_there_is_told_as_such(tls_server):
    answer = ask(tls_server.port, scheme="https", ca_path="/no/such/ca.pem")
    assert answer.kind == "tls"
    assert "/no/such/ca.pem" in answer.detail


def test_https_to_a_plain_server_is_told_as_such(serve):
    answer = ask(serve(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").port, scheme="https")
    assert answer.kind == "tls"
    assert "plain HTTP" in answer.detail


@pytest.mark.parametrize("host, base", [
    ("127.0.0.1", "http://127.0.0.1:30001"), ("0.0.0.0", "http://127.0.0.1:30001"), ("::", "http://[::1]:30001"), ("node-1", "http://node-1:30001"),
])
def test_where_requests_go(host, base):
    assert HttpClient("http", host, 30001).base == base


def test_a_probe_that_hangs_holds_nobody_up():
    never = threading.Event()
    probes = ProbeThread(lambda probe: never.wait() or Answer("status", 200))
    probes.submit(Probe("/health", timeout=25), now=100.0)
    assert probes.collect(now=101.0) is None
    probe, answer = probes.collect(now=200.0)
    assert (probe.path, answer.kind) == ("/health", "timeout")
    assert probes.current is None
    never.set()
    time.sleep(0.1)
    assert probes.collect(now=201.0) is None


def test_an_answer_wakes_the_one_who_waits():
    probes = ProbeThread(lambda probe: Answer("status", 503))
    probes.submit(Probe("/ready"), now=0.0)
    assert select.select([probes], [], [], 5)[0]
    assert probes.collect(now=1.0)[1].status == 503
