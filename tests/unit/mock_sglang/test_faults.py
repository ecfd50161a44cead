# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault says what the real server says, and ends as it ends."""

from __future__ import annotations

import concurrent.futures
import re

import pytest
from sglang.standin.arguments import parse
from sglang.standin.fault_table import FAULTS
from sglang.standin.faults import Faults
from sglang.standin.knobs import Knobs
from sglang.standin.layout import Layout

AT_ONCE = 4
KILLED, ERROR = -9, 1
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
CRASH = r"Subprocess scheduler_0 \(pid=\d+\) crashed with exit code %d\. Triggering SIGQUIT for cleanup"
OOM = r"CUDA out of memory\. Tried to allocate [\d.]+ GiB\. GPU 0 has a total capacity of 94\.97 GiB of which [\d.]+ MiB is free"

# fault -> exit status and what must stand in the log, in this order
ENDS = {
    "bad_flags": (2, [r"usage: sglang serve", r"^sglang serve: error: unrecognized arguments: --enable-ep-moe"]),
    "bad_pair": (ERROR, [r"Traceback", r"^AssertionError: Pipeline parallelism is not compatible with overlap schedule"]),
    "bad_sizes": (KILLED, [r"TP0\] Scheduler hit an exception: Traceback", r"^ValueError: tp_size 2 must be divisible by ep_size 3", SIGQUIT]),
    "unsupported_model": (KILLED, [r"^ValueError: Model architectures \['FooForCausalLM'\] are not supported for now\."]),
    "remote_code": (ERROR, [r"Please pass the argument `trust_remote_code=True` to allow custom code to be run\."]),
    "model_not_found": (ERROR, [r"^OSError: org/demo is not a local folder and is not a valid model identifier"]),
    "model_incomplete": (KILLED, [r"^RuntimeError: Cannot find any model weights with `org/demo`"]),
    "model_auth_missing": (
        ERROR, [r"GatedRepoError: 401 Client Error", r"Cannot access gated repo", r"^OSError: You are trying to access a gated repo"],
    ),
    "model_auth_denied": (ERROR, [r"GatedRepoError: 403 Client Error", r"not in the authorized list"]),
    "hub_unreachable": (ERROR, [r"Max retries exceeded with url", r"^OSError: We couldn't connect to 'https://huggingface\.co'"]),
    "kv_pool_too_small": (
        KILLED, [r"^RuntimeError: Not enough memory\. Please try to increase --mem-fraction-static\. Current value: mem_fraction_static=0\.882"],
    ),
    "crash_loop": (KILLED, [r"^RuntimeError: Not enough memory\. Please try to increase --mem-fraction-static"]),
    "cuda_oom": (KILLED, [r"Load weight begin", r"^torch\.OutOfMemoryError: " + OOM, SIGQUIT]),
    "graph_capture_oom": (KILLED, [r"graph begin", r"^Exception: Capture cuda graph failed: " + OOM, r"^Possible solutions:", SIGQUIT]),
    "graph_capture_failed": (KILLED, [r"^Exception: Capture cuda graph failed: CUDA error: operation not permitted"]),
    "runtime_oom": (KILLED, [r"ready to roll", r"^torch\.OutOfMemoryError: " + OOM, r"SIGQUIT received\. signum="]),
    "host_oom": (ERROR, [r"^RuntimeError: Rank 0 scheduler died during initialization \(exit code: -9\)\. If exit code is -9 \(SIGKILL\)"]),
    "gpu_busy": (KILLED, [r"^RuntimeError: The memory capacity is unbalanced\. Some GPUs may be occupied by other processes\."]),
    "missing_cuda_lib": (
        ERROR, [r"^ImportError: ", r"Could not load any common_ops library", r"ImportError: libnvrtc\.so\.12: cannot open shared object file"],
    ),
    "driver_too_old": (ERROR, [r"^RuntimeError: The NVIDIA driver on your system is too old \(found version 12040\)"]),
    "driver_mismatch": (KILLED, [r"Error 803: system has unsupported display driver"]),
    "fabric_manager": (KILLED, [r"Error 802: system not yet initialized"]),
    "gpu_count": (KILLED, [r"^torch\.AcceleratorError: CUDA error: invalid device ordinal"]),
    "gpu_lost": (KILLED, [r"ready to roll", r"^torch\.AcceleratorError: CUDA error: unspecified launch failure"]),
    "no_kernel_for_arch": (KILLED, [r"graph begin", r"no kernel image is available for execution on the device"]),
    "attention_backend": (KILLED, [r"^AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90"]),
    "shared_memory_limit": (KILLED, [r"^triton\.runtime\.errors\.OutOfResources: out of resource: shared memory"]),
    "jit_tool_missing": (KILLED, [r"^RuntimeError: Could not find nvcc and default cuda_home="]),
    "jit_ninja_missing": (KILLED, [r"^FileNotFoundError: \[Errno 2\] No such file or directory: 'ninja'"]),
    "jit_failed": (KILLED, [r"CalledProcessError: Command '\['ninja'", r"^ninja: build stopped"]),
    "nccl_error": (KILLED, [r"^torch\.distributed\.DistBackendError: NCCL error in: ProcessGroupNCCL\.cpp:\d+, unhandled system error"]),
    "nccl_timeout": (KILLED, [r"ready to roll", r"\[Rank 0\] Watchdog caught collective operation timeout: WorkNCCL", CRASH % -6]),
    "peer_lost": (KILLED, [r"DistNetworkError: Connection reset by peer"]),
    "rendezvous_timeout": (KILLED, [r"The client socket has timed out after 600000ms"]),
    "dist_port_in_use": (ERROR, [r"^ValueError: dist_init_port at 29500 is not available in 30 seconds"]),
    "port_in_use": (KILLED, [r"ERROR:    \[Errno 98\] error while attempting to bind on address", CRASH % -9]),
    "warmup_failed": (KILLED, [r"Uvicorn running", r"Initialization failed\. warmup error: Traceback"]),
    "http_proxy": (KILLED, [r"Initialization failed\. warmup error: Traceback", r"^AssertionError: res=<Response \[403\]>, res\.text='<html>"]),
    "dead_rank": (KILLED, [r"ready to roll", CRASH % -9, r"SIGQUIT received", r"Sleeping 5 seconds before crash diagnostics"]),
    "dead_detokenizer": (KILLED, [r"Subprocess detokenizer \(pid=\d+\) crashed with exit code -9", r"Waiting 60\.0 seconds for CUDA coredumps"]),
    "scheduler_crashed": (KILLED, [CRASH % -11]),
    "scheduler_segv": (KILLED, [CRASH % -11]),
    "watchdog": (KILLED, [r"Pyspy dump for PID \d+", r"Scheduler watchdog timeout \(self\.watchdog_timeout=300, self\.soft=False\)", r"SIGQUIT received"]),
    "exit0": (0, [r"^ValueError: tp_size 2 must be divisible by ep_size 3", SIGQUIT]),
    "exit": (7, [r"Load weight begin"]),
    "killed_unknown": (KILLED, [r"Load weight begin"]),
    "disk_full": (KILLED, [r"^OSError: \[Errno 28\] No space left on device"]),
    "cache_not_writable": (KILLED, [r"^PermissionError: \[Errno 13\] Permission denied: '/\.cache'"]),
    "no_permission": (KILLED, [r"^PermissionError: \[Errno 13\] Permission denied: 'org/demo/model-00001"]),
    "line": (KILLED, [r"^RuntimeError: 100 % \$broken"]),
    # the same words elsewhere
    "cuda_oom@graphs": (KILLED, [r"graph begin", r"^torch\.OutOfMemoryError"]),
    "cuda_oom@warmup": (KILLED, [r"Uvicorn running", r"^torch\.OutOfMemoryError", r"SIGQUIT received"]),
    "nccl_error@process": (ERROR, [r"^torch\.distributed\.DistBackendError"]),
    "driver_too_old@graphs": (KILLED, [r"graph begin", r"^RuntimeError: The NVIDIA driver", SIGQUIT]),
    "nccl_timeout@distributed": (ERROR, [r"Watchdog caught collective operation timeout", r"died during initialization \(exit code: -6\)"]),
    "killed_unknown@ready": (KILLED, [r"ready to roll"]),
}
# the ones that are really played: each way to end, in each phase; the others differ from them in their words alone
PLAYED = [
    "bad_flags", "remote_code", "missing_cuda_lib", "bad_sizes", "kv_pool_too_small", "cuda_oom", "graph_capture_oom", "runtime_oom",
    "host_oom", "gpu_busy", "nccl_error", "nccl_timeout", "port_in_use", "warmup_failed", "http_proxy", "dead_rank", "dead_detokenizer",
    "scheduler_segv", "watchdog", "exit0", "exit", "killed_unknown", "line", *(name for name in ENDS if "@" in name),
]
AROUND = (r"Load weight begin", r"graph begin", r"ready to roll", r"Traceback", SIGQUIT, CRASH % -11)
# faults that do not end by themselves: what is seen while they last
LASTING = {
    "download_stall": (None, [r"Fetching 30 files:  10%\|#         \| 3/30"]),
    "hang": (None, [r"Multi-thread loading shards:  \d\d% Completed"]),
    "hang@distributed": (None, [r"Init parallel begin"]),
    "hang@graphs": (None, [r"Capturing batches \(bs=\d+ avail_mem=[\d.]+ GB\):  \d\d%"]),
    "engine_dead": (200, [r"ready to roll", r"^torch\.AcceleratorError: CUDA error: device-side assert triggered"]),
    "wrong_model": (200, [r"ready to roll"]),
    "not_our_server": (200, [r"ready to roll"]),
}


