# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strategies as data: a name, what it builds on, and what the inventory changes, merged into flags and environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils import _flags
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal
from ansible_collections.gpuops.sglang.plugins.module_utils._systemd_quote import check_name, check_text

_KEYS = ("summary", "base", "flags", "environment", "gpus", "flags_by_compute_cap")
_SECRET_FLAGS = {
    "api-key": "sglang_server_api_key",
    "admin-api-key": "sglang_server_admin_api_key",
    "ssl-keyfile-password": "a key file without a password that only the service can read",
}
_SECRET_NAME = re.compile(r"(_|^)(TOKEN|API_KEY|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD)$")


@dataclass
class Resolved:
    """A strategy with everything it builds on."""

    name: str
    base_chain: list[str] = field(default_factory=list)  # from the root on, the strategy itself last
    summary: str = ""
    flags: dict[str, Any] = field(default_factory=dict)  # canonical name -> value
    environment: dict[str, str] = field(default_factory=dict)
    gpus: Any = None
    unmatched: list[str] = field(default_factory=list)  # flags that depend on a compute capability nobody told


def resolve(name: Any, strategies: Any, overrides: Any, environment: Any, compute_cap: float | None) -> Resolved:
    """Merge a strategy with its bases and the overrides of the inventory; null takes a flag or variable away."""
    chain = _chain(name, strategies)
    resolved = Resolved(name=chain[-1][0], base_chain=[link for link, _data in chain])
    for link, data in chain:
        where = f"strategy {link}"
        _merge_flags(resolved.flags, data.get("flags"), where)
        _merge_by_compute_cap(resolved, data.get("flags_by_compute_cap"), compute_cap, where)
        _merge_environment(resolved.environment, data.get("environment"), where)
        resolved.summary = str(data.get("summary") or resolved.summary)
        resolved.gpus = data.get("gpus") or resolved.gpus
    _merge_flags(resolved.flags, overrides, "sglang_server_flags")
    _merge_environment(resolved.environment, environment, "sglang_server_environment")
    return resolved


def _chain(name: Any, strategies: Any) -> list[tuple[str, dict]]:
    if not isinstance(strategies, dict) or not strategies:
        raise Refusal("bad_flags", "there are no strategies: they must be a mapping of name to strategy")
    known = ", ".join(sorted(str(key) for key in strategies))
    chain: list[tuple[str, dict]] = []
    link, wanted_by = name, ""
    while link:
        if not isinstance(link, str) or link not in strategies:
            raise Refusal("bad_flags", f"unknown strategy {link!r}{wanted_by}: known are {known}")
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", link):
            raise Refusal("bad_flags", f"strategy name {link!r} must be of lower case letters, digits and _")
        if link in [done for done, _data in chain]:
            circle = " -> ".join([done for done, _data in chain] + [link])
            raise Refusal("bad_flags", f"strategy {chain[0][0]} builds on itself: {circle}")
        data = strategies[link]
        if not isinstance(data, dict):
            raise Refusal("bad_flags", f"strategy {link} must be a mapping with some of {', '.join(_KEYS)}")
        for key in data:
            if key not in _KEYS:
                raise Refusal("bad_flags", f"strategy {link} has {key!r}: known are {', '.join(_KEYS)} (the server's flags go under flags)")
        chain.append((link, data))
        link, wanted_by = data.get("base"), f" (the base of {link})"
    if not chain:
        raise Refusal("bad_flags", f"no strategy is named: known are {known}")
    return chain[::-1]


def _mapping(value: Any, where: str) -> dict:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refusal("bad_flags", f"{where} must be a mapping, not {value!r}")
    return value


def _merge_flags(flags: dict[str, Any], more: Any, where: str) -> None:
    for spelling, value in _mapping(more, f"flags of {where}").items():
        name = _flags.canonical(spelling)
        if name in _SECRET_FLAGS and value is not None:
            raise Refusal("bad_flags", f"--{name} in {where} would be readable by everyone on the node: use {_SECRET_FLAGS[name]}")
        flags.pop(name, None)
        if value is not None:
            flags[name] = value


def _merge_by_compute_cap(resolved: Resolved, by_compute_cap: Any, compute_cap: float | None, where: str) -> None:
    for wanted, more in _mapping(by_compute_cap, f"flags_by_compute_cap of {where}").items():
        if compute_cap is None:
            names = ", ".join("--" + _flags.canonical(name) for name in _mapping(more, where))
            resolved.unmatched.append(f"{names} is for compute capability {wanted}, the GPU's is not known")
        elif str(wanted) in (str(compute_cap), str(compute_cap).split(".", maxsplit=1)[0]):
            _merge_flags(resolved.flags, more, where)


def _merge_environment(environment: dict[str, str], more: Any, where: str) -> None:
    for name, value in _mapping(more, f"environment of {where}").items():
        try:
            check_name(str(name))
            if value is not None and not isinstance(value, bool):
                check_text(str(value))
        except ValueError as error:
            raise Refusal("bad_flags", f"environment variable {name!r} in {where} {error}") from None
        if value is not None and _SECRET_NAME.search(str(name).upper()):
            raise Refusal(
                "bad_flags", f"environment variable {name} in {where} would be readable by everyone on the node: use sglang_server_secret_environment"
            )
        if isinstance(value, (bool, dict, list)):
            raise Refusal("bad_flags", f"environment variable {name} in {where} must be text or a number, not {value!r}")
        environment.pop(str(name), None)
        if value is not None:
            environment[str(name)] = str(value)
