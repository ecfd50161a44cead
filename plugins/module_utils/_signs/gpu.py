# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of drivers, cards, libraries and compilers."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import COMPILER_KILLED_HINT, CONTAINER_HINT, OLD_CARD_HINT, sign

_KERNEL = ("kernel", "systemd", "unit")
_LIBS = ("missing_cuda_lib", "no_kernel_for_arch", "driver_too_old", "jit_tool_missing")
_JIT = ("jit_failed", "jit_tool_missing", "disk_full", "cache_not_writable", "no_permission", "host_oom")
_NUMA_HINT = "Install the packages libnuma1 and numactl."
_NOEXEC_HINT = "Let TMPDIR, TRITON_CACHE_DIR and SGLANG_CACHE_DIR of the unit lie on a file system that is not mounted noexec."
_TORCH_HINT = "Install the CUDA build of torch (the wheel of PyTorch's own index for this CUDA version) in a fresh virtual environment."
_COMPAT_HINT = "Update the driver and reboot, or take the cuda-compat libraries off the unit's library path: they work on data centre cards only."
_NVML_HINT = "Give the service user access to /dev/nvidia* (its group, DeviceAllow=), or drop the unit's sandboxing of devices."
_GLIBC_HINT = "The C library of this node is older than the wheels need: move to a newer release of the distribution, or run the server in a container."
_CUDA_HINT = "Install wheels and libraries of one CUDA major version in a fresh virtual environment; never upgrade single wheels in place."

