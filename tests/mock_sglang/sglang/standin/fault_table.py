# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault by name: where it strikes, how the process ends, and the words it leaves in the log."""

from __future__ import annotations


class Fault:
    """One way to fail."""

    def __init__(self, phase, end, error="", *, before=(), after=(), frame=("scheduler.py", "run_scheduler_process"), signal=0, plain=()):
        self.phase = phase  # where it strikes unless @phase says otherwise
        self.end = end  # exception, main_error, killed, hang, exit, usage, behaviour
        self.error = error  # text whose last line is the exception
        self.before = before  # log lines that come first
        self.after = after  # lines below the exception
        self.frame = frame  # where the traceback says it was
        self.signal = signal  # the rank's own death, for end killed
        self.plain = plain  # lines without time and rank, as libraries write them


OOM = (
    "CUDA out of memory. Tried to allocate {size} GiB. GPU {gpu} has a total capacity of 94.97 GiB of which "
    "{free} MiB is free. Including non-PyTorch memory, this process has 94.21 GiB memory in use. Of the allocated memory "
    "92.86 GiB is allocated by PyTorch, and 310.12 MiB is reserved by PyTorch but unallocated. If reserved but unallocated "
    "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
CAPTURE_HELP = (
    "Possible solutions:",
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)",
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge performance loss)",
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose ",
)
LOAD = ("model_runner.py", "load_model")
POOL = ("model_runner.py", "init_memory_pool")
CAPTURE = ("decode_cuda_graph_runner.py", "__init__")
FORWARD = ("scheduler.py", "event_loop_overlap")
HUB = ("hub.py", "cached_files")
NCCL_WATCHDOG = (
    "[rank{rank}]:[E{day} {clock} ProcessGroupNCCL.cpp:688] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=151721, OpType=ALLREDUCE, NumelIn=8080, NumelOut=8080, Timeout(ms)=600000) ran for 600049 "
    "milliseconds before timing out.",
    "[rank{rank}]:[E{day} {clock} ProcessGroupNCCL.cpp:702] [Rank {rank}] To avoid data inconsistency, we are taking the "
    "entire process down.",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
)

