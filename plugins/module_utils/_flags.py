# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's flags: their names in each version, which values they take, and how they are written on a command line."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._flag_table import ADDED, DEPRECATED, REMOVED, TABLES
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal
from ansible_collections.gpuops.sglang.plugins.module_utils._systemd_quote import check_text

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_TESTS = {
    "int": re.compile(r"[-+]?\d+"),
    "ints": re.compile(r"[-+]?\d+"),
    "float": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"),
    "floats": re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"),
    "human": re.compile(r"[-+]?\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i"),
}
_SPOKEN = {"int": "a whole number", "ints": "whole numbers", "float": "a number", "floats": "numbers", "human": "a whole number, or one such as 128k"}


@dataclass(frozen=True)
class Flag:
    """What one version says about one flag; the kinds are explained in the table."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()

    @property
    def takes_value(self) -> bool:
        return self.kind not in ("flag", "switch")

    @property
    def takes_list(self) -> bool:
        return self.kind.rstrip("*") in ("ints", "floats", "strs", "list")


class Known:
    """The flags of one version: names, other spellings, kinds."""

    def __init__(self, table: dict[str, tuple]) -> None:
        self._flags = {}
        for name, row in table.items():
            flag = Flag(name, row[0], tuple(row[2]) if len(row) > 2 else ())
            for spelling in (name, *(row[1] if len(row) > 1 else ())):
                self._flags[spelling] = flag

    def get(self, name: str) -> Flag | None:
        return self._flags.get(name)

    def near(self, name: str) -> list[str]:
        """Names that may have been meant, best first."""
        longer = sorted(known for known in self._flags if known.startswith(name + "-"))[:3]
        return (longer + [near for near in difflib.get_close_matches(name, self._flags, 3, 0.75) if near not in longer])[:3]


def release(version: str) -> str:
    """The version without its local part: a build marked ``+standin`` takes the flags of its release."""
    return version.split("+", 1)[0]


def number(version: str) -> tuple[int, ...]:
    """The version as numbers that can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", release(version))[:3])


def table(version: str) -> Known | None:
    """The flags of this version, None when they are not in the table."""
    rows = TABLES.get(release(version))
    return Known(rows) if rows is not None else None


def installed(version: str, rows: dict[str, tuple]) -> Known:
    """The flags that an installed server lists, and those of its release that it keeps out of its help."""
    return Known({**TABLES.get(release(version), {}), **rows})


def _alias_map() -> dict[str, str]:
    newest = TABLES[max(TABLES, key=number)]
    return {alias: name for name, row in newest.items() if len(row) > 1 for alias in row[1]}


_ALIASES = _alias_map()


def canonical(name: Any) -> str:
    """The one name under which a flag is kept: no dashes in front, ``-`` within, no second spelling."""
    if not isinstance(name, str):
        raise Refusal("bad_flags", f"a flag's name must be text, not {name!r}")
    dashed = name.lstrip("-").replace("_", "-")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", dashed):
        raise Refusal("bad_flags", f"{name!r} is no flag's name")
    return _ALIASES.get(dashed, dashed)


def _recorded(records: dict[str, tuple], name: str) -> tuple | None:
    for pattern, record in records.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return record
    return None


def history(name: str, version: str) -> str:
    """A sentence when the history of the flags says that this version does not have it, else nothing."""
    gone = _recorded(REMOVED, name)
    if gone and number(version) >= number(gone[0]):
        return f"--{name} was removed in {gone[0]}: use {gone[1]}"
    new = _recorded(ADDED, name)
    if new and number(version) <= number(new[0]):
        return f"--{name} came with {new[1]}"
    return ""


def unknown(name: str, version: str, known: Known | None) -> str:
    """Why this flag is not for this version, a sentence; nothing when it is, or when that cannot be told."""
    if known is None:
        return history(name, version)
    if known.get(name):
        return ""
    said = history(name, version) or f"{version or 'the installed server'} has no --{name}"
    near = [] if "use --" in said else known.near(name)
    return said + (": did you mean --" + ", --".join(near) + "?" if near else "")


