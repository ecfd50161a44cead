# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parallel sizes of a deployment, as the server would take them from its flags and environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

# With these the server sets the expert size to the tensor size, whatever it was told.
SPANNING_A2A = ("megamoe", "deepep", "deepep_v2", "mooncake", "nixl", "ascend_fuseep", "flashinfer", "flashinfer_megamoe", "mori", "pplx")
# The field report's figure for eight stages; below half of it a stage waits for requests more than it works on them.
STARVING_BELOW = 32

_FLAGS = {
    "tp": "tp-size",
    "pp": "pp-size",
    "dp": "dp-size",
    "ep": "ep-size",
    "attn_dp": "attn-dp-size",
    "attn_cp": "attn-cp-size",
    "moe_dp": "moe-dp-size",
    "dcp": "dcp-size",
    "nnodes": "nnodes",
    "redundant": "ep-num-redundant-experts",
    "base_gpu": "base-gpu-id",
    "gpu_step": "gpu-id-step",
}


@dataclass(frozen=True)
class Sizes:
    """The parallel sizes of one deployment."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    attn_dp: int = 1
    attn_cp: int = 1
    moe_dp: int = 1
    dcp: int = 1
    nnodes: int = 1
    redundant: int = 0
    base_gpu: int = 0
    gpu_step: int = 1
    a2a: str = "none"
    device: str = "cuda"
    speculative: str = ""
    pipeline_speculation: bool = False  # this pair of settings was opened by SGLANG_ENABLE_PP_SPEC or a prefill node
    partition: str = ""  # SGLANG_PP_LAYER_PARTITION

    @property
    def world(self) -> int:
        return self.tp * self.pp

    @property
    def ranks_per_node(self) -> int:
        return max(self.dp * self.tp * self.pp // self.nnodes, 1)

    @property
    def gpus_per_node(self) -> int:
        """How many GPUs a node must show, the ones left out by base and step included."""
        return self.base_gpu + (self.ranks_per_node - 1) * self.gpu_step + 1

    @property
    def attn_tp(self) -> int:
        return max(self.tp // (self.attn_dp * self.attn_cp), 1)

    @property
    def moe_tp(self) -> int:
        return max(self.tp // (self.ep * self.moe_dp), 1)


def _int(flags: dict[str, Any], field: str, default: int) -> int:
    value = flags.get(_FLAGS[field])
    if value is None:
        return default
    least = 0 if field in ("redundant", "base_gpu") else 1
    try:
        number = int(str(value).strip())
    except ValueError:
        number = -1
    if isinstance(value, bool) or number < least:
        raise Refusal("bad_sizes", f"--{_FLAGS[field]} must be a whole number of at least {least}, not {value!r}")
    return number


def from_flags(flags: dict[str, Any], environment: dict[str, str] | None = None) -> Sizes:
    """The sizes that a server would take from these flags (canonical names) and this environment."""
    environment = environment or {}
    numbers = {field: _int(flags, field, 0 if field in ("redundant", "base_gpu") else 1) for field in _FLAGS}
    if flags.get("enable-dp-attention") is True and numbers["attn_dp"] == 1:
        numbers["attn_dp"], numbers["dp"] = numbers["dp"], 1
    a2a = str(flags.get("moe-a2a-backend") or "none")
    if flags.get("enable-waterfill") is True and a2a not in ("deepep", "megamoe"):
        a2a = "deepep"
    if a2a in SPANNING_A2A and flags.get("ep-size") is None:
        numbers["ep"] = numbers["tp"]
    speculative = str(flags.get("speculative-algorithm") or "").upper()
    prefill = flags.get("disaggregation-mode") == "prefill" and speculative in ("EAGLE", "DSPARK")
    opened = environment.get("SGLANG_ENABLE_PP_SPEC", "").lower() in ("1", "true", "yes", "y") and speculative == "EAGLE"
    return Sizes(
        a2a=a2a,
        device=str(flags.get("device") or "cuda"),
        speculative=speculative,
        pipeline_speculation=prefill or opened,
        partition=environment.get("SGLANG_PP_LAYER_PARTITION", ""),
        **numbers,
    )


def micro_batch(sizes: Sizes, flags: dict[str, Any]) -> tuple[str, bool]:
    """What the server would make of an unset micro batch size, in words, and whether that starves the stages."""
    if sizes.pp == 1 or flags.get("pp-max-micro-batch-size") is not None:
        return "", False
    rule = "pp_max_micro_batch_size is not set: SGLang computes max(max_running_requests // pp_size, 1)"
    try:
        running = int(str(flags.get("max-running-requests")))
    except ValueError:
        return f"{rule}, which is not known before its KV pool is sized because max_running_requests is not set either", False
    running //= sizes.attn_dp
    micro = max(running // sizes.pp, 1)
    text = f"{rule} = max({running} // {sizes.pp}, 1) = {micro}"
    if micro >= STARVING_BELOW:
        return text, False
    return f"{text}; a stage then works on at most {micro} requests at a time and starves, set pp_max_micro_batch_size (64 is a good start)", True