FAULTS = {
    # settings
    "bad_flags": Fault("process", "usage", "unrecognized arguments: --enable-ep-moe"),
    "bad_pair": Fault(
        "process", "main_error", "AssertionError: Pipeline parallelism is not compatible with overlap schedule",
        frame=("validation_hook.py", "check_pipeline_parallel_compat"),
    ),
    "bad_sizes": Fault("weights", "exception", "ValueError: tp_size {tp} must be divisible by ep_size 3", frame=LOAD),
    "unsupported_model": Fault(
        "weights", "exception",
        "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys(['DeepseekV3ForCausalLM', 'LlamaForCausalLM'])",
        frame=LOAD,
    ),
    "remote_code": Fault(
        "process", "main_error",
        "ValueError: The repository {model} contains custom code which must be executed to correctly load the model. You "
        "can inspect the repository content at https://hf.co/{model} .\n You can inspect the repository content at "
        "https://hf.co/{model}.\nPlease pass the argument `trust_remote_code=True` to allow custom code to be run.",
        frame=("dynamic_module_utils.py", "resolve_trust_remote_code"),
    ),
    "model_not_found": Fault(
        "process", "main_error",
        "OSError: {model} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'",
        frame=HUB,
    ),
    "model_incomplete": Fault(
        "weights", "exception", "RuntimeError: Cannot find any model weights with `{model}`", frame=LOAD
    ),
    "model_auth_missing": Fault(
        "process", "main_error",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6932a0c1-4f0d)\n\nCannot access "
        "gated repo for url https://huggingface.co/{model}/resolve/main/config.json.\nAccess to model {model} is "
        "restricted. You must have access to it and be authenticated to access it. Please log in.",
        after=("OSError: You are trying to access a gated repo.",),
        frame=HUB,
    ),
    "model_auth_denied": Fault(
        "process", "main_error",
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-6932a0c1-4f0d)\n\nCannot access "
        "gated repo for url https://huggingface.co/{model}/resolve/main/config.json.\nAccess to model {model} is "
        "restricted and you are not in the authorized list.",
        after=("OSError: You are trying to access a gated repo.",),
        frame=HUB,
    ),
    "hub_unreachable": Fault(
        "process", "main_error",
        "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max "
        "retries exceeded with url: /{model}/resolve/main/config.json (Caused by ConnectTimeoutError(...))\"))",
        after=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
            "cached files.",
        ),
        frame=HUB,
    ),
    "download_stall": Fault("process", "hang", plain=("\rFetching 30 files:  10%|#         | 3/30 [00:41<06:12, 13.8s/it]",)),
    # memory
    "kv_pool_too_small": Fault(
        "kv_cache", "exception",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "mem_fraction_static={fraction}",
        frame=POOL,
    ),
    "cuda_oom": Fault("weights", "exception", "torch.OutOfMemoryError: " + OOM, frame=LOAD),
    "graph_capture_oom": Fault("graphs", "exception", "Exception: Capture cuda graph failed: " + OOM, after=CAPTURE_HELP, frame=CAPTURE),
    "graph_capture_failed": Fault(
        "graphs", "exception",
        "Exception: Capture cuda graph failed: CUDA error: operation not permitted when stream is capturing",
        after=CAPTURE_HELP, frame=CAPTURE,
    ),
    "runtime_oom": Fault("ready", "exception", "torch.OutOfMemoryError: " + OOM, frame=FORWARD),
    "host_oom": Fault("weights", "killed", signal=9),
    "eat_memory": Fault("weights", "behaviour"),
    "gpu_busy": Fault(
        "distributed", "exception",
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_memory=16.28, local_gpu_memory=94.21, local_gpu_memory * 0.9=84.79",
        frame=("bootstrap.py", "_check_tp_memory_balance"),
    ),
    # GPU and libraries
    "missing_cuda_lib": Fault(
        "process", "main_error", "ImportError: ",
        after=(
            "[sgl_kernel] CRITICAL: Could not load any common_ops library!",
            "",
            "Attempted locations:",
            "1. Architecture-specific pattern: /opt/sglang/lib/sgl_kernel/sm100/common_ops.* - found files: "
            "['common_ops.abi3.so']",
            "GPU Info:",
            "- Compute capability: 120",
            "- Expected variant: SM120 (precise math for compatibility)",
            "Error details from previous import attempts:",
            "- ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory",
        ),
        frame=("load_utils.py", "_load_architecture_specific_ops"),
    ),
    "driver_too_old": Fault(
        "process", "main_error",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver by "
        "downloading and installing a new version.",
        frame=("cuda/__init__.py", "_lazy_init"),
    ),
    "driver_mismatch": Fault(
        "distributed", "exception",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda "
        "driver combination",
        frame=("cuda/__init__.py", "_lazy_init"),
    ),
    "fabric_manager": Fault(
        "distributed", "exception",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        frame=("cuda/__init__.py", "_lazy_init"),
    ),
    "gpu_lost": Fault(
        "ready", "exception", "torch.AcceleratorError: CUDA error: unspecified launch failure",
        before=("NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.",), frame=FORWARD,
    ),
    "gpu_count": Fault("distributed", "exception", "torch.AcceleratorError: CUDA error: invalid device ordinal", frame=("device.py", "set_device")),
    "no_kernel_for_arch": Fault(
        "graphs", "exception", "RuntimeError: RMSNorm failed with error code no kernel image is available for execution on the device",
        frame=("layernorm.py", "forward_cuda"),
    ),
    "attention_backend": Fault(
        "kv_cache", "exception",
        "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`.",
        frame=("attention_registry.py", "create_flashattention_v3_backend"),
    ),
    "shared_memory_limit": Fault(
        "graphs", "exception",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376. "
        "Reducing block sizes or `num_stages` may help.",
        frame=("compiler.py", "_init_handles"),
    ),
    "jit_tool_missing": Fault(
        "graphs", "exception", "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
        frame=("cpp_ext.py", "get_cuda_path"),
    ),
    "jit_ninja_missing": Fault(
        "graphs", "exception", "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", frame=("cpp_ext.py", "run_ninja")
    ),
    "jit_failed": Fault(
        "graphs", "exception",
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/var/cache/sglang/cached_ops', '-f', "
        "'build.ninja']' returned non-zero exit status 1.",
        after=(
            "FAILED: batch_prefill.cuda.o",
            "fatal error: curand_kernel.h: No such file or directory",
            "ninja: build stopped: subcommand failed.",
        ),
        frame=("cpp_ext.py", "run_ninja"),
    ),
    # ranks and network
    "nccl_error": Fault(
        "distributed", "exception",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.30.7",
        after=("ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",),
        frame=("pynccl.py", "__init__"),
    ),
    "nccl_timeout": Fault("ready", "killed", plain=NCCL_WATCHDOG, signal=6),
    "peer_lost": Fault(
        "distributed", "exception",
        "torch.distributed.DistNetworkError: Connection reset by peer [10.0.0.2]:29500", frame=("bootstrap.py", "init_torch"),
    ),
    "rendezvous_timeout": Fault(
        "distributed", "exception",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
        "(10.0.0.1, 29500).",
        frame=("rendezvous.py", "_create_c10d_store"),
    ),
    "dist_port_in_use": Fault(
        "process", "main_error", "ValueError: dist_init_port at 29500 is not available in 30 seconds. It is used by a process already.",
        frame=("network.py", "wait_port_available"),
    ),
    "port_in_use": Fault("bind", "behaviour"),
    # the server
    "wrong_model": Fault("bind", "behaviour"),
    "not_our_server": Fault("bind", "behaviour"),
    "slow_health": Fault("ready", "behaviour"),
    "warmup_failed": Fault("warmup", "behaviour"),
    "http_proxy": Fault("warmup", "behaviour"),
    "engine_dead": Fault("ready", "behaviour", "torch.AcceleratorError: CUDA error: device-side assert triggered", frame=FORWARD),
    "dead_rank": Fault("ready", "killed", signal=9),
    "dead_detokenizer": Fault("ready", "behaviour"),
    "scheduler_crashed": Fault("ready", "killed", signal=11),
    "scheduler_segv": Fault("ready", "killed", signal=11),
    "watchdog": Fault("ready", "behaviour"),
    # the unit
    "crash_loop": Fault(
        "kv_cache", "exception",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "mem_fraction_static={fraction}",
        frame=POOL,
    ),
    "exit0": Fault("weights", "behaviour", "ValueError: tp_size {tp} must be divisible by ep_size 3", frame=LOAD),
    "exit": Fault("weights", "exit"),
    "killed_unknown": Fault("weights", "behaviour"),
    "hang": Fault("weights", "hang"),
    "disk_full": Fault("weights", "exception", "OSError: [Errno 28] No space left on device", frame=("cache.py", "put")),
    "cache_not_writable": Fault("weights", "exception", "PermissionError: [Errno 13] Permission denied: '/.cache'", frame=("cache.py", "__init__")),
    "no_permission": Fault("weights", "exception", "PermissionError: [Errno 13] Permission denied: '{model}/model-00001-of-00064.safetensors'", frame=LOAD),
    "line": Fault("weights", "exception", "{line}"),
    # stopping
    "drain_hang": Fault("ready", "behaviour"),
    "ignore_sigterm": Fault("ready", "behaviour"),
    "orphan": Fault("ready", "behaviour"),
}
