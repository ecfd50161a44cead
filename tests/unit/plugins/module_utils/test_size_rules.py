# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parallel sizes: what does not fit is refused with the numbers and the sizes that would do."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _flag_pairs, _model_config, _size_rules, _sizes
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

BLOCKED = {
    "num_experts": 128, "moe_intermediate_size": 640, "quantization_config": {"weight_block_size": [128, 128]},
    "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 48,
}
DENSE = {"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "intermediate_size": 14336}
KIMI = {"text_config": {
    "n_routed_experts": 384, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64, "kv_lora_rank": 512,
}}
DENSE_FP8 = {**DENSE, "intermediate_size": 18944, "num_attention_heads": 64, "quantization_config": {"weight_block_size": [128, 128]}}


def check(flags, config=None, gpus=None, environment=None):
    sizes = _sizes.from_flags(flags, environment)
    return _size_rules.refuse_bad(sizes, _model_config.read(config), gpus)


@pytest.mark.parametrize("flags, config, gpus", [
    ({"tp-size": 8}, KIMI, 8),
    ({"tp-size": 8, "ep-size": 8}, KIMI, 8),
    ({"tp-size": 8, "ep-size": 4}, KIMI, 8),
    ({"tp-size": 1, "pp-size": 8}, KIMI, 8),
    ({"tp-size": 4, "ep-size": 4}, KIMI, 8),
    ({"tp-size": 8, "attn-dp-size": 8}, KIMI, 8),
    ({"tp-size": 4, "ep-size": 4}, BLOCKED, 4),
    ({"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, KIMI, 8),
    ({"tp-size": 2, "dp-size": 4}, DENSE, 8),
    ({"tp-size": 16}, KIMI, None),
    ({"tp-size": 8, "moe-a2a-backend": "deepep"}, KIMI, 8),
    ({"tp-size": 16, "nnodes": 2}, KIMI, 8),
    ({"tp-size": 8, "pp-size": 2, "nnodes": 2}, KIMI, 8),
    ({"tp-size": 4, "base-gpu-id": 4}, KIMI, 8),
    ({"device": "cpu"}, DENSE, 0),
    ({}, None, None),
])
def test_sizes_that_fit(flags, config, gpus):
    assert check(flags, config, gpus) is not None


@pytest.mark.parametrize("flags, config, gpus, said, would", [
    ({"tp-size": 4}, BLOCKED, 4, "640 / (tp 4 / ep 1 = moe_tp 4) = 160, 160 % quantisation block 128 = 32", "ep 4"),
    ({"tp-size": 4, "ep-size": 3}, BLOCKED, 4, "tp 4 % ep 3 = 1", "ep 4"),
    ({"tp-size": 2}, BLOCKED, 4, "320 % quantisation block 128 = 64", "ep 2"),
    ({"tp-size": 4, "ep-size": 4}, DENSE, 4, "the model is dense", "ep 1"),
    ({"tp-size": 8}, None, 4, "tp 8 x pp 1 = 8 GPUs, there are 4", "tp 4"),
    ({"tp-size": 8, "pp-size": 2}, None, 8, "= 16 GPUs, there are 8", "tp 4, or pp 1"),
    ({"tp-size": 4, "base-gpu-id": 6}, None, 8, "reach up to GPU 9", "tp 2"),
    ({"tp-size": 6}, DENSE, 8, "num_attention_heads 32 % tp 6 = 2", "tp 8"),
    ({"tp-size": 12}, {**DENSE, "num_attention_heads": 48}, 12, "tp 12 % num_key_value_heads 8 = 4", "tp 8"),
    ({"pp-size": 64}, DENSE, 64, "pp 64 stages for num_hidden_layers 32", "pp 32"),
    ({"tp-size": 8, "ep-size": 4, "moe-a2a-backend": "deepep"}, KIMI, 8, "forces ep = tp = 8, ep 4 was asked for", "ep 8"),
    ({"tp-size": 8, "ep-size": 5}, None, 8, "tp 8 % ep 5 = 3", "ep 1 or 2 or 4 or 8"),
    ({"tp-size": 6, "ep-size": 6}, {"num_experts": 8}, 6, "experts 8 % ep 6 = 2", "ep 1 or 2"),
    ({"tp-size": 8, "ep-size": 8}, {"num_experts": 60}, 8, "experts 60 % ep 8 = 4", "ep 1 or 2 or 4"),
    ({"tp-size": 8, "ep-size": 8, "ep-num-redundant-experts": 4}, {"num_experts": 64}, 8, "experts 64 + 4 redundant = 68 % ep 8 = 4", "ep 1 or 2 or 4"),
    ({"tp-size": 8, "attn-dp-size": 3}, KIMI, 8, "attn_dp x attn_cp = 3 = 2", "attn_dp 1 or 2 or 4 or 8"),
    ({"tp-size": 2, "dp-size": 2, "attn-dp-size": 2}, KIMI, 8, "dp 2 together with attn_dp 2", "attn_dp 1"),
    ({"tp-size": 8, "dp-size": 2, "nnodes": 2}, None, 8, "replicas live on one node", "dp 1"),
    ({"tp-size": 5, "nnodes": 2}, None, 8, "tp x pp = 5 % nnodes 2 = 1", "tp 16"),
    ({"tp-size": 4, "pp-size": 2, "speculative-algorithm": "EAGLE3"}, None, 8, "pp 2 with speculative decoding (EAGLE3)", "pp 1"),
    ({"tp-size": 8}, DENSE_FP8, 8, "intermediate_size 18944 / tp 8 = 2368, quantisation block 128", "tp 4"),
    ({"tp-size": 8, "ep-size": 2, "moe-dp-size": 2}, KIMI, 8, "ep 2 x moe_dp 2 is not tp 8", "ep 1 or 4"),
    ({"tp-size": 8, "dcp-size": 3}, None, 8, "tp 8 % dcp 3 = 2", "dcp 1 or 2 or 4 or 8"),
])
def test_sizes_that_do_not_fit(flags, config, gpus, said, would):
    with pytest.raises(Refusal) as refusal:
        check(flags, config, gpus)
    assert str(refusal.value).startswith("bad_sizes: ")
    assert said in str(refusal.value)
    assert f"sizes that would do: {would}" in str(refusal.value)


@pytest.mark.parametrize("value", [0, -1, "x", 1.5, True, "", [8], {}])
def test_no_size(value):
    with pytest.raises(Refusal, match="bad_sizes: --tp-size must be a whole number of at least 1"):
        _sizes.from_flags({"tp-size": value})


def test_what_is_offered_does_work():
    for flags, config, gpus in [({"tp-size": 4}, BLOCKED, 4), ({"tp-size": 6, "ep-size": 4}, KIMI, 8), ({"tp-size": 16, "ep-size": 3}, BLOCKED, 8)]:
        sizes, model = _sizes.from_flags(flags), _model_config.read(config)
        broken = [entry for entry in _size_rules.checks(sizes, model, gpus) if entry.kept is False]
        vary = tuple(dict.fromkeys(field for entry in broken for field in entry.vary))
        changes = _size_rules.alternatives(sizes, model, gpus, vary)
        assert changes
        for change in changes:
            names = {"tp": "tp-size", "ep": "ep-size", "pp": "pp-size", "dp": "dp-size"}
            check({**flags, **{names[field]: number for field, number in change.items()}}, config, gpus)


def test_unknown_is_not_checked():
    unknown = {entry.name for entry in check({"tp-size": 8, "ep-size": 8}, {}, None) if entry.kept is None}
    assert unknown == {"gpus", "attention heads", "key value heads", "experts", "expert width"}


def test_uneven_layers_are_said():
    (layers,) = [entry for entry in check({"pp-size": 8}, KIMI, 8) if entry.name == "layers"]
    assert layers.kept and "61 over pp 8: 7,7,7,8,8,8,8,8 (uneven" in layers.detail


@pytest.mark.parametrize("partition, fits", [("8,8,8,8,8,7,7,7", True), ("8,8", False), ("9,8,8,8,8,7,7,7", False), ("a,b", False)])
def test_partition_of_layers(partition, fits):
    environment = {"SGLANG_PP_LAYER_PARTITION": partition}
    if fits:
        check({"pp-size": 8}, KIMI, 8, environment)
        return
    with pytest.raises(Refusal, match="SGLANG_PP_LAYER_PARTITION"):
        check({"pp-size": 8}, KIMI, 8, environment)


@pytest.mark.parametrize("flags, environment", [
    ({"speculative-algorithm": "EAGLE"}, {"SGLANG_ENABLE_PP_SPEC": "1"}),
    ({"speculative-algorithm": "EAGLE", "disaggregation-mode": "prefill"}, {}),
])
def test_speculation_over_stages_where_it_was_opened(flags, environment):
    check({"pp-size": 2, **flags}, None, 8, environment)


@pytest.mark.parametrize("flags, micro, starves", [
    ({"pp-size": 8, "max-running-requests": 64}, "max(64 // 8, 1) = 8", True),
    ({"pp-size": 8, "max-running-requests": 4}, "max(4 // 8, 1) = 1", True),
    ({"pp-size": 8, "max-running-requests": "2048"}, "max(2048 // 8, 1) = 256", False),
    ({"pp-size": 8}, "max(max_running_requests // pp_size, 1)", False),
    ({"pp-size": 8, "max-running-requests": 64, "pp-max-micro-batch-size": 64}, "", False),
    ({"max-running-requests": 64}, "", False),
])
def test_micro_batch_that_sglang_would_take(flags, micro, starves):
    said, warned = _sizes.micro_batch(_sizes.from_flags(flags), flags)
    assert micro in said and bool(said) == bool(micro)
    assert warned == starves and ("starves" in said) == starves


@pytest.mark.parametrize("flags, said", [
    ({"tp-size": 8, "enable-eplb": True}, "--enable-eplb needs ep 2 or more"),
    ({"tp-size": 8, "ep-size": 4, "moe-runner-backend": "flashinfer_cutlass"}, "takes ep 1 or tp 8, not 4"),
    ({"ep-dispatch-algorithm": "static"}, "needs a --moe-a2a-backend"),
    ({"enable-two-batch-overlap": True}, "--enable-two-batch-overlap needs"),
    ({"tp-size": 8, "moe-a2a-backend": "pplx"}, "pplx needs --attn-dp-size"),
    ({"tp-size": 8, "moe-dense-tp-size": 4}, "takes 1 or tp 8, not 4"),
    ({"pp-size": 2, "pp-max-micro-batch-size": 0}, "must be at least 1, not 0"),
    ({"ssl-keyfile": "/k"}, "go together"),
    ({"tokenizer-worker-num": 2}, "cannot be had together with an API key"),
    ({"attention-backend": "fa3"}, "the GPU has 12.0: triton or flashinfer would do"),
    ({"speculative-algorithm": "DFLASH"}, "needs --speculative-draft-model-path"),
])
def test_pairs_that_the_server_refuses(flags, said):
    found = _flag_pairs.refused(flags, _sizes.from_flags(flags), "demo", True, 12.0)
    assert len(found) == 1 and said in found[0]


@pytest.mark.parametrize("flags", [
    {}, {"tp-size": 8, "ep-size": 8, "moe-runner-backend": "flashinfer_cutlass"}, {"attention-backend": "triton"}, {"ssl-keyfile": "/k", "ssl-certfile": "/c"},
    {"speculative-algorithm": "DFLASH", "speculative-draft-model-path": "/d"}, {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "/d"},
])
def test_pairs_that_go_together(flags):
    assert _flag_pairs.refused(flags, _sizes.from_flags(flags), "demo", False, 12.0) == []


def test_colon_in_the_served_name():
    assert "colon" in _flag_pairs.refused({}, _sizes.Sizes(), "a:b", False, None)[0]