def settings(name: str) -> dict:
    return {"MOCK_SGLANG_FAULT": name, "MOCK_SGLANG_FAULT_LINE": "RuntimeError: 100 % $broken", "MOCK_SGLANG_EXIT_STATUS": "7"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """All faults that end by themselves, several at a time: name -> (status, log, stamps)."""
    from mock_sglang.conftest import Standin

    folder = tmp_path_factory.mktemp("faults")

    def play(name: str):
        server = Standin(folder / name, ["--tp-size", 2], {**settings(name), "MOCK_SGLANG_LOAD_SECONDS": "0.12", "MOCK_SGLANG_TIME_SCALE": "0.004"})
        try:
            status = server.end()
            server.until(lambda: "died" in server.stamps(), "stamp of death")
            return status, server.log(), server.stamps()
        finally:
            server.kill()

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(PLAYED, pool.map(play, PLAYED)))


def assert_in_order(text: str, patterns) -> None:
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        assert found, "%s\nnot found in\n%s" % (pattern, text)
        at = found.start()


@pytest.mark.parametrize("name", PLAYED)
def test_a_fault_ends_as_the_real_one(ended, name):
    status, log, stamps = ended[name]
    wanted_status, patterns = ENDS[name]
    assert_in_order(log, patterns)
    assert status == wanted_status
    assert stamps["died"] > stamps["started"]


