# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads systemd units through ``systemctl``, and the processes of their control groups."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
from typing import Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import UnitState

SHOW = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "NRestarts", "ExecMainCode", "ExecMainStatus",
    "MainPID", "InvocationID", "ControlGroup", "InactiveExitTimestampMonotonic", "ExecMainStartTimestampMonotonic",
    "TimeoutStopUSec", "Restart", "RestartUSec",
)
_ENDS = {"1": "exited", "2": "killed", "3": "dumped"}
_SPAN = re.compile(r"([\d.]+)\s*(us|ms|s|min|h|d|w|month|y)?(?=\s|\d|$)")
_SPAN_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800, "month": 2629800, "y": 31557600, "": 1e-6}
_CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")


def unit_name(name: str) -> str:
    """The full name of a service; only a name without a unit suffix gets one."""
    return name if name.endswith((".service", ".socket", ".target", ".scope", ".slice")) else name + ".service"


class Commands:
    """Runs commands with plain English answers, and remembers each line once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, argv: list[str]) -> None:
        line = shlex.join(argv)
        if line not in self.lines:
            self.lines.append(line)

    def run(self, argv: list[str], timeout: float = 30) -> tuple[int, str, str]:
        """Return status, output and errors; 127 when there is no such program, 124 when it took too long."""
        self.note(argv)
        try:
            with spawn(argv) as process:
                try:
                    output, errors = process.communicate(timeout=timeout)
                finally:
                    process.kill()
        except FileNotFoundError:
            return 127, "", "%s: not found" % argv[0]
        except subprocess.TimeoutExpired:
            return 124, "", "%s: no answer in %d s" % (argv[0], timeout)
        except OSError as error:
            return 126, "", "%s: %s" % (argv[0], error.strerror or error)
        return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def spawn(argv: list[str]) -> subprocess.Popen[bytes]:
    """Start a program that answers in plain English. A module's run_command can neither be read on the way nor does it end in time."""
    plain = dict(os.environ, LC_ALL="C", LANGUAGE="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="", SYSTEMD_URLIFY="0")
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=plain)  # pylint: disable=ansible-bad-function


def parse_show(text: str) -> list[dict[str, str]]:
    """Split the output of ``systemctl show`` into one mapping a unit."""
    units = []
    for block in re.split(r"\n\s*\n", text.strip()):
        properties = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if properties:
            units.append(properties)
    return units


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def unit_state(properties: dict[str, str]) -> UnitState:
    """The state of a unit in the words of the wait."""
    code = properties.get("ExecMainCode", "")
    code = _ENDS.get(code, code if code in _ENDS.values() else "")
    status = properties.get("ExecMainStatus", "")
    return UnitState(
        load_state=properties.get("LoadState", "loaded"),
        active_state=properties.get("ActiveState", ""),
        sub_state=properties.get("SubState", ""),
        result=properties.get("Result", "") or "success",
        restarts=_number(properties.get("NRestarts", "")),
        exit_code=code,
        exit_status=int(status) if code and status.lstrip("-").isdigit() else None,
        main_pid=_number(properties.get("MainPID", "")),
        invocation_id=properties.get("InvocationID", ""),
    )


def parse_span(text: str) -> float | None:
    """Seconds of a systemd time span such as ``6min 30s``; None for ``infinity``."""
    if not text or text == "infinity":
        return None
    return sum(float(number) * _SPAN_SECONDS[unit] for number, unit in _SPAN.findall(text))


def monotonic_seconds(properties: dict[str, str], name: str) -> float | None:
    """A monotonic stamp of a unit in seconds, None when it has none yet."""
    stamp = _number(properties.get(name, ""))
    return stamp / 1e6 if stamp else None


def show(commands: Commands, units: Iterable[str], properties: Iterable[str] = SHOW) -> list[dict[str, str]]:
    """Ask systemd for several units; an empty list when it does not answer."""
    code, output, errors = commands.run(["systemctl", "show", "--property=" + ",".join(properties)] + list(units))
    return parse_show(output) if code == 0 else []


def list_units(commands: Commands, pattern: str = "sglang-*.service") -> list[str]:
    """Names of the loaded units that fit the pattern, whatever their state."""
    code, output, errors = commands.run(["systemctl", "list-units", "--all", "--plain", "--no-legend", "--full", pattern])
    return [line.split()[0] for line in output.splitlines() if line.strip()] if code == 0 else []


def cgroup_pids(control_group: str, roots: Iterable[str] = _CGROUP_ROOTS) -> list[int]:
    """Every process in the unit's control group and below it; empty when the group is gone."""
    if not control_group or control_group == "/":
        return []
    for root in roots:
        top = root + control_group
        if not os.path.isdir(top):
            continue
        pids: list[int] = []
        for folder, _folders, files in os.walk(top):
            if "cgroup.procs" in files:
                pids += _read_pids(os.path.join(folder, "cgroup.procs"))
        return pids
    return []


def _read_pids(path: str) -> list[int]:
    try:
        with open(path, encoding="ascii") as handle:
            return [int(line) for line in handle if line.strip().isdigit()]
    except (OSError, ValueError):
        return []


def invocation_link(unit: str, folder: str = "/run/systemd/units") -> str:
    """Invocation of a unit that is not inactive, from the link systemd keeps for journald; "" when there is none."""
    try:
        return os.readlink(os.path.join(folder, "invocation:" + unit))
    except OSError:
        return ""


def unit_of_pid(pid: int, proc: str = "/proc") -> str:
    """The systemd unit that a process belongs to, "" when it cannot be told."""
    try:
        with open("%s/%d/cgroup" % (proc, pid), encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return ""
    for line in lines:
        path = line.split(":", 2)[-1]
        for part in reversed(path.split("/")):
            if part.endswith((".service", ".scope")):
                return part
    return ""


def start_ticks(pid: int, proc: str = "/proc") -> int:
    """When a process began, in clock ticks since the boot; 0 when it cannot be told."""
    try:
        with open("%s/%d/stat" % (proc, pid), encoding="utf-8", errors="replace") as handle:
            return int(handle.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def user_of_pid(pid: int, proc: str = "/proc") -> str:
    """Name, or number, of the user a process runs as."""
    uid = _status_field(pid, "Uid", proc).split()
    if not uid:
        return ""
    try:
        return pwd.getpwuid(int(uid[0])).pw_name
    except (KeyError, ValueError):
        return uid[0]


def name_of_pid(pid: int, proc: str = "/proc") -> str:
    """What a process calls itself: its title when it set one, else its short name."""
    try:
        with open("%s/%d/cmdline" % (proc, pid), "rb") as handle:
            title = handle.read(4096).split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        title = ""
    if title.startswith("sglang::"):
        return title.strip()
    return _status_field(pid, "Name", proc)


def _status_field(pid: int, field: str, proc: str) -> str:
    try:
        with open("%s/%d/status" % (proc, pid), encoding="utf-8", errors="replace") as handle:
            for line in handle:
                if line.startswith(field + ":"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        return ""
    return ""
