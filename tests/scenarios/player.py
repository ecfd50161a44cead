# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a scenario, a start told as a timeline, against the decision code of the collection with a scripted clock."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import yaml

from answers import Reply, ScenarioError, parse_reply

ROOT = Path(__file__).resolve().parents[2]


def _find_collection() -> None:
    """Make the checkout importable under the collection's name, wherever it lies."""
    path = ROOT
    for name in ("ansible_collections.gpuops.sglang", "ansible_collections.gpuops", "ansible_collections"):
        package = types.ModuleType(name)
        package.__path__ = [str(path)] if name.endswith("sglang") else []
        sys.modules.setdefault(name, package)


_find_collection()
_UTILS = "ansible_collections.gpuops.sglang.plugins.module_utils"
_journal = __import__(f"{_UTILS}._journal", fromlist=["Decoder"])
_readiness = __import__(f"{_UTILS}._readiness", fromlist=["Wait", "WaitOptions"])
_observation = __import__(f"{_UTILS}._observation", fromlist=["UnitState"])

EPOCH_US = 1767607200 * 1_000_000  # 2026-01-05 10:00:00 UTC is script second 0
_LOOPS = 2_000_000
_UNIT_IN_TEXT = re.compile(r"^([\w@:.\\-]+\.service)(?:: |$)")
_UNIT_NAMED = re.compile(r"\b([\w@:.\\-]+\.service)\b")
_FROM_SYSTEMD = re.compile(
    r"^(?:Start(?:ed|ing)|Stopp(?:ed|ing)|Failed to start|Suppressed \d+ messages|State '|Scheduled restart|Unit \S+\.service )"
)
_GENERATION = ("/v1/completions", "/v1/chat/completions", "/generate")
_SECRET_NAME = re.compile(r"key|token|password|secret", re.IGNORECASE)


