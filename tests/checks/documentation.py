# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-doc shows every plugin and role of the collection, and the action group names every module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

KINDS = {"module": "modules", "filter": "filter", "callback": "callback", "lookup": "lookup", "test": "test"}


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def rendered(kind: str, wanted: list[str]) -> list[str]:
    if not wanted:
        return []
    full = [f"gpuops.sglang.{name}" for name in wanted]
    done = subprocess.run(["ansible-doc", "--type", kind, *full], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    as_json = subprocess.run(["ansible-doc", "--type", kind, "--json", *full], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode or as_json.returncode:
        return [f"ansible-doc --type {kind}: {(done.stderr or as_json.stderr).strip()}"]
    missing = [name for name in full if name not in json.loads(as_json.stdout)]
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    print(f"{kind}: {', '.join(wanted)}")
    return [f"{kind} {name} is not shown" for name in missing] + warnings


def action_group() -> list[str]:
    group = yaml.safe_load(Path("meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]["sglang"]
    modules = names(Path("plugins/modules"))
    return [f"meta/runtime.yml: the action group and plugins/modules differ in {name}" for name in sorted(set(group) ^ set(modules))]


def main() -> int:
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(Path("playbooks/collections").resolve())
    failures = action_group()
    for kind, folder in KINDS.items():
        failures += rendered(kind, names(Path("plugins") / folder))
    failures += rendered("role", sorted(role.name for role in Path("roles").iterdir() if role.is_dir()))
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
