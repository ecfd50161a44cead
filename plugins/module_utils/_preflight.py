# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks before a launch: what was seen on the node against the plan, as findings; decides, touches nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils import _flag_pairs, _flags, _gpu, _model_config, _ports, _size_rules, _sizes
from ansible_collections.gpuops.sglang.plugins.module_utils._model_files import Model
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal
from ansible_collections.gpuops.sglang.plugins.module_utils._running import Claim, UnitLook, claim, share_gpus

KEY_FILES = ("ssl-keyfile", "ssl-certfile", "ssl-ca-certs")
REFUSED = ("bad_flags", "bad_sizes", "remote_code", "unsupported_model")
_CUDA_13_FROM = (0, 5, 20)
_HELD_UNSEEN = 0.1  # part of a GPU's memory that may be in use without a process to show for it


@dataclass
class Facts:
    """What was seen on the node."""

    installed_version: str = ""
    broken: str = ""
    flags: dict[str, tuple] | None = None  # as the installed server lists them
    flags_unread: str = ""  # why it did not list them
    user: str = ""
    user_exists: bool = True
    group_exists: bool = True  # one of the user's name
    requirements: str = ""  # hash of what was installed beside SGLang
    lacking: str = ""  # the interpreter that the modules run under, when it has no requests
    packages_reach: bool = True  # whether it is the one that packages of the distribution install for
    gpus: list[dict[str, Any]] = field(default_factory=list)
    driver: Cause | None = None
    cuda_major: int | None = None
    unit: UnitLook | None = None
    units: list[UnitLook] = field(default_factory=list)  # the other ones of SGLang
    listeners: dict[int, dict[str, Any]] = field(default_factory=dict)  # planned port -> pid, name, unit of who listens there
    ephemeral: tuple[int, int] | None = None
    unreadable: dict[str, str] = field(default_factory=dict)  # flag of a key or certificate -> why the user cannot read the file
    models: list[Model] = field(default_factory=list)  # the model, then the draft model
    dry: bool = False  # check mode: what a role installs before this may not be there yet


@dataclass
class Findings:
    """A growing list of what was found."""

    items: list[dict[str, str]] = field(default_factory=list)

    def add(self, code: str, level: str, summary: str, hint: str = "") -> None:
        self.items.append({"code": code, "level": level, "summary": summary, "hint": hint})

    def cause(self) -> dict[str, str] | None:
        errors = [item for item in self.items if item["level"] == "error"]
        return {name: errors[0][name] for name in ("code", "summary", "hint")} if errors else None

    def verdict(self) -> str:
        cause = self.cause()
        if cause is None:
            return "ok"
        return "refused" if cause["code"] in REFUSED else "preflight_failed"


def conflicts(plan: dict[str, Any], facts: Facts) -> list[dict[str, Any]]:
    """Units with a process that must make room: they share the port or a GPU."""
    found = []
    for unit in facts.units:
        its = claim(unit)
        shares = _shares(plan, its, facts)
        if unit.busy and shares:
            found.append({
                "unit": unit.name, "deployment": unit.deployment, "gpus": its.gpus, "host": its.host, "port": its.port,
                "served_model_name": its.model, "shares": shares,
            })
    return found


def replaces(plan: dict[str, Any], facts: Facts) -> list[str]:
    """Units that are to start at boot, whether they run or not, in place of which the plan's unit comes."""
    return [unit.name for unit in facts.units if unit.enabled and _shares(plan, claim(unit), facts)]


def _plan_gpus(plan: dict[str, Any]) -> Any:
    return plan["gpus"] if plan.get("device", "cuda") == "cuda" else []


def _shares(plan: dict[str, Any], its: Claim, facts: Facts) -> list[str]:
    shares = ["gpus"] if share_gpus(_plan_gpus(plan), its.gpus, facts.gpus) else []
    return shares + (["port"] if its.port == plan["port"] else [])


def check(plan: dict[str, Any], facts: Facts, gpus_must_be_free: bool = True) -> Findings:
    """Everything that is wrong with this plan on this node, settings first."""
    findings = Findings()
    _check_flags(findings, plan, facts)
    _check_sizes(findings, plan, facts)
    _check_runtime(findings, plan, facts)
    if plan.get("device", "cuda") == "cuda":
        _check_gpus(findings, plan, facts)
        _check_busy(findings, plan, facts, "error" if gpus_must_be_free else "warning")
    _check_models(findings, plan, facts)
    _check_key_files(findings, facts)
    _check_ports(findings, plan, facts)
    _check_unit(findings, facts)
    return findings


def check_runtime(facts: Facts) -> Findings:
    """What is worth saying before there is a plan: nothing of it is an error, since the GPUs may not be wanted."""
    findings = Findings()
    if facts.broken:
        findings.add("unit_exec", "warning", f"The virtual environment {facts.broken}.", "It is made anew when this version is installed.")
    if facts.driver is not None:
        findings.add(facts.driver.code, "note", facts.driver.summary, facts.driver.hint)
    return findings


