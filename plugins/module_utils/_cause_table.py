# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of causes: for each public code one sentence that says what is wrong and one that says what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CauseText:
    """``{names}`` in the sentences are filled in from what was seen and are empty where nothing was."""

    group: str
    summary: str
    hint: str


_SETTINGS = {
    "bad_flags": CauseText(
        "settings",
        "The server refused its command line{flag}.",
        "Correct {setting} in the strategy or its overrides: names and values differ between SGLang versions, and no restart heals it.",
    ),
    "bad_sizes": CauseText(
        "settings",
        "The parallel sizes do not fit each other, the model or the GPUs.",
        "Choose sizes that do fit{fits}: tp x pp divides by the nodes, tp by ep and by attention dp, the experts by ep, "
        "the experts' width by tp/ep (and by the quantisation block), the heads by tp.",
    ),
    "unsupported_model": CauseText(
        "settings",
        "This SGLang version does not know the model's architecture.",
        "Deploy a version that supports it (sglang_runtime_version), and read the lines above: a broken import can hide behind this one.",
    ),
    "remote_code": CauseText(
        "settings",
        "The model brings code of its own and the server was not told to run it.",
        "Set trust-remote-code: true in the strategy's flags if you trust the model's publisher.",
    ),
    "model_not_found": CauseText(
        "settings",
        "The model is not there or not complete.",
        "Check the path, that its file system is mounted and readable for the service user, and that the download is whole.",
    ),
    "model_auth_missing": CauseText(
        "settings",
        "The hub wants a token for this model and the unit gave none.",
        "Put HF_TOKEN into the unit's secret environment (a token in your own shell does not reach a unit), or serve a local copy.",
    ),
    "model_auth_denied": CauseText(
        "settings",
        "The hub refused the unit's token for this model.",
        "Ask for access or accept the licence with the token's account, or use another token; trying again does not help.",
    ),
    "hub_unreachable": CauseText(
        "settings",
        "The model hub cannot be reached, or the download stopped.",
        "Set HF_HUB_OFFLINE=1 (offline mode) if the model is on the node already, give the unit its HTTPS_PROXY, or serve a local copy.",
    ),
}
_MEMORY = {
    "kv_pool_too_small": CauseText(
        "memory",
        "The weights leave no room for the KV cache within the static memory fraction{value}.",
        "Raise mem_fraction_static, spread the model over more GPUs, or use a quantised model.",
    ),
    "cuda_oom": CauseText(
        "memory",
        "A GPU ran out of memory before the server was ready{gpu}.",
        "Lower mem_fraction_static or chunked_prefill_size, or spread the model over more GPUs.{others}",
    ),
    "graph_capture_oom": CauseText(
        "memory",
        "A GPU ran out of memory while capturing CUDA graphs{gpu}.",
        "Lower mem_fraction_static, or capture for smaller batches ({graph_bs}).{others}",
    ),
    "runtime_oom": CauseText(
        "memory",
        "A GPU ran out of memory while serving{gpu}.",
        "Lower mem_fraction_static or max_running_requests (chunked_prefill_size when it happens in prefill).{others}",
    ),
    "host_oom": CauseText(
        "memory",
        "The host ran out of memory (RAM, not the GPU's): a process of the unit was killed or got no more of it.",
        "Give the unit more host memory (MemoryMax=, RAM), or use fewer loader threads and no CPU offload.",
    ),
    "gpu_busy": CauseText(
        "memory",
        "Other processes hold memory on the GPUs.",
        "Stop the process that holds it{holders}, then start again; nvidia-smi names pid, name and MiB, ps the owner.",
    ),
}
_GPU = {
    "driver_missing": CauseText(
        "GPU and libraries",
        "No NVIDIA driver answers on this node.",
        "Install and load the driver, see that nvidia-smi works, and let the unit see /dev/nvidia*.",
    ),
    "driver_too_old": CauseText(
        "GPU and libraries",
        "The NVIDIA driver is too old for the CUDA version of the wheels.",
        "Update the driver (CUDA 13 needs 580 or newer), or install wheels built for the CUDA version it supports.",
    ),
    "driver_mismatch": CauseText(
        "GPU and libraries",
        "The loaded NVIDIA kernel module and the driver's libraries are of different versions.",
        "Reboot the node (installing again does not help), then hold the driver packages against unattended upgrades.",
    ),
    "module_not_built": CauseText(
        "GPU and libraries",
        "The NVIDIA kernel module was not built for the running kernel.",
        "Install the headers of the running kernel and build the module (dkms autoinstall).",
    ),
    "secure_boot": CauseText(
        "GPU and libraries",
        "Secure Boot refuses the NVIDIA kernel module because its key is not enrolled.",
        "Enrol the module's signing key (MOK), use signed module packages, or switch Secure Boot off.",
    ),
    "module_conflict": CauseText(
        "GPU and libraries", "Another kernel module owns the card.", "Blacklist that module (nouveau, nova_core), rebuild the initramfs and reboot."
    ),
    "fabric_manager": CauseText(
        "GPU and libraries", "The NVSwitch fabric is not initialised.", "Install and start the fabric manager in exactly the driver's version."
    ),
    "gpu_lost": CauseText(
        "GPU and libraries",
        "A GPU failed or fell off the bus{gpu}.",
        "Drain the node, read the Xid in the kernel log, then reset the card or reboot; replace it when it comes back.",
    ),
    "gpu_count": CauseText(
        "GPU and libraries",
        "The server wants more GPUs than it can see.",
        "Compare tp x pp x dp with CUDA_VISIBLE_DEVICES, base_gpu_id and nvidia-smi -L.",
    ),
    "missing_cuda_lib": CauseText(
        "GPU and libraries",
        "A shared library that the wheels need is missing or does not fit{lib}.",
        "Install wheels and CUDA libraries of one CUDA major version in a fresh virtual environment, or the package that holds the library.",
    ),
    "no_kernel_for_arch": CauseText(
        "GPU and libraries",
        "The installed kernels were not built for this card{capability}.",
        "Install builds of torch and sglang-kernel for this compute capability (the CUDA 13 ones), or choose another backend.",
    ),
    "attention_backend": CauseText(
        "GPU and libraries",
        "The chosen attention backend does not run on this card.",
        "Leave out the attention_backend (or other backend) that the line names, or choose one that this card and this model know, such as "
        "triton.",
    ),
    "shared_memory_limit": CauseText(
        "GPU and libraries",
        "A kernel needs more shared memory per block than this card has.",
        "Choose another attention_backend or moe_runner_backend, or deploy a newer SGLang.",
    ),
    "jit_tool_missing": CauseText(
        "GPU and libraries",
        "A tool for compiling kernels on the node is not found by the unit{tool}.",
        "Install it and put it on the unit's PATH (nvcc with CUDA_HOME, ninja, a C++ compiler); a login profile does not reach a unit.",
    ),
    "jit_failed": CauseText(
        "GPU and libraries",
        "A kernel could not be compiled on this node.",
        "Mend what the compiler says: headers (CUDA toolkit, python3-dev), a toolkit that knows this card, or host memory if a signal killed it.",
    ),
}
_NETWORK = {
    "nccl_error": CauseText(
        "ranks and network",
        "NCCL failed to move data between the ranks.",
        "Start once with NCCL_DEBUG=INFO; check LimitMEMLOCK=infinity (memlock), /dev/shm (shm), NCCL_P2P_LEVEL or NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1.",
    ),
    "nccl_timeout": CauseText(
        "ranks and network",
        "A collective operation between the ranks hung until its timeout.",
        "Look for an error of another rank first; an NCCL_P2P_LEVEL too high for the board (IOMMU, ACS) hangs like this, try NCCL_P2P_DISABLE=1.",
    ),
    "waiting_for_peer": CauseText(
        "ranks and network", "Ranks on another node have not come.", "Start the unit on {peer} and see that it reaches {address}."
    ),
    "rendezvous_timeout": CauseText(
        "ranks and network",
        "The ranks of the nodes gave up waiting for each other.",
        "Start all nodes within the limit, and check {address}, the firewall, nnodes and each node_rank.",
    ),
    "wrong_interface": CauseText(
        "ranks and network",
        "The ranks talk over a network interface that the nodes do not share.",
        "Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface that leads to the other nodes.",
    ),
    "peer_lost": CauseText(
        "ranks and network",
        "A rank on another node died or went away.",
        "Read the journal of the unit on {peer} first{inner}; this node only lost the connection.",
    ),
    "port_in_use": CauseText(
        "ranks and network",
        "The server could not bind a port{port}.",
        "Another process has it: stop the owner{owner} (ss -ltnp names it), or give this deployment another port block.",
    ),
}
_SERVER = {
    "foreign_listener": CauseText(
        "the server", "Port {number} is answered by a process outside this unit.", "Stop that process{owner}, or give this deployment another port."
    ),
    "not_our_server": CauseText(
        "the server",
        "What answers on port {number} is not the SGLang API.",
        "It said {got}; check the port, and whether a proxy or another web server answers in its place.",
    ),
    "wrong_model": CauseText(
        "the server",
        "The server offers another model than the expected one.",
        "It serves {found}, expected was {wanted}: correct served_model_name of the deployment, or the name that the wait expects.",
    ),
    "auth": CauseText(
        "the server",
        "The server refuses the API key of this wait{status}.",
        "Give the api_key option the key the server was started with; the server was left running.",
    ),
    "warmup_failed": CauseText(
        "the server",
        "The server's own first request failed, so it ended itself.",
        "Read its error; if the first compilation is slow set SGLANG_WARMUP_TIMEOUT=1800 and keep the JIT caches; "
        "if the answer is not the server's own, a proxy gave it (NO_PROXY in the unit).",
    ),
    "http_proxy": CauseText(
        "the server",
        "The server's own first request went through a proxy and failed.",
        "Set NO_PROXY and no_proxy in the unit to the bind address, 127.0.0.1, localhost and 0.0.0.0, or unset the proxy variables there.",
    ),
    "engine_dead": CauseText(
        "the server",
        "The HTTP server is up but the engine behind it is dead.",
        "Mend the first error of the rank that died (the line), then restart the unit.",
    ),
    "watchdog": CauseText(
        "the server",
        "A step of the scheduler hung and its watchdog ended the server.",
        "Find what hung (a collective, a first compilation) in the stacks above the line, a core dump or the kernel log (Xid); a longer "
        "watchdog_timeout only helps slow first steps.",
    ),
    "scheduler_crashed": CauseText(
        "the server",
        "A rank or another process of the server ended with an exception.",
        "Mend the error in the line; the traceback around it in the journal shows where it came from.",
    ),
    "graph_capture_failed": CauseText(
        "the server", "CUDA graphs could not be captured.", "Try another attention_backend, or start without CUDA graphs ({no_graphs})."
    ),
}
_UNIT = {
    "crash_loop": CauseText("the unit", "The unit crashes again and again{restarts}.", "{inner}{inner_hint}"),
    "start_limit": CauseText(
        "the unit",
        "systemd refuses to start the unit again, it failed too often{inner}.",
        "Mend the cause, then run systemctl reset-failed {unit} and start it again.",
    ),
    "unit_exec": CauseText("the unit", "systemd could not run the service{step}.", "{step_hint}"),
    "unit_missing": CauseText(
        "the unit", "There is no unit {unit} on this node.", "Deploy it first, run systemctl daemon-reload, or correct the name."
    ),
    "unit_masked": CauseText("the unit", "The unit {unit} is masked.", "Find out who masked it, then run systemctl unmask {unit}."),
    "exited": CauseText(
        "the unit",
        "The server process ended{how}{why}.",
        "Read the last lines of the journal; whatever the exit status, an end during the start is a failure.",
    ),
    "killed_unknown": CauseText(
        "the unit",
        "The server process was killed{how} and {journal} holds no cause.",
        "Look into the kernel log (journalctl -k) and ask who or what sends signals on this node.",
    ),
    "stopped": CauseText(
        "the unit",
        "Somebody stopped or restarted the unit during the wait.",
        "Find out who or what did (another play, a timer, a person), then start it again.",
    ),
    "disk_full": CauseText(
        "the unit",
        "A file system of the node is full.",
        "Free space or raise the quota where the line points (download folder, caches, /tmp, /dev/shm).",
    ),
    "cache_not_writable": CauseText(
        "the unit",
        "A cache folder cannot be written by the service user{path}.",
        "Give the unit HOME and CacheDirectory=, and point SGLANG_CACHE_DIR, TRITON_CACHE_DIR and HF_HOME below a folder its user owns.",
    ),
    "no_permission": CauseText(
        "the unit",
        "The service user may not use a file{path}.",
        "Correct owner and mode of that path, or the unit's ProtectSystem= and ReadWritePaths=.",
    ),
    "journal_unreadable": CauseText(
        "the unit",
        "The unit's journal could not be read in full.",
        "Run as root or a member of systemd-journal, and set LogRateLimitIntervalSec=0 in the unit; lines that were lost may hold the cause.",
    ),
    "error_pattern": CauseText(
        "the unit", "A line matched one of the error_patterns of this wait.", "See the line; the pattern was given with the task."
    ),
}
_STOPPING = {
    "stop_timeout": CauseText(
        "stopping",
        "The stop outlasted its limit and systemd killed the unit.",
        "Set TimeoutStopSec above the longest request, drain first, and use KillMode=mixed.",
    ),
    "stopped_forced": CauseText(
        "stopping",
        "The unit had to be killed after its stop limit.",
        "Check that its GPUs are free before the next start; set TimeoutStopSec above the longest request.",
    ),
    "stopped_unclean": CauseText(
        "stopping",
        "Ranks died before the server had drained, running requests were lost.",
        "Use KillMode=mixed, so that only the main process gets the SIGTERM.",
    ),
}
_POINT = {
    "lost_requests": CauseText("a benchmark point", "Some requests of the point failed.", "Read the errors by kind; the point is not ranked."),
    "server_restarted": CauseText(
        "a benchmark point", "The server restarted during the point.", "Find why it crashed; points before and after cannot be compared."
    ),
    "client_saturated": CauseText(
        "a benchmark point", "The load client itself was the bottleneck.", "Run it on an idle machine or with more processes."
    ),
    "short_output": CauseText("a benchmark point", "Answers were shorter than asked for.", "Let the client send ignore_eos."),
    "estimated_tokens": CauseText(
        "a benchmark point", "Tokens were estimated, the server reported no usage.", "Ask for usage in the stream (stream_options)."
    ),
    "cache_hits": CauseText(
        "a benchmark point", "Prompts were answered from the prefix cache.", "Use new prompts for each point, or flush the cache."
    ),
    "client_setup": CauseText("a benchmark point", "The client could not run the point.", "See the client's own error."),
    "aborted": CauseText("a benchmark point", "The point was broken off while it ran.", "See what ended it; run the benchmark again."),
    "not_run": CauseText("a benchmark point", "The point was left out, because of what happened before it.", "Mend that, then run the benchmark again."),
    "endpoint_gone": CauseText(
        "a benchmark point", "The server does not answer the benchmark.", "See that the unit is ready, and that host, port and scheme are right."
    ),
    "context_too_long": CauseText(
        "a benchmark point",
        "Prompt and answer together do not fit the server's context.",
        "Ask for shorter prompts or answers, or start the server with a longer context.",
    ),
}
_CHECK = {
    "not_checked": CauseText("a launch check", "Something could not be told before the start.", "Nothing; the start itself will show it."),
    "unit_changed": CauseText(
        "a launch check",
        "systemd's files of the unit are not as this collection wrote them.",
        "Run systemctl daemon-reload, or look at the drop-ins (systemctl cat); they are never removed.",
    ),
    "no_requests": CauseText(
        "a launch check",
        "The interpreter that runs the modules on the node cannot ask the server, because it has no requests.",
        "Install python3-requests for it, or set ansible_python_interpreter to one that has it.",
    ),
}

