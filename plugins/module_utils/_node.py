# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a node for the check before a launch: units, processes, ports, GPUs, models, installed version; changes nothing."""

from __future__ import annotations

import grp
import hashlib
import importlib.util
import json
import os
import pwd
import re
import stat
import sys
from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils import _gpu, _installed, _model_files, _preflight, _sockets, _unit
from ansible_collections.gpuops.sglang.plugins.module_utils._running import UnitLook, claim, disk_differs, flags_of, started_at

STATE_FOLDER = "/var/lib/gpuops-sglang"
WRITTEN_HERE = b"\n# Written by Ansible (gpuops.sglang).\n"
_SHOW = (
    "Id", "LoadState", "ActiveState", "SubState", "MainPID", "InvocationID", "UnitFileState", "NeedDaemonReload", "DropInPaths", "FragmentPath",
    "ControlGroup", "ExecMainStartTimestamp", "EnvironmentFiles", "LoadCredential", "ExecStart", "Environment",
)
_ENABLED = ("enabled", "enabled-runtime", "linked", "linked-runtime")


def units(commands: _unit.Commands, own: str) -> dict[str, UnitLook]:
    """Every sglang unit that systemd knows, and the one that is asked for."""
    names = set(_unit.list_units(commands))
    code, output, _errors = commands.run(["systemctl", "list-unit-files", "--plain", "--no-legend", "--full", "sglang-*.service"])
    names |= {line.split()[0] for line in output.splitlines() if line.strip()} if code == 0 else set()
    names = sorted({*names, own} if own else names)
    if not names:
        return {}
    argv = ["systemctl", "show", "--timestamp=us+utc", "--property=" + ",".join(_SHOW), "--", *names]
    code, output, _errors = commands.run(argv)
    looks = [_look(properties) for properties in _unit.parse_show(output)]
    return {look.name: look for look in looks if look.name}


def _look(properties: dict[str, str]) -> UnitLook:
    state = _unit.unit_state(properties)
    look = UnitLook(
        name=properties.get("Id", ""),
        load_state=state.load_state,
        active_state=state.active_state,
        sub_state=state.sub_state,
        main_pid=state.main_pid,
        invocation_id=state.invocation_id,
        enabled=properties.get("UnitFileState", "") in _ENABLED,
        need_daemon_reload=properties.get("NeedDaemonReload") == "yes",
        drop_ins=properties.get("DropInPaths", "").split(),
        pids=_unit.cgroup_pids(properties.get("ControlGroup", "")),
        started=started_at(properties.get("ExecMainStartTimestamp", "")),
    )
    words, environment = process(look.main_pid) if look.main_pid else ([], {})
    look.argv = words or _stated_argv(properties.get("ExecStart", ""))
    look.environment_seen = bool(environment)
    look.environment = environment or _stated_environment(properties.get("Environment", ""))
    files = [properties.get("FragmentPath", ""), *look.drop_ins, *_listed_files(properties)]
    look.written = {path: written for path, written in ((path, _written(path)) for path in files if path) if written is not None}
    return look


def _listed_files(properties: dict[str, str]) -> list[str]:
    """Environment files and credentials, which systemd reads at each start."""
    files = re.findall(r"(/\S+) \(ignore_errors=", properties.get("EnvironmentFiles", ""))
    return files + re.findall(r"[^\s:]+:(/\S+)", properties.get("LoadCredential", ""))


