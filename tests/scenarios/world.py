# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd, the kernel, the port and the server would show at one second of a scenario."""

from __future__ import annotations

import json
import re
from typing import Any

from answers import Reply
from collection import journal, observation

EPOCH_US = 1767607200 * 1_000_000  # 2026-01-05 10:00:00 UTC is script second 0
UNIT_IN_TEXT = re.compile(r"^([\w@:.\\-]+\.service)(?:: |$)")
_FROM_SYSTEMD = re.compile(
    r"^(?:Start(?:ed|ing)|Stopp(?:ed|ing)|Failed to start|Dependency failed for|Condition check resulted|Suppressed \d+ messages"
    r"|State '|Scheduled restart|Unit \S+\.service )"
)
_GENERATION = ("/v1/completions", "/v1/chat/completions", "/generate")


class World:
    """What systemd, the kernel and the server would show at the script's present second."""

    def __init__(self, scenario: dict[str, Any], options: Any):
        self.options = options
        self.api_key = str((scenario.get("vars") or {}).get("api_key") or "")
        told = any("unit" in entry for entry in scenario.get("timeline") or [])
        self.unit: dict[str, Any] = {} if told else {"A": "active", "S": "running", "P": 4100, "I": "i1"}
        self.http: dict[str, list[Reply]] = {}
        self.socket: dict[str, Any] | None = None
        self.leftovers: list[str] = []  # pids that systemd has found in the unit's group before its start
        self.decoder = journal.Decoder(options.unit, options.secrets)
        self.kernel_decoder = journal.Decoder("", options.secrets)

    # -- the timeline

    def apply(self, entry: dict[str, Any]) -> None:
        if "unit" in entry:
            self.set_unit(entry["unit"] or {})
        for path, reply in (entry.get("http") or {}).items():
            self.http[path] = list(reply)
        if "socket" in entry:
            self.socket = entry["socket"]

    def set_unit(self, told: dict[str, Any]) -> None:
        kept = {key: value for key, value in self.unit.items() if key not in ("R", "X")}
        self.unit = {**kept, **told}
        over = str(self.unit.get("A")) in ("failed", "inactive") or str(self.unit.get("S", "")).startswith("auto-restart")
        if over and "P" not in told:
            self.unit["P"] = 0

    def state(self) -> Any:
        told = self.unit
        code, _slash, status = str(told.get("X") or "").partition("/")
        number = re.match(r"\d+", status)
        active = str(told.get("A") or "inactive")
        load = str(told.get("L") or "loaded")
        if active in ("not-found", "masked"):
            load, active = active, "inactive"
        return observation.UnitState(
            load_state=load,
            active_state=active,
            sub_state=str(told.get("S") or ""),
            result=str(told.get("R") or "success"),
            restarts=int(told.get("N") or 0),
            exit_code=code,
            exit_status=int(number.group()) if number else None,
            main_pid=int(told.get("P") or 0),
            invocation_id=str(told.get("I") or ""),
        )

    def journal(self, now: float, lines: list[Any]) -> list[Any]:
        entries = []
        for line in lines:
            entries += self.decoder.entries(self._record(now, line))
        return entries

    def _record(self, now: float, line: Any) -> dict[str, Any]:
        stamps = {"__REALTIME_TIMESTAMP": str(EPOCH_US + int(now * 1e6)), "__MONOTONIC_TIMESTAMP": str(int(now * 1e6))}
        invocation = str(self.unit.get("I") or "")
        if isinstance(line, dict):
            fields = {key: str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value for key, value in line.items()}
            return {**stamps, **fields}
        text = str(line)
        self.leftovers += re.findall(r"left-over process (\d+)", text)
        from_systemd = text.startswith(self.options.unit) or UNIT_IN_TEXT.match(text) or _FROM_SYSTEMD.match(text)
        if from_systemd:
            return {**stamps, "_PID": "1", "UNIT": self.options.unit, "INVOCATION_ID": invocation, "MESSAGE": text}
        return {**stamps, "_SYSTEMD_INVOCATION_ID": invocation, "MESSAGE": text}

    def kernel(self, now: float, lines: list[Any]) -> list[Any]:
        entries = []
        for line in lines:
            fields = line if isinstance(line, dict) else {"MESSAGE": str(line)}
            entries += self.kernel_decoder.entries({"__REALTIME_TIMESTAMP": str(EPOCH_US + int(now * 1e6)), "_TRANSPORT": "kernel", **fields})
        return entries

    # -- the port

    def listening(self) -> bool:
        return any(replies and replies[0].kind != "refused" for replies in self.http.values())

    def listener(self) -> Any:
        if not self.listening():
            return observation.Listener(False)
        main_pid = int(self.unit.get("P") or 0)
        if not self.socket:
            return observation.Listener(True, main_pid, "sglang", True)
        owner = int(self.socket.get("owner_pid") or main_pid)
        group = str(self.socket.get("cgroup") or "").rpartition("/")[2]
        unit = group if group.endswith((".service", ".scope")) else ""
        leftover = str(owner) in self.leftovers
        return observation.Listener(True, owner, str(self.socket.get("name") or ""), self._in_unit(owner, main_pid), unit, leftover)

    def _in_unit(self, owner: int, main_pid: int) -> bool:
        group = self.socket.get("cgroup")
        if isinstance(group, bool):
            return group
        if group is None:
            return owner == main_pid
        text = str(group)
        if text.startswith(("/user.slice/", "/machine.slice/")):
            return False
        if self.options.unit in text.split("/") or text.lower() in ("inside", "unit", "same", "own", "ours", "self"):
            return True
        named = text.endswith((".service", ".scope", ".slice")) or text.lower() in ("outside", "foreign", "other")
        return owner == main_pid and ("owner_pid" in self.socket or not named)

    def reply(self, probe: Any) -> Reply:
        """What the server answers to a probe just now; a path that the script never lists has its usual answer."""
        path = probe.path
        replies = self.http.get(path)
        if replies is None and path == "/health":
            replies = self.http.get("/health_generate")
        if replies is None and path in _GENERATION:
            replies = next((self.http[other] for other in _GENERATION if other in self.http), None)
        if replies is None:
            return self._usual(path)
        reply = replies[0]
        if reply.unless is not None:
            reply = reply.unless.reply if self._sends(reply.unless.name, reply.unless.value) else reply
        if path == "/v1/models" and reply.kind == "status" and reply.status == 200 and not reply.body:
            return Reply("status", 200, _model_list(self.options.model), "application/json", reply.after)
        if path in _GENERATION and reply.kind == "status" and reply.status == 200 and not reply.body.startswith(("{", "<")):
            return Reply("status", 200, json.dumps({"choices": [{"text": reply.body or "x"}]}), "application/json", reply.after)
        return reply

    def asked(self, path: str) -> None:
        """Answers given as a list are used up one by one, the last one holds."""
        replies = self.http.get(path)
        if replies and len(replies) > 1:
            replies.pop(0)

    def _sends(self, name: str, value: str) -> bool:
        return name.lower() == "authorization" and bool(self.api_key) and value == f"Bearer {self.api_key}"

    def _usual(self, path: str) -> Reply:
        if not self.listening():
            return Reply("refused")
        if path == "/ready":
            return Reply("status", 404, '{"detail":"Not Found"}', "application/json")
        if path == "/v1/models":
            return Reply("status", 200, _model_list(self.options.model), "application/json")
        if path in _GENERATION:
            return Reply("status", 200, '{"choices": [{"text": "x"}]}', "application/json")
        return Reply("status", 200)


def _model_list(name: str) -> str:
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model"}]})


class Flight:
    """One request on its way."""

    def __init__(self, probe: Any, now: float):
        self.probe = probe
        self.sent = now
        self.reply: Reply | None = None

    def due(self, world: World) -> float:
        """When its answer comes; a request that hangs is answered once the server stops hanging."""
        if self.reply is None or self.reply.kind == "hang":
            self.reply = world.reply(self.probe)
        if self.reply.kind == "hang" or self.reply.after >= self.probe.timeout:
            return self.sent + self.probe.timeout
        return self.sent + self.reply.after

    def land(self, world: World, now: float) -> Any:
        Answer = observation.Answer
        elapsed = round(now - self.sent, 3)
        if not world.listening() and elapsed > 0:
            return Answer("reset", elapsed=elapsed, detail="Connection reset by peer")
        if self.reply.kind == "hang" or self.reply.after >= self.probe.timeout:
            return Answer("timeout", elapsed=elapsed, detail="no answer")
        if self.reply.kind != "status":
            return Answer(self.reply.kind, elapsed=elapsed, detail="Connection refused" if self.reply.kind == "refused" else "")
        return Answer("status", self.reply.status, self.reply.body, self.reply.content_type, elapsed)
