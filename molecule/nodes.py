# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the scenarios ask a booted host."""

from __future__ import annotations

import json


def ask(host, command: str, *words: object) -> str:
    """Output of a command that must succeed, its words quoted."""
    return host.check_output(command, *(str(word) for word in words))


def prop(host, unit: str, name: str) -> str:
    return ask(host, "systemctl show --value --property %s %s", name, unit)


def main_pid(host, unit: str) -> int:
    return int(prop(host, unit, "MainPID"))


def argv(host, unit: str) -> list[str]:
    """The words that the running server was started with."""
    return ask(host, "tr '\\0' '\\n' < /proc/%s/cmdline", str(main_pid(host, unit))).splitlines()


def environ(host, unit: str) -> dict[str, str]:
    lines = ask(host, "tr '\\0' '\\n' < /proc/%s/environ", str(main_pid(host, unit))).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def known_good(host) -> dict:
    return json.loads(host.file("/var/lib/gpuops-sglang/known_good.json").content_string)["deployments"]


def answer(host, path: str, port: int = 30001, key: str = "") -> tuple[int, str]:
    """Status and body that the server gives on the node itself."""
    header = ["-H", f"Authorization: Bearer {key}"] if key else []
    command = "curl -s -m 20 -w '\\n%%{http_code}' " + " ".join("%s" for _each in header) + " http://127.0.0.1:%s%s"
    body, _newline, status = ask(host, command, *header, str(port), path).rpartition("\n")
    return int(status), body


def assert_serves(host, unit: str, port: int = 30001) -> None:
    """The unit runs, starts at boot, and its own process answers as the model that was deployed."""
    service = host.service(unit)
    assert service.is_running and service.is_enabled
    assert answer(host, "/ready", port)[0] == 200
    assert json.loads(answer(host, "/v1/models", port)[1])["data"][0]["id"] == "kimi-k2.6"


def assert_rests(host, unit: str) -> None:
    """The unit neither runs nor starts at boot, and is not left failed."""
    service = host.service(unit)
    assert not service.is_running and not service.is_enabled
    assert prop(host, unit, "ActiveState") == "inactive"