def _written(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _stated_argv(exec_start: str) -> list[str]:
    """The words of ``ExecStart`` as systemd shows them: good enough to find flags, quoting is lost."""
    match = re.search(r"argv\[\]=(.*?) ; ignore_errors=", exec_start)
    return match.group(1).split() if match else []


def _stated_environment(text: str) -> dict[str, str]:
    return dict(re.findall(r"\b(CUDA_VISIBLE_DEVICES)=([^\s\"]*)", text))


def process(pid: int, proc: str = "/proc") -> tuple[list[str], dict[str, str]]:
    """Command line and first environment of a process; empty when it is gone or not to be read."""
    words = [word.decode("utf-8", "surrogateescape") for word in _bytes(f"{proc}/{pid}/cmdline")]
    pairs = [entry.decode("utf-8", "surrogateescape").partition("=") for entry in _bytes(f"{proc}/{pid}/environ")]
    return words, {name: value for name, equals, value in pairs if equals}


def _bytes(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as handle:
            parts = handle.read().split(b"\0")
    except OSError:
        return []
    return parts[:-1] if parts and not parts[-1] else parts


def listeners(plan: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Who listens on the ports that this plan names on its command line."""
    flags = flags_of(plan["argv"])
    wanted = {plan["ports"]["http"]: plan["host"]}
    if "nccl-port" in flags:
        wanted[plan["ports"]["nccl"]] = plan["host"]
    if "dist-init-addr" in flags and int(plan.get("node_rank") or 0) == 0:
        wanted[plan["ports"]["dist"]] = "0.0.0.0"
    found = {}
    for port, host in wanted.items():
        table = _sockets.SocketTable(host, port)
        sockets = table.listening()
        if host not in ("0.0.0.0", "::", ""):
            sockets = _sockets.reached(sockets, _sockets.resolve(host))
        if sockets:
            pid = table.owner(sockets[0].inode, [])
            found[port] = {"pid": pid, "name": _unit.name_of_pid(pid) if pid else "", "unit": _unit.unit_of_pid(pid) if pid else ""}
    return found


def ephemeral_range(path: str = "/proc/sys/net/ipv4/ip_local_port_range") -> tuple[int, int] | None:
    try:
        with open(path, encoding="ascii") as handle:
            low, high = handle.read().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return None


def cursor(commands: _unit.Commands) -> str:
    """Where the journal ends now."""
    _code, output, _errors = commands.run(["journalctl", "--quiet", "--no-pager", "--lines=0", "--show-cursor"])
    match = re.search(r"^-- cursor: (\S+)", output, re.MULTILINE)
    return match.group(1) if match else ""


def known_good(folder: str = STATE_FOLDER) -> dict[str, Any]:
    """The record of what served last; empty when there is none."""
    try:
        with open(os.path.join(folder, "known_good.json"), encoding="utf-8") as handle:
            record = json.load(handle)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def compare_files(digests: dict[str, Any]) -> dict[str, dict[str, bool]]:
    """Which of these files are there, and which are what they should be; an empty digest means that it should not be there."""
    return {str(path): _compare(str(path), str(digest or "")) for path, digest in digests.items()}


def _compare(path: str, digest: str) -> dict[str, bool]:
    try:
        found = os.stat(path)
        with open(path, "rb") as handle:
            content = handle.read()
    except FileNotFoundError:
        return {"exists": False, "same": not digest, "foreign": False}
    except OSError:
        return {"exists": True, "same": False, "foreign": True}
    mode = 0o644 if path.endswith((".service", ".conf")) else 0o600
    owned = found.st_uid == 0 and found.st_gid == 0 and stat.S_IMODE(found.st_mode) == mode
    same = bool(digest) and hashlib.sha256(content).hexdigest() == digest and owned
    return {"exists": True, "same": same, "foreign": path.endswith(".service") and WRITTEN_HERE not in content}


def copies(paths: Iterable[str], unit: UnitLook | None, folder: str = STATE_FOLDER) -> dict[str, Any]:
    """What an earlier run kept of these files and never dropped, and whether the server that serves now came after it."""
    names = [os.path.join(folder, "previous", os.path.basename(path)) for path in paths]
    found = [name for name in names if os.path.exists(name)]
    return {"files": found, "outdated": bool(found) and unit is not None and serves(unit)}


def serves(unit: UnitLook) -> bool:
    """Whether its own process listens, and was started from the files as they are now."""
    if unit.active_state != "active" or disk_differs(unit):
        return False
    table = _sockets.SocketTable("", claim(unit).port)
    return any(table.owner(entry.inode, unit.pids) in unit.pids for entry in table.listening())


def facts(commands: _unit.Commands, plan: dict[str, Any] | None, runtime: dict[str, str], dry: bool) -> tuple[_preflight.Facts, _installed.Installed]:
    """Everything that the checks need; with a plan, what that plan needs."""
    version = runtime.get("version") or (plan or {}).get("version", "")
    root = runtime.get("root") or (os.path.dirname(os.path.dirname(os.path.dirname(plan["python"]))) if plan else "/opt/sglang")
    installed = _installed.look(root, version)
    seen = _preflight.Facts(installed_version=installed.version, broken=installed.broken, dry=dry)
    seen.user = runtime.get("user") or "sglang"
    seen.user_exists, seen.group_exists = user_exists(seen.user), group_exists(seen.user)
    seen.requirements = _installed.requirements(installed)
    seen.lacking = "" if importlib.util.find_spec("requests") else sys.executable
    seen.packages_reach = sys.prefix == "/usr"
    if plan is None or plan.get("device", "cuda") == "cuda":
        seen.gpus, seen.driver = _gpu.gather(commands)
    if plan is None:
        return seen, installed
    if installed.version:
        seen.flags = _installed.kept_flags(installed)
        if seen.flags is None:
            seen.flags, seen.flags_unread = _installed.ask_flags(commands, installed, plan["environment"], keep=not dry)
        seen.cuda_major = _installed.cuda_major(installed)
    known = units(commands, plan["unit"])
    seen.unit = known.pop(plan["unit"], None)
    seen.units = list(known.values())
    seen.listeners = listeners(plan)
    seen.ephemeral = ephemeral_range()
    seen.unreadable = {name: _model_files.unreadable([str(plan["flags"][name])], seen.user) for name in _preflight.KEY_FILES if plan["flags"].get(name)}
    dummy = plan["flags"].get("load-format") == "dummy"
    seen.models = [_model_files.look(plan["model_path"], seen.user, weights_needed=not dummy)]
    draft = plan["flags"].get("speculative-draft-model-path")
    if isinstance(draft, str) and draft != plan["model_path"]:
        seen.models.append(_model_files.look(draft, seen.user))
    return seen, installed
