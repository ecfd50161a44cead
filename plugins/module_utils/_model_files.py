# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the files of a model are there, whole, and readable by the service."""

from __future__ import annotations

import json
import os
import pwd
import struct
from dataclasses import dataclass, field
from typing import Any

_INDEX = "model.safetensors.index.json"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_LONGEST_HEADER = 100 * 1024 * 1024
_NAMED = 3  # so many files are named in a finding


@dataclass
class Model:
    """One model as it lies on the node."""

    path: str
    kind: str  # local, hub
    exists: bool = True
    config: Any = None
    size: int = 0  # bytes of weights
    problems: list[dict[str, str]] = field(default_factory=list)  # code, text

    def problem(self, code: str, text: str) -> None:
        self.problems.append({"code": code, "text": text})


def is_local(path: str) -> bool:
    """Whether the server would take it for a path: everything else is asked for on a hub."""
    return path.startswith(("/", "./", "../", "~")) or os.path.exists(path)


def look(path: str, user: str, weights_needed: bool = True) -> Model:
    """Look at a model without reading its weights."""
    if not is_local(path):
        return Model(path, "hub")
    model = Model(path, "local")
    if not os.path.lexists(path):
        model.exists = False
        model.problem("model_not_found", f"{path} does not exist{_nearest(path)}")
        return model
    if not os.path.isdir(path):
        if not os.path.isfile(path):
            model.problem("model_not_found", f"{path} is neither a folder nor a file")
        else:
            model.size = os.path.getsize(path)
    else:
        try:
            files = {entry.name: entry.stat().st_size for entry in os.scandir(path) if entry.is_file()}
        except OSError as error:
            model.problem("no_permission", f"{path}: {error.strerror}")
            return model
        _look_into(model, files, weights_needed)
    _readable(model, user)
    return model


def _nearest(path: str) -> str:
    """The part of a path that does exist, in words: a missing mount is seen there."""
    parent = os.path.dirname(path.rstrip("/"))
    while parent not in ("", "/") and not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    try:
        empty = not os.listdir(parent) if parent not in ("", "/") else False
    except OSError:
        empty = False
    return f" ({parent} exists" + (" and is empty: is it mounted?)" if empty else ")") if parent not in ("", "/") else ""


def _look_into(model: Model, files: dict[str, int], weights_needed: bool) -> None:
    model.config = _config(model, files)
    indexed = _indexed(model, files)
    missing = sorted(name for name in indexed if name not in files)
    if missing:
        listed = ", ".join(missing[:_NAMED]) + (" ..." if len(missing) > _NAMED else "")
        model.problem("model_not_found", f"{model.path} lacks {len(missing)} of {len(set(indexed))} weight files: {listed}")
    weights = [name for name in files if name.endswith(_WEIGHTS) and (not indexed or name in indexed)]
    model.size = sum(files[name] for name in weights)
    if weights_needed and not weights and not indexed:
        model.problem("model_not_found", f"{model.path} holds no weights ({', '.join('*' + suffix for suffix in _WEIGHTS)})")
    for name in sorted(weights):
        why = _truncated(os.path.join(model.path, name), files[name]) if name.endswith(".safetensors") else ""
        if why:
            model.problem("model_not_found", f"{os.path.join(model.path, name)} {why}")
            break


def _config(model: Model, files: dict[str, int]) -> Any:
    if "config.json" not in files:
        if not any(name.endswith(".gguf") or name in ("params.json", "model_index.json") for name in files):
            model.problem("model_not_found", f"{model.path} holds no config.json")
        return None
    path = os.path.join(model.path, "config.json")
    try:
        with open(path, encoding="utf-8") as handle:
            config = json.load(handle)
    except OSError as error:
        model.problem("no_permission", f"{path}: {error.strerror}")
        return None
    except ValueError as error:
        model.problem("model_not_found", f"{path} is no valid JSON ({error})")
        return None
    if not isinstance(config, dict):
        model.problem("model_not_found", f"{path} holds no mapping")
        return None
    return config


def _indexed(model: Model, files: dict[str, int]) -> list[str]:
    """The weight files that the index names."""
    if _INDEX not in files:
        return []
    path = os.path.join(model.path, _INDEX)
    try:
        with open(path, encoding="utf-8") as handle:
            names = json.load(handle)["weight_map"].values()
        return sorted({str(name) for name in names})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        model.problem("model_not_found", f"{path} cannot be read as an index of weights")
        return []


def _truncated(path: str, size: int) -> str:
    """Why a safetensors file cannot be whole, from its header and its length; nothing when it can."""
    try:
        with open(path, "rb") as handle:
            length = struct.unpack("<Q", handle.read(8))[0]
            if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
                return "is no whole safetensors file: its header is cut off, or it is only a pointer to the real file"
            header = json.loads(handle.read(length))
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, struct.error):
        return "has no readable safetensors header"
    whole = 8 + length + max(ends, default=0)
    return "" if size >= whole else f"is cut off: {size} of {whole} bytes"


def _readable(model: Model, user: str) -> None:
    paths = [model.path]
    if os.path.isdir(model.path):
        paths += [entry.path for entry in os.scandir(model.path) if entry.name.endswith((".json", *_WEIGHTS))]
    refused = unreadable(paths, user)
    if refused:
        model.problem("no_permission", f"{user} cannot read {refused}")


def unreadable(paths: list[str], user: str) -> str:
    """The first of these paths that the user cannot read, and why; nothing when it can read all, or when that cannot be tried."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return ""
    return _refused_to(entry, paths) if os.geteuid() in (0, entry.pw_uid) else ""


def _refused_to(user: pwd.struct_passwd, paths: list[str]) -> str:
    """Tried by a child that becomes this user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            os.write(writing, _first_unreadable(paths).encode("utf-8", "replace")[:4096])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    return text


def _first_unreadable(paths: list[str]) -> str:
    for path in paths:
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                with open(path, "rb"):
                    pass
        except OSError as error:
            return f"{path}: {error.strerror}"
    return ""
