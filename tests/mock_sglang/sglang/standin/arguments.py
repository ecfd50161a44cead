# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of SGLang 0.5.23, made from the list of its options, and its --config file."""

from __future__ import annotations

import argparse
import json
import os
import re

from sglang.standin import log
from sglang.standin.yaml_subset import load_mapping

FLAGS_FILE = os.path.join(os.path.dirname(__file__), "flags.json")
UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def human_readable_int(text: str) -> int:
    """Whole numbers with an optional unit, as 128k or 4Ki."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if match:
        return int(float(match.group(1)) * UNITS[match.group(2)])
    return int(text)


def json_list_type(text: str) -> list:
    """A JSON list given as one word."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError("not a JSON list: %s" % text)
    return value


def nullable_str(text: str) -> str | None:
    """A word, or nothing when it says so."""
    return None if text in ("", "None", "null") else text


def _graph_backend(text: str) -> str:
    if text == "tc_piecewise":
        raise argparse.ArgumentTypeError("tc_piecewise was removed; select breakable, full, or disabled")
    return text


TYPES = {
    "str": str,
    "int": int,
    "float": float,
    "json": json.loads,
    "human_int": human_readable_int,
    "json_list": json_list_type,
    "nullable_str": nullable_str,
    "graph_backend": _graph_backend,
}


class Deprecated(argparse.Action):
    """An old switch that still works and says what to write instead."""

    def __init__(self, option_strings, dest, new_flag="", **kwargs):
        self.new_flag = new_flag
        super().__init__(option_strings, dest, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, True)
        namespace.deprecations.append(
            "'%s' is deprecated and will be removed in a future release. Use '%s' instead."
            % (option_string, self.new_flag)
        )


def read_flags() -> list[dict]:
    """All options of the release, one mapping each."""
    with open(FLAGS_FILE, encoding="utf-8") as flags:
        return json.load(flags)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the real server: same program name, same abbreviations, same refusals."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    parser.set_defaults(deprecations=[])
    for flag in read_flags():
        options = {key: flag[key] for key in ("dest", "nargs", "choices", "default", "required", "const") if key in flag}
        action = flag["action"]
        if action == "true":
            options["action"] = "store_true"
        elif action == "on_off":
            options["action"] = argparse.BooleanOptionalAction
        elif action.startswith("deprecated"):
            options.update(action=Deprecated, new_flag=flag["new_flag"])
            options["nargs"] = None if action == "deprecated_const" else 0
        else:
            options["type"] = TYPES[flag["type"]]
        parser.add_argument(*flag["options"], **options)
    return parser


def _keys(action: argparse.Action) -> set[str]:
    return {action.dest} | {name[2:].replace("-", "_") for name in action.option_strings if name.startswith("--")}


def _from_file(parser: argparse.ArgumentParser, path: str) -> list[str]:
    if os.path.splitext(path)[1].lower() not in (".yaml", ".yml"):
        raise ValueError("Config file must be YAML format, got: %s" % os.path.splitext(path)[1])
    if not os.path.exists(path):
        raise ValueError("Config file not found: %s" % path)
    with open(path, encoding="utf-8") as file:
        settings = load_mapping(file.read())
    switches, refused = set(), {}
    for action in parser._actions:
        switch = isinstance(action, argparse._StoreTrueAction)
        if switch:
            switches |= _keys(action)
        elif not isinstance(action, argparse._StoreAction) and action.nargs is not None and action.dest != "help":
            refused.update((key, action) for key in _keys(action))
    words = []
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name in refused:
            raise ValueError("Unsupported config option '%s' with action '%s'" % (name, type(refused[name]).__name__))
        if isinstance(value, bool) and name in switches:
            words += ["--" + key] if value else []
        elif isinstance(value, list):
            words += ["--" + key, *(str(item) for item in value)] if value else []
        else:
            text = json.dumps(value) if isinstance(value, (bool, dict)) else str(value)
            words += ["--" + key, text]
    return words


def merge_config(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    """Put what --config FILE says before the command line; only the two-word form is looked at."""
    if "--config" not in argv:
        return argv
    if argv.count("--config") > 1:
        raise ValueError("Multiple config files specified! Only one allowed.")
    at = argv.index("--config")
    if at == len(argv) - 1:
        raise ValueError("No config file specified after --config flag!")
    return _from_file(parser, argv[at + 1]) + argv[:at] + argv[at + 2:]


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the command line as the real server does; leaves with 2 on an unknown or wrong flag."""
    parser = build_parser()
    merged = merge_config(parser, argv)
    args = parser.parse_args(merged)
    args.launch_command = " ".join(merged)
    for text in args.deprecations:
        log.line("\033[1;33m%s\033[0m" % text)
    del args.deprecations
    return args
