# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable of a role's defaults is in its argument specs with the same default, and the other way round."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml


def defaults_of(role: Path) -> dict:
    single = role / "defaults" / "main.yml"
    files = [single] if single.exists() else sorted((role / "defaults" / "main").glob("*.yml"))
    merged: dict = {}
    for file in files:
        merged.update(yaml.safe_load(file.read_text(encoding="utf-8")) or {})
    return merged


def options_of(role: Path) -> dict:
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    return {name: option for entry in specs.values() for name, option in entry.get("options", {}).items()}


def disagreements(role: Path) -> list[str]:
    defaults, options = defaults_of(role), options_of(role)
    found = [f"{name} has a default, but no argument spec" for name in defaults if name not in options]
    for name, option in options.items():
        if not name.startswith(f"{role.name}_"):
            found.append(f"{name} does not carry the role's name")
        if name not in defaults:
            if not option.get("required"):
                found.append(f"{name} is an option that is not required, but has no default in defaults/")
        elif "default" not in option:
            # A value worked out from other variables is described in words; a table of built-in data by where it lies.
            worked_out = isinstance(defaults[name], str) and "{{" in defaults[name]
            table = isinstance(defaults[name], dict) and defaults[name]
            if not (worked_out or table):
                found.append(f"{name} has the default {defaults[name]!r}, which its argument spec does not say")
        elif option["default"] != defaults[name]:
            found.append(f"{name}: defaults/ says {defaults[name]!r}, the argument spec {option['default']!r}")
    return found


def main() -> int:
    failures = [f"{role.name}: {text}" for role in sorted(Path("roles").iterdir()) if role.is_dir() for text in disagreements(role)]
    print("\n".join(failures) or "defaults and argument specs agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
