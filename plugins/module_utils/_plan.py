# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch plan: one strategy for one model on one node, as command line, environment, ports and GPUs; refuses what cannot work."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils import _flag_pairs, _flags, _model_config, _ports, _size_rules, _sizes, _strategy, _unit_environment
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal
from ansible_collections.gpuops.sglang.plugins.module_utils._systemd_quote import check_text, environment_word, exec_word

_CONFIG_FILE = "sglang.yaml"


class Planner:
    """Builds one plan; the steps are kept apart so that each can be read alone."""

    def __init__(self, strategy: _strategy.Resolved, options: dict[str, Any], known: _flags.Known | None) -> None:
        self.strategy = strategy
        self.options = options
        self.known = known
        self.flags = dict(strategy.flags)
        self.environment = dict(strategy.environment)
        self.checks: list[dict[str, str]] = []
        self.warnings: list[str] = []

    def managed(self, name: str, option: str, default: Any) -> Any:
        """The value of a flag that the plan sets itself, from its argument or else from the strategy."""
        given, in_flags = self.options.get(option), self.flags.pop(name, None)
        if given in (None, ""):
            return default if in_flags is None else in_flags
        if in_flags is not None and str(in_flags) != str(given):
            raise Refusal("bad_flags", f"--{name} is {in_flags!r} in the flags and {given!r} by sglang_server_{option}: leave it out of the flags")
        return given

    def check(self, name: str, detail: str, known: bool = True) -> None:
        self.checks.append({"name": name, "status": "ok" if known else "not_checked", "detail": detail})

    def words(self, name: str, value: Any) -> list[str]:
        why = _flags.unknown(name, self.options["version"], self.known)
        if why:
            raise Refusal("bad_flags", why)
        instead = _flags.deprecated(name)
        if instead and value not in (None, False):
            self.warnings.append(f"--{name} is deprecated: use {instead}")
        return _flags.words(name, value, self.known.get(name) if self.known else None)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Refusal("bad_flags", f"{what} is not set")
    return str(value)


def _compute_cap(node: dict[str, Any]) -> float | None:
    try:
        return float(node.get("compute_cap"))
    except (TypeError, ValueError):
        return None


def _check_shapes(options: dict[str, Any]) -> None:
    """Refuse arguments of another shape, so that what follows need not ask."""
    if not isinstance(options.get("node") or {}, dict):
        raise Refusal("bad_flags", f"node must be a mapping, not {options['node']!r}")
    for name, kind, spoken in (("others", dict, "mappings"), ("extra", (str, int, float), "words")):
        given = options.get(name) or []
        if not isinstance(given, (list, tuple)) or not all(isinstance(item, kind) for item in given):
            raise Refusal("bad_flags", f"{name} must be a list of {spoken}, not {given!r}")
    for name in ("root", "home", "cache"):
        path = options.get(name)
        if path and not re.fullmatch(r"/[A-Za-z0-9_@+.,/-]*", str(path)):
            raise Refusal("bad_flags", f"{name} must be an absolute path of plain characters, not {path!r}")


def _whole(value: Any, what: str) -> int:
    try:
        return int(str(value).strip())
    except ValueError:
        raise Refusal("bad_flags", f"{what} must be a whole number, not {value!r}") from None


def _gpus(asked: Any, in_strategy: Any, gpu_count: Any) -> tuple[Any, int | None]:
    """The GPUs as a list or ``all``, and how many there are, None when that is not known."""
    gpu_count = None if gpu_count in (None, "") else _whole(gpu_count, "gpu_count")
    gpus = in_strategy if asked in (None, "", "all") and in_strategy else (asked or "all")
    if isinstance(gpus, str) and gpus != "all":
        gpus = gpus.split(",")
    if gpus == "all":
        return "all", gpu_count
    if not isinstance(gpus, (list, tuple)) or not gpus:
        raise Refusal("bad_flags", f"gpus must be 'all' or a list of indexes or UUIDs, not {gpus!r}")
    named = [str(gpu).strip() for gpu in gpus]
    for gpu in named:
        if not re.fullmatch(r"\d+|(GPU|MIG)-[0-9A-Za-z/-]+", gpu):
            raise Refusal("bad_flags", f"{gpu!r} is no GPU: give its index, or its UUID (GPU-...)")
        if gpu.isdigit() and gpu_count is not None and int(gpu) >= gpu_count:
            raise Refusal("bad_sizes", f"GPU {gpu} is named, but the node has {gpu_count}: 0 to {gpu_count - 1}")
    if len(set(named)) != len(named):
        raise Refusal("bad_flags", f"gpus names one twice: {', '.join(named)}")
    return named, len(named)