def deprecated(name: str) -> str:
    """What to write instead of a flag that is on its way out, else nothing."""
    return DEPRECATED.get(name, "")


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = str(value)
    try:
        check_text(text)
    except ValueError as error:
        raise Refusal("bad_flags", f"the value of --{name} {error}") from None
    return text


def _one(flag: Flag, text: str) -> str:
    test = _TESTS.get(flag.kind.rstrip("*"))
    if test and not test.fullmatch(text):
        raise Refusal("bad_flags", f"--{flag.name} takes {_SPOKEN[flag.kind.rstrip('*')]}, not {text!r}")
    if flag.choices and text not in flag.choices:
        raise Refusal("bad_flags", f"--{flag.name} takes one of {', '.join(flag.choices)}, not {text!r}")
    return text


def words(name: str, value: Any, flag: Flag | None = None) -> list[str]:
    """The words of one flag on the command line; without a ``flag`` nothing is known about it and the value decides."""
    if value is None or (value is False and (flag is None or flag.kind != "switch")):
        return []
    if flag is not None and not flag.takes_value:
        if not isinstance(value, bool):
            raise Refusal("bad_flags", f"--{name} takes no value: write true or false, not {value!r}")
        return [f"--{name}" if value else f"--no-{name}"]
    if value is True:
        if flag is not None and flag.kind != "optional":
            raise Refusal("bad_flags", f"--{name} needs a value")
        return [f"--{name}"]
    if isinstance(value, (list, tuple)) and flag is not None and flag.kind == "json":
        value = json.dumps(list(value), ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return _list_words(name, list(value), flag)
    text = _text(name, value)
    if flag is not None:
        _one(flag, text)
    if text.startswith("-") and not _NUMBER.fullmatch(text):
        return [f"--{name}={text}"]
    return [f"--{name}", text]


def _list_words(name: str, values: list, flag: Flag | None) -> list[str]:
    if flag is not None and not flag.takes_list:
        raise Refusal("bad_flags", f"--{name} takes one value, not a list")
    if not values and (flag is None or not flag.kind.endswith("*")):
        raise Refusal("bad_flags", f"--{name} has an empty list: write null to leave it out")
    texts = [_text(name, value) for value in values]
    for text in texts:
        if flag is not None:
            _one(flag, text)
        if text.startswith("-") and not _NUMBER.fullmatch(text):
            raise Refusal("bad_flags", f"--{name}: a value in a list cannot start with a dash ({text!r})")
    return [f"--{name}", *texts]


def parse_help(text: str) -> dict[str, tuple]:
    """The flags that a server's ``--help`` shows, in the form of the table; kinds are flag, switch, str and list only."""
    found: dict[str, tuple] = {}
    for line in text.splitlines():
        if not re.match(r" {1,4}-", line):
            continue
        spec = re.split(r"(?<=\S) {2,}", line.strip(), maxsplit=1)[0]
        names = re.findall(r"(?:^|, )--([A-Za-z0-9][A-Za-z0-9-]*)", spec)
        if not names or names == ["help"]:
            continue
        value = re.sub(r"--?[A-Za-z0-9-]+", "", re.sub(r"\{[^}]*\}", "X", spec)).strip(" ,")
        choices = re.search(r"\{([^}]*)\}", spec)
        if not value:
            kind = "switch" if "no-" + names[0] in names else "flag"
        elif value.startswith("[") and " " not in value:
            kind = "optional"
        else:
            kind = "list*" if "[" in value else "str"
        aliases = tuple(name for name in names[1:] if kind != "switch" or not name.startswith("no-"))
        found[names[0]] = (kind, aliases, tuple(choices.group(1).split(",")) if choices else ())
    return found
