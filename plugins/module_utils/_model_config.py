# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model's config.json says about the sizes it can be cut into; whatever is absent or odd is simply not known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "language_model", "ffn_config")
_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_moe_experts")
_EXPERT_WIDTH = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", "ffn_hidden_size")


@dataclass(frozen=True)
class ModelFacts:
    """Figures of one model, None where config.json does not tell."""

    architecture: str = ""
    heads: int | None = None
    kv_heads: int | None = None
    latent_kv: bool = False  # multi-head latent attention keeps one latent for all heads
    layers: int | None = None
    experts: int | None = None  # 0 when the model is known to be dense
    expert_width: int | None = None
    dense_width: int | None = None
    block: tuple[int, int] | None = None  # block_n, block_k of block-quantised weights


def read(config: Any, override: Any = None) -> ModelFacts:
    """The facts in a config.json that was parsed already; ``override`` is what --json-model-override-args says."""
    if not isinstance(config, dict):
        return ModelFacts()
    config = {**config, **_mapping(override)}
    levels = _levels(config)
    architectures = config.get("architectures")
    experts = _experts(levels)
    width = _first(levels, _EXPERT_WIDTH)
    dense_width = _first(levels, ("intermediate_size",))
    if experts and width is None and not _has(levels, _EXPERT_WIDTH):
        width = dense_width
    return ModelFacts(
        architecture=architectures[0] if isinstance(architectures, list) and architectures and isinstance(architectures[0], str) else "",
        heads=_first(levels, ("num_attention_heads", "n_head", "n_heads", "num_heads")),
        kv_heads=_first(levels, ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")),
        latent_kv=_first(levels, ("kv_lora_rank",)) is not None,
        layers=_first(levels, ("num_hidden_layers", "n_layer", "n_layers", "num_layers")),
        experts=experts,
        expert_width=width,
        dense_width=dense_width,
        block=_block(levels),
    )


def _mapping(value: Any) -> dict:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _levels(config: dict) -> list[dict]:
    """The config and the text part inside it, the text part first."""
    levels, inner = [], [config]
    for _depth in range(3):
        levels += inner
        inner = [level[key] for level in inner for key in _NESTED if isinstance(level.get(key), dict)]
    return levels[::-1]


def _number(value: Any) -> int | None:
    """A positive whole number; a list of one and the same number, layer by layer, counts as that number."""
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    return value


def _has(levels: list[dict], keys: tuple[str, ...]) -> bool:
    return any(key in level for level in levels for key in keys)


def _first(levels: list[dict], keys: tuple[str, ...]) -> int | None:
    for level in levels:
        for key in keys:
            number = _number(level.get(key))
            if number is not None:
                return number
    return None


def _experts(levels: list[dict]) -> int | None:
    found = _first(levels, _EXPERTS)
    if found is not None:
        return found if found > 1 else 0
    if any(_names_experts(key) for level in levels for key in level):
        none_of_them = [level.get(key) for level in levels for key in _EXPERTS if key in level]
        return 0 if none_of_them and all(value == 0 and not isinstance(value, (bool, float)) for value in none_of_them) else None
    readable = _first(levels, ("num_hidden_layers", "n_layer", "num_layers")) and _first(levels, ("num_attention_heads", "n_head"))
    return 0 if readable else None


def _names_experts(key: Any) -> bool:
    return isinstance(key, str) and ("expert" in key.lower() or "moe" in key.lower())


def _block(levels: list[dict]) -> tuple[int, int] | None:
    for level in levels:
        for key in ("quantization_config", "compression_config"):
            quantization = level.get(key)
            if not isinstance(quantization, dict) or _spares_experts(quantization):
                continue
            shape = quantization.get("weight_block_size") or _group_block(quantization.get("config_groups"))
            if isinstance(shape, list) and len(shape) == 2 and all(_number(side) for side in shape):
                return shape[0], shape[1]
    return None


def _group_block(groups: Any) -> Any:
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and weights.get("block_structure"):
            return weights["block_structure"]
    return None


def _spares_experts(quantization: dict) -> bool:
    for key in ("modules_to_not_convert", "ignored_layers", "ignore"):
        names = quantization.get(key)
        if isinstance(names, list) and any(isinstance(name, str) and ("expert" in name or name.endswith("mlp")) for name in names):
            return True
    return False
