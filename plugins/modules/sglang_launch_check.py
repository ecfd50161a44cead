# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that checks a launch on the node before anything is touched."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_launch_check
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Check on the node whether a launch can work
description:
  - Looks at the node once and tells everything that has to be known before a deployment is written and switched to.
  - With O(plan), checks flags against those of the installed server, sizes against GPUs and model, that GPUs and ports are free or
    held by units that make room, that the model is there, whole and readable, and that the interpreter of the modules can ask a server later;
    and compares the process that runs with the plan and with the files on disk.
  - Fails when the launch cannot work, with the first cause; what was found is returned all the same.
  - Changes nothing. Outside of check mode the flags that the installed server lists are kept in its virtual environment, in
    C(.gpuops-flags.json), since asking takes 20 seconds.
options:
  plan:
    description: The plan of the launch, from the filter P(gpuops.sglang.launch_plan#filter).
    type: dict
  runtime:
    description: The installation to look at. Without O(plan), only this and the GPUs are looked at, and nothing fails.
    type: dict
    suboptions:
      root:
        description: Directory that holds one virtual environment per version.
        type: path
      version:
        description: Release of SGLang that is wanted.
        type: str
      user:
        description: User that the server runs as.
        type: str
        default: sglang
  files:
    description:
      - Files of the deployment by path, each with the SHA-256 of its text, empty when it should not be there.
      - They are compared with what is on disk, owner and mode included. Units are to be of mode V(0644), all others V(0600).
    type: dict
    default: {}
  allow_busy_gpus:
    description:
      - Whether GPU memory held by processes outside of SGLang's units is only a warning.
      - It is never more than that while the planned server runs already.
    type: bool
    default: false
extends_documentation_fragment:
  - gpuops.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: See which version is installed and which GPUs there are
  gpuops.sglang.sglang_launch_check:
    runtime:
      root: /opt/sglang
      version: 0.5.23

- name: Check a planned launch
  gpuops.sglang.sglang_launch_check:
    plan: "{{ plan }}"
    runtime:
      root: /opt/sglang
      version: 0.5.23
      user: sglang
  register: check
"""

RETURN = r"""
verdict:
  description: V(ok), V(refused) when a setting is wrong, V(preflight_failed) when the node is not fit.
  returned: always
  type: str
cause:
  description: The first error, with C(code), C(summary) and C(hint). Empty when there is none.
  returned: always
  type: dict
findings:
  description: Everything that was found, each with C(code), C(level) (V(error), V(warning), V(note)), C(summary) and C(hint).
  returned: always
  type: list
  elements: dict
installed:
  description: C(version) of SGLang in the environment (empty when there is none), C(python), whether its flags are known (C(flags_known)), and
    a hash of what was installed beside it (C(requirements), empty for nothing).
  returned: always
  type: dict
account:
  description: C(name) of the service user, and whether there is such a C(user) and a C(group) of that name.
  returned: always
  type: dict
gpus:
  description: The GPUs with the processes on them, as from M(gpuops.sglang.sglang_gpu_info). Empty for a plan that runs on the CPU.
  returned: always
  type: list
  elements: dict
driver_version:
  description: Version of the NVIDIA driver.
  returned: always
  type: str
unit:
  description: State of the plan's unit, with C(exists), C(enabled), C(need_daemon_reload) and C(drop_ins).
  returned: with a plan
  type: dict
running:
  description: Whether the process that runs is the planned one (C(matches)), and in what it is not (C(differs)).
  returned: with a plan
  type: dict
conflicts:
  description: Units with a process that share GPUs or the port with the plan, each with C(unit), C(deployment), C(gpus), C(host),
    C(port), C(served_model_name) and C(shares).
  returned: with a plan
  type: list
  elements: dict
replaces:
  description: Units that start at boot and share GPUs or the port with the plan.
  returned: with a plan
  type: list
  elements: str
port:
  description: Whether the HTTP port is free (C(free)), else who listens there (C(pid), C(name), C(unit)).
  returned: with a plan
  type: dict
model:
  description: The model's C(path), C(kind) (V(local), V(hub)), parsed C(config), C(size) in bytes of its weights, and C(problems).
  returned: with a plan
  type: dict
files:
  description: By path, whether the file C(exists), is the C(same), and, for a unit, was written by somebody else (C(foreign)).
  returned: with a plan
  type: dict
copies:
  description:
    - Copies of O(files) that an earlier run kept for putting back and never dropped, in C(files).
    - C(outdated) when the unit serves from files written after them, so that they are not what a failure should come back to.
  returned: with a plan
  type: dict
known_good:
  description: The record of what served last on this node.
  returned: with a plan
  type: dict
previous:
  description: The part of it about the deployment that this plan would take the place of, or about this one. Empty when there is none.
  returned: with a plan
  type: dict
serving:
  description: The deployment that has the plan's GPUs now. Empty when there is none.
  returned: with a plan
  type: str
cursor:
  description: Where the journal ends now, for a wait that begins here.
  returned: with a plan
  type: str
commands:
  description: The commands that were run.
  returned: always
  type: list
  elements: str
"""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.sglang.plugins.module_utils import _node, _preflight
from ansible_collections.gpuops.sglang.plugins.module_utils._running import differs
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands

_LONGEST_VALUE = 4096  # characters of one value of config.json; longer ones are tables nobody decides on
_PLAN_KEYS = ("unit", "version", "python", "argv", "flags", "environment", "model_path", "served_model_name", "host", "port", "ports", "gpus", "gpu_count")


def _model(facts: _preflight.Facts) -> dict[str, Any]:
    model = facts.models[0]
    config = model.config if isinstance(model.config, dict) else {}
    short = {key: value for key, value in config.items() if len(json.dumps(value)) <= _LONGEST_VALUE}
    return {"path": model.path, "kind": model.kind, "config": short, "size": model.size, "problems": [problem["text"] for problem in model.problems]}


def _unit(facts: _preflight.Facts) -> dict[str, Any]:
    unit = facts.unit
    if unit is None:
        return {"exists": False, "enabled": False, "active_state": "", "sub_state": "", "invocation_id": "", "main_pid": 0,
                "need_daemon_reload": False, "drop_ins": []}
    return {
        "exists": unit.load_state not in ("not-found", ""),
        "enabled": unit.enabled,
        "active_state": unit.active_state,
        "sub_state": unit.sub_state,
        "invocation_id": unit.invocation_id,
        "main_pid": unit.main_pid,
        "need_daemon_reload": unit.need_daemon_reload,
        "drop_ins": unit.drop_ins,
    }


def _previous(known_good: dict[str, Any], candidates: list[str]) -> dict[str, Any]:
    records = known_good.get("deployments")
    records = [record for record in records.values() if isinstance(record, dict)] if isinstance(records, dict) else []
    by_unit = {str(record.get("unit")): record for record in records}
    return next((by_unit[name] for name in candidates if name in by_unit), {})


def _about_plan(plan: dict[str, Any], facts: _preflight.Facts, files: dict[str, Any], commands: Commands) -> dict[str, Any]:
    conflicts, replaces = _preflight.conflicts(plan, facts), _preflight.replaces(plan, facts)
    differences = differs(facts.unit, plan) if facts.unit is not None else [f"{plan['unit']} is not there"]
    known_good = _node.known_good()
    own_serves = facts.unit is not None and facts.unit.active_state == "active"
    on_gpus = [conflict["deployment"] for conflict in conflicts if "gpus" in conflict["shares"]]
    listener = facts.listeners.get(plan["ports"]["http"])
    return {
        "unit": _unit(facts),
        "running": {"matches": not differences, "differs": differences},
        "conflicts": conflicts,
        "replaces": replaces,
        "port": {"free": listener is None, **(listener or {"pid": 0, "name": "", "unit": ""})},
        "model": _model(facts),
        "files": _node.compare_files(files),
        "copies": _node.copies(files, facts.unit),
        "known_good": known_good,
        "previous": _previous(known_good, [conflict["unit"] for conflict in conflicts] + replaces + [plan["unit"]]),
        "serving": plan["deployment"] if own_serves else (on_gpus or [""])[0],
        "cursor": _node.cursor(commands),
    }


def _will_start(about_plan: dict[str, Any]) -> bool:
    """Whether a deployment would start the server, as it does unless the planned one runs from the files that are wanted."""
    return not about_plan["running"]["matches"] or not all(entry["same"] for entry in about_plan["files"].values())


def _plan_warnings(plan: dict[str, Any] | None, findings: _preflight.Findings) -> list[str]:
    """What the filter found worth knowing; a filter has no way to say it, and the node may have said the same."""
    found = " ".join(item["summary"] for item in findings.items)
    return [text for text in (plan or {}).get("warnings") or [] if text not in found]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict"},
            "runtime": {
                "type": "dict",
                "options": {"root": {"type": "path"}, "version": {"type": "str"}, "user": {"type": "str", "default": "sglang"}},
            },
            "files": {"type": "dict", "default": {}, "no_log": True},
            "allow_busy_gpus": {"type": "bool", "default": False},
        },
        required_one_of=[("plan", "runtime")],
        supports_check_mode=True,
    )
    plan, commands = module.params["plan"], Commands()
    missing = [key for key in _PLAN_KEYS if plan is not None and key not in plan]
    if missing:
        module.fail_json(msg=f"plan is not from the filter gpuops.sglang.launch_plan: it lacks {', '.join(missing)}")
    facts, installed = _node.facts(commands, plan, module.params["runtime"] or {}, module.check_mode)
    about_plan = _about_plan(plan, facts, module.params["files"], commands) if plan else {}
    findings = _preflight.check(plan, facts, _will_start(about_plan) and not module.params["allow_busy_gpus"]) if plan else _preflight.check_runtime(facts)
    cause = findings.cause()
    result = {
        "changed": False,
        "verdict": findings.verdict(),
        "cause": cause or {},
        "findings": findings.items,
        "installed": {
            "version": facts.installed_version, "python": installed.python, "flags_known": facts.flags is not None,
            "requirements": facts.requirements,
        },
        "account": {"name": facts.user, "user": facts.user_exists, "group": facts.group_exists},
        "gpus": facts.gpus,
        "driver_version": next((gpu["driver_version"] for gpu in facts.gpus if gpu.get("driver_version")), ""),
    }
    result.update(about_plan, commands=commands.lines)
    for item in findings.items:
        if item["level"] == "warning":
            module.warn(item["summary"])
    for text in _plan_warnings(plan, findings):
        module.warn(f"{plan['unit']}: {text}.")
    if cause:
        module.fail_json(msg=f"{cause['code']}: {cause['summary']} {cause['hint']}".rstrip(), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
