# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the true shape name the right cause, whichever rank wrote them and whatever stands around them."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._cause_table import CAUSES
from ansible_collections.gpuops.sglang.plugins.module_utils._causes import describe, version_words
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Context
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._signs import SIGNATURES
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Diagnosis

SCHEDULER = "[2026-11-29 10:02:11 TP3] Scheduler hit an exception: Traceback (most recent call last):"

LINES = [
    ("bad_flags", "sglang serve: error: ambiguous option: --pp could match --pp-size, --pp-max-micro-batch-size"),
    ("bad_flags", "launch_server.py: error: argument --attention-backend: invalid choice: 'fa5' (choose from 'triton', 'flashinfer')"),
    ("bad_flags", "sglang serve: error: the following arguments are required: --model-path/--model"),
    ("bad_flags", "AssertionError: Pipeline parallelism is not compatible with overlap schedule"),
    ("bad_flags", "ValueError: Unsupported config option: disable-cuda-graph"),
    ("bad_flags", "AssertionError: chunked_prefill_size must be divisible by page_size"),
    ("bad_sizes", "ValueError: tp_size 8 must be divisible by ep_size 3"),
    ("bad_sizes", "ValueError: Weight output_partition_size = 640 is not divisible by weight quantization block_n = 128."),
    ("bad_sizes", "AssertionError: 25 is not divisible by 8"),
    ("bad_sizes", "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (5)."),
    (
        "bad_sizes",
        "ValueError: The output_size of gate's and up's weights = 192 is not divisible by weight quantization block_n = 128, consider "
        "setting arguments `--tp` and `--ep`",
    ),
    (
        "unsupported_model",
        "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(['Llama'])",
    ),
    (
        "unsupported_model",
        "ValueError: The checkpoint you are trying to load has model type `kimi_k9` but Transformers does not recognize this architecture.",
    ),
    ("remote_code", "ValueError: Please pass the argument `trust_remote_code=True` to allow custom code to be run."),
    (
        "remote_code",
        "ValueError: Loading this model requires you to execute the configuration file in that repo. Set the option "
        "`trust_remote_code=True` to remove this error.",
    ),
    ("model_not_found", "OSError: /models/kimi is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"),
    ("model_not_found", "RuntimeError: Cannot find any model weights with `/models/kimi`"),
    ("model_not_found", "OSError: It looks like the config file at '/models/badjson/config.json' is not a valid JSON file."),
    ("model_not_found", "FileNotFoundError: [Errno 2] No such file or directory: '/models/kimi/model.safetensors.index.json'"),
    ("model_not_found", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge"),
    ("model_auth_missing", "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-a)"),
    ("model_auth_missing", "OSError: You are trying to access a gated repo."),
    ("model_auth_denied", "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-a)"),
    ("hub_unreachable", "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub"),
    ("hub_unreachable", "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files."),
    ("hub_unreachable", "requests.exceptions.HTTPError: 504 Server Error: Gateway Time-out for url: https://huggingface.co/api/models/org/m"),
    ("hub_unreachable", "httpx.ConnectError: [Errno -2] Name or service not known"),
    ("kv_pool_too_small", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.7"),
    ("kv_pool_too_small", "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small for 1 request"),
    ("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 94.97 GiB"),
    ("cuda_oom", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"),
    ("graph_capture_oom", "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB"),
    ("graph_capture_oom", "Exception: Capture CUDA graphs failed: CUDA error: out of memory"),
    ("graph_capture_failed", "Exception: Capture cuda graph failed: CUDA error: operation not permitted when stream is capturing"),
    ("gpu_busy", "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=16.28"),
    ("driver_missing", "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"),
    ("driver_too_old", "RuntimeError: The NVIDIA driver on your system is too old (found version 12080)."),
    ("driver_too_old", "RuntimeError: CUDA driver version is insufficient for CUDA runtime version"),
    ("driver_mismatch", "RuntimeError: CUDA unknown error - Error 803: system has unsupported display driver / cuda driver combination"),
    ("driver_mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
    ("fabric_manager", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"),
    ("module_not_built", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-60-generic"),
    ("secure_boot", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"),
    ("gpu_lost", "RuntimeError: Unable to determine the device handle for GPU0000:81:00.0: Unknown Error"),
    ("gpu_count", "torch.AcceleratorError: CUDA error: invalid device ordinal"),
    ("gpu_count", "RuntimeError: No CUDA GPUs are available"),
    ("missing_cuda_lib", "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory"),
    ("missing_cuda_lib", "ImportError: /opt/x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"),
    ("missing_cuda_lib", "Exception: sglang-kernel is installed with version 0.4.1, which is less than the minimum required version 0.4.9"),
    ("no_kernel_for_arch", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("attention_backend", "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`."),
    ("attention_backend", "ValueError: TRTLLM MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."),
    ("attention_backend", "RuntimeError: TllmGenFmhaRunner: Unsupported architecture"),
    ("shared_memory_limit", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376"),
    ("jit_tool_missing", "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"),
    ("jit_tool_missing", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
    ("jit_tool_missing", "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"),
    ("jit_failed", "ptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'"),
    ("jit_failed", "/tmp/x/main.c:5:10: fatal error: Python.h: No such file or directory"),
    ("nccl_error", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error, NCCL version 2.30.7"),
    ("nccl_timeout", "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)"),
    ("rendezvous_timeout", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."),
    (
        "rendezvous_timeout",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 20000).",
    ),
    ("wrong_interface", "RuntimeError: Unable to find address for: ib0"),
    ("wrong_interface", "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"),
    ("port_in_use", "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use"),
    ("port_in_use", "ValueError: dist_init_port at 29500 is not available in 30 seconds"),
    ("watchdog", "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
    ("watchdog", "Watchdog timeout (self.watchdog_timeout=300)"),
    ("scheduler_crashed", "Fatal Python error: Segmentation fault"),
    ("disk_full", "OSError: [Errno 28] No space left on device: '/var/lib/sglang/.cache/huggingface'"),
    ("cache_not_writable", "PermissionError: [Errno 13] Permission denied: '/.cache'"),
    ("cache_not_writable", "OSError: [Errno 30] Read-only file system: '/root/.triton/cache'"),
    ("no_permission", "PermissionError: [Errno 13] Permission denied: '/models/kimi/config.json'"),
    ("disk_full", "/tmp/ccA.s: Fatal error: can't close decode.o: No space left on device"),
    ("disk_full", "RuntimeError: write failed: ENOSPC: '/var/cache/sglang/x'"),
    ("missing_cuda_lib", "AssertionError: Torch not compiled with CUDA enabled"),
    ("missing_cuda_lib", "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("missing_cuda_lib", "ImportError: /tmp/k/launcher.so: failed to map segment from shared object"),
    ("cuda_oom", "RuntimeError: Triton Error [CUDA]: out of memory"),
    ("cuda_oom", "RuntimeError: Failed: CUDA error /build/DeepEP/csrc/deep_ep.cpp:171 'out of memory'"),
    ("cuda_oom", "RuntimeError: cudaMalloc failed: out of memory"),
    ("model_not_found", "OSError: Can't load tokenizer for '/models/demo'."),
    ("model_not_found", "OSError: Unable to load image processor from '/models/demo'"),
    ("model_not_found", "OSError: Error no file named model.safetensors, or pytorch_model.bin, found in directory /models/demo."),
    ("hub_unreachable", "OSError: Consistency check failed: file should be of size 4949453792 but has size 77 (model.safetensors)."),
    ("bad_flags", "Exception: --model-path is required. Usage: sglang serve --model-path <path>"),
    ("bad_sizes", "ValueError: sum(partitions)=62 does not match num_hidden_layers=61."),
    ("gpu_busy", "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
    ("gpu_lost", "torch.AcceleratorError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error"),
    ("driver_too_old", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW"),
    ("driver_missing", "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found"),
    ("no_permission", "pynvml.NVMLError_NoPermission: Insufficient Permissions"),
    ("attention_backend", "RuntimeError: FlashAttention only supports Ampere GPUs or newer."),
    ("no_kernel_for_arch", "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"),
    ("no_kernel_for_arch", "ValueError: The quantization method fp8 is not supported for this GPU. Minimum capability: 89. Current capability: 80."),
    ("jit_tool_missing", "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx"),
    ("jit_failed", "RuntimeError: Assertion error (csrc/jit/compiler.hpp:88): NVCC version should be >= 12.3"),
    ("jit_failed", "/usr/bin/ld: cannot find -lcuda: No such file or directory"),
    ("jit_failed", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
    ("nccl_timeout", "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."),
    ("port_in_use", "RuntimeError: Failed to bind to address 0.0.0.0:50051; set GRPC_VERBOSITY=debug environment variable to see details."),
    ("port_in_use", "OSError: [Errno 99] error while attempting to bind on address ('10.9.9.9', 30000): cannot assign requested address"),
    ("port_in_use", "PermissionError: [Errno 13] error while attempting to bind on address ('0.0.0.0', 80): permission denied"),
    ("cache_not_writable", "PermissionError: [Errno 13] Permission denied: '/nonexistent'"),
    ("cache_not_writable", "PermissionError: [Errno 13] Permission denied: '/.config'"),
    ("cache_not_writable", "NotADirectoryError: [Errno 20] Not a directory: '/dev/null/.triton'"),
    ("peer_lost", "torch.distributed.DistBackendError: [1] is setting up NCCL communicator, but store->get('0') got error: Connection reset by peer"),
    ("rendezvous_timeout", "torch.distributed.DistBackendError: [1] is setting up NCCL communicator, but store->get('0') got error: Socket Timeout"),
    ("model_auth_denied", "huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: x Invalid credentials in Authorization header"),
]
KERNEL_LINES = [
    ("gpu_lost", "NVRM: Xid (PCI:0000:81:00): 79, pid=4242, name=sglang::schedul, GPU has fallen off the bus."),
    ("host_oom", "Out of memory: Killed process 4242 (sglang::schedul) total-vm:912345678kB"),
    ("host_oom", "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:912345678kB"),
    ("module_conflict", "NVRM: GPU 0000:01:00.0 is already bound to NovaCore."),
]
HARMLESS = [
    "[2026-11-29 10:00:00] server_args=ServerArgs(model_path='/m', trust_remote_code=True, api_key=None)",
    "[2026-11-29 10:00:00] Ignore import error when loading sglang.srt.models.grok: libcudart.so.12: cannot open shared object file: No "
    "such file or directory",
    "[2026-11-29 10:00:00] Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
    "gpu-1:4107:4300 [0] NCCL WARN NET/Plugin: Could not find: libnccl-net.so.",
    '[rank2]:[W105 10:00:02.100 ProcessGroupNCCL.cpp:1826] Failed to check the "should dump" flag on TCPStore, with error: Connection reset by peer',
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 10:05:00.",
    'INFO:     10.0.0.9:37694 - "GET /health HTTP/1.1" 503 Service Unavailable',
    "[2026-11-29 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00",
    "[2026-11-29 10:00:00] Receive: obj=GenerateReqInput(text='what does CUDA out of memory mean?')",
    "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1",
    "[2026-11-29 10:00:00] Can not initialize OpenAIServingResponses, error: No module named 'openai_harmony'",
    "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    "Retrying in 2s [Retry 2/5].",
    "gpu-1:4107:4300 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory",
    "libibverbs: Warning: couldn't load driver 'libmlx4-rdmav34.so': libmlx4-rdmav34.so: cannot open shared object file",
    "flashinfer.jit: [Autotuner]: Skipping tactic <MoERunner>, due to failure: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "mkdir -p failed for path /root/.config/matplotlib: [Errno 13] Permission denied: '/root/.config'",
    "Could not reach the Hub: Max retries exceeded with url: /api/models/org/m. Will try to load from local cache.",
    "[2026-11-29 10:00:08 TP0] Failed to save the autotune cache: [Errno 28] No space left on device: '/var/cache/sglang/autotune.json'",
    "[2026-11-29 10:00:12 TP0] Prefill CUDA graph capture failed, prefill graphs disabled: CUDA out of memory.",
    "[2026-11-29 10:00:00] Receive: obj=GenerateReqInput(text='Scheduler hit an exception: Traceback (most recent call last): KeyError: x')",
    "Finish: obj=EmbeddingReqInput(text='Scheduler hit an exception: CUDA out of memory')",
    "Failed to bind to NUMA node 1, the process runs on all cores",
    "ninja: no work to do.",
]


def diagnose(lines, source="unit", nnodes=1, **context):
    diagnosis = Diagnosis(nnodes=nnodes)
    for line in lines:
        diagnosis.feed(Entry(line, source), Context(run="1", **context))
    return diagnosis


@pytest.mark.parametrize(("code", "line"), LINES)
@pytest.mark.parametrize("prefix", ["", "[2026-11-29 10:02:11] ", "[2026-11-29 10:02:11 DP1 TP3] "])
def test_a_line_of_the_true_shape_names_its_cause(code, line, prefix):
    found = diagnose([prefix + line], nnodes=2).best("1")
    assert found is not None and found.code == code
    assert line[:60] in found.line


LAST_LINES = [pair for pair in LINES if pair[1].split(":")[0].endswith(("Error", "Exception", "OutOfResources"))]


@pytest.mark.parametrize(("code", "line"), LAST_LINES)
def test_the_exception_of_a_rank_names_its_cause_and_rank(code, line):
    frames = ['  File "/opt/x/scheduler.py", line 10, in run', "    raise something"]
    found = diagnose([SCHEDULER, *frames, line, "SIGQUIT received. signum=3, frame=None."], nnodes=2).best("1")
    assert (found.code, found.rank) == (code, "TP3")


@pytest.mark.parametrize(("code", "line"), KERNEL_LINES)
def test_the_kernel_names_a_cause(code, line):
    assert diagnose([line], source="kernel").best("1").code == code


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_looks_ill_names_no_cause(line):
    assert diagnose([line]).best("1") is None


def test_every_code_of_a_signature_is_in_the_catalogue_and_has_its_sentences():
    assert {signature.code for signature in SIGNATURES if signature.code} <= set(CAUSES)
    for code in CAUSES:
        summary, hint = describe(code, {"inner_hint": "x.", "step_hint": "x.", "journal": "the journal"})
        assert summary.endswith(".") and hint.endswith("."), code
        assert "{" not in summary + hint, code


def test_hints_about_memory_never_point_the_wrong_way():
    assert "Raise" in CAUSES["kv_pool_too_small"].hint
    for code in ("cuda_oom", "graph_capture_oom", "runtime_oom"):
        assert "Lower mem_fraction_static" in CAUSES[code].hint
        assert "raise" not in CAUSES[code].hint.lower()
    for word in ("lower", "smaller", "reduce"):
        assert word not in CAUSES["kv_pool_too_small"].hint.lower()


@pytest.mark.parametrize(
    ("context", "code"),
    [({"phase": "weights"}, "cuda_oom"), ({"capturing": lambda rank: True}, "graph_capture_oom"), ({"serving": True}, "runtime_oom")],
)
def test_the_moment_decides_what_out_of_memory_means(context, code):
    assert diagnose(["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."], **context).best("1").code == code


def test_flags_in_hints_have_the_names_of_the_version():
    assert version_words("0.5.23")["graph_bs"] == version_words("")["graph_bs"] == "cuda_graph_max_bs_decode"
    assert version_words("0.5.6.post2+cu129")["graph_bs"] == "cuda_graph_max_bs"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("[Errno 99] error while attempting to bind on address ('10.9.9.9', 30000): cannot assign requested address", "--host"),
        ("[Errno 13] error while attempting to bind on address ('0.0.0.0', 80): permission denied", "CAP_NET_BIND_SERVICE"),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "LimitMEMLOCK"),
        ("Error: failed to extend /dev/shm/nccl-x to 33030532 bytes, error: No space left on device (28)", "/dev/shm"),
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://hub.test/x", "HF_TOKEN"),
        ("ValueError: len(partitions)=3 does not match pp_size=4.", "SGLANG_PP_LAYER_PARTITION"),
        ("ImportError: /tmp/k/launcher.so: failed to map segment from shared object", "noexec"),
    ],
)
def test_a_line_can_bring_a_remedy_of_its_own(line, hint):
    assert hint in diagnose([line]).best("1").hint


def test_a_crash_is_told_otherwise_than_an_exception():
    exception = diagnose([SCHEDULER, "KeyError: 'lm_head.weight'"]).best("1")
    summary, hint = describe(exception.code, exception.words)
    assert "exception" in summary and "coredumpctl" not in hint and "Xid" not in hint
    for number in (-11, -6, -7):
        crash = diagnose([f"Subprocess scheduler_0 (pid=4242) crashed with exit code {number}. Triggering SIGQUIT for cleanup..."]).best("1")
        summary, hint = describe(crash.code, crash.words)
        assert f"(exit code {number})" in summary and "coredumpctl" in hint
    crash = diagnose(["Fatal Python error: Segmentation fault"]).best("1")
    assert describe(crash.code, crash.words)[0].endswith("(Segmentation fault).") and "coredumpctl" in crash.hint


def test_the_hint_names_the_flag_that_was_refused():
    found = diagnose(["sglang serve: error: argument --kv-cache-dtype: invalid choice: 'fp8' (choose from 'auto')"]).best("1")
    assert "Correct --kv-cache-dtype in" in describe(found.code, found.words)[1]
    assert "Correct that setting in" in describe("bad_flags", {})[1]


def test_an_exception_that_python_ignored_eats_no_line_and_is_not_told():
    diagnosis = diagnose(["Exception ignored in: <function Foo.__del__ at 0x7f>", "ninja: no work to do.", SCHEDULER, "KeyError: 'x'"])
    assert (diagnosis.best("1").code, diagnosis.warnings) == ("scheduler_crashed", [])


def test_the_first_error_wins_and_what_follows_is_counted():
    lines = [SCHEDULER, "ValueError: tp_size 8 must be divisible by ep_size 3"]
    for rank in range(7):
        lines += [
            f"[2026-11-29 10:02:12 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):",
            f"RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:{20100 + rank}",
        ]
    diagnosis = diagnose([*lines, "torch.OutOfMemoryError: CUDA out of memory."])
    assert (diagnosis.best("1").code, diagnosis.best("1").rank) == ("bad_sizes", "TP3")
    assert diagnosis.secondary() == 8


def test_the_same_line_of_many_ranks_is_one_finding_seen_many_times():
    lines = [
        line
        for rank in range(8)
        for line in (
            f"[10:02:12 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):",
            f"torch.OutOfMemoryError: CUDA out of memory. GPU {rank} has 1.0{rank} GiB free.",
        )
    ]
    found = diagnose(lines).best("1")
    assert (found.rank, found.seen) == ("TP0", 8)


def test_source_code_in_a_traceback_is_no_cause():
    lines = [
        SCHEDULER,
        '  File "/opt/x.py", line 1, in f',
        '    raise RuntimeError("Not enough memory. Please try to increase --mem-fraction-static")',
        "KeyError: 'lm_head.weight'",
    ]
    assert diagnose(lines).best("1").code == "scheduler_crashed"


def test_ranks_are_told_apart_by_process_when_their_lines_mix():
    diagnosis = Diagnosis()
    for pid, text in [
        (7, "[10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"),
        (9, "[10:00:00 TP2] Scheduler hit an exception: Traceback (most recent call last):"),
        (7, '  File "/a.py", line 1, in f'),
        (9, '  File "/b.py", line 2, in g'),
        (9, "OSError: [Errno 28] No space left on device"),
        (7, "KeyError: 'x'"),
    ]:
        diagnosis.feed(Entry(text, pid=pid), Context(run="1"))
    assert {(item.code, item.rank) for item in diagnosis.findings} == {("scheduler_crashed", "TP0"), ("disk_full", "TP2")}


def test_torchruns_own_prefix_is_a_rank():
    found = diagnose(
        [
            "[rank3]: Traceback (most recent call last):",
            '[rank3]:   File "/a.py", line 1, in f',
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory.",
        ]
    ).best("1")
    assert (found.code, found.rank) == ("cuda_oom", "rank3")


def test_a_failed_request_of_the_web_server_is_no_cause():
    assert (
        diagnose(
            [
                "ERROR:    Exception in ASGI application",
                "Traceback (most recent call last):",
                '  File "/a.py", line 1, in f',
                "ValueError: tp_size 8 must be divisible by ep_size 3",
            ]
        ).best()
        is None
    )


def test_patterns_of_the_user_come_first():
    diagnosis = Diagnosis([{"regex": r"LICEN[CS]E", "hint": "Renew it."}])
    diagnosis.feed(Entry("RuntimeError: LICENSE expired: CUDA out of memory"), Context(run="1"))
    assert (diagnosis.best("1").code, diagnosis.best("1").hint) == ("error_pattern", "Renew it.")


def test_it_can_be_kept_as_json_in_the_middle_of_a_traceback():
    lines = [SCHEDULER, '  File "/opt/x.py", line 1, in f', "ValueError: tp_size 8 must be divisible by ep_size 3"]
    kept = json.loads(json.dumps(diagnose(lines[:2]).dump()))
    other = Diagnosis()
    other.restore(kept)
    other.feed(Entry(lines[2]), Context(run="1"))
    assert (other.best("1").code, other.best("1").rank) == ("bad_sizes", "TP3")