class World:
    """What systemd, the kernel and the server would show at the script's present second."""

    def __init__(self, scenario: dict[str, Any], options: Any):
        self.options = options
        self.api_key = str((scenario.get("vars") or {}).get("api_key") or "")
        told = any("unit" in entry for entry in scenario.get("timeline") or [])
        self.unit: dict[str, Any] = {} if told else {"A": "active", "S": "running", "P": 4100, "I": "i1"}
        self.http: dict[str, list[Reply]] = {}
        self.socket: dict[str, Any] | None = None
        self.decoder = _journal.Decoder(options.unit, options.secrets)
        self.kernel_decoder = _journal.Decoder("", options.secrets)

    # -- the timeline

    def apply(self, entry: dict[str, Any]) -> None:
        if "unit" in entry:
            self._set_unit(entry["unit"] or {})
        for path, reply in (entry.get("http") or {}).items():
            self.http[path] = list(reply)
        if "socket" in entry:
            self.socket = entry["socket"]

    def _set_unit(self, told: dict[str, Any]) -> None:
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
        return _observation.UnitState(
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
        from_systemd = text.startswith(self.options.unit) or _UNIT_IN_TEXT.match(text) or _FROM_SYSTEMD.match(text)
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
            return _observation.Listener(False)
        main_pid = int(self.unit.get("P") or 0)
        if not self.socket:
            return _observation.Listener(True, main_pid, "sglang", True)
        owner = int(self.socket.get("owner_pid") or main_pid)
        return _observation.Listener(True, owner, str(self.socket.get("name") or ""), self._in_unit(owner, main_pid))

    def _in_unit(self, owner: int, main_pid: int) -> bool:
        group = self.socket.get("cgroup")
        if isinstance(group, bool):
            return group
        if group is None:
            return owner == main_pid
        text = str(group)
        if self.options.unit in text.split("/") or text.lower() in ("inside", "unit", "same", "own", "ours", "self"):
            return True
        return owner == main_pid and not text.endswith((".service", ".scope", ".slice")) and text.lower() not in ("outside", "foreign", "other")

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
        if path in _GENERATION and reply.kind == "status" and reply.status == 200 and "choices" not in reply.body:
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
        Answer = _observation.Answer
        elapsed = round(now - self.sent, 3)
        if not world.listening() and elapsed > 0:
            return Answer("reset", elapsed=elapsed, detail="Connection reset by peer")
        if self.reply.kind == "hang" or self.reply.after >= self.probe.timeout:
            return Answer("timeout", elapsed=elapsed, detail="no answer")
        if self.reply.kind != "status":
            return Answer(self.reply.kind, elapsed=elapsed, detail="Connection refused" if self.reply.kind == "refused" else "")
        return Answer("status", self.reply.status, self.reply.body, self.reply.content_type, elapsed)


def play(scenario: dict[str, Any], sliced: bool = False) -> tuple[Any, float, Any]:
    """Play one scenario to its verdict: the verdict, its script second, and the wait that gave it.

    ``sliced`` hands the wait from one process to the next, as it were, whenever no request is on its way.
    """
    options = _options(scenario)
    wait = _readiness.Wait(options, _query())
    world = World(scenario, options)
    entries = sorted(scenario["timeline"], key=lambda entry: entry["t"])
    now, flight, place = 0.0, None, 0
    for _turn in range(_LOOPS):
        while place < len(entries) and entries[place]["t"] <= now + 1e-9:
            _happen(wait, world, now, entries[place])
            place += 1
        if flight is not None and flight.due(world) <= now + 1e-9:
            answer = flight.land(world, now)
            probe, flight = flight.probe, None
            world.asked(probe.path)
            wait.on_answer(now, probe, answer)
        _look(wait, world, now)
        if flight is None:
            probe = wait.next_probe(now)
            flight = Flight(probe, now) if probe is not None else None
            if flight is not None and flight.due(world) <= now + 1e-9:
                continue
        verdict = wait.verdict(now)
        if verdict is not None:
            return verdict, round(now, 3), wait
        if sliced and flight is None:
            wait = _readiness.Wait.load(options, json.loads(json.dumps(wait.dump())), _query())
        moments = [wait.next_wakeup(now)]
        if place < len(entries):
            moments.append(float(entries[place]["t"]))
        if flight is not None:
            moments.append(flight.due(world))
        now = max(min(moments), now + 1e-3)
    raise RuntimeError("the wait comes to no verdict")


def _happen(wait: Any, world: World, now: float, entry: dict[str, Any]) -> None:
    world.apply(entry)
    if entry.get("kernel"):
        wait.on_kernel(now, world.kernel(now, entry["kernel"]))
    if entry.get("journal"):
        wait.on_journal(now, world.journal(now, entry["journal"]))
    if "gpu" in entry:
        wait.on_gpu(now, entry["gpu"])
    if entry.get("peers"):
        wait.on_peers(now, {name: _peer(world, now, told or {}) for name, told in entry["peers"].items()})


def _peer(world: World, now: float, told: dict[str, Any]) -> dict[str, Any]:
    other = World({}, world.options)
    other.unit, other.decoder = {}, _journal.Decoder("", world.options.secrets)
    data: dict[str, Any] = {"journal": []}
    if "unit" in told:
        other._set_unit(told["unit"] or {})
        data["unit"] = other.state()
    data["journal"] = other.journal(now, told.get("journal") or [])
    return data


def _look(wait: Any, world: World, now: float) -> None:
    for _again in range(4):
        wanted = wait.wants(now)
        if not wanted:
            return
        if "unit" in wanted:
            wait.on_unit(now, world.state())
        if "listener" in wanted:
            wait.on_listener(now, world.listener())


def _query() -> Any:
    try:
        import jmespath
    except ImportError:
        return None
    return jmespath.search


def _options(scenario: dict[str, Any]) -> Any:
    told = scenario.get("vars") or {}
    first = {key: value for key, value in told.items() if value is not None}
    options = _readiness.WaitOptions(
        unit=_unit_name(scenario),
        port=int(first.get("port", 30000)),
        model=str(first.get("served_model_name", first.get("model", "demo-model"))),
        api_key_given=bool(first.get("api_key")),
        version=str(first.get("version", "")),
        wait_timeout=float(scenario.get("budget", first.get("wait_timeout", 1800))),
        restart_limit=int(first.get("restart_limit_during_wait", first.get("restart_limit", 0))),
        nnodes=int(first.get("nnodes", 1)),
        node_rank=int(first.get("node_rank", 0)),
        dist_init_addr=str(first.get("dist_init_addr", "")),
        error_patterns=[{"regex": item} if isinstance(item, str) else item for item in _listed(first.get("error_patterns"))],
        ready_query=str(first.get("ready_query", "")),
        extend_while_progress=bool(first.get("extend_while_progress", False)),
        generate=bool(first.get("generate", True)),
        probe_timeout=float(first.get("probe_timeout", 25)),
        wait_sleep=float(first.get("wait_sleep", 1)),
        journal_lines=int(first.get("journal_lines", 20)),
        invocation_id=str(first.get("invocation_id", "")),
        usual_seconds=first.get("usual_seconds") or {},
        secrets=tuple(_secrets(told)),
    )
    stall = scenario.get("no_progress_limit", first.get("stall_timeout"))
    if stall is not None:
        options.stall_timeout = float(stall)
    return options


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _secrets(told: Any, secret: bool = False) -> list[str]:
    """Every value whose name sounds like a secret, however deep."""
    if isinstance(told, dict):
        return [text for name, value in told.items() for text in _secrets(value, secret or bool(_SECRET_NAME.search(str(name))))]
    if isinstance(told, list):
        return [text for value in told for text in _secrets(value, secret)]
    return [str(told)] if secret and isinstance(told, str) else []


def _unit_name(scenario: dict[str, Any]) -> str:
    told = scenario.get("vars") or {}
    name = told.get("unit") or told.get("name") or ""
    if name:
        return str(name) if str(name).endswith(".service") else f"{name}.service"
    texts = [line.get("MESSAGE", "") if isinstance(line, dict) else line for entry in scenario["timeline"] for line in entry.get("journal") or []]
    for regex in (_UNIT_IN_TEXT, _UNIT_NAMED):
        for text in texts:
            match = regex.search(text) if isinstance(text, str) else None
            if match and match.group(1) != "system.slice":
                return match.group(1)
    return "sglang-demo.service"


# -- reading files


def read(path: str) -> dict[str, Any]:
    """A scenario from its file, with the answers parsed; ScenarioError names the key that is wrong."""
    try:
        with open(path, encoding="utf-8") as stream:
            scenario = yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError("", f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ScenarioError("", f"is no YAML: {' '.join(str(error).split())[:300]}") from error
    _need(isinstance(scenario, dict), "", "must be a mapping")
    for key in ("vars", "expect"):
        _need(scenario.get(key) is None or isinstance(scenario[key], dict), key, "must be a mapping")
    _check_expect(scenario.get("expect") or {})
    for key in ("budget", "no_progress_limit"):
        _need(scenario.get(key) is None or _is_number(scenario[key]) and scenario[key] > 0, key, "must be a number of seconds")
        if scenario.get(key) is None:
            scenario.pop(key, None)
    _need(isinstance(scenario.get("timeline"), list) and bool(scenario["timeline"]), "timeline", "must be a list of entries")
    for number, entry in enumerate(scenario["timeline"]):
        _check_entry(f"timeline[{number}]", entry)
    try:
        _options(scenario)
        _readiness.Wait(_options(scenario))
    except (TypeError, ValueError, KeyError, AttributeError, re.error) as error:
        raise ScenarioError("vars", f"holds a value that cannot be used: {error}") from error
    return scenario


def _need(good: bool, key: str, what: str) -> None:
    if not good:
        raise ScenarioError(key, what)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_expect(expect: dict[str, Any]) -> None:
    at = expect.get("at", [None, None])
    bounds = isinstance(at, list) and len(at) == 2 and all(bound is None or _is_number(bound) for bound in at)
    _need(bounds, "expect.at", "must be a list of two seconds, null for no bound")
    for key in ("hint_has", "hint_not"):
        for regex in _listed(expect.get(key)):
            try:
                re.compile(str(regex))
            except re.error as error:
                raise ScenarioError(f"expect.{key}", f"is no regex: {error}") from error


def _check_entry(key: str, entry: Any) -> None:
    _need(isinstance(entry, dict), key, "must be a mapping")
    _need(_is_number(entry.get("t")), f"{key}.t", "must be a number of seconds")
    for name in ("unit", "socket", "peers", "http"):
        _need(entry.get(name) is None or isinstance(entry[name], dict), f"{key}.{name}", "must be a mapping")
    for name in ("journal", "kernel"):
        if isinstance(entry.get(name), str):
            entry[name] = [entry[name]]
        _need(entry.get(name) is None or isinstance(entry[name], list), f"{key}.{name}", "must be a list")
        for place, line in enumerate(entry.get(name) or []):
            _need(isinstance(line, (str, dict, int, float)), f"{key}.{name}[{place}]", "must be a text or journal fields")
    if entry.get("unit"):
        _check_unit(f"{key}.unit", entry["unit"])
    for path, told in (entry.get("http") or {}).items():
        _need(isinstance(path, str) and path.startswith("/"), f"{key}.http.{path}", "must be a path")
        replies = told if isinstance(told, list) and told else [told]
        entry["http"][path] = [parse_reply(f"{key}.http.{path}", path, reply) for reply in replies]
    for name, told in (entry.get("peers") or {}).items():
        _need(told is None or isinstance(told, dict), f"{key}.peers.{name}", "must be a mapping")
        if told and told.get("unit"):
            _check_unit(f"{key}.peers.{name}.unit", told["unit"])


def _check_unit(key: str, unit: Any) -> None:
    _need(isinstance(unit, dict), key, "must be a mapping")
    for name in ("N", "P"):
        _need(unit.get(name) is None or str(unit[name]).isdigit(), f"{key}.{name}", "must be a number")
    for name in ("A", "S", "R", "X", "I"):
        _need(unit.get(name) is None or isinstance(unit[name], (str, int)), f"{key}.{name}", "must be a text")
