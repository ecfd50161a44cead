# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument rules of the real server, with its words: some at once, some only in a rank."""

from __future__ import annotations

import os


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def _check_sizes(layout) -> None:
    args = layout.args
    _require((layout.tp * layout.pp) % layout.nnodes == 0, "tp_size must be divisible by number of nodes")
    micro = args.pp_max_micro_batch_size
    _require(
        micro is None or micro >= 1,
        "pp_max_micro_batch_size must be a positive integer or None (for auto-compute). Got: %s" % micro,
    )
    if layout.attn_dp < 1:
        raise ValueError("--attn-dp-size must be positive (got %d)." % layout.attn_dp)
    if layout.dp > 1 and layout.attn_dp > 1:
        raise ValueError("--dp-size > 1 (replicas) cannot be combined with --attn-dp-size > 1.")
    _require(layout.tp % (layout.attn_dp * args.attn_cp_size) == 0, "tp_size must be divisible by attn_dp_size * attn_cp_size")
    _require(layout.tp % args.moe_dp_size == 0, "tp_size must be divisible by moe_dp_size")
    _require(
        not (layout.dp > 1 and layout.nnodes != 1),
        "multi-node data-parallel replicas are not supported; use attention DP (--attn-dp-size) across nodes",
    )
    _require(args.base_gpu_id >= 0, "base_gpu_id must be non-negative")
    _require(args.gpu_id_step >= 1, "gpu_id_step must be positive")
    _require(args.moe_dense_tp_size in (None, 1, layout.tp), "moe_dense_tp_size only supports None, 1, or tp_size currently")


def _check_pipeline(layout) -> None:
    args = layout.args
    if layout.pp > 1 and args.speculative_algorithm:
        _require(
            args.speculative_algorithm.upper() == "EAGLE",
            "Pipeline parallelism currently only supports EAGLE (non-multi-layer) speculative decoding",
        )
        _require(
            args.disaggregation_mode == "prefill" or layout.knobs.sglang_flag("SGLANG_ENABLE_PP_SPEC", False),
            "PP + speculative decoding (MTP) is only supported on prefill nodes (disaggregation-mode=prefill)",
        )


def _check_serving(layout) -> None:
    args = layout.args
    name = args.served_model_name or args.model_path
    _require(
        ":" not in name,
        "served_model_name cannot contain a colon (':') character. The colon is reserved for the 'model:adapter' syntax "
        "used in LoRA adapter specification. Invalid value: '%s'" % name,
    )
    if bool(args.ssl_keyfile) != bool(args.ssl_certfile):
        raise ValueError("Both --ssl-keyfile and --ssl-certfile must be provided to enable TLS.")
    for path in (args.ssl_keyfile, args.ssl_certfile):
        if path and not os.path.isfile(path):
            raise ValueError("SSL file not found: %s" % path)
    if args.api_key and args.tokenizer_worker_num > 1:
        raise ValueError("--api-key is not supported with --tokenizer-worker-num > 1.")
    page, chunk = args.page_size or 1, args.chunked_prefill_size or 0
    _require(chunk <= 0 or chunk % page == 0, "chunked_prefill_size must be divisible by page_size")
    template = args.chat_template
    if template and os.sep in template and not os.path.exists(template):
        raise RuntimeError(
            "Chat template %s is not a built-in template name or a valid chat template file path." % template
        )


def check_arguments(layout) -> None:
    """Raise what the real server raises while it resolves its arguments; it then leaves with 1."""
    _check_sizes(layout)
    _check_pipeline(layout)
    _check_serving(layout)


def _first(config: dict, *names: str) -> int:
    for name in names:
        if isinstance(config.get(name), int):
            return config[name]
    return 0


def check_model(layout) -> None:
    """Raise what a rank raises while it builds the model: sizes that do not divide."""
    config, tp, ep = layout.text_config, layout.tp, layout.ep
    if tp % ep:
        raise ValueError("tp_size %d must be divisible by ep_size %d" % (tp, ep))
    moe_tp = tp // ep // max(layout.args.moe_dp_size, 1) or 1
    experts = _first(config, "n_routed_experts", "num_experts", "num_local_experts")
    if experts and experts % ep:
        raise ValueError("num_experts %d must be divisible by ep_size %d" % (experts, ep))
    width = _first(config, "moe_intermediate_size")
    if experts and width and width % moe_tp:
        raise ValueError(
            "moe_intermediate_size %d must be divisible by moe_tp_size (%d) which is tp_size (%d) divided by moe_ep_size "
            "(%d)." % (width, moe_tp, tp, ep)
        )
    block = (config.get("quantization_config") or layout.config.get("quantization_config") or {}).get("weight_block_size")
    if experts and width and block and (width // moe_tp) % block[0]:
        raise ValueError(
            "For quantized MoE models, please make sure (moe_intermediate_size=%d / moe_tp_size=%d) %% "
            "weight_block_size_n=%d == 0 where moe_tp_size is equal to tp_size (%d) divided by ep_size (%d). You can fix "
            "this by setting arguments `--tp` and `--ep` correctly." % (width, moe_tp, block[0], tp, ep)
        )
    heads = _first(config, "num_attention_heads")
    attn_tp = max(tp // layout.attn_dp // max(layout.args.attn_cp_size, 1), 1)
    if heads and heads % attn_tp:
        raise AssertionError("%d is not divisible by %d" % (heads, attn_tp))