def _check_flags(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    version = facts.installed_version or plan["version"]
    known = _flags.installed(version, facts.flags) if facts.flags else _flags.table(version)
    if known is None:
        why = f" ({facts.flags_unread})" if facts.flags_unread else ""
        findings.add("not_checked", "note", f"The flags of {version} are neither in the table nor shown by the server{why}: not checked.")
    words = [word.partition("=")[0][2:] for word in plan["argv"] if word.startswith("--")]
    for name in words:
        off = name[3:] if name.startswith("no-") and known and not known.get(name) else name
        why = _flags.unknown(off, version, known)
        if why:
            findings.add("bad_flags", "error", f"The command line cannot be understood by SGLang {version}: {why}.", "Name the flag as this version does.")
    for name, value in plan["flags"].items():
        flag = known.get(name) if known else None
        if flag is not None and facts.flags and flag.choices and not isinstance(value, (list, dict, bool)) and str(value) not in flag.choices:
            summary = f"--{name} takes one of {', '.join(flag.choices)} in SGLang {version}, not {value!r}."
            findings.add("bad_flags", "error", summary, "Choose one of them.")


def _check_sizes(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    model = facts.models[0] if facts.models else None
    on_gpus = plan.get("device", "cuda") == "cuda"
    count = (len(facts.gpus) if plan["gpus"] == "all" else len(plan["gpus"])) if on_gpus and facts.gpus else None
    try:
        sizes = _sizes.from_flags({**plan["flags"], "nnodes": plan.get("nnodes", 1)}, plan["environment"])
        read = _model_config.read(model.config if model else None, plan["flags"].get("json-model-override-args"))
        checks = _size_rules.refuse_bad(sizes, read, count)
    except Refusal as refusal:
        findings.add(refusal.code, "error", f"The sizes do not fit: {refusal.text}.", "Change them in the strategy or in sglang_server_flags.")
        return
    caps = {gpu["compute_cap"] for gpu in facts.gpus if gpu.get("compute_cap")}
    if len(caps) > 1:
        findings.add("gpu_count", "warning", f"The GPUs are of several compute capabilities: {', '.join(sorted(caps))}.", "Name GPUs of one kind.")
    for text in _flag_pairs.refused(plan["flags"], sizes, plan["served_model_name"], "--config" in plan["argv"], _cap(caps)):
        findings.add("bad_flags", "error", f"SGLang will refuse this: {text}.", "Change the flags of the strategy or sglang_server_flags.")
    unchecked = [entry.detail for entry in checks if entry.kept is None]
    if unchecked and model is not None and model.kind == "local" and not model.problems:
        findings.add("not_checked", "note", "Not checked: " + "; ".join(unchecked) + ".")


def _cap(caps: set[str]) -> float | None:
    try:
        return float(caps.copy().pop()) if len(caps) == 1 else None
    except ValueError:
        return None


def _check_runtime(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    level = "warning" if facts.dry else "error"
    if facts.broken:
        findings.add("unit_exec", level, f"The virtual environment of {plan['version']} {facts.broken}.", "Install this version again (role sglang_runtime).")
    elif not facts.installed_version:
        summary = f"SGLang {plan['version']} is not installed: {plan['python']} has no sglang."
        findings.add("unit_exec", level, summary, "Install it (role sglang_runtime).")
    elif _flags.release(facts.installed_version) != _flags.release(plan["version"]):
        summary = f"{plan['python']} has SGLang {facts.installed_version}, the plan is for {plan['version']}."
        findings.add("unit_exec", level, summary, "Install the version that is planned (role sglang_runtime).")
    if facts.user and not facts.user_exists:
        findings.add("unit_exec", level, f"The user {facts.user} does not exist.", "The role sglang_runtime makes it.")
    if facts.lacking:
        hint = "Install python3-requests for it, or set ansible_python_interpreter to one that has it."
        summary = f"{facts.lacking} runs the modules on this node and has no requests, so the server could not be asked whether it serves."
        findings.add("no_requests", "warning" if facts.dry and facts.packages_reach else "error", summary, hint)
    if facts.flags_unread and facts.installed_version:
        summary = f"{plan['python']} -m sglang.launch_server --help failed: {facts.flags_unread}"
        findings.add("missing_cuda_lib" if "cannot open shared object file" in summary else "unit_exec", "warning", summary)


def _check_gpus(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    if facts.driver is not None:
        findings.add(facts.driver.code, "error", facts.driver.summary, facts.driver.hint)
        return
    needed, there = plan["gpu_count"], len(facts.gpus)
    present = _gpu.selected(facts.gpus, ["all"] if plan["gpus"] == "all" else plan["gpus"])
    named = [] if plan["gpus"] == "all" else [str(gpu) for gpu in plan["gpus"]]
    absent = [gpu for gpu in named if not _gpu.selected(facts.gpus, [gpu])]
    if absent:
        summary = f"GPU {', '.join(absent)} is named, but the driver shows {there}: {', '.join(str(gpu['index']) for gpu in facts.gpus) or 'none'}."
        findings.add("gpu_count", "error", summary, "Name GPUs that are there, by index or UUID.")
    elif needed > len(present):
        summary = f"{plan['unit']} needs {needed} GPUs, the driver shows {len(present)}."
        findings.add("gpu_count", "error", summary, "See `nvidia-smi -L`; a card that is missing shows in `journalctl -k`.")
    major = facts.cuda_major or (13 if _flags.number(plan["version"]) >= _CUDA_13_FROM else None)
    versions = sorted({gpu["driver_version"] for gpu in facts.gpus if gpu.get("driver_version")})
    old = _gpu.driver_too_old(versions[0], major) if versions and major else None
    if old is not None:
        findings.add(old.code, "error", old.summary, old.hint)


def _check_busy(findings: Findings, plan: dict[str, Any], facts: Facts, level: str) -> None:
    """GPU memory held by whoever will not make room by itself."""
    leaving = [facts.unit] if facts.unit is not None and facts.unit.busy else []
    leaving += [unit for unit in facts.units if unit.name in {conflict["unit"] for conflict in conflicts(plan, facts)}]
    pids = {pid for unit in leaving for pid in unit.pids}
    names = {unit.name for unit in leaving}
    holders = []
    for gpu in _gpu.selected(facts.gpus, ["all"] if plan["gpus"] == "all" else plan["gpus"]):
        strangers = [one for one in gpu["processes"] if one["pid"] not in pids and one.get("unit") not in names]
        holders += [dict(one, gpu=gpu["index"]) for one in strangers]
        used, total = gpu.get("memory_used_mib") or 0, gpu.get("memory_total_mib") or 0
        quiet = not gpu["processes"] and not any(share_gpus([str(gpu["index"])], claim(unit).gpus, facts.gpus) for unit in leaving)
        if quiet and total and used > total * _HELD_UNSEEN:
            summary = f"GPU {gpu['index']} has {used} of {total} MiB in use and shows no process."
            findings.add("gpu_busy", level, summary, "Look for a container or a dead process.")
    if holders:
        hint = "Stop these processes; nothing outside the units of SGLang is stopped unasked."
        findings.add("gpu_busy", level, _gpu.busy_text(holders) + ".", hint)


def _check_models(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    for model in facts.models:
        for problem in model.problems:
            findings.add(problem["code"], "error", problem["text"] + ".", "Check path, mount and download of the model on this node.")
        if model.kind == "hub":
            findings.add("not_checked", "note", f"{model.path} comes from a hub; whether the node can load it is seen at the start.")
    model = facts.models[0] if facts.models else None
    if model is not None and isinstance(model.config, dict) and model.config.get("auto_map") and plan["flags"].get("trust-remote-code") is not True:
        summary = f"{model.path} brings code of its own (auto_map in config.json), and trust-remote-code is not set."
        findings.add("remote_code", "note", summary, "Set trust-remote-code when this version of SGLang does not know the model itself.")


def _check_key_files(findings: Findings, facts: Facts) -> None:
    for flag, why in facts.unreadable.items():
        if why:
            hint = f"Give the file to the group {facts.user}, and each folder above it."
            findings.add("no_permission", "error", f"{facts.user} cannot read {why} (--{flag}).", hint)


def _check_ports(findings: Findings, plan: dict[str, Any], facts: Facts) -> None:
    leaving = {conflict["unit"] for conflict in conflicts(plan, facts)} | {plan["unit"]}
    theirs = {port for unit in [*facts.units, facts.unit] if unit is not None and unit.busy and unit.name in leaving for port in _claimed(unit)}
    for port, owner in facts.listeners.items():
        if owner.get("unit") in leaving or (not owner.get("pid") and port in theirs):
            continue
        who = f"pid {owner['pid']} ({owner['name']})" if owner.get("pid") else "a process that cannot be seen"
        of_unit = f" of {owner['unit']}" if owner.get("unit") else ""
        findings.add("port_in_use", "error", f"Port {port} is held by {who}{of_unit}.", "Stop it, or choose another port.")
    others = {unit.name: claim(unit).ports for unit in facts.units if unit.busy and unit.name not in leaving}
    try:
        _ports.refuse_overlap(plan["unit"], plan["ports"], {name: ports for name, ports in others.items() if ports is not None})
    except Refusal as refusal:
        findings.add(refusal.code, "error", f"{refusal.text}.", "Leave ten ports for each deployment.")
    if facts.ephemeral:
        warning = _ports.in_ephemeral_range(plan["ports"], *facts.ephemeral)
        if warning:
            findings.add("port_in_use", "warning", f"The {warning}.")


def _claimed(unit: UnitLook) -> list[int]:
    ports = claim(unit).ports
    return [ports["http"], ports["nccl"], ports["dist"]] if ports is not None else []


def _check_unit(findings: Findings, facts: Facts) -> None:
    unit = facts.unit
    if unit is None:
        return
    if unit.load_state == "masked":
        findings.add("unit_masked", "error", f"{unit.name} is masked.", f"systemctl unmask {unit.name}")
    if unit.need_daemon_reload:
        findings.add("unit_changed", "note", f"systemd has not read the files of {unit.name} since they were changed.", "systemctl daemon-reload")
    if unit.drop_ins:
        findings.add("unit_changed", "warning", f"{unit.name} is changed by {', '.join(unit.drop_ins)}, which was not written by this collection.")
