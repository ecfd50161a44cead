# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the stand-in on loopback with loads of fractions of a second, and ends what a test leaves."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mock_sglang"
FIXTURES = Path(__file__).resolve().parent / "fixtures"
sys.path.insert(0, str(PACKAGE))

LOAD_SECONDS = "0.1"
TIME_SCALE = "0.005"  # of the waits of seconds and minutes that the real server makes
PATIENCE = 30  # of a machine that does much else


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Standin:
    """One running stand-in."""

    def __init__(self, folder: Path, flags, environ, entry=("-m", "sglang.launch_server")):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.stamps_file = folder / "stamps.jsonl"
        self.log_file = folder / "log"
        settings = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(PACKAGE), "FAKE_GPU_DIR": str(folder / "gpu"),
            "MOCK_SGLANG_LOAD_SECONDS": LOAD_SECONDS, "MOCK_SGLANG_LOAD_BY_STRATEGY": "0", "MOCK_SGLANG_TIME_SCALE": TIME_SCALE,
            "MOCK_SGLANG_FILE": str(folder / "knobs"), "MOCK_SGLANG_STAMPS": str(self.stamps_file), "MOCK_SGLANG_SPEED": "50",
            "MOCK_SGLANG_FAULT_AFTER": "0.05",
        }
        settings.update(environ)
        words = [str(flag) for flag in flags]
        if "--model-path" not in words:
            words += ["--model-path", "org/demo"]
        if "--port" not in words:
            words += ["--port", str(self.port)]
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-S", *entry, *words], env=settings, stderr=log, stdout=log, cwd=folder, start_new_session=True
            )
        self.pid = self.process.pid

    def log(self) -> str:
        return self.log_file.read_text(errors="replace").replace("\r", "\n")

    def stamps(self) -> dict[str, float]:
        if not self.stamps_file.exists():
            return {}
        records = [json.loads(line) for line in self.stamps_file.read_text().splitlines()]
        return {record["event"]: record["monotonic"] for record in records}

    def until(self, condition, what: str = "condition"):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError("%s never came; log:\n%s" % (what, self.log()[-2000:]))

    def until_logged(self, text: str) -> "Standin":
        self.until(lambda: text in self.log(), text)
        return self

    def until_ready(self) -> "Standin":
        return self.until_logged("ready to roll")

    def ask(self, method: str, path: str, body=None, headers=None, timeout=PATIENCE):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self, path: str, **more) -> int:
        """Status of a GET, 0 when nothing listens."""
        try:
            return self.ask("GET", path, **more)[0]
        except (ConnectionError, http.client.HTTPException):
            return 0

    def json(self, method: str, path: str, body=None, headers=None):
        status, data = self.ask(method, path, body, headers)
        assert status == 200, data
        return json.loads(data)

    def stream(self, path: str, body) -> list:
        status, data = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, data
        events = [line[6:] for line in data.decode().split("\n\n") if line]
        return [json.loads(text) if text.startswith("{") else text for text in events]

    def end(self, timeout: float = PATIENCE) -> int:
        """Exit status once it has ended by itself."""
        return self.process.wait(timeout)

    def children(self) -> dict[str, int]:
        """Title to pid of the processes of this server."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                stat = (entry / "stat").read_text() if entry.name.isdigit() else ""
                if stat and int(stat.rpartition(") ")[2].split()[1]) == self.pid:
                    found[(entry / "cmdline").read_bytes().rstrip(b"\0").decode()] = int(entry.name)
            except OSError:
                continue
        return found

    def kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


@pytest.fixture
def unused_port():
    return free_port()


@pytest.fixture
def standin(tmp_path):
    running = []

    def start(*flags, **environ):
        entry = environ.pop("entry", ("-m", "sglang.launch_server"))
        running.append(Standin(tmp_path / str(len(running)), flags, environ, entry))
        return running[-1]

    yield start
    for server in running:
        server.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A ready server for tests that only ask."""
    server = Standin(tmp_path_factory.mktemp("shared"), ["--tp-size", "2", "--ep-size", "2", "--enable-metrics"], {})
    yield server.until_ready()
    server.kill()


@pytest.fixture(scope="session")
def real_answers():
    return json.loads((FIXTURES / "real_answers.json").read_text())


@pytest.fixture(scope="session")
def real_startup():
    lines = (FIXTURES / "real_startup.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
