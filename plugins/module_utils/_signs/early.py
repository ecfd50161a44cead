# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures that are asked first: the other tables would take these lines for something else."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import FILES_HINT, HOST_MEMORY_HINT, OLD_CARD_HINT, sign

_OFFLINE_HINT = "Offline mode is on (HF_HUB_OFFLINE): give the path of a local copy, download the model first, or unset HF_HUB_OFFLINE in the unit."
_PROXY_HINT = "The proxy on the way refused the connection: let it pass the hub, correct HTTPS_PROXY in the unit, or serve a local copy."
_THREADS_HINT = "The limit of processes and threads is reached: raise TasksMax= and LimitNPROC= of the unit."
_TMP_HINT = "Make room, or give the service user write access, in one of the folders of the line, or set TMPDIR in the unit."
_LIBCUDA_HINT = "The symbol is one of the driver's own library (libcuda): update the NVIDIA driver, or install wheels built for the CUDA version it supports."
_DTYPE_HINT = "This card has no bfloat16: set dtype to half (float16)."
_CUBIN_HINT = "Install flashinfer-cubin (and flashinfer-jit-cache) of the same version, or let the unit reach the address in the line (HTTPS_PROXY)."
_UVM_HINT = "Load the module nvidia_uvm (modprobe nvidia_uvm, nvidia-modprobe -u) and see that the unit may use /dev/nvidia-uvm; after a suspend, reboot."
_PIECEWISE_HINT = "Set disable_piecewise_cuda_graph, or another attention_backend."
_TRANSFORMERS_HINT = "Deploy a version of SGLang (and its transformers) that knows this model, and see that the model's folder is complete."
_IMPORT_HINT = "Wheels of different releases stand side by side: install this SGLang version with the versions it asks for in a fresh virtual environment."

