# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""config.json of many makers is read for its sizes; whatever is odd is not known, and never an error."""

from __future__ import annotations

import random

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _model_config, _size_rules, _sizes
from ansible_collections.gpuops.sglang.plugins.module_utils._model_config import ModelFacts
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

LLAMA = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "intermediate_size": 14336}
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {
        "n_routed_experts": 384, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
        "kv_lora_rank": 512, "intermediate_size": 18432, "first_k_dense_replace": 1,
    },
    "vision_config": {"vt_num_attention_heads": 16, "num_hidden_layers": 27},
}
QWEN_MOE = {
    "num_experts": 128, "moe_intermediate_size": 768, "intermediate_size": 6144, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_hidden_layers": 48, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
MIXTRAL = {"num_local_experts": 8, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32}


@pytest.mark.parametrize("config, facts", [
    (LLAMA, ModelFacts("LlamaForCausalLM", 32, 8, False, 32, 0, None, 14336, None)),
    (KIMI, ModelFacts("KimiK25ForConditionalGeneration", 64, 64, True, 61, 384, 2048, 18432, None)),
    (QWEN_MOE, ModelFacts("", 32, 4, False, 48, 128, 768, 6144, (128, 128))),
    (MIXTRAL, ModelFacts("", 32, 8, False, 32, 8, 14336, 14336, None)),
    ({"thinker_config": {"text_config": QWEN_MOE}}, ModelFacts("", 32, 4, False, 48, 128, 768, 6144, (128, 128))),
    ({}, ModelFacts()),
    (None, ModelFacts()),
    ([], ModelFacts()),
    ("text", ModelFacts()),
])
def test_reads(config, facts):
    assert _model_config.read(config) == facts


@pytest.mark.parametrize("change, experts", [
    ({"num_experts": None}, None),
    ({"num_experts": "many"}, None),
    ({"num_experts": 0}, 0),
    ({"moe_layer_freq": 2}, None),
    ({"moe_num_experts": [64, 64]}, 64),
    ({"moe_num_experts": [64, 32]}, None),
])
def test_experts_that_are_odd_are_not_known(change, experts):
    assert _model_config.read({**LLAMA, **change}).experts == experts


def test_override_arguments_count():
    assert _model_config.read(LLAMA, '{"num_hidden_layers": 4}').layers == 4
    assert _model_config.read(LLAMA, {"num_hidden_layers": 4}).layers == 4
    assert _model_config.read(LLAMA, "{broken").layers == 32


@pytest.mark.parametrize("quantization, block", [
    ({"weight_block_size": [128, 64]}, (128, 64)),
    ({"config_groups": {"group_0": {"weights": {"block_structure": [128, 128]}}}}, (128, 128)),
    ({"weight_block_size": [128, 128], "ignored_layers": ["model.layers.0.mlp.experts"]}, None),
    ({"weight_block_size": [128]}, None),
    ({"weight_block_size": "128"}, None),
    ({"weight_block_size": [0, 128]}, None),
    ({"config_groups": [1]}, None),
    (None, None),
    ("fp8", None),
])
def test_blocks(quantization, block):
    assert _model_config.read({**QWEN_MOE, "quantization_config": quantization}).block == block


ODD = [None, True, False, 0, -1, 1, 7, 3.5, "8", "", [], [0], [8, 8], [None], {}, {"a": 1}, {"num_experts": {}}, "x" * 50, float("nan"), 10**30]


@pytest.mark.parametrize("seed", range(40))
def test_no_config_makes_it_stumble(seed):
    dice = random.Random(seed)
    keys = [*LLAMA, *KIMI["text_config"], *QWEN_MOE, "text_config", "llm_config", "ffn_config"]
    keys += ["quantization_config", "num_local_experts", "moe_num_experts", "n_layer"]
    for _round in range(60):
        config = dict(dice.choice([LLAMA, KIMI, QWEN_MOE, MIXTRAL, {}]))
        for _change in range(dice.randint(1, 6)):
            level = config["text_config"] = dict(config["text_config"]) if dice.random() < 0.4 and isinstance(config.get("text_config"), dict) else {}
            target = level if dice.random() < 0.5 else config
            target[dice.choice(keys)] = dice.choice(ODD)
        facts = _model_config.read(config, dice.choice(ODD))
        sizes = _sizes.Sizes(tp=dice.choice([1, 2, 3, 8]), pp=dice.choice([1, 2, 8]), ep=dice.choice([1, 2, 3, 8]))
        try:
            _size_rules.refuse_bad(sizes, facts, dice.choice([None, 8]))
        except Refusal as refusal:
            assert str(refusal).startswith("bad_sizes: ")
