# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads scenario files and says what is wrong with one."""

from __future__ import annotations

import re
from typing import Any

import yaml

from answers import ScenarioError, parse_reply
from collection import readiness
from options import listed, options_of


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
        options_of(scenario)
        readiness.Wait(options_of(scenario))
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
        for regex in listed(expect.get(key)):
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
    parsed = {}  # not in place: an alias of YAML shares its mapping with other entries
    for path, told in (entry.get("http") or {}).items():
        _need(isinstance(path, str) and path.startswith("/"), f"{key}.http.{path}", "must be a path")
        replies = told if isinstance(told, list) and told else [told]
        parsed[path] = [parse_reply(f"{key}.http.{path}", path, reply) for reply in replies]
    entry["http"] = parsed
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
