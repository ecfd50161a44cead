# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a virtual environment holds: the SGLang version, and the flags that its own ``--help`` shows."""

from __future__ import annotations

import glob
import json
import os
import re
import tempfile
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._flags import parse_help
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands

FLAGS_FILE = ".gpuops-flags.json"
REQUIREMENTS_FILE = ".gpuops-requirements"
_HELP_TIMEOUT = 240  # seconds; the real server imports for 20 of them on an idle machine
_PASSED_ON = ("PATH", "CUDA_HOME", "LD_LIBRARY_PATH")
_FEWEST = 20  # a help text with fewer flags is not the server's


@dataclass(frozen=True)
class Installed:
    """One virtual environment."""

    venv: str
    python: str
    version: str = ""  # "" when SGLang is not in it
    dist_info: str = ""
    broken: str = ""  # why it cannot be used although something is there


def look(root: str, version: str) -> Installed:
    """The environment of one version below the root."""
    venv = os.path.join(root, version)
    python = os.path.join(venv, "bin", "python")
    found = sorted(glob.glob(os.path.join(glob.escape(venv), "lib", "python3*", "site-packages", "sglang-*.dist-info")))
    versions = [_version(path) for path in found]
    if len(found) > 1:
        return Installed(venv, python, broken="holds several versions of sglang: " + ", ".join(versions))
    if not os.access(python, os.X_OK):
        return Installed(venv, python, broken="has an interpreter that cannot be run" if found or os.path.isdir(venv) else "")
    if not found:
        return Installed(venv, python)
    return Installed(venv, python, versions[0], found[0])


def _version(dist_info: str) -> str:
    """The version as the package states it; the folder's name has it in another spelling."""
    try:
        with open(os.path.join(dist_info, "METADATA"), encoding="utf-8", errors="replace") as handle:
            for line in handle:
                if line.startswith("Version:"):
                    return line.split(":", 1)[1].strip()
                if not line.strip():
                    break
    except OSError:
        pass
    return os.path.basename(dist_info)[len("sglang-") : -len(".dist-info")]


def _stamp(installed: Installed) -> list[Any]:
    """What changes when the package is installed anew."""
    try:
        return [installed.version, os.stat(os.path.join(installed.dist_info, "RECORD")).st_mtime_ns]
    except OSError:
        return [installed.version, 0]


def requirements(installed: Installed) -> str:
    """Hash of what the role asked for beside SGLang when it installed this, "" when that was nothing."""
    try:
        with open(os.path.join(installed.venv, REQUIREMENTS_FILE), encoding="ascii") as handle:
            return handle.read(128).strip()
    except (OSError, ValueError):
        return ""


def kept_flags(installed: Installed) -> dict[str, tuple] | None:
    """The flags as they were read from this installation before, None when they were not."""
    try:
        with open(os.path.join(installed.venv, FLAGS_FILE), encoding="utf-8") as handle:
            kept = json.load(handle)
        if kept["stamp"] != _stamp(installed):
            return None
        return {str(name): (str(row[0]), tuple(row[1]), tuple(row[2])) for name, row in kept["flags"].items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def ask_flags(commands: Commands, installed: Installed, environment: dict[str, str], keep: bool) -> tuple[dict[str, tuple] | None, str]:
    """The flags that the server itself lists, kept for the next time when that is allowed; else why it did not list them.

    It runs in the planned environment but for its home and caches: what root leaves there, the service could not write.
    """
    wanted = {name: value for name, value in environment.items() if name.startswith("SGLANG_") or name in _PASSED_ON}
    with tempfile.TemporaryDirectory(prefix="gpuops-") as folder:
        wanted.update(HOME=folder, XDG_CACHE_HOME=folder, SGLANG_CACHE_DIR=folder, HF_HUB_OFFLINE="1")
        wanted.update({} if keep else {"PYTHONDONTWRITEBYTECODE": "1"})
        argv = ["env", "-u", "COLUMNS", *(f"{name}={value}" for name, value in wanted.items())]
        code, output, errors = commands.run(argv + [installed.python, "-m", "sglang.launch_server", "--help"], timeout=_HELP_TIMEOUT)
    flags = parse_help(output)
    if code != 0 or len(flags) < _FEWEST:
        lines = [line.strip() for line in (errors or output).splitlines() if line.strip()]
        return None, lines[-1] if lines else f"exit status {code}"
    if keep:
        _keep(installed, flags)
    return flags, ""


def _keep(installed: Installed, flags: dict[str, tuple]) -> None:
    """Written beside and moved, so that a reader never sees half a file; a read-only environment is simply asked again."""
    try:
        handle, path = tempfile.mkstemp(prefix=FLAGS_FILE, dir=installed.venv)
    except OSError:
        return
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"stamp": _stamp(installed), "flags": flags}, stream)
        os.chmod(path, 0o644)
        os.replace(path, os.path.join(installed.venv, FLAGS_FILE))
    except OSError:
        os.unlink(path)


def cuda_major(installed: Installed) -> int | None:
    """The CUDA version that the installed PyTorch was built for, None when it cannot be told or there is none."""
    packages = os.path.dirname(installed.dist_info)
    for path in glob.glob(os.path.join(glob.escape(packages), "torch-*.dist-info")) if packages else []:
        match = re.search(r"\+(?:cu(\d\d)\d|cpu)", os.path.basename(path))
        if match:
            return int(match.group(1)) if match.group(1) else None
        with_suffix = glob.glob(os.path.join(glob.escape(packages), "nvidia_*_cu1?-*.dist-info"))
        majors = {int(found.group(1)) for found in (re.search(r"_cu(\d\d)-", os.path.basename(one)) for one in with_suffix) if found}
        return max(majors) if majors else None
    return None