GPU = (
    sign("driver_mismatch", "api mismatch", r"NVRM: API mismatch", "weak", sources=("kernel",)),
    sign(
        "driver_mismatch",
        ("mismatch", "803", "driver combination"),
        r"driver/library version mismatch|NVML/RM version mismatch|LibRmVersionMismatch|Error 803\b|unsupported display driver|cuda driver combination",
        sources=_KERNEL,
    ),
    sign(
        "fabric_manager",
        ("802", "not yet initialized", "fabric"),
        r"Error 802\b|system not yet initialized|fabric ?manager .{0,60}(?:not running|failed|mismatch)|CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    sign(
        "driver_too_old",
        ("error 804", "forward compat", "compatnotsupported"),
        r"Error 804\b|forward compatibility was attempted|cudaErrorCompatNotSupportedOnDevice",
        hint=_COMPAT_HINT,
    ),
    sign(
        "driver_too_old",
        ("driver", "ptx"),
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|provided PTX was compiled with an unsupported toolchain|driver .{0,60}is too old",
    ),
    sign(
        "secure_boot",
        ("rejected by service", "unavailable key", "is rejected"),
        r"key was rejected by service|loading of (?:unsigned )?module (?:with unavailable key )?is rejected",
        sources=_KERNEL,
    ),
    sign("module_conflict", "bound to", r"already bound to (?:NovaCore|nouveau|nova|vfio)", sources=_KERNEL),
    sign("module_not_built", "modprobe", r"module nvidia\S* not found in directory", sources=_KERNEL),
    sign(
        "driver_missing",
        ("driver", "no accelerator", "libcuda.so", "nvml", "cuda-capable", "-smi", "gpu memory values"),
        r"found no NVIDIA driver|no CUDA-capable device is detected|(?:nvidia|rocm)-smi not found|unable to find nvidia-smi|no GPU memory values found"
        r"|libcuda\.so cannot found|\b0 active drivers|CUDA driver initialization failed"
        r"|couldn't communicate with the NVIDIA driver|NVIDIA driver (?:is )?not (?:loaded|found|installed)"
        r"|no accelerator .{0,200}(?:is )?available"
        r"|libcuda\.so\.1: cannot open shared object|NVML Shared Library Not Found"
        r"|NVMLError_(?:LibraryNotFound|DriverNotLoaded)|NVML: Driver Not Loaded",
    ),
    sign("no_permission", ("nopermission", "nvml"), r"NVMLError_NoPermission|NVML: Insufficient Permissions", hint=_NVML_HINT),
    sign(
        "gpu_lost",
        ("fallen off", "gpu is lost", "gpuislost", "device handle", "uncorrectable", "ecc error", "requires reset", "hardware error", "hardware stack"),
        r"fallen off the bus|GPU is lost|NVMLError_GpuIsLost|unable to determine the device handle|uncorrectable (?:NVLink|ECC)|GPU requires reset"
        r"|peer GPU memory over nvlink|CUDA error: hardware stack error",
        "evidence",
        True,
        _KERNEL,
    ),
    sign("gpu_lost", "xid", r"NVRM: Xid .{0,80}: (?:48|62|64|74|79|95|110|119|120|136|140|143|145)\b(?!.{0,80}\bnon-?fatal)", "evidence", True, ("kernel",)),
    sign(
        "gpu_count",
        ("device ordinal", "no cuda gpus", "no hip gpus", "device_count", "visible devices", "gpus available", "invalid device id", "no gpus found"),
        r"invalid device ordinal|no (?:CUDA|HIP) GPUs are available|: invalid device id$|no GPUs found!"
        r"|CUDA_VISIBLE_DEVICES.{0,80}invalid|no CUDA-capable device|(?:requires?"
        r"|needs?) \d+ GPUs?.{0,60}(?:only|available|found)",
    ),
    sign(
        "jit_failed",
        ("cannot find -l", "undefined reference", "collect2", "ld returned", "ld: ", "ld.lld: ", "ld.gold: ", "mold: ", "nvlink "),
        r"\b(?:ld|ld\.\w+|lld|mold): (?:error|fatal|cannot|undefined|final link failed)|cannot find -l\w|undefined reference to|collect2: (?:fatal )?error"
        r"|ld returned \d+ exit|nvlink (?:error|fatal) *:",
    ),
    sign(
        "missing_cuda_lib",
        "failed to import",
        r"^(?!(?:[A-Za-z_][\w.]*(?:Error|Exception)): ).{0,120}\bfailed to import\b.{0,300}cannot open shared object",
        "weak",
    ),
    sign(
        "missing_cuda_lib",
        ("cannot open shared object", "undefined symbol", "libnuma"),
        r"(?P<lib>libnuma\.so[\w.]*): cannot open shared object file",
        hint=_NUMA_HINT,
    ),
    sign("missing_cuda_lib", "glibc", r"version .GLIBC(?:XX)?_\S+ not found", hint=_GLIBC_HINT),
    sign(
        "missing_cuda_lib",
        ("cannot open shared object", "undefined symbol", "common_ops", "version `"),
        r"(?P<lib>lib[\w.+-]+?\.so[\w.]*): cannot open shared object file|cannot open shared object file|undefined symbol:|version .GLIBC\S+ not found",
    ),
    sign("missing_cuda_lib", "failed to map segment", r"failed to map segment from shared object", hint=_NOEXEC_HINT),
    sign(
        "missing_cuda_lib",
        ("not compiled with", "built without", "compiled without", "built in"),
        r"torch (?:was )?not compiled with (?:CUDA|NCCL)|(?:built|compiled) without (?:CUDA|NCCL|GPU) support|doesn't have NCCL built in",
        hint=_TORCH_HINT,
    ),
    sign(
        "missing_cuda_lib",
        ("minimum required version", "is less than the"),
        r"less than the minimum required version|with minimum required version .{0,80} is not installed",
        hint=_CUDA_HINT,
    ),
    sign("missing_cuda_lib", "common_ops", r"could not load any common_ops library|failed to load .{0,60}common_ops", "wrapper", yields_to=_LIBS),
    sign(
        "attention_backend",
        ("attention", "backend", "fmha", "mla", "sm>=", "sm_", "flash"),
        r"FlashAttention v\d Backend requires SM|FlashAttention (?:forward )?only supports|invalid attention backend"
        r"|backend (?:is )?only supported on|TllmGenFmhaRunner: Unsupported"
        r"|backend .{0,40}requires? (?:SM|compute capability|a Hopper|a Blackwell|Hopper|Blackwell)"
        r"|attention .{0,40}(?:is|are) (?:only|not) supported (?:on|by|for) (?:this|your|the|sm|hopper|blackwell|compute|device|gpu|cuda)"
        r"|unsupported (?:head_dim|compute capability|architecture) .{0,60}(?:attention|mla|fmha)"
        r"|(?:Error|Exception): .{0,80}(?:attention|flash|mla\b|fmha|trtllm).{0,60}(?:requires?|needs?|(?:only|not) support(?:s|ed)?"
        r"|supports only|only works?)\b.{0,40}(?:\bsm ?_?\d{2}|ampere|hopper|blackwell|\bada\b|turing|compute capability)",
    ),
    sign(
        "no_kernel_for_arch",
        ("capability", "sm1", "sm9", "sm8", "sm7", "gpus with sm"),
        r"(?:Error|Exception): .{0,120}(?:(?:requires?|needs?|minimum) (?:\S+ ){0,4}(?:compute )?capability"
        r"|(?:requires?|needs?) (?:an? )?(?:GPUs? with )?sm_?\d{2})",
        hint=OLD_CARD_HINT,
    ),
    sign(
        "shared_memory_limit",
        ("outofresources", "out of resource"),
        r"out of resources?: shared memory|OutOfResources|too much shared (?:memory|data)",
    ),
    sign(
        "jit_tool_missing",
        ("nvcc", "ninja", "cuda_home", "compiler", "no such file", "not found", "ptxas"),
        r"could not find (?P<tool>nvcc)|CUDA_HOME environment variable is not set|assert .{0,20}(?:cuda_home|nvcc)\w* is not None"
        r"|No such file or directory: '?(?P<tool2>(?:[^\s']*/)?(?:nvcc|ninja|ptxas|gcc|g\+\+|c\+\+|cc|clang|cuobjdump|nvdisasm))'?(?:$"
        r"|[\s'])"
        r"|failed to find C compiler|(?P<tool3>ninja) is required to load|(?P<tool4>nvcc|ninja|gcc|g\+\+|ptxas|cuobjdump|nvdisasm): (?:command )?not found"
        r"|cannot find (?P<tool5>ptxas|nvcc|ninja)|no working C(?:\+\+|XX)? compiler|InvalidCxxCompiler",
    ),
    sign(
        "jit_failed",
        ("signal 9", "signal 11", "killed signal", ": killed", "subcommand killed", "kill signal"),
        r"\b(?:cicc|ptxas|cc1\w*|cudafe\S*|fatbinary|nvlink|nvcc|ld|as)\W{1,3}(?:died|terminated|was killed|got killed)\b.{0,20}signal"
        r"|killed signal terminated program|(?:compiler error|fatal error): killed|ninja: .{0,40}killed",
        "wrapper",
        hint=COMPILER_KILLED_HINT,
        yields_to=("host_oom",),
    ),
    sign(
        "jit_failed",
        ("nvcc", "gcc", "cuda toolkit", "compiler"),
        r"(?:NVCC|GCC|G\+\+|CUDA toolkit|compiler) (?:version )?(?:\S+ ){0,3}(?:(?:should|must|needs|has) (?:to )?be (?:>|at least|newer)|is too old)"
        r"|(?:Error|Exception): .{0,80}requires? (?:NVCC|GCC|G\+\+|CUDA toolkit|a compiler)\b",
    ),
    sign("jit_failed", ("fatal", "error:"), r"fatal error: |ptxas fatal|nvcc fatal|\.(?:cuh?|cpp|cc|h|hpp)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error"),
    sign(
        "jit_failed",
        (
            "ninja",
            "nvcc",
            "cppcompileerror",
            "calledprocesserror",
            "passmanager",
            "error compiling",
            "error building extension",
            "compilation failed",
            "kernel_runtime",
        ),
        r"ninja: build stopped|ninja build failed|NVCC compilation failed|CppCompileError"
        r"|CalledProcessError: .{0,200}(?:ninja|nvcc|gcc|g\+\+|ptxas)|error (?:compiling"
        r"|building extension)|(?:kernel|jit) compilation failed|PassManager::run failed|ninja exited with status \d|kernel_runtime\.hpp",
        "wrapper",
        yields_to=_JIT,
    ),
    sign("driver_missing", "nvidia-container-cli", r"nvidia-container-cli: ", sources=("unit", "systemd"), hint=CONTAINER_HINT),
)
