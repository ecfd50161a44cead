# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of parallel sizes: whether they fit each other, the GPUs, the nodes and the model, and which ones would."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._model_config import ModelFacts
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal
from ansible_collections.gpuops.sglang.plugins.module_utils._sizes import SPANNING_A2A, Sizes


_LARGEST_OFFERED = 64  # no larger size is tried


@dataclass(frozen=True)
class Check:
    """One rule: kept (True), broken (False), or not to be told (None); ``vary`` names the sizes that could mend it."""

    name: str
    kept: bool | None
    detail: str
    vary: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "status": "ok" if self.kept else "not_checked", "detail": self.detail}


def _divides(name: str, what: str, number: int | None, by_what: str, by: int, vary: tuple[str, ...]) -> Check:
    if number is None:
        return Check(name, None, f"{what} not known")
    rest = number % by
    return Check(name, rest == 0, f"{what} {number} % {by_what} {by} = {rest}", vary)


def _gpus(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    if sizes.device != "cuda":
        return []
    product = f"dp {sizes.dp} x tp {sizes.tp} x pp {sizes.pp} = {sizes.dp * sizes.world} GPUs"
    if sizes.nnodes > 1:
        product += f" on {sizes.nnodes} nodes = {sizes.ranks_per_node} a node"
    if sizes.gpus_per_node != sizes.ranks_per_node:
        product += f", base-gpu-id {sizes.base_gpu} and gpu-id-step {sizes.gpu_step} reach up to GPU {sizes.gpus_per_node - 1}"
    if gpu_count is None:
        return [Check("gpus", None, f"{product}; how many there are is not known")]
    return [Check("gpus", sizes.gpus_per_node <= gpu_count, f"{product}, there are {gpu_count}", ("tp", "pp", "dp"))]


def _nodes(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    checks = []
    if sizes.nnodes > 1:
        checks.append(_divides("nodes", "tp x pp =", sizes.world, "nnodes", sizes.nnodes, ("tp", "pp")))
        spread = sizes.pp % sizes.nnodes == 0 or (sizes.nnodes % sizes.pp == 0 and sizes.tp % (sizes.nnodes // sizes.pp) == 0)
        checks.append(Check("stages on nodes", spread, f"pp {sizes.pp} stages of tp {sizes.tp} over {sizes.nnodes} nodes", ("pp", "tp")))
        checks.append(Check("replicas on nodes", sizes.dp == 1, f"dp {sizes.dp} on {sizes.nnodes} nodes; replicas live on one node", ("dp",)))
    if sizes.dp > 1:
        detail = f"dp {sizes.dp} together with attn_dp {sizes.attn_dp}; the server takes one of them"
        checks.append(Check("data parallel", sizes.attn_dp == 1, detail, ("attn_dp", "dp")))
    return checks


def _attention(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    checks = []
    inner = sizes.attn_dp * sizes.attn_cp
    if inner > 1:
        checks.append(_divides("attention groups", "tp", sizes.tp, "attn_dp x attn_cp =", inner, ("attn_dp", "attn_cp", "tp")))
    if sizes.dcp > 1:
        checks.append(_divides("decode context", "tp", sizes.tp, "dcp", sizes.dcp, ("dcp", "tp")))
    if sizes.device == "cpu":
        return checks + [Check("attention heads", None, "the CPU engine pads heads")]
    attn_tp, vary = sizes.attn_tp, ("tp", "attn_dp") if sizes.attn_dp > 1 else ("tp",)
    label = f"tp {sizes.tp} / attn_dp {sizes.attn_dp} / attn_cp {sizes.attn_cp} = attn_tp" if inner > 1 else "tp"
    checks.append(_divides("attention heads", "num_attention_heads", model.heads, label, attn_tp, vary))
    if model.latent_kv:
        return checks
    if model.kv_heads is not None and model.kv_heads < attn_tp:
        rest = attn_tp % model.kv_heads
        detail = f"{label} {attn_tp} % num_key_value_heads {model.kv_heads} = {rest} (each head is copied to several ranks)"
        return checks + [Check("key value heads", rest == 0, detail, vary)]
    return checks + [_divides("key value heads", "num_key_value_heads", model.kv_heads, label, attn_tp, vary)]


def _experts(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    checks = [_divides("expert groups", "tp", sizes.tp, "ep x moe_dp =" if sizes.moe_dp > 1 else "ep", sizes.ep * sizes.moe_dp, ("ep", "tp"))]
    if sizes.moe_dp > 1:
        checks.append(Check("moe data parallel", sizes.pp == 1, f"moe_dp {sizes.moe_dp} with pp {sizes.pp}", ("pp",)))
        whole = sizes.ep == 1 or sizes.ep * sizes.moe_dp == sizes.tp
        checks.append(Check("moe data parallel", whole, f"ep {sizes.ep} x moe_dp {sizes.moe_dp} is not tp {sizes.tp}", ("ep",)))
    if sizes.a2a in SPANNING_A2A:
        detail = f"moe_a2a_backend {sizes.a2a} forces ep = tp = {sizes.tp}, ep {sizes.ep} was asked for (any ep needs moe_a2a_backend none)"
        checks.append(Check("all to all", sizes.ep == sizes.tp, detail, ("ep",)))
    if model.experts == 0:
        if sizes.ep > 1:
            checks.append(Check("experts", False, f"ep {sizes.ep}, but the model is dense: its config.json names no experts", ("ep",)))
        return checks
    if sizes.ep > 1:
        what = f"experts {model.experts} + {sizes.redundant} redundant =" if sizes.redundant else "experts"
        total = None if model.experts is None else model.experts + sizes.redundant
        checks.append(_divides("experts", what, total, "ep", sizes.ep, ("ep",)))
    return checks


def _expert_width(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    moe_tp = sizes.moe_tp
    label = f"tp {sizes.tp} / ep {sizes.ep}" + (f" / moe_dp {sizes.moe_dp}" if sizes.moe_dp > 1 else "") + " = moe_tp"
    if model.experts == 0:
        return _dense_blocks(sizes, model)
    if model.expert_width is None:
        return [Check("expert width", None, "the experts' inner width is not known")]
    width = _divides("expert width", "moe_intermediate_size", model.expert_width, label, moe_tp, ("ep", "tp"))
    if not width.kept or model.block is None:
        return [width]
    part = model.expert_width // moe_tp
    block = max(model.block) if moe_tp > 1 else model.block[0]
    detail = f"moe_intermediate_size {model.expert_width} / ({label} {moe_tp}) = {part}, {part} % quantisation block {block} = {part % block}"
    return [width, Check("quantisation blocks", part % block == 0, detail, ("ep", "tp"))]


def _dense_blocks(sizes: Sizes, model: ModelFacts) -> list[Check]:
    if model.block is None or sizes.tp == 1:
        return []
    if model.dense_width is None:
        return [Check("quantisation blocks", None, "intermediate_size is not known")]
    part, block = model.dense_width // sizes.tp, max(model.block)
    fits = model.dense_width % sizes.tp == 0 and part % block == 0
    detail = f"intermediate_size {model.dense_width} / tp {sizes.tp} = {model.dense_width / sizes.tp:g}, quantisation block {block}"
    return [Check("quantisation blocks", fits, detail, ("tp", "pp"))]


def _layers(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    if sizes.pp == 1:
        return []
    checks = []
    if sizes.speculative:
        detail = f"pp {sizes.pp} with speculative decoding ({sizes.speculative}), which needs pp 1"
        checks.append(Check("speculation", sizes.pipeline_speculation, detail, ("pp",)))
    if model.layers is None:
        return checks + [Check("layers", None, "num_hidden_layers not known")]
    if sizes.partition:
        return checks + [_partition(sizes, model.layers)]
    if sizes.pp > model.layers:
        return checks + [Check("layers", False, f"pp {sizes.pp} stages for num_hidden_layers {model.layers}", ("pp",))]
    base, rest = divmod(model.layers, sizes.pp)
    split = ",".join([str(base)] * (sizes.pp - rest) + [str(base + 1)] * rest)
    detail = f"num_hidden_layers {model.layers} over pp {sizes.pp}: {split}"
    return checks + [Check("layers", True, detail + (" (uneven; SGLANG_PP_LAYER_PARTITION can change it)" if rest else ""))]


def _partition(sizes: Sizes, layers: int) -> Check:
    try:
        parts = [int(part) for part in sizes.partition.split(",")]
    except ValueError:
        return Check("layers", False, f"SGLANG_PP_LAYER_PARTITION {sizes.partition!r} is no list of numbers")
    detail = f"SGLANG_PP_LAYER_PARTITION has {len(parts)} stages with {sum(parts)} layers, pp is {sizes.pp}, num_hidden_layers {layers}"
    return Check("layers", len(parts) == sizes.pp and sum(parts) == layers, detail)


_RULES: tuple[Callable[[Sizes, ModelFacts, int | None], list[Check]], ...] = (
    _gpus,
    _nodes,
    _attention,
    _experts,
    _expert_width,
    _layers,
)


def checks(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    """Every rule for these sizes."""
    return [check for rule in _RULES for check in rule(sizes, model, gpu_count)]


def _fits(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> bool:
    return all(check.kept is not False for check in checks(sizes, model, gpu_count))


def alternatives(sizes: Sizes, model: ModelFacts, gpu_count: int | None, vary: tuple[str, ...]) -> list[dict[str, int]]:
    """Sizes that would do: as few of ``vary`` changed as possible, and as many GPUs used as possible."""
    limit = gpu_count or sizes.ranks_per_node
    choices = [number for number in range(1, min(max(limit * sizes.nnodes, 8), _LARGEST_OFFERED) + 1) if number <= 16 or number % 8 == 0]
    for count in range(1, min(len(vary), 2) + 1):
        found = []
        for fields in itertools.combinations(vary, count):
            for numbers in itertools.product(choices, repeat=count):
                change = dict(zip(fields, numbers))
                candidate = replace(sizes, **change)
                if candidate.ranks_per_node <= limit and _fits(candidate, model, gpu_count):
                    found.append((candidate.ranks_per_node, change))
        if found:
            most = max(ranks for ranks, _change in found)
            changes = [change for ranks, change in found if ranks == most]
            return changes if count == 1 else sorted(changes, key=lambda change: _distance(sizes, change))
    return []


def _distance(sizes: Sizes, change: dict[str, int]) -> float:
    """How far a change is from what was asked for."""
    return sum(abs(math.log2(number / max(getattr(sizes, field), 1))) for field, number in change.items())


def _named(changes: list[dict[str, int]]) -> str:
    if len(changes[0]) > 1:
        return "; ".join(" with ".join(f"{field} {number}" for field, number in change.items()) for change in changes[:6])
    by_field: dict[str, list[str]] = {}
    for change in changes:
        for field, number in change.items():
            by_field.setdefault(field, []).append(str(number))
    return ", or ".join(f"{field} {' or '.join(numbers)}" for field, numbers in by_field.items())


def refuse_bad(sizes: Sizes, model: ModelFacts, gpu_count: int | None) -> list[Check]:
    """Every check, when none is broken; else the refusal with the numbers and the sizes that would do."""
    done = checks(sizes, model, gpu_count)
    broken = [check for check in done if check.kept is False]
    if not broken:
        return done
    vary = tuple(dict.fromkeys(field for check in broken for field in check.vary))
    if "tp" in vary:  # these live inside the tensor group and have to follow it
        vary += tuple(field for field in ("ep", "attn_dp") if getattr(sizes, field) > 1 and field not in vary)
    changes = alternatives(sizes, model, gpu_count, vary)
    would = f"sizes that would do: {_named(changes)}" if changes else "no change of these sizes alone would do"
    raise Refusal("bad_sizes", "; ".join(check.detail for check in broken) + f"; {would}")
