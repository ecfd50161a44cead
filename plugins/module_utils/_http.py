# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the HTTP requests of a wait, in a thread of their own, so that a server that hangs never delays a verdict."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Probe
from ansible_collections.gpuops.sglang.plugins.module_utils._sockets import probe_address

BODY_LIMIT = 64 * 1024
_CONNECT_TIMEOUT = 5.0
_TIMEOUTS = {"ConnectTimeout", "ReadTimeout", "ConnectTimeoutError", "ReadTimeoutError", "TimeoutError", "timeout", "_Overdue"}


class HttpClient:
    """One server, asked directly: no proxy, no redirect, no credentials from files."""

    def __init__(self, scheme: str, host: str, port: int, api_key: str = "", ca_path: str = "", clean: Callable[[str], str] = str) -> None:
        address = probe_address(host)
        self.base = "%s://%s:%d" % (scheme, "[%s]" % address if ":" in address else address, port)
        self._headers = {"Accept": "application/json", "Connection": "close"}
        self._authorization = b"Bearer " + api_key.encode("utf-8") if api_key else b""
        self._verify: bool | str = ca_path or True
        self._clean = clean

    def ask(self, probe: Probe, send_key: bool = True) -> Answer:
        """Send one request; whatever happens comes back as an answer."""
        import requests  # here, not above: a long load needs neither its memory nor its start-up time

        headers: dict[str, Any] = dict(self._headers)
        if self._authorization and send_key:
            headers["Authorization"] = self._authorization
        began = time.monotonic()
        try:
            with requests.Session() as session:
                session.trust_env = False
                response = session.request(
                    probe.method,
                    self.base + probe.path,
                    json=probe.body,
                    headers=headers,
                    verify=self._verify,
                    allow_redirects=False,
                    stream=True,
                    timeout=(min(_CONNECT_TIMEOUT, probe.timeout), probe.timeout),
                )
                body = _read(response, began + probe.timeout)
        except (requests.exceptions.RequestException, OSError, ValueError) as error:
            kind = failure_kind(error)
            return Answer(kind=kind, elapsed=time.monotonic() - began, detail=self._clean(failure_text(error, kind)))
        return Answer(
            kind="status",
            status=response.status_code,
            body=self._clean(body),
            content_type=response.headers.get("Content-Type", ""),
            elapsed=time.monotonic() - began,
            detail=self._clean("redirects to " + response.headers["Location"]) if "Location" in response.headers else "",
        )


class _Overdue(OSError):
    """The whole answer took longer than the probe allows, though bytes kept coming."""


def _read(response: Any, deadline: float) -> str:
    chunks: list[bytes] = []
    size = 0
    for chunk in response.iter_content(1):  # a larger piece would be waited for, however slowly its bytes come
        chunks.append(chunk)
        size += len(chunk)
        if size >= BODY_LIMIT:
            break
        if time.monotonic() > deadline:
            raise _Overdue("the answer did not end in time")
    return b"".join(chunks)[:BODY_LIMIT].decode("utf-8", "replace")


def _chain(error: BaseException) -> list[BaseException]:
    """An error and the errors inside it; the libraries wrap the system's own several times."""
    found: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or one in found or isinstance(one, TypeError):
            continue  # older urllib3 tries a call that its http.client does not know; that says nothing of the server
        found.append(one)
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None)]
        waiting += list(one.args)
    return found


def failure_kind(error: BaseException) -> str:
    """Tell a refusal, a time-out, a broken connection and a TLS fault apart."""
    chain = _chain(error)
    names = {type(one).__name__ for one in chain}
    text = " ".join(str(one) for one in chain)
    if any(name.startswith("SSL") for name in names) or "TLS CA certificate bundle" in text:
        return "tls"
    if "ConnectionRefusedError" in names:
        return "refused"
    if names & _TIMEOUTS:
        return "timeout"
    if names & {"ConnectionResetError", "RemoteDisconnected", "BrokenPipeError", "IncompleteRead", "ChunkedEncodingError"}:
        return "reset"
    return "error"


def failure_text(error: BaseException, kind: str) -> str:
    """The innermost words of an error, without the wrapping."""
    if kind == "tls":
        return _tls_text(error)
    texts = [str(one) for one in _chain(error) if str(one) and len(str(one)) < 300]
    return texts[-1] if texts else type(error).__name__


def _tls_text(error: BaseException) -> str:
    text = " ".join(str(one) for one in _chain(error))
    if "WRONG_VERSION_NUMBER" in text or "wrong version number" in text:
        return "the server speaks plain HTTP on this port, not HTTPS"
    if "TLS CA certificate bundle" in text:
        return "the CA file cannot be read: " + str(error).rsplit(":", 1)[-1].strip()
    for one in _chain(error):
        message = getattr(one, "verify_message", "")
        if message:
            return "the server's certificate is not accepted: %s" % message
    return "TLS failed: %s" % str(_chain(error)[-1])[:300]


class ProbeThread:
    """Asks one probe at a time beside the caller; ``fileno`` turns readable when an answer is there."""

    def __init__(self, ask: Callable[[Probe], Answer]) -> None:
        self._ask = ask
        self._answers: queue.Queue[tuple[int, Probe, Answer]] = queue.Queue()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._turn = 0
        self._given_up_at = 0.0
        self.current: Probe | None = None

    def fileno(self) -> int:
        return self._reader

    def submit(self, probe: Probe, now: float) -> None:
        self._turn += 1
        self.current = probe
        self._given_up_at = now + probe.timeout + 2 * _CONNECT_TIMEOUT
        threading.Thread(target=self._work, args=(self._turn, probe), daemon=True).start()

    def _work(self, turn: int, probe: Probe) -> None:
        try:
            answer = self._ask(probe)
        except ImportError as error:
            answer = Answer(kind="error", detail="python3-requests is missing: %s" % error)
        self._answers.put((turn, probe, answer))
        os.write(self._writer, b".")

    def collect(self, now: float) -> tuple[Probe, Answer] | None:
        """The answer of the probe in flight, made up as a time-out when it is long overdue."""
        self._drain()
        while not self._answers.empty():
            turn, probe, answer = self._answers.get()
            if turn == self._turn and self.current is not None:
                self.current = None
                return probe, answer
        if self.current is not None and now > self._given_up_at:
            probe, self.current = self.current, None
            return probe, Answer(kind="timeout", elapsed=probe.timeout, detail="no answer at all")
        return None

    def _drain(self) -> None:
        try:
            os.read(self._reader, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Threads that still hang are left behind; they end with the process."""
        self._turn += 1
        self.current = None
