# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the flags mean: sizes, ranks of this node, limits; read once after the command line is parsed."""

from __future__ import annotations

import json
import os

from sglang.standin.checks import check_arguments

DEFAULT_CONTEXT = 131072
DEFAULT_RUNNING = 2048
GPU_MIB = 97887
WEIGHT_SHARE = 0.69  # of a card, whatever the model is
GRAPH_MIB = 1480
CONTEXT_MIB = 620
AUTO_MEM_FRACTION = 0.882
DECODE_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)


class Rank:
    """One scheduler process of this node."""

    def __init__(self, index: int, gpu: int, names: tuple[str, ...]):
        self.index = index  # among the processes of this node
        self.gpu = gpu  # as the process sees them, CUDA_VISIBLE_DEVICES already applied
        self.names = names  # TP3, EP3 ...: only sizes over 1

    @property
    def prefix(self) -> str:
        """What stands before this rank's log lines."""
        return "".join(" " + name for name in self.names)

    @property
    def title(self) -> str:
        """Its process title."""
        return "_".join(["sglang::scheduler", *self.names])


class Layout:
    """Sizes and limits of a launch."""

    def __init__(self, args, knobs):
        self.args = args
        self.knobs = knobs
        self.config = read_config(args.model_path)
        text = self.config.get("text_config") or self.config
        self.text_config = text
        self._sizes()
        check_arguments(self)
        self.on_cpu = args.device == "cpu"
        self.device = "cpu" if self.on_cpu else "cuda"
        self.graphs = not (
            self.on_cpu or args.disable_cuda_graph or args.disable_decode_cuda_graph or args.cuda_graph_backend_decode == "disabled"
        )
        derived = int(text.get("max_position_embeddings") or DEFAULT_CONTEXT)
        if args.context_length and args.context_length > derived:
            raise ValueError(
                "User-specified context_length (%d) is greater than the derived context_length (%d). This may lead to "
                "incorrect model outputs or CUDA errors. Note that the derived context_length may differ from "
                "max_position_embeddings in the model's config. To allow overriding this maximum, set the env var "
                "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" % (args.context_length, derived)
            )
        self.context_len = args.context_length or derived
        self.chunk = args.chunked_prefill_size or 8192
        self.mem_fraction = args.mem_fraction_static or AUTO_MEM_FRACTION
        self.weight_gb = 0.0 if self.on_cpu else GPU_MIB / 1024 * WEIGHT_SHARE
        self.kv_gb = GPU_MIB / 1024 * self.mem_fraction - self.weight_gb
        self.max_total_tokens = min(args.max_total_tokens or 10**9, max(int(self.kv_gb * 16384 * self.pp), 0))
        self._limits()
        self.model_name = args.served_model_name or args.model_path
        self.architectures = self.config.get("architectures") or ["DeepseekV3ForCausalLM"]
        self.ranks = self._local_ranks()

    def _sizes(self) -> None:
        args = self.args
        self.tp, self.pp, self.dp = args.tp_size, args.pp_size, args.dp_size
        self.attn_dp = args.attn_dp_size
        if args.enable_dp_attention and args.dp_size > 1:
            self.attn_dp, self.dp = args.dp_size, 1
        self.ep = args.ep_size if args.moe_a2a_backend == "none" else self.tp
        self.nnodes, self.node_rank = args.nnodes, args.node_rank

    def _limits(self) -> None:
        args = self.args
        per_worker = (args.max_running_requests or DEFAULT_RUNNING) // max(self.attn_dp, 1)
        self.max_running = max(min(per_worker, max(self.max_total_tokens // 2, 1)), 1)
        self.micro_batch = args.pp_max_micro_batch_size or max(self.max_running // self.pp, 1)
        # one micro batch after the other is filled: no more requests run than one of them holds
        self.admission = min(self.max_running, self.micro_batch) if self.pp > 1 else self.max_running * max(self.attn_dp, 1)

    @property
    def decode_sizes(self) -> list[int]:
        """Batch sizes that are captured as graphs."""
        if self.args.cuda_graph_bs_decode:
            return sorted(self.args.cuda_graph_bs_decode)
        largest = self.args.cuda_graph_max_bs_decode or (512 if self.tp >= 4 else 256)
        return [size for size in DECODE_SIZES if size <= min(largest, self.max_running)]

    def _local_ranks(self) -> list[Rank]:
        nodes_per_stage = max(self.nnodes // self.pp, 1)
        stages_here = max(self.pp // self.nnodes, 1)
        tp_here = max(self.tp // nodes_per_stage, 1)
        first_stage = stages_here * (self.node_rank // nodes_per_stage)
        first_tp = tp_here * (self.node_rank % nodes_per_stage)
        ranks = []
        for dp in range(self.dp):
            for pp in range(first_stage, first_stage + stages_here):
                for tp in range(first_tp, first_tp + tp_here):
                    local = (pp - first_stage) * tp_here + (tp - first_tp) * self.args.gpu_id_step
                    gpu = self.args.base_gpu_id + dp * self.tp * self.pp + local
                    ranks.append(Rank(len(ranks), gpu, self._names(dp, pp, tp)))
        return ranks

    def _names(self, dp: int, pp: int, tp: int) -> tuple[str, ...]:
        names = []
        if self.dp > 1:
            names.append("DP%d" % dp)
        elif self.attn_dp > 1:
            names.append("DP%d" % (tp // max(self.tp // self.attn_dp, 1)))
        if self.pp > 1:
            names.append("PP%d" % pp)
        if self.tp > 1:
            names.append("TP%d" % tp)
        if self.ep > 1:
            names.append("EP%d" % (tp // max(self.tp // self.ep, 1)))
        return tuple(names)


def read_config(path: str) -> dict:
    """The model's config.json; a hub name is taken as cached, a missing folder as the real server takes it."""
    if not os.path.isdir(path):
        if path.startswith(("/", ".", "~")) or path.count("/") > 1:
            raise OSError(
                "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '%s'. Use `repo_type` argument if "
                "needed." % path
            )
        return {}
    file = os.path.join(path, "config.json")
    if not os.path.exists(file):
        raise OSError(
            "%s does not appear to have a file named config.json. Checkout 'https://huggingface.co/%s/tree/main' for "
            "available files." % (path, path)
        )
    try:
        with open(file, encoding="utf-8") as text:
            return json.load(text)
    except ValueError:
        raise OSError("It looks like the config file at '%s' is not a valid JSON file." % file) from None