def _plan_sizes(planner: Planner, gpu_count: int | None) -> _sizes.Sizes:
    flags = planner.flags
    sizes = _sizes.from_flags({**flags, "nnodes": planner.options["nnodes"]}, planner.environment)
    model = _model_config.read(planner.options.get("model_config"), flags.get("json-model-override-args"))
    planner.checks += [check.as_dict() for check in _size_rules.refuse_bad(sizes, model, gpu_count)]
    if flags.get("ep-size") is None and sizes.ep > 1:
        planner.warnings.append(f"moe_a2a_backend {sizes.a2a} makes SGLang set ep_size to tp_size {sizes.tp}")
    if gpu_count and sizes.device == "cuda" and sizes.ranks_per_node < gpu_count:
        planner.warnings.append(f"{gpu_count - sizes.ranks_per_node} of {gpu_count} GPUs stay idle under tp {sizes.tp}, pp {sizes.pp}, dp {sizes.dp}")
    said, starves = _sizes.micro_batch(sizes, flags)
    if said:
        planner.check("micro batch", said, known="not known before" not in said)
        planner.warnings.append(said)
    return sizes


def _plan_network(planner: Planner, sizes: _sizes.Sizes, port: Any) -> tuple[dict[str, Any], list[str]]:
    """The port block and the words that fix the ports inside it."""
    options, flags = planner.options, planner.flags
    nnodes = sizes.nnodes
    rank = _whole(options["node_rank"], "node_rank")
    if not 0 <= rank < nnodes:
        raise Refusal("bad_sizes", f"node_rank {rank} of nnodes {nnodes}: ranks go from 0 to {nnodes - 1}")
    address = str(options.get("dist_init_addr") or "")
    if nnodes > 1 and not address:
        raise Refusal("bad_flags", f"nnodes {nnodes} needs dist_init_addr, the address of the first node")
    attention_groups = sizes.attn_dp > 1
    ports = _ports.plan(port, flags.pop("nccl-port", None), address, derived=attention_groups)
    words: list[str] = []
    if nnodes > 1:
        words += [*planner.words("nnodes", nnodes), *planner.words("node-rank", rank)]
    if address or attention_groups:
        host = _ports.dist_address(address)[0] or "127.0.0.1"
        words += planner.words("dist-init-addr", f"{host}:{ports['dist']}")
    if sizes.dp > 1:
        ports["nccl"] = None
        planner.check("nccl port", f"each of dp {sizes.dp} replicas takes a free port of its own; one fixed port would collide", known=False)
    else:
        words += planner.words("nccl-port", ports["nccl"])
    return ports, words


def _plan_ports_beside(planner: Planner, unit: str, ports: dict[str, Any]) -> None:
    others = {}
    for other in planner.options.get("others") or []:
        name = str(other.get("unit") or other.get("name"))
        its_ports = other.get("ports") or _ports.plan(other.get("port"))
        if name != unit:
            others[name] = its_ports
    _ports.refuse_overlap(unit, ports, others)
    ephemeral = (planner.options.get("node") or {}).get("ip_local_port_range")
    if isinstance(ephemeral, (list, tuple)) and len(ephemeral) == 2:
        low, high = (_whole(end, "an end of ip_local_port_range") for end in ephemeral)
        warning = _ports.in_ephemeral_range(ports, low, high)
        planner.warnings += [warning] if warning else []


def _refuse_pairs(planner: Planner, sizes: _sizes.Sizes, served: str) -> None:
    options = planner.options
    found = _flag_pairs.refused(planner.flags, sizes, served, bool(options.get("has_secrets")), _compute_cap(options.get("node") or {}))
    if found:
        raise Refusal("bad_flags", "; ".join(found))


def _names(planner: Planner) -> tuple[str, str, str]:
    slug = _text(planner.options.get("slug"), "slug (sglang_server_name)")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", slug):
        raise Refusal("bad_flags", f"slug {slug!r} must be of lower case letters, digits and -")
    deployment = f"{slug}-{planner.strategy.name}"
    return slug, deployment, f"sglang-{deployment}.service"


def _managed(planner: Planner) -> tuple[str, str, str, Any]:
    """What the plan sets itself: model, served name, host and port; the rest goes into the options."""
    model_path = _text(planner.managed("model-path", "model_path", None), "model_path (sglang_server_model_path)")
    served = str(planner.managed("served-model-name", "served_model_name", None) or "")
    host = str(planner.managed("host", "host", "127.0.0.1"))
    port = planner.managed("port", "port", 30000)
    for flag, option, default in (("nnodes", "nnodes", 1), ("node-rank", "node_rank", 0), ("dist-init-addr", "dist_init_addr", "")):
        planner.options[option] = planner.managed(flag, option, default)
    if planner.flags.pop("config", None):
        raise Refusal("bad_flags", "--config is taken by the file that holds the keys; write its settings as flags")
    return model_path, served, host, port