EARLY = (
    sign("shared_memory_limit", "out of resource", r"out of resources?: (?!.{0,40}(?:cuda|gpu) memory)"),
    sign(
        "no_kernel_for_arch",
        ("require", "need", "not support"),
        r"(?:--(?!(?:prefill-|decode-|speculative-)?attention-backend)[\w-]*backend\b|moe_runner_backend|moe_a2a_backend|megamoe|allreduce fusion|marlin"
        r"|fp4|fp8)"
        r".{0,200}\b(?:requires?|needs?|not support)\b.{0,60}(?:\bsm ?_?\d{2,3}|\bampere|\bhopper|\bblackwell|\bada\b|compute capability)",
        hint=OLD_CARD_HINT,
    ),
    sign("jit_failed", "compile", r"failed to compile .{0,200}\.(?:cu|cpp|cuh|ptx)\b"),
    sign("jit_failed", "ptxas", r"^ptxas \S+, line \d+; (?:fatal|error)"),
    sign("jit_failed", "ptxas", r"PTXASError", "wrapper", yields_to=("jit_failed", "no_kernel_for_arch")),
    sign("missing_cuda_lib", "undefined symbol: cu", r"undefined symbol: cu(?!da|blas|sparse|fft|rand|solver|dnn|file|pti)[A-Z]", hint=_LIBCUDA_HINT),
    sign("disk_full", "insufficient free space", r"insufficient free space"),
    sign("bad_flags", "quantization method", r"(?P<flag>quantization method specified in the model config .{0,200}does not match.{0,200})"),
    sign("no_kernel_for_arch", "bfloat16", r"bfloat16 is (?:only|not) supported on GPUs? with", hint=_DTYPE_HINT),
    sign(
        "no_kernel_for_arch",
        "capability",
        r"no (?:implemented|compiled) \S+ .{0,60}capability",
    ),
    sign(
        "no_kernel_for_arch",
        ("minimum capability", "only supports sm", "supports sm"),
        r"not supported for the current GPU.{0,40}minimum capability|only supports sm ?_?\d{2,3}\b",
        hint=OLD_CARD_HINT,
    ),
    sign(
        "hub_unreachable",
        ("offlinemodeisenabled", "offline mode is enabled", "outgoing traffic has been disabled"),
        r"OfflineModeIsEnabled|offline mode is enabled|outgoing traffic has been disabled",
        hint=_OFFLINE_HINT,
    ),
    sign(
        "hub_unreachable",
        ("proxyerror", "tunnel connection failed"),
        r"ProxyError\b.{0,300}https?|tunnel connection failed: (?:403|407|50\d)",
        hint=_PROXY_HINT,
    ),
    sign(
        "unsupported_model",
        ("transformers", "no sglang implementation", "gguf model", "architecture"),
        r"transformers implementation .{0,120}not compatible with sglang|no sglang implementation|is not a registered model in the transformers"
        r"|gguf model with architecture \S+ is not supported|: architecture \S+ (?:is )?not supported",
    ),
    sign("cache_not_writable", "permissionerror at", r"PermissionError at (?P<path>/\S+) when"),
    sign("disk_full", "no usable temporary directory", r"no usable temporary directory", hint=_TMP_HINT),
    sign("host_oom", "bad_alloc", r"std::bad_alloc", hint=HOST_MEMORY_HINT),
    sign("exited", "start new thread", r"can't start new thread", "plain", hint=_THREADS_HINT),
    sign("bad_flags", "usage: sglang serve", r"^Exception: (?P<flag>Usage: sglang serve.*)"),
    sign("gpu_lost", ("rminitadapter failed", "rm_init_adapter failed"), r"RmInitAdapter failed|rm_init_adapter failed", "evidence", sources=("kernel",)),
    sign("nccl_timeout", "timed out waiting", r"gloo.{0,120}timed out waiting \d+ ?ms for (?:recv|send) operation", proof=True),
    sign(
        "jit_failed",
        ("403", "401", "404"),
        r"(?:flashinfer|cubin|nvidia\.com).{0,200}(?:401|403|404) Client Error",
        "weak",
        hint=_CUBIN_HINT,
    ),
    sign("no_kernel_for_arch", "compute capability", r"unsupported compute capability"),
    sign(
        "driver_missing",
        "cuda unknown error",
        r"CUDA unknown error(?!.{0,400}(?:error 80\d|driver combination|not yet initialized))",
        hint=_UVM_HINT,
    ),
    sign("driver_too_old", "requirement error", r"nvidia-container-cli: requirement error", sources=("unit", "systemd")),
    sign("hub_unreachable", "cas service error", r"CAS service error"),
    sign(
        "graph_capture_oom",
        "piecewise",
        r"piecewise cuda graphs? failed.{0,80}(?:(?<!shared )(?<!illegal )memory\.|out of memory)",
        proof=True,
    ),
    sign("graph_capture_failed", "piecewise", r"piecewise cuda graphs? failed", hint=_PIECEWISE_HINT),
    sign(
        "unsupported_model",
        ("unrecognized configuration", "unrecognized image processor", "unrecognized processor", "rope_scaling", "rope_parameters"),
        r"^(?!.*trust).*unrecognized (?:configuration class|image processor|processor)|rope_(?:scaling|parameters).{0,6} (?:must be|should have|must have)",
        hint=_TRANSFORMERS_HINT,
        yields_to=("remote_code",),
    ),
    sign("runtime_oom", "out of memory. try", r"(?:prefill|decode) out of memory"),
    sign("jit_failed", ".h not found", r"Error: \S+\.h not found", hint=_CUBIN_HINT),
    sign("exited", "cannot import name", r"ImportError: cannot import name", "plain", hint=_IMPORT_HINT),
    sign("exited", "too many open files", r"too many open files", "plain", hint=FILES_HINT),
    sign(
        "attention_backend",
        "unsupported architecture",
        r"(?:fmha|mla|attention|trtllm|flash)\w*.{0,200}: unsupported architecture",
    ),
    sign("no_kernel_for_arch", "unsupported architecture", r"\.(?:hpp|cuh?|h|cpp)\b.{0,60}: unsupported architecture"),
)