@pytest.mark.parametrize("name", [name for name in ENDS if name not in PLAYED])
def test_a_fault_says_what_the_real_one_says(name):
    knobs = Knobs({**settings(name), "MOCK_SGLANG_FILE": ""})
    layout = Layout(parse(["--model-path", "org/demo", "--tp-size", "2"]), knobs)
    assert_in_order(Faults(knobs).traceback(layout, layout.ranks[0]), [pattern for pattern in ENDS[name][1] if pattern not in AROUND])


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_lasts(standin, name):
    ready, patterns = LASTING[name]
    server = standin("--tp-size", 2, **settings(name))
    for pattern in patterns:
        server.until(lambda: re.search(pattern, server.log(), re.MULTILINE), pattern)
    assert server.process.poll() is None
    if ready:
        assert server.status("/ready") == ready
    else:
        assert server.status("/ready") == 0


def test_every_fault_is_tested():
    elsewhere = {"slow_health", "drain_hang", "ignore_sigterm", "orphan", "eat_memory"}
    tested = {name.split("@")[0] for name in (*ENDS, *LASTING)} | elsewhere
    assert tested == set(FAULTS)


def test_an_unknown_fault_is_refused_with_the_known_ones(standin):
    server = standin(MOCK_SGLANG_FAULT="no_such_fault")
    assert server.end() == 1
    assert "unknown fault 'no_such_fault'; known: attention_backend, bad_flags" in server.log()


def test_only_the_first_starts_fail(standin, tmp_path):
    told = {**settings("cuda_oom"), "MOCK_SGLANG_FAULT_STARTS": "2", "MOCK_SGLANG_FAULT_COUNTER": str(tmp_path / "count")}
    assert [standin(**told).end(), standin(**told).end()] == [-9, -9]
    standin(**told).until_ready()


def test_the_knob_file_wins_over_the_environment(standin, tmp_path):
    knobs = tmp_path / "knobs"
    knobs.write_text("# the next start\nMOCK_SGLANG_FAULT=driver_too_old\n")
    assert standin(MOCK_SGLANG_FILE=str(knobs), MOCK_SGLANG_FAULT="cuda_oom").end() == 1


def test_the_noise_of_other_ranks_comes_below_the_cause(standin):
    log_of = {}
    for echoes in "10":
        server = standin("--tp-size", 4, MOCK_SGLANG_FAULT="cuda_oom", MOCK_SGLANG_FAULT_RANK="3", MOCK_SGLANG_ECHOES=echoes)
        server.end()
        log_of[echoes] = server.log()
    assert "TP3] Scheduler hit an exception" in log_of["1"]
    assert "GPU 3 has a total capacity" in log_of["1"]
    assert "TP0] Scheduler hit an exception" not in log_of["0"]


def test_a_dead_engine_answers_models_and_no_health(standin):
    server = standin("--tp-size", 2, **settings("engine_dead")).until_logged("device-side assert")
    assert server.status("/v1/models") == 200
    with pytest.raises(TimeoutError):
        server.ask("GET", "/health", timeout=1.2)
    with pytest.raises(TimeoutError):
        server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=0.2)


def test_health_gives_up_after_its_limit(standin):
    server = standin(SGLANG_HEALTH_CHECK_TIMEOUT="20", **settings("slow_health")).until_ready()
    assert server.status("/health") == 503
    assert "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds." in server.log()
    assert server.status("/ready") == 503


def test_what_another_server_says(standin):
    wrong = standin(**settings("wrong_model")).until_ready()
    assert wrong.json("GET", "/v1/models")["data"][0]["id"] == "somebody-elses-model"
    html = standin(**settings("not_our_server")).until_ready()
    assert html.ask("GET", "/v1/models")[1].startswith(b"<!DOCTYPE html>")


def test_the_node_s_own_faults_show(standin, tmp_path):
    (tmp_path / "file").write_text("")
    blocked = standin(SGLANG_CACHE_DIR=str(tmp_path / "file"))
    assert blocked.end() == -9
    assert re.search(r"^(NotADirectoryError|FileExistsError): \[Errno \d+\]", blocked.log(), re.MULTILINE)
