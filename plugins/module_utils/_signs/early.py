# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures that are asked first: the other tables would take these lines for something else."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import CONTAINER_HINT, FILES_HINT, HOST_MEMORY_HINT, OLD_CARD_HINT, sign

_OFFLINE_HINT = "Offline mode is on (HF_HUB_OFFLINE): give the path of a local copy, download the model first, or unset HF_HUB_OFFLINE in the unit."
_PROXY_HINT = "The proxy on the way refused the connection: let it pass the hub, correct HTTPS_PROXY in the unit, or serve a local copy."
_THREADS_HINT = "The limit of processes and threads is reached: raise TasksMax= and LimitNPROC= of the unit."
_TMP_HINT = "Make room, or give the service user write access, in one of the folders of the line, or set TMPDIR in the unit."
_LIBCUDA_HINT = "The symbol is one of the driver's own library (libcuda): update the NVIDIA driver, or install wheels built for the CUDA version it supports."
_TOOLKIT_HINT = "The CUDA toolkit on the node does not know this card: give the unit a newer one (CUDA_HOME, nvcc on its PATH), or wheels with ready kernels."
_NVSHMEM_HINT = (
    "NVSHMEM could not set up its transport: check the RDMA devices and the right to use them (/dev/infiniband, LimitMEMLOCK=infinity, nvidia_peermem), or "
    "take another moe_a2a_backend than deepep."
)
_PART_HINT = "A part of the server in C++ says what failed: mend that (a device, its rights, memory to register, the other side), then start again."
_INCOMPLETE_HINT = "A file of the model is missing, cut off or only a pointer (git-lfs): download the model again, and compare sizes or checksums."
_REVISION_HINT = "The hub has no such revision of this model: correct --revision, or leave it out."
_NO_TYPE_HINT = "The folder's config.json names no model type: see that the path is the model's own folder and that the download is complete."
_TOKEN_HINT = "The token in the unit's secret environment has a blank or a newline in it: write it anew without."
_RANK_ADDRESS_HINT = "The address of rank 0 is not on this node: correct dist_init_addr (ip -br address lists the node's own), as an address, not a name."
_IMAGE_HINT = "Driver, CUDA version of the wheels and card do not fit: update the driver, or install builds of torch and sglang-kernel for both."
_DTYPE_HINT = "This card has no bfloat16: set dtype to half (float16)."
_CUBIN_HINT = "Install flashinfer-cubin (and flashinfer-jit-cache) of the same version, or let the unit reach the address in the line (HTTPS_PROXY)."
_UVM_HINT = "Load the module nvidia_uvm (modprobe nvidia_uvm, nvidia-modprobe -u) and see that the unit may use /dev/nvidia-uvm; after a suspend, reboot."
_PIECEWISE_HINT = "Set disable_piecewise_cuda_graph, or another attention_backend."
_TRANSFORMERS_HINT = "Deploy a version of SGLang (and its transformers) that knows this model, and see that the model's folder is complete."
_IMPORT_HINT = "Wheels of different releases stand side by side: install this SGLang version with the versions it asks for in a fresh virtual environment."

EARLY = (
    sign("no_kernel_for_arch", "kernel image is invalid", r"kernel image is invalid", hint=_IMAGE_HINT),
    sign(
        "host_oom",
        ("not enough host memory", "unable to allocate"),
        r"not enough host memory|unable to allocate [\d.]+ [GMT]iB for an array",
        hint=HOST_MEMORY_HINT,
    ),
    sign(
        "model_not_found",
        ("missing from", "pytorchstreamreader", "invalid load key", "incompletesnapshot", "integrityerror"),
        r"shard file\(?s?\)? missing from|PytorchStreamReader failed|UnpicklingError: invalid load key|IncompleteSnapshotError|\bIntegrityError: ",
        hint=_INCOMPLETE_HINT,
    ),
    sign("model_not_found", "valid git identifier", r"is not a valid git identifier", hint=_REVISION_HINT),
    sign("unsupported_model", "unrecognized model in", r"unrecognized model in .{0,300}model_type", hint=_NO_TYPE_HINT),
    sign("unsupported_model", "in sglang", r"is not (?:yet )?supported .{0,80}in sglang"),
    sign("hub_unreachable", "hugging face hub endpoint", r"does not seem to be served by a hugging ?face hub"),
    sign("hub_unreachable", "illegal header value", r"illegal header value b?.{0,4}Bearer", hint=_TOKEN_HINT),
    sign("cache_not_writable", "directory is not writable", r"directory is not writable: (?P<path>\S+)"),
    sign(
        "bad_flags",
        ("invalid quantization", "unexpected extra config", "ib devices"),
        r"Error: (?P<flag>(?:invalid quantization method|unexpected extra config keys|no IB devices configured).*)",
    ),
    sign(
        "kv_pool_too_small", ("cannot hold even one", "max_running_request is zero"), r"pool .{0,80}cannot hold even one request|max_running_requests? is zero"
    ),
    sign(
        "no_kernel_for_arch",
        ("platform does not support", "intel amx"),
        r"platform does not support .{0,200}(?:blackwell|hopper|\bSM\d{2})|requires intel amx",
        hint=OLD_CARD_HINT,
    ),
    sign("attention_backend", "backend", r"Error: \w+ backend (?:can only be used|does not support)"),
    sign("port_in_use", "addr='tcp", r"(?:cannot assign requested address|no such device) \(addr='tcp", hint=_RANK_ADDRESS_HINT),
    sign("driver_too_old", "requirement error", r"nvidia-container-cli: requirement error: unsatisfied"),
    sign(
        "driver_missing",
        "nvidia-container-cli",
        r"nvidia-container-cli: .*(?:libnvidia-ml|load library|ldcache|device error|mount error|invalid expression|invalid device ordinal)",
        sources=("unit", "systemd"),
        hint=CONTAINER_HINT,
    ),
    sign("no_kernel_for_arch", "cuda architectures", r"no supported CUDA architectures? found", hint=_TOOLKIT_HINT),
    sign("bad_flags", "error: ", r"^error: (?P<flag>(?:invalid value|unexpected argument|the following required arguments|unrecognized).*--.*)"),
    sign(
        "nccl_error",
        ("ibgda", "nvshmem"),
        r"(?:nvshmem|ibgda)\S*\.(?:cpp|cu):\S*\d+: .*(?:NULL value|non-zero status|failed)",
        "wrapper",
        hint=_NVSHMEM_HINT,
    ),
    sign("scheduler_crashed", "] ", r"^E\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\.(?:cpp|cc|cu|h|hpp):\d+\] \S", "prelude", hint=_PART_HINT),
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
        r"|no processor registered for architecture"
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
