# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of flags that the server's argument rules refuse after it has started, found before it is."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._sizes import Sizes

_ONE_OR_TP_RUNNERS = ("flashinfer_cutlass", "flashinfer_cutedsl")
_ATTENTION_FLAGS = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")


def _text(flags: dict[str, Any], name: str) -> str:
    value = flags.get(name)
    return "" if value is None or value is False else str(value)


def _parallel(flags: dict[str, Any], sizes: Sizes) -> list[str]:
    found = []
    micro = _text(flags, "pp-max-micro-batch-size")
    if micro.lstrip("-").isdigit() and int(micro) < 1:
        found.append(f"--pp-max-micro-batch-size must be at least 1, not {micro}")
    if sizes.pp > 1 and flags.get("enable-pdmux") is True:
        found.append(f"--enable-pdmux needs pp 1, not {sizes.pp}")
    if sizes.pp > 1 and flags.get("min-free-slots-delay") is not None:
        found.append(f"--min-free-slots-delay needs pp 1, not {sizes.pp}")
    dense = _text(flags, "moe-dense-tp-size")
    if dense and dense not in ("1", str(sizes.tp)):
        found.append(f"--moe-dense-tp-size takes 1 or tp {sizes.tp}, not {dense}")
    return found


def _experts(flags: dict[str, Any], sizes: Sizes) -> list[str]:
    found = []
    runner = _text(flags, "moe-runner-backend")
    if sizes.a2a == "flashinfer_megamoe" and sizes.attn_dp != sizes.tp:
        found.append(f"--moe-a2a-backend {sizes.a2a} needs --attn-dp-size {sizes.tp} (tp), not {sizes.attn_dp}")
    if sizes.a2a == "pplx" and sizes.attn_dp < 2:
        found.append("--moe-a2a-backend pplx needs --attn-dp-size 2 or more")
    if runner in _ONE_OR_TP_RUNNERS and sizes.ep not in (1, sizes.tp):
        found.append(f"--moe-runner-backend {runner} takes ep 1 or tp {sizes.tp}, not {sizes.ep}")
    if runner == "cutlass" and _text(flags, "quantization") in ("fp8", "mxfp8") and sizes.ep != 1:
        found.append(f"--moe-runner-backend cutlass with FP8 takes ep 1, not {sizes.ep}")
    if flags.get("enable-eplb") is True and sizes.ep == 1:
        found.append("--enable-eplb needs ep 2 or more")
    dispatch = _text(flags, "ep-dispatch-algorithm")
    if dispatch in ("static", "lp") and sizes.a2a == "none":
        found.append(f"--ep-dispatch-algorithm {dispatch} needs a --moe-a2a-backend other than none")
    if flags.get("enable-two-batch-overlap") is True and sizes.a2a == "none" and sizes.attn_dp == 1:
        found.append("--enable-two-batch-overlap needs a --moe-a2a-backend other than none, or --attn-dp-size 2 or more")
    return found


def _serving(flags: dict[str, Any], sizes: Sizes, served_model_name: str, has_secrets: bool) -> list[str]:
    found = []
    if bool(_text(flags, "ssl-keyfile")) != bool(_text(flags, "ssl-certfile")):
        found.append("--ssl-keyfile and --ssl-certfile go together")
    if ":" in served_model_name:
        found.append(f"the served model name {served_model_name!r} must not hold a colon, which separates a LoRA adapter")
    tokenizers = _text(flags, "tokenizer-worker-num")
    if has_secrets and tokenizers.isdigit() and int(tokenizers) > 1:
        found.append(f"--tokenizer-worker-num {tokenizers} cannot be had together with an API key")
    if sizes.speculative == "DFLASH" and not _text(flags, "speculative-draft-model-path"):
        found.append("--speculative-algorithm DFLASH needs --speculative-draft-model-path")
    return found


def _attention(flags: dict[str, Any], compute_cap: float | None) -> list[str]:
    found = []
    for flag in _ATTENTION_FLAGS:
        backend = _text(flags, flag)
        if backend == "fa3" and compute_cap is not None and not 8.0 <= compute_cap < 10.0:
            found.append(f"--{flag} fa3 needs compute capability 8.0 to 9.0, the GPU has {compute_cap}: triton or flashinfer would do")
        if backend == "trtllm_mla" and compute_cap is not None and compute_cap < 10.0:
            found.append(f"--{flag} trtllm_mla needs a Blackwell GPU (10.0), the GPU has {compute_cap}: triton or flashinfer would do")
    return found


def refused(flags: dict[str, Any], sizes: Sizes, served_model_name: str, has_secrets: bool, compute_cap: float | None) -> list[str]:
    """Every pair that the server would refuse, a sentence each."""
    found = _parallel(flags, sizes) + _experts(flags, sizes)
    return found + _serving(flags, sizes, served_model_name, has_secrets) + _attention(flags, compute_cap)