def build(name: Any, strategies: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The whole plan; ``options`` are the arguments of the filter by name."""
    _check_shapes(options)
    node = options.get("node") or {}
    strategy = _strategy.resolve(name, strategies, options.get("overrides"), options.get("environment"), _compute_cap(node))
    version = _text(options.get("version"), "version")
    known = _flags.table(version)
    planner = Planner(strategy, {**options, "version": version}, known)
    planner.check("flags", f"against the flags of {version}" if known else f"the flags of {version} are not in the table; the node checks them", bool(known))
    for detail in strategy.unmatched:
        planner.check("compute capability", detail, known=False)
    slug, deployment, unit = _names(planner)
    model_path, served, host, port = _managed(planner)
    gpus, gpu_count = _gpus(options.get("gpus"), strategy.gpus, options.get("gpu_count"))
    sizes = _plan_sizes(planner, gpu_count)
    ports, port_words = _plan_network(planner, sizes, port)
    _refuse_pairs(planner, sizes, served)
    _plan_ports_beside(planner, unit, ports)
    if gpus != "all":
        if "CUDA_VISIBLE_DEVICES" in planner.environment:
            raise Refusal("bad_flags", "CUDA_VISIBLE_DEVICES is in the environment and the GPUs are named too: leave it to sglang_server_gpus")
        planner.environment.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=",".join(gpus))
    venv = f"{str(options.get('root') or '/opt/sglang').rstrip('/')}/{version}"
    if options.get("home"):
        cache = str(options.get("cache") or f"{options['home']}/.cache/sglang").rstrip("/")
        planner.environment = _unit_environment.complete(planner.environment, venv, str(options["home"]), cache, host)
    groups = [["-m", "sglang.launch_server"], planner.words("model-path", model_path)]
    groups += [planner.words("served-model-name", served)] if served else []
    groups += [planner.words("host", host), planner.words("port", ports["http"])]
    flag_groups = [planner.words(flag, value) for flag, value in planner.flags.items()]
    groups += flag_groups + _pairs(port_words)
    groups += [_extra_word(word) for word in options.get("extra") or []]
    argv, exec_lines = _command_line(groups, unit, bool(options.get("has_secrets")))
    return {
        "name": strategy.name,
        "base_chain": strategy.base_chain,
        "summary": strategy.summary,
        "slug": slug,
        "deployment": deployment,
        "unit": unit,
        "version": version,
        "python": f"{venv}/bin/python",
        "flags": planner.flags,
        "argv": argv,
        "exec_lines": exec_lines,
        "environment": planner.environment,
        "environment_lines": [environment_word(key, value) for key, value in planner.environment.items()],
        "model_path": model_path,
        "served_model_name": served or model_path,
        "host": host,
        "port": ports["http"],
        "ports": ports,
        "gpus": gpus,
        "gpu_count": sizes.ranks_per_node if sizes.device == "cuda" else 0,
        "sizes": _size_record(sizes),
        "device": sizes.device,
        "nnodes": sizes.nnodes,
        "node_rank": int(planner.options["node_rank"]),
        "dist_init_addr": str(planner.options["dist_init_addr"] or ""),
        "checks": planner.checks,
        "warnings": planner.warnings,
        "digest": hashlib.sha256(json.dumps([argv, planner.environment], sort_keys=True).encode()).hexdigest(),
    }


def _extra_word(word: Any) -> list[str]:
    try:
        check_text(str(word))
    except ValueError as error:
        raise Refusal("bad_flags", f"a word of extra {error}") from None
    return [str(word)]


def _size_record(sizes: _sizes.Sizes) -> dict[str, int]:
    names = ("tp", "pp", "dp", "ep", "attn_dp", "moe_tp", "nnodes")
    return {**{name: getattr(sizes, name) for name in names}, "world_size": sizes.world}


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[index : index + 2] for index in range(0, len(words), 2)]


def _command_line(groups: list[list[str]], unit: str, has_secrets: bool) -> tuple[list[str], list[str]]:
    """The words as the process gets them, and the same as lines of a unit file."""
    groups = [group for group in groups if group]
    lines = [" ".join(exec_word(word) for word in group) for group in groups]
    argv = [word for group in groups for word in group]
    if has_secrets:
        argv += ["--config", f"/run/credentials/{unit}/{_CONFIG_FILE}"]
        lines.append("--config ${CREDENTIALS_DIRECTORY}/" + _CONFIG_FILE)
    return argv, lines
