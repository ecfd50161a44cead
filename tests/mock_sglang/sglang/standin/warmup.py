# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's own first request, sent over HTTP to itself as the real one does, proxy variables and all."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from urllib.parse import urlsplit

from sglang.standin import log
from sglang.standin.faults import SITE

TRIES = 120
OWN_FAULTS = ("warmup_failed", "http_proxy")


class WarmupFailed(Exception):
    """The answer was not the wanted one."""


def bypasses_proxy(host: str, no_proxy: str) -> bool:
    """Is this host on the list of those that are asked directly?"""
    import ipaddress  # only where a proxy is set

    for entry in (word.strip() for word in no_proxy.replace(" ", "").split(",")):
        if not entry:
            continue
        if entry == "*" or host == entry or ("." + host).endswith("." + entry.lstrip(".")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def proxy_for(scheme: str, host: str, environ) -> str:
    """host:port of the proxy to go through, empty for none."""
    url = ""
    for name in (scheme + "_proxy", scheme.upper() + "_PROXY", "all_proxy", "ALL_PROXY"):
        url = url or environ.get(name, "")
    if not url or bypasses_proxy(host, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return ""
    parts = urlsplit(url if "://" in url else "http://" + url)
    return "%s:%d" % (parts.hostname, parts.port or 80)


def ask(base: str, method: str, path: str, body, key: str, timeout: float, environ) -> tuple[int, str]:
    """One request, blocking; status and text of the answer."""
    parts = urlsplit(base)
    host, port = parts.hostname, parts.port
    proxy = proxy_for(parts.scheme, host, environ)
    target = path if not proxy else base + path
    address = (host, port)
    if proxy:
        name, _sep, number = proxy.rpartition(":")
        address = (name, int(number))
    data = b"" if body is None else json.dumps(body).encode()
    head = ["%s %s HTTP/1.1" % (method, target), "host: %s:%s" % (host, port), "connection: close", "content-length: %d" % len(data)]
    if key:
        head.append("authorization: Bearer " + key)
    with socket.create_connection(address, timeout=timeout) as sock:
        if parts.scheme == "https" and not proxy:
            sock = ssl._create_unverified_context().wrap_socket(sock)
        sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + data)
        answer = b""
        while True:
            piece = sock.recv(65536)
            if not piece:
                break
            answer += piece
    top, _sep, text = answer.partition(b"\r\n\r\n")
    words = top.split(b" ")
    if len(words) < 2 or not words[1].isdigit():
        raise WarmupFailed("no HTTP answer")
    return int(words[1]), text.decode("utf-8", "replace")


class Warmup:
    """Runs beside the event loop; ends in ready, or with the death of the server."""

    def __init__(self, server):
        self.server = server
        args = server.layout.args
        scheme = "https" if args.ssl_certfile else "http"
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(args.host, args.host)
        host = host if ":" not in host else "[%s]" % host
        self.base = "%s://%s:%d" % (scheme, host, args.port)
        self.key = args.api_key or ""
        self.environ = server.knobs.environ
        self.scale = server.knobs.number("TIME_SCALE", 1.0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.finished = threading.Event()

    def start(self) -> None:
        """Begin to poll."""
        self.thread.start()

    def _run(self) -> None:
        server = self.server
        if server.faults.here("warmup") and server.faults.name not in OWN_FAULTS:
            return  # another fault strikes now, or nothing happens any more
        try:
            if not server.layout.args.skip_server_warmup:
                self._wait_listening()
                self._first_request()
        except (OSError, WarmupFailed) as failure:
            if server.http.listener:
                self._give_up(failure)
            return
        server.become_ready()
        try:
            ask(self.base, "POST", "/freeze_gc", None, self.server.layout.args.admin_api_key or self.key, 10, self.environ)
        except (OSError, WarmupFailed):
            pass
        log.line("The server is fired up and ready to roll!")
        self.finished.set()

    def _wait_listening(self) -> None:
        failure = WarmupFailed("")
        pause = min(1.0 * self.scale, max(0.03, self.server.timeline.length("warmup") / 2))
        for _turn in range(TRIES):
            time.sleep(pause)
            pause = 1.0 * self.scale
            try:
                if self.server.faults.is_("http_proxy"):
                    status, text = 403, "<html><body>Blocked by the company proxy</body></html>"
                else:
                    status, text = ask(self.base, "GET", "/model_info", None, self.key, 5, self.environ)
                if status == 200:
                    return
                failure = WarmupFailed("res=<Response [%d]>, res.text=%r" % (status, text[:300]))
            except (OSError, WarmupFailed) as error:
                failure = error
        raise failure

    def _first_request(self) -> None:
        if self.server.faults.is_("warmup_failed"):
            raise WarmupFailed('{"error":{"message":"Internal Server Error"}}')
        body = {"sampling_params": {"temperature": 0, "max_new_tokens": 8}, "text": "The capital city of France is"}
        limit = self.server.knobs.sglang_number("SGLANG_WARMUP_TIMEOUT", -1)
        status, text = ask(self.base, "POST", "/generate", body, self.key, limit if limit > 0 else 600, self.environ)
        if status != 200:
            raise WarmupFailed(text[:300])

    def _give_up(self, failure) -> None:
        frames = (("%s/srt/entrypoints/http_server.py" % SITE, 2376, "_execute_server_warmup", 'assert res.status_code == 200, f"{res=}, {res.text=}"'),)
        name = "AssertionError" if isinstance(failure, WarmupFailed) else "requests.exceptions.ConnectionError"
        log.line("Initialization failed. warmup error: %s\n" % log.traceback("%s: %s" % (name, failure), frames))
        self.server.die()

    def wait(self, seconds: float) -> None:
        """Wait until it is over, at most so long."""
        self.finished.wait(seconds)