# The same code when a process did not end by an exception of Python but by a signal.
HARD_DEATH = CauseText(
    "the server",
    "A process of the server crashed{exit}.",
    "Read the lines above it, the core dump (coredumpctl) and the kernel log (Xid, segfault).",
)
# Where to look when a process ended by this signal and no line says why.
SIGNAL_HINTS: dict[str, str] = {
    "SIGSEGV": "Look at the core dump (coredumpctl info) and the kernel log (journalctl -k: segfault, Xid): a library crashed.",
    "SIGABRT": "Look at the core dump (coredumpctl info) and the lines above: a library gave up (a failed assertion, CUDA, NCCL, glibc).",
    "SIGBUS": "Give /dev/shm more room, or the disk behind a mapped file (a bus error means that it is full or gone); then look at coredumpctl info.",
    "SIGILL": "The binaries use instructions that this processor lacks: install builds for it (coredumpctl info names the library).",
    "SIGSYS": "The unit's SystemCallFilter= (or another seccomp filter) forbids a system call: the kernel log names it (audit, type=1326); loosen the filter.",
    "SIGFPE": "Look at the core dump (coredumpctl info): a library divided by zero.",
    "SIGTRAP": "Look at the core dump (coredumpctl info) and the kernel log (journalctl -k).",
    "SIGKILL": "SIGKILL leaves no core dump (coredumpctl): look for the OOM killer in the kernel log (journalctl -k), and ask who kills processes here.",
}

CAUSES: dict[str, CauseText] = {**_SETTINGS, **_MEMORY, **_GPU, **_NETWORK, **_SERVER, **_UNIT, **_STOPPING, **_POINT, **_CHECK}
