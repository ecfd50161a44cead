# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of memory that runs out, on the GPUs and on the host."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import COMPILER_KILLED_HINT, HOST_MEMORY_HINT, sign

_BUSY_HINT = "See who has the GPU (nvidia-smi), end it, and set the compute mode to Default (nvidia-smi -c 0)."

MEMORY = (
    sign(
        "kv_pool_too_small",
        ("not enough", "cache is too small", "no available memory for the cache", "leave no gpu memory", "pool size is too small"),
        r"loaded weights leave no gpu memory|memory pool size is too small|state cache is too small"
        r"|not enough (?:gpu )?memory.{0,300}(?:increase|mem[-_]fraction)(?:.{0,120}mem_fraction_static=(?P<value>[\d.]+))?"
        r"|no available memory for the cache",
        proof=True,
    ),
    sign(
        "gpu_busy",
        ("unbalanced", "occupied by other"),
        r"(?:Error|Exception): .{0,40}(?:memory capacity is unbalanced|occupied by other processes|insufficient free gpu memory.{0,80}other process)",
        proof=True,
    ),
    sign(
        "gpu_busy",
        ("unbalanced", "occupied by other"),
        r"memory capacity is unbalanced|occupied by other processes|insufficient free gpu memory.{0,80}other process",
        "weak",
    ),
    sign(
        "gpu_busy",
        ("busy or unavailable", "devicesunavailable", "device_unavailable", "exclusive"),
        r"busy or unavailable|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|exclusive[- _](?:process|thread)",
        hint=_BUSY_HINT,
    ),
    sign(
        "no_kernel_for_arch",
        ("kernel image", "kernelimage", "unsupported gpu architecture", "invalid device function", "no binary", "no_binary", "invalid_image"),
        r"no kernel image is available|(?:CUDA|HIP) error: invalid device function"
        r"|cudaErrorInvalidKernelImage|cudaErrorNoKernelImageForDevice"
        r"|CUDA_ERROR_(?:INVALID_IMAGE|NO_BINARY_FOR_GPU)|no binary for gpu",
    ),
    sign(
        "no_kernel_for_arch",
        "compatible with the current pytorch",
        r"(?:Error|Exception): .{0,200}sm_\d+a? is not compatible with the current PyTorch",
    ),
    sign("no_kernel_for_arch", "compatible with the current pytorch", r"sm_\d+a? is not compatible with the current PyTorch", "weak"),
    sign(
        "graph_capture_oom",
        "graph",
        r"captur\w* (?:\w+ ){0,3}graphs? failed.{0,40}(?:(?<!shared )(?<!illegal )memory|MemoryAllocation|ALLOC_FAILED)",
        proof=True,
    ),
    sign(
        "graph_capture_failed",
        "graph",
        r"captur\w* (?:\w+ ){0,3}graphs? failed|(?:cuda ?graph|stream).{0,40}capture.{0,30}(?:invalidated|unsupported|not permitted)",
        "wrapper",
        yields_to=("no_kernel_for_arch", "shared_memory_limit", "attention_backend", "jit_failed", "jit_tool_missing"),
    ),
    sign(
        "cuda_oom",
        ("out of memory", "outofmemory", "memoryallocation", "alloc_failed", "out_of_memory", "curesult error"),
        r"CUresult error +result=2 "
        r"|(?:torch\.|c10::)?(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP)(?: error:| driver error:)? out of memory|cudaErrorMemoryAllocation"
        r"|CU(?:BLAS|DNN|SOLVER)_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY"
        r"|(?:\bcu(?:da|mem)\w*|\bhip\w*|\btriton)\b.{0,40}(?:error|fail\w*)\b.{0,160}\bout of memory\b",
    ),
    sign(
        "host_oom",
        ("out of memory", "oom killer", "oom-kill", "oomd"),
        r"killed by the OOM killer|Failed with result 'oom-kill'|systemd-oomd killed|due to memory pressure|oom-kill(?:ed)? (?:event|process)",
        "evidence",
        sources=("systemd",),
    ),
    sign(
        "host_oom",
        ("killed process", "oom-kill:"),
        r"(?:killed process \d+ \(|task=)(?:cicc|cc1\w*|ptxas|nvcc|nvlink|fatbinary|cudafe[^,)]*|ninja|as|ld[^,)]*|g\+\+[^,)]*|c\+\+[^,)]*|gcc[^,)]*"
        r"|clang[^,)]*)[,)]",
        "evidence",
        sources=("kernel", "systemd"),
        hint=COMPILER_KILLED_HINT,
    ),
    sign(
        "host_oom",
        ("killed process", "oom-kill:"),
        r"out of memory(?: \(oom_kill_allocating_task\))?: killed process \d+|oom[-_]kill.{0,200}task=",
        "evidence",
        True,
        ("kernel", "systemd"),
    ),
    sign(
        "host_oom",
        ("memoryerror", "defaultcpuallocator", "cannot allocate memory", "bad_alloc"),
        r"^(?:\S+\.)?MemoryError\b|DefaultCPUAllocator: (?:can't|not enough)|\bmmap\b.{0,300}cannot allocate memory|\[Errno 12\]|std::bad_alloc",
        "weak",
        hint=HOST_MEMORY_HINT,
    ),
)
