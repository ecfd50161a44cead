# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The signatures of the catalogue: which line of a journal or kernel log names which cause."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

# fatal: names a cause. evidence: seen from outside the process, beats what the process could only guess.
# wrapper: says that something failed whose real error stands in another line. weak: counts only when the unit ends and nothing
# better is known. doom: names no cause, but the server cannot live on.
KINDS = ("fatal", "evidence", "wrapper", "weak", "doom")


@dataclass(frozen=True)
class Signature:
    code: str
    cues: tuple[str, ...]  # one of these, in lower case, must be in the line before the regex is tried
    regex: re.Pattern
    kind: str = "fatal"
    proof: bool = False  # the process cannot survive what this line tells
    sources: tuple[str, ...] = ("unit",)
    hint: str = ""  # instead of the code's own
    yields_to: tuple[str, ...] = ()  # a wrapper: codes that take its place when they follow


def _sign(
    code: str,
    cues: Sequence[str] | str,
    regex: str,
    kind: str = "fatal",
    proof: bool = False,
    sources: tuple[str, ...] = ("unit",),
    hint: str = "",
    yields_to: tuple[str, ...] = (),
) -> Signature:
    words = (cues,) if isinstance(cues, str) else tuple(cues)
    return Signature(code, words, re.compile(regex, re.IGNORECASE), kind, proof, sources, hint, yields_to)


# Not what another service answered: a line that holds an address holds one of a hub.
_OF_A_HUB = r"^(?!.*https?://(?!\S{0,300}(?:hugging|\bhf\b|hub|modelscope|/resolve/|/api/models|/raw/|/tree/))).*"

_KERNEL = ("kernel", "systemd", "unit")
_LIBS = ("missing_cuda_lib", "no_kernel_for_arch", "driver_too_old", "jit_tool_missing")
_JIT = ("jit_failed", "jit_tool_missing", "disk_full", "cache_not_writable", "no_permission", "host_oom")
_NCCL_SAYS = ("nccl_error", "cuda_oom", "graph_capture_oom", "gpu_lost", "disk_full")
_NUMA_HINT = "Install the packages libnuma1 and numactl."
_MEMLOCK_HINT = "Set LimitMEMLOCK=infinity in the unit (memlock): limits.conf is not read for units."
_SHM_HINT = "Give /dev/shm more room, or free what earlier runs left there."
_HOST_MEMORY_HINT = "Give the unit more host memory (MemoryMax=, RAM), or use fewer loader threads, no CPU offload and smaller caches on the host."
_COMPILER_KILLED_HINT = (
    "The kernel killed the compiler, as a rule because the host ran out of memory (journalctl -k): give the unit more host memory (MemoryMax=, RAM), "
    "or let fewer compilers run at once (MAX_JOBS)."
)
_NOEXEC_HINT = "Let TMPDIR, TRITON_CACHE_DIR and SGLANG_CACHE_DIR of the unit lie on a file system that is not mounted noexec."
_TORCH_HINT = "Install the CUDA build of torch (the wheel of PyTorch's own index for this CUDA version) in a fresh virtual environment."
_COMPAT_HINT = "Update the driver and reboot, or take the cuda-compat libraries off the unit's library path: they work on data centre cards only."
_BUSY_HINT = "See who has the GPU (nvidia-smi), end it, and set the compute mode to Default (nvidia-smi -c 0)."
_NVML_HINT = "Give the service user access to /dev/nvidia* (its group, DeviceAllow=), or drop the unit's sandboxing of devices."
_CA_HINT = (
    "Give the unit the CA bundle of whoever signs on the way (a proxy of the company): REQUESTS_CA_BUNDLE and SSL_CERT_FILE in its environment; "
    "or serve a local copy."
)
_GLIBC_HINT = "The C library of this node is older than the wheels need: move to a newer release of the distribution, or run the server in a container."
_RATE_HINT = "The hub limits requests: set HF_TOKEN in the unit's secret environment and wait some minutes, or serve a local copy."
_PARTITION_HINT = "Correct SGLANG_PP_LAYER_PARTITION: one number per pipeline stage (pp_size of them), which add up to the model's layers; or leave it unset."
_ADDRESS_HINT = "Set --host to an address of this node (ip -br address lists them) or to 0.0.0.0: the one in the line is not on this node."
_NAME_HINT = "Make the host in dist_init_addr resolvable on every node (DNS or /etc/hosts: getent hosts NAME), or give the address itself."
_HOST_HINT = "Set --host to an address of this node or to 0.0.0.0: the name that was given cannot be resolved here (getent hosts NAME)."
_MOUNT_HINT = "Mount the file system of the model again (findmnt, the NFS server), then start the unit."
_MODULE_HINT = "The Python of the unit lacks this module: install that SGLang version in the virtual environment that ExecStart= names."
_OTHER_RANK_HINT = "Look at the rank that did not come: its own first error, its disk or mount; when it is only slow, raise dist_timeout."
_ALL_REDUCE_HINT = "Set disable_custom_all_reduce: these cards do not reach each other's memory (nvidia-smi topo -p2p r)."
_CUBIN_HINT = "Install flashinfer-cubin (and flashinfer-jit-cache) of the same version, or let the unit reach the address in the line (HTTPS_PROXY)."
_UVM_HINT = "Load the module nvidia_uvm (modprobe nvidia_uvm, nvidia-modprobe -u) and see that the unit may use /dev/nvidia-uvm; after a suspend, reboot."
_PIECEWISE_HINT = "Set disable_piecewise_cuda_graph, or another attention_backend."
_TRANSFORMERS_HINT = "Deploy a version of SGLang (and its transformers) that knows this model, and see that the model's folder is complete."
_IMPORT_HINT = "Wheels of different releases stand side by side: install this SGLang version with the versions it asks for in a fresh virtual environment."
_FILES_HINT = "Raise LimitNOFILE= of the unit (the role sets 1048576)."
_LOW_PORT_HINT = "Ports below 1024 need AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit; better choose a port from 1024 on."
_BUS_HINT = "Give /dev/shm more room (a bus error in shared memory means that it is full), then look at the core dump (coredumpctl)."
_DUMP_HINT = "Read the core dump (coredumpctl), the stacks above the line and the kernel log (Xid, segfault)."
_CUDA_ERROR_HINT = (
    "Read the traceback above the line, and the kernel log (Xid) for a failing card; CUDA_LAUNCH_BLOCKING=1 makes the traceback point to the kernel "
    "that failed."
)
_CUDA_HINT = "Install wheels and libraries of one CUDA major version in a fresh virtual environment; never upgrade single wheels in place."

CARD = (
    _sign(
        "jit_failed",
        ("403", "401", "404"),
        r"(?:flashinfer|cubin|nvidia\.com).{0,200}(?:401|403|404) Client Error",
        "weak",
        hint=_CUBIN_HINT,
    ),
    _sign("no_kernel_for_arch", "compute capability", r"unsupported compute capability"),
    _sign(
        "driver_missing",
        "cuda unknown error",
        r"CUDA unknown error(?!.{0,400}(?:error 80\d|driver combination|not yet initialized))",
        hint=_UVM_HINT,
    ),
    _sign("driver_too_old", "requirement error", r"nvidia-container-cli: requirement error", sources=("unit", "systemd")),
    _sign("hub_unreachable", "cas service error", r"CAS service error"),
    _sign(
        "graph_capture_oom",
        "piecewise",
        r"piecewise cuda graphs? failed.{0,80}(?:(?<!shared )(?<!illegal )memory\.|out of memory)",
        proof=True,
    ),
    _sign("graph_capture_failed", "piecewise", r"piecewise cuda graphs? failed", hint=_PIECEWISE_HINT),
    _sign(
        "unsupported_model",
        ("unrecognized configuration", "unrecognized image processor", "unrecognized processor", "rope_scaling", "rope_parameters"),
        r"^(?!.*trust).*unrecognized (?:configuration class|image processor|processor)|rope_(?:scaling|parameters).{0,6} (?:must be|should have|must have)",
        hint=_TRANSFORMERS_HINT,
        yields_to=("remote_code",),
    ),
    _sign("runtime_oom", "out of memory. try", r"(?:prefill|decode) out of memory"),
    _sign("jit_failed", ".h not found", r"Error: \S+\.h not found", hint=_CUBIN_HINT),
    _sign("exited", "cannot import name", r"ImportError: cannot import name", "plain", hint=_IMPORT_HINT),
    _sign("exited", "too many open files", r"too many open files", "plain", hint=_FILES_HINT),
    _sign(
        "attention_backend",
        "unsupported architecture",
        r"(?:fmha|mla|attention|trtllm|flash)\w*.{0,200}: unsupported architecture",
    ),
    _sign("no_kernel_for_arch", "unsupported architecture", r"\.(?:hpp|cuh?|h|cpp)\b.{0,60}: unsupported architecture"),
)

SIZES = (
    _sign(
        "bad_sizes",
        ("tensor parallel size", "quantized weight shape"),
        r"not aligned with the quantized weight shape|too large tensor parallel size",
    ),
    _sign(
        "bad_flags",
        " error: ",
        r"(?:sglang(?: serve|\.\S+)?|launch_server(?:\.py)?|server_args(?:\.py)?|__main__\.py|python\S*): error: (?P<flag>.+)",
        proof=True,
    ),
    _sign(
        "bad_flags",
        "error: ",
        r"^\S[^:]{0,80}: error: (?P<flag>(?:unrecognized arguments|ambiguous option|argument -|the following arguments are required|"
        r"one of the arguments|invalid choice|expected ).*)",
        proof=True,
    ),
    _sign("bad_flags", "[-h]", r"^usage: ", "weak"),
    _sign(
        "bad_flags",
        "divisible",
        r"(?:page_size|chunked[_-]prefill[_-]size|block_size|draft).{0,80}divisible|divisible.{0,60}(?:page_size|chunked[_-]prefill)",
    ),
    _sign("bad_sizes", "divisible", r"(?:must|should|has to|needs to|is not|are not|not|cannot) ?(?:be )?(?:evenly )?divisible"),
    _sign(
        "bad_sizes",
        ("please make sure", "== 0", "divid"),
        r"please make sure .{0,200}%|\w+(?:_size|_heads|experts)\w*(?:=\d+)?\)? ?% ?\w+(?:=\d+)? ?(?:==|!=) ?0|(?:heads|experts"
        r"|layers) .{0,60}cannot be divided",
    ),
    _sign(
        "bad_sizes",
        "partition",
        r"partitions?\b.{0,80}(?:does not|do not|doesn't|don't|must|should) (?:match|equal|sum|add)|invalid partition string"
        r"|SGLANG_PP_LAYER_PARTITION.{0,80}(?:must|should|invalid|match)",
        hint=_PARTITION_HINT,
    ),
    _sign(
        "bad_sizes",
        "assert",
        r"AssertionError: assert .{0,120}(?:head|expert|layer|_size|hidden|vocab|width|partition)\w*(?:\(\))? ?% ?.{1,80}== ?0",
    ),
    _sign("bad_sizes", ("--tp", "--ep"), r"by setting arguments .--tp. and .--ep."),
    _sign(
        "bad_sizes",
        ("_size", "experts", "layers", "pipeline"),
        r"(?:(?:tp|ep|pp|dp|attn_dp|moe_dp|moe_tp|world|tensor_parallel|expert_parallel|pipeline_parallel|data_parallel)[_ ]size\b.{0,80}"
        r"(?:must be|should be|cannot be|exceeds?|larger than|greater than|less than or equal|does not (?:match|equal|divide))"
        r"|number of (?:experts|layers|attention heads).{0,80}(?:must|less than|smaller than|not enough)"
        r"|(?:tensor|expert|pipeline) parallel(?:ism)? size.{0,80}(?:must|exceed|larger|greater|divid))",
    ),
)

MODEL = (
    _sign(
        "unsupported_model",
        ("architecture", "not recognize", "unrecognized model", "model type"),
        r"model architectures? .{0,200}(?:(?:is|are) not supported|failed to be inspected)|does not recognize this architecture"
        r"|unrecognized model in |unsupported (?:model )?architecture(?! .{0,60}(?:GPU|device|sm_))"
        r"|unrecognized configuration class|model type \S+ (?:is )?not supported",
    ),
    _sign(
        "remote_code",
        "trust",
        r"trust[_-]remote[_-]code.{0,8}=? ?.?True.{0,4}(?:to (?:allow|remove)|if)|consider setting .{0,2}trust_remote_code"
        r"|(?:pass|set|use|requires?|option|argument|needs?).{0,40}trust[_-]remote[_-]code|contains custom code which must be executed",
    ),
    _sign(
        "model_auth_denied",
        ("403", "authorized list", "awaiting", "invalid", "expired", "revoked"),
        r"GatedRepoError.{0,20}403|403 (?:Client Error|Forbidden).{0,120}|(?:not|nor) in the authorized list|awaiting a review"
        r"|invalid (?:user(?:name or password)?|credentials|token).{0,60}(?:hugging|hub|authorization|user access token)"
        r"|user access token.{0,20}(?:expired|revoked)"
        r"|invalid (?:credentials in authorization header|user token)|HTTPError: 401 (?:Client Error|Unauthorized).{0,300}invalid (?:user|credential|token)",
    ),
    # The hub says the same of a private model when no token was sent at all.
    _sign("model_auth_denied", "invalid username", r"^invalid username or password", "weak"),
    _sign(
        "model_auth_missing",
        ("401", "gated", "authenticated", "log in"),
        _OF_A_HUB + r"401 (?:Client Error|Unauthorized)|GatedRepoError|cannot access gated repo|access a gated repo|access to model \S+ is restricted"
        r"|must (?:have access|be authenticated|log ?in)|make sure you are authenticated",
        yields_to=("model_auth_denied",),
    ),
    _sign(
        "hub_unreachable",
        ("429", "too many requests", "rate limit"),
        r"429 Client Error|429 too many requests|(?:hub|hugging|hf\.co|modelscope|https?://).{0,200}(?:too many requests|rate limit)",
        hint=_RATE_HINT,
    ),
    _sign(
        "hub_unreachable",
        ("certificate verify failed", "certificate_verify_failed", "sslcertverification"),
        r"certificate verify failed|CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
        hint=_CA_HINT,
    ),
    _sign(
        "hub_unreachable",
        ("consistency check", "but has size"),
        r"consistency check failed|file should be of size \d+ but has size",
    ),
    _sign("hub_unreachable", "thrown while requesting", r"thrown while requesting (?:GET|HEAD|POST)", "weak"),
    _sign(
        "rendezvous_timeout",
        ("gai error", "name or service", "name resolution", "getaddrinfo", "nodename nor"),
        r"(?:DistNetworkError|client socket|TCPStore|c10d|init_method|failed to connect to any network address).{0,400}"
        r"(?:gai error|name or service not known|name resolution|getaddrinfo failed|nodename nor)",
        hint=_NAME_HINT,
    ),
    _sign(
        "port_in_use",
        ("name or service", "name resolution", "nodename nor", "no address associated"),
        r"^(?:ERROR:? +)?\[Errno -\d\] (?:name or service not known|temporary failure in name resolution|nodename nor|no address associated)",
        hint=_HOST_HINT,
    ),
    _sign(
        "hub_unreachable",
        (
            "max retries exceeded",
            "couldn't connect to",
            "cannot connect to",
            "localentrynotfound",
            "offlinemode",
            "cannot reach",
            "name resolution",
            "name or service",
            "network is unreachable",
            "server error",
            "gateway",
            "too many requests",
            "incompleteread",
            "chunkedencoding",
            "complete message body",
            "offline mode",
            "read timed out",
            "connection broken",
            "requests.exceptions",
            "httpx",
            "httpcore",
            "aiohttp",
            "urllib3",
        ),
        r"max retries exceeded with url|(?:couldn't|could not|cannot|can't) connect to .{0,4}https?://\S*(?:hugging|hf|modelscope|hub)"
        r"|LocalEntryNotFoundError"
        r"|OfflineModeIsEnabled|cannot reach https?://|temporary failure in name resolution|name or service not known|network is unreachable"
        r"|(?:429|5\d\d) (?:Client|Server) Error.{0,160}https?://|504 Gateway|IncompleteRead|ChunkedEncodingError|without sending complete message body"
        r"|offline mode is enabled|connection broken|https?.{0,80}read timed out"
        r"|^(?:requests\.exceptions|httpx|httpcore|aiohttp\.\w+|urllib3\.exceptions)\.\w*(?:Timeout|Connect\w*|ProxyError|ReadError"
        r"|MaxRetryError|ProtocolError|SSLError)\b",
    ),
    _sign(
        "model_not_found",
        ("404", "repository not found", "repositorynotfound", "revisionnotfound", "entrynotfound"),
        r"404 Client Error|RepositoryNotFoundError|RevisionNotFoundError|EntryNotFoundError|repository not found for url",
    ),
    _sign(
        "model_not_found",
        (
            "valid model identifier",
            "model weights",
            "path_or_model_id",
            "repo id must be",
            "repo_name",
            "does not appear to have a file",
            "valid json file",
            "safetensor",
            "deserializing",
            "model path",
            "no such file",
            "checkpoint",
            "can't load",
            "cannot load",
            "could not load",
            "couldn't load",
            "unable to load",
            "no file named",
            "found in",
            "not found in",
            "hfvalidation",
        ),
        r"is not a (?:local folder|valid model identifier)|cannot find any model weights|incorrect path_or_model_id"
        r"|repo id must (?:be in the form|use alphanumeric)"
        r"|HFValidationError|does not appear to have a file named|config file at .{0,300} is not a valid JSON|error while deserializing"
        r"|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader"
        r"|SafetensorError|model path .{0,300} (?:does not|doesn't|not) exist|no such file or directory: .{0,300}(?:config\.json"
        r"|\.safetensors|\.bin|\.gguf|tokenizer|\.index\.json|/models?/)"
        r"|(?:can't|cannot|could ?n[o']t|unable to) load (?:the )?(?:[\w-]+ ){0,2}(?:model|config(?:uration)?|tokenizer|processor|feature extractor|weights"
        r"|checkpoint|vocabulary)(?: file)? (?:for|of|from|at|in)|error no file named|no file named .{0,400} found in"
        r"|\bno (?:\S+ ){0,4}(?:safetensors|weights?|checkpoints?)(?: files?)? (?:were |was |could be )?found (?:in|at|under)"
        r"|(?:some|missing) (?:checkpoint|shard) files"
        r"|checkpoint .{0,200} (?:not found|is missing|does not exist)",
    ),
)

RULES = (
    _sign(
        "bad_flags",
        (
            "context_length",
            "chat template",
            "draft model",
            "is not compatible",
            "incompatible",
            "not supported",
            "multi-node",
            "cannot be used",
            "only one of",
            "not allowed",
            "mutually exclusive",
            "unsupported config",
            "is required",
            "requires",
            "must be one of",
        ),
        r"^(?:\S+\.)?(?:AssertionError|ValueError|RuntimeError|NotImplementedError|KeyError): (?P<flag>.{0,400}(?:"
        r"context_length .{0,80}greater than|chat template \S+ is not|is not compatible with|incompatible with|multi-node .{0,60}not supported"
        r"|cannot be (?:used|combined|enabled)|mutually exclusive|unsupported config option|requires? --\w"
        r"|must be (?:one of|used with|set|enabled|disabled)"
        r"|not supported (?:with|when|for|together)).{0,200})",
    ),
    _sign(
        "bad_flags",
        "--",
        r"^(?:[\w.]+(?:Error|Exception)|Exception|SystemExit): (?P<flag>"
        r".{0,200}--[a-z][\w-]* (?:is|are|was|were) (?:required|mandatory|missing|not given)\b.{0,160}"
        r"|.{0,80}(?:missing|required) (?:argument|option|flag|parameter)s?\b.{0,40}--[a-z].{0,160})",
    ),
)

MEMORY = (
    _sign(
        "kv_pool_too_small",
        ("not enough", "cache is too small", "no available memory for the cache"),
        r"not enough (?:gpu )?memory.{0,80}(?:increase|mem[-_]fraction)(?:.{0,120}mem_fraction_static=(?P<value>[\d.]+))?|state cache is too small"
        r"|no available memory for the cache",
        proof=True,
    ),
    _sign(
        "gpu_busy",
        ("unbalanced", "occupied by other"),
        r"(?:Error|Exception): .{0,40}(?:memory capacity is unbalanced|occupied by other processes|insufficient free gpu memory.{0,80}other process)",
        proof=True,
    ),
    _sign(
        "gpu_busy",
        ("unbalanced", "occupied by other"),
        r"memory capacity is unbalanced|occupied by other processes|insufficient free gpu memory.{0,80}other process",
        "weak",
    ),
    _sign(
        "gpu_busy",
        ("busy or unavailable", "devicesunavailable", "device_unavailable", "exclusive"),
        r"busy or unavailable|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|exclusive[- _](?:process|thread)",
        hint=_BUSY_HINT,
    ),
    _sign(
        "no_kernel_for_arch",
        ("kernel image", "kernelimage", "unsupported gpu architecture", "invalid device function", "no binary", "no_binary", "invalid_image"),
        r"no kernel image is available|kernel image is invalid|CUDA error: invalid device function|cudaErrorInvalidKernelImage|cudaErrorNoKernelImageForDevice"
        r"|CUDA_ERROR_(?:INVALID_IMAGE|NO_BINARY_FOR_GPU)|no binary for gpu",
    ),
    _sign(
        "no_kernel_for_arch",
        "compatible with the current pytorch",
        r"(?:Error|Exception): .{0,200}sm_\d+a? is not compatible with the current PyTorch",
    ),
    _sign("no_kernel_for_arch", "compatible with the current pytorch", r"sm_\d+a? is not compatible with the current PyTorch", "weak"),
    _sign(
        "graph_capture_oom",
        "graph",
        r"captur\w* (?:\w+ ){0,3}graphs? failed.{0,40}(?:(?<!shared )(?<!illegal )memory|MemoryAllocation|ALLOC_FAILED)",
        proof=True,
    ),
    _sign(
        "graph_capture_failed",
        "graph",
        r"captur\w* (?:\w+ ){0,3}graphs? failed|(?:cuda ?graph|stream).{0,40}capture.{0,30}(?:invalidated|unsupported|not permitted)",
        "wrapper",
        yields_to=("no_kernel_for_arch", "shared_memory_limit", "attention_backend", "jit_failed", "jit_tool_missing"),
    ),
    _sign(
        "cuda_oom",
        ("out of memory", "outofmemory", "memoryallocation", "alloc_failed", "out_of_memory", "curesult error"),
        r"CUresult error +result=2 "
        r"|(?:torch\.|c10::)?(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP)(?: error:| driver error:)? out of memory|cudaErrorMemoryAllocation"
        r"|CU(?:BLAS|DNN|SOLVER)_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY"
        r"|(?:\bcu(?:da|mem)\w*|\bhip\w*|\btriton)\b.{0,40}(?:error|fail\w*)\b.{0,160}\bout of memory\b",
    ),
    _sign(
        "host_oom",
        ("out of memory", "oom killer", "oom-kill", "oomd"),
        r"killed by the OOM killer|Failed with result 'oom-kill'|systemd-oomd killed|due to memory pressure|oom-kill(?:ed)? (?:event|process)",
        "evidence",
        sources=("systemd",),
    ),
    _sign(
        "host_oom",
        ("killed process", "oom-kill:"),
        r"(?:killed process \d+ \(|task=)(?:cicc|cc1\w*|ptxas|nvcc|nvlink|fatbinary|cudafe[^,)]*|ninja|as|ld[^,)]*|g\+\+[^,)]*|c\+\+[^,)]*|gcc[^,)]*"
        r"|clang[^,)]*)[,)]",
        "evidence",
        sources=("kernel", "systemd"),
        hint=_COMPILER_KILLED_HINT,
    ),
    _sign(
        "host_oom",
        ("killed process", "oom-kill:"),
        r"out of memory(?: \(oom_kill_allocating_task\))?: killed process \d+|oom[-_]kill.{0,200}task=",
        "evidence",
        True,
        ("kernel", "systemd"),
    ),
    _sign(
        "host_oom",
        ("memoryerror", "defaultcpuallocator"),
        r"^(?:\S+\.)?MemoryError\b|DefaultCPUAllocator: (?:can't|not enough)",
        "weak",
        hint=_HOST_MEMORY_HINT,
    ),
)

GPU = (
    _sign("driver_mismatch", "api mismatch", r"NVRM: API mismatch", "weak", sources=("kernel",)),
    _sign(
        "driver_mismatch",
        ("mismatch", "803", "driver combination"),
        r"driver/library version mismatch|Error 803\b|unsupported display driver|cuda driver combination",
        sources=_KERNEL,
    ),
    _sign(
        "fabric_manager",
        ("802", "not yet initialized", "fabric"),
        r"Error 802\b|system not yet initialized|fabric ?manager .{0,60}(?:not running|failed|mismatch)|CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    _sign(
        "driver_too_old",
        ("error 804", "forward compat", "compatnotsupported"),
        r"Error 804\b|forward compatibility was attempted|cudaErrorCompatNotSupportedOnDevice",
        hint=_COMPAT_HINT,
    ),
    _sign(
        "driver_too_old",
        ("driver", "ptx"),
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|provided PTX was compiled with an unsupported toolchain|driver .{0,60}is too old",
    ),
    _sign(
        "secure_boot",
        ("rejected by service", "unavailable key", "is rejected"),
        r"key was rejected by service|loading of (?:unsigned )?module (?:with unavailable key )?is rejected",
        sources=_KERNEL,
    ),
    _sign("module_conflict", "bound to", r"already bound to (?:NovaCore|nouveau|nova|vfio)", sources=_KERNEL),
    _sign("module_not_built", "modprobe", r"module nvidia\S* not found in directory", sources=_KERNEL),
    _sign(
        "driver_missing",
        ("driver", "no accelerator", "libcuda.so.1", "nvml"),
        r"found no NVIDIA driver|couldn't communicate with the NVIDIA driver|NVIDIA driver (?:is )?not (?:loaded|found|installed)"
        r"|no accelerator .{0,200}(?:is )?available"
        r"|libcuda\.so\.1: cannot open shared object|NVML Shared Library Not Found"
        r"|NVMLError_(?:LibraryNotFound|DriverNotLoaded)|NVML: Driver Not Loaded",
    ),
    _sign("no_permission", ("nopermission", "nvml"), r"NVMLError_NoPermission|NVML: Insufficient Permissions", hint=_NVML_HINT),
    _sign(
        "gpu_lost",
        ("fallen off", "gpu is lost", "gpuislost", "device handle", "uncorrectable", "ecc error", "requires reset", "hardware error", "hardware stack"),
        r"fallen off the bus|GPU is lost|NVMLError_GpuIsLost|unable to determine the device handle|uncorrectable (?:NVLink|ECC)|GPU requires reset"
        r"|peer GPU memory over nvlink|CUDA error: hardware stack error",
        "evidence",
        True,
        _KERNEL,
    ),
    _sign("gpu_lost", "xid", r"NVRM: Xid .{0,80}: (?:48|62|64|74|79|95|110|119|120|136|140|143|145)\b(?!.{0,80}\bnon-?fatal)", "evidence", True, ("kernel",)),
    _sign(
        "gpu_count",
        ("device ordinal", "no cuda gpus", "device_count", "visible devices", "gpus available"),
        r"invalid device ordinal|no CUDA GPUs are available|CUDA_VISIBLE_DEVICES.{0,80}invalid|no CUDA-capable device|(?:requires?"
        r"|needs?) \d+ GPUs?.{0,60}(?:only|available|found)",
    ),
    _sign(
        "jit_failed",
        ("cannot find -l", "undefined reference", "collect2", "ld returned", "ld: ", "ld.lld: ", "ld.gold: ", "mold: ", "nvlink "),
        r"\b(?:ld|ld\.\w+|lld|mold): (?:error|fatal|cannot|undefined|final link failed)|cannot find -l\w|undefined reference to|collect2: (?:fatal )?error"
        r"|ld returned \d+ exit|nvlink (?:error|fatal)",
    ),
    _sign(
        "missing_cuda_lib",
        "failed to import",
        r"^(?!(?:[A-Za-z_][\w.]*(?:Error|Exception)): ).{0,120}\bfailed to import\b.{0,300}cannot open shared object",
        "weak",
    ),
    _sign(
        "missing_cuda_lib",
        ("cannot open shared object", "undefined symbol", "libnuma"),
        r"(?P<lib>libnuma\.so[\w.]*): cannot open shared object file",
        hint=_NUMA_HINT,
    ),
    _sign("missing_cuda_lib", "glibc", r"version .GLIBC(?:XX)?_\S+ not found", hint=_GLIBC_HINT),
    _sign(
        "missing_cuda_lib",
        ("cannot open shared object", "undefined symbol", "common_ops", "version `"),
        r"(?P<lib>lib[\w.+-]+?\.so[\w.]*): cannot open shared object file|cannot open shared object file|undefined symbol:|version .GLIBC\S+ not found",
    ),
    _sign("missing_cuda_lib", "failed to map segment", r"failed to map segment from shared object", hint=_NOEXEC_HINT),
    _sign(
        "missing_cuda_lib",
        ("not compiled with", "built without", "compiled without", "built in"),
        r"torch (?:was )?not compiled with (?:CUDA|NCCL)|(?:built|compiled) without (?:CUDA|NCCL|GPU) support|doesn't have NCCL built in",
        hint=_TORCH_HINT,
    ),
    _sign(
        "missing_cuda_lib",
        ("minimum required version", "is less than the"),
        r"less than the minimum required version|with minimum required version .{0,80} is not installed",
        hint=_CUDA_HINT,
    ),
    _sign("missing_cuda_lib", "common_ops", r"could not load any common_ops library|failed to load .{0,60}common_ops", "wrapper", yields_to=_LIBS),
    _sign(
        "attention_backend",
        ("attention", "backend", "fmha", "mla", "sm>=", "sm_", "flash"),
        r"FlashAttention v\d Backend requires SM|backend (?:is )?only supported on|TllmGenFmhaRunner: Unsupported"
        r"|backend .{0,40}requires? (?:SM|compute capability|a Hopper|a Blackwell|Hopper|Blackwell)"
        r"|attention .{0,40}(?:is|are) (?:only|not) supported (?:on|by|for) (?:this|your|the|sm|hopper|blackwell|compute|device|gpu|cuda)"
        r"|unsupported (?:head_dim|compute capability|architecture) .{0,60}(?:attention|mla|fmha)"
        r"|(?:Error|Exception): .{0,80}(?:attention|flash|mla\b|fmha|trtllm).{0,60}(?:requires?|needs?|(?:only|not) support(?:s|ed)?"
        r"|supports only|only works?)\b.{0,40}(?:\bsm ?_?\d{2}|ampere|hopper|blackwell|\bada\b|turing|compute capability)",
    ),
    _sign(
        "no_kernel_for_arch",
        ("capability", "requires sm", "gpus with sm"),
        r"(?:Error|Exception): .{0,120}(?:(?:requires?|needs?|minimum) (?:\S+ ){0,4}(?:compute )?capability|requires? (?:GPUs? with )?sm_?\d{2})",
    ),
    _sign(
        "shared_memory_limit",
        ("outofresources", "out of resource"),
        r"out of resources?: shared memory|OutOfResources|too much shared (?:memory|data)",
    ),
    _sign(
        "jit_tool_missing",
        ("nvcc", "ninja", "cuda_home", "compiler", "no such file", "not found", "triton_ptxas"),
        r"could not find (?P<tool>nvcc)|CUDA_HOME environment variable is not set|assert .{0,20}(?:cuda_home|nvcc)\w* is not None"
        r"|No such file or directory: '?(?P<tool2>(?:[^\s']*/)?(?:nvcc|ninja|ptxas|gcc|g\+\+|c\+\+|cc|clang|cuobjdump|nvdisasm))'?(?:$"
        r"|[\s'])"
        r"|failed to find C compiler|(?P<tool3>ninja) is required to load|(?P<tool4>nvcc|ninja|gcc|g\+\+|ptxas): (?:command )?not found"
        r"|cannot find (?P<tool5>ptxas|nvcc|ninja)|no working C(?:\+\+|XX)? compiler|InvalidCxxCompiler",
    ),
    _sign(
        "jit_failed",
        ("signal 9", "signal 11", "killed signal", ": killed", "subcommand killed", "kill signal"),
        r"\b(?:cicc|ptxas|cc1\w*|cudafe\S*|fatbinary|nvlink|nvcc|ld|as)\W{1,3}(?:died|terminated|was killed|got killed)\b.{0,20}signal"
        r"|killed signal terminated program|(?:compiler error|fatal error): killed|ninja: .{0,40}killed",
        "wrapper",
        hint=_COMPILER_KILLED_HINT,
        yields_to=("host_oom",),
    ),
    _sign(
        "jit_failed",
        ("nvcc", "gcc", "cuda toolkit", "compiler"),
        r"(?:NVCC|GCC|G\+\+|CUDA toolkit|compiler) (?:version )?(?:\S+ ){0,3}(?:(?:should|must|needs|has) (?:to )?be (?:>|at least|newer)|is too old)"
        r"|(?:Error|Exception): .{0,80}requires? (?:NVCC|GCC|G\+\+|CUDA toolkit|a compiler)\b",
    ),
    _sign(
        "jit_failed", ("fatal", "error:"), r"fatal error: |ptxas fatal|nvcc fatal|\.(?:cuh?|cpp|cc|h|hpp)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error"
    ),
    _sign(
        "jit_failed",
        ("ninja", "calledprocesserror", "passmanager", "error compiling", "error building extension", "compilation failed", "kernel_runtime"),
        r"ninja: build stopped|ninja build failed|CalledProcessError: .{0,200}(?:ninja|nvcc|gcc|g\+\+|ptxas)|error (?:compiling"
        r"|building extension)|(?:kernel|jit) compilation failed|PassManager::run failed|ninja exited with status \d|kernel_runtime\.hpp",
        "wrapper",
        yields_to=_JIT,
    ),
)

NETWORK = (
    _sign(
        "nccl_timeout",
        ("watchdog", "collective", "timeout"),
        r"watchdog got stuck for \d+|hang blocking the watchdog|watchdog caught collective operation timeout"
        r"|collective operation timeout: WorkNCCL|some NCCL operations have failed or timed out",
        proof=True,
    ),
    _sign(
        "wrong_interface",
        ("interface", "address for", "connectfullmesh", "socket interface"),
        r"unable to find (?:address|interface)|no (?:such )?(?:socket )?(?:network )?interface.{0,40}(?:found|match)?"
        r"|(?:network )?interface .{0,40}(?:not found|does not exist)|connectFullMesh failed",
        hint="",
    ),
    _sign(
        "wrong_interface",
        ("docker", "bridge", "using [0]", "bootstrap", "lo:127"),
        r"(?:NET/\w+|Bootstrap) ?: Using (?:\[0\])?(?:docker\w*|br-\w+|virbr\w*|veth\w*|cni\w*|lo)(?::|\b)",
        "weak",
    ),
    _sign(
        "wrong_interface",
        ("172.17.", "127.0."),
        r"(?:connect|remote|peer).{0,80}(?:172\.17\.\d|127\.0\.[01]\.1).{0,80}(?:refused|timed out|no route|failed)|(?:refused|timed out"
        r"|no route).{0,80}(?:172\.17\.\d|127\.0\.[01]\.1)",
        "weak",
    ),
    _sign("rendezvous_timeout", "store->get", r"store->get\(.{0,80}got error: .{0,80}time(?:d )?-?out", "weak"),
    _sign("peer_lost", "store->get", r"store->get\(.{0,80}got error: .{0,80}(?:reset|closed|refused|aborted|broken pipe|recv|unreachable|no route)", "weak"),
    _sign("rendezvous_timeout", "cannot be retrieved", r"network addresses of .{0,200} cannot be retrieved"),
    _sign(
        "rendezvous_timeout",
        ("timed out", "clients joined", "rendezvous", "timeout"),
        r"client socket has timed out after|timed out after .{0,60}waiting for clients|\d+/\d+ clients joined|rendezvous.{0,60}(?:timed? ?out|timeout|failed)"
        r"|wait timeout after \d+ ?ms, keys|store.{0,40}timed? ?out|failed to connect to .{0,80}:\d+.{0,40}timed out",
    ),
    _sign(
        "port_in_use",
        ("errno 99", "cannot assign requested"),
        r"\[Errno 99\].{0,60}\bbind|\bbind\w*\b.{0,160}cannot assign requested|cannot assign requested address.{0,80}\b(?:bind|tcp://)"
        r"|^OSError: \[Errno 99\]",
        hint=_ADDRESS_HINT,
    ),
    _sign(
        "port_in_use",
        ("bind", "addr='tcp:"),
        r"\[Errno 13\].{0,40}\bbind\b|\bbind\b(?! mount).{0,160}(?:permission denied|EACCES)|(?:permission denied|EACCES).{0,80}\bbind\b(?! mount)"
        r"|permission denied \(addr='tcp:",
        hint=_LOW_PORT_HINT,
    ),
    _sign(
        "port_in_use",
        ("bind", "no address added", "add port"),
        r"(?:failed|unable|could not|cannot|can't|couldn't) (?:to )?bind\b(?!.{0,30}(?:numa|cpu|core|thread|mem)).{0,80}(?:address|port|socket|:\d{2,5}\b)"
        r"|no address added out of total|failed to add port to server",
    ),
    _sign(
        "port_in_use",
        ("errno 98", "eaddrinuse", "in use", "already allocated", "is not available in", "failed to listen", "errno 48"),
        r"\[Errno (?:98|48)\].{0,200}|EADDRINUSE|address already in use|port (?:\d+ )?is already (?:in use|used|allocated)|bootstrap_port \d+ is already in use"
        r"|at (?P<number>\d+) is not available in \d+ seconds|server socket has failed to listen",
        proof=True,
    ),
    _sign("port_in_use", "in use", r"port (?P<number>\d+) is in use", "weak"),
    _sign("model_not_found", ("stale file handle", "transport endpoint"), r"stale file handle|transport endpoint is not connected", hint=_MOUNT_HINT),
    _sign("exited", "no module named", r"(?:python[\d.]*: |Error: )No module named '?sglang\b", hint=_MODULE_HINT),
    # The text of NCCL's "Last error:", which follows the exception.
    _sign("nccl_error", "ibv_reg_mr", r"^(?:Call to )?ibv_reg_mr\w* .{0,80}(?:failed|cannot allocate)", hint=_MEMLOCK_HINT),
    _sign(
        "nccl_error",
        ("shared memory segment", "/dev/shm"),
        r"^(?:Error(?: while|:)?.{0,40})(?:creating|opening|extend\w*|attach\w*|open) (?:shared memory (?:segment|object)|/dev/shm/nccl)",
        hint=_SHM_HINT,
    ),
    _sign(
        "nccl_error",
        ("ibv_reg_mr", "memlock", "cannot allocate memory"),
        r"ibv_reg_mr.{0,80}(?:failed|cannot allocate)|memlock",
        "weak",
        hint=_MEMLOCK_HINT,
    ),
    _sign(
        "nccl_error",
        ("shared memory segment", "/dev/shm"),
        r"(?:creating|opening|extending|open) shared memory (?:segment|object)|/dev/shm/nccl\S*.{0,60}(?:no space|failed)",
        "weak",
        hint=_SHM_HINT,
    ),
    _sign(
        "peer_lost",
        ("ncclremoteerror", "exiting prematurely", "remote process"),
        r"ncclRemoteError|remote process (?:has )?exit|connection closed by remote peer",
        "weak",
    ),
    _sign(
        "nccl_error",
        ("nccl", "distbackenderror"),
        r"DistBackendError|NCCL error|nccl(?:SystemError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument)|NCCL communicator was aborted",
        yields_to=_NCCL_SAYS,
    ),
    _sign("nccl_error", "peer access", r"peer access is not supported", hint=_ALL_REDUCE_HINT),
    _sign("nccl_error", ("ibv_", "nvshmem"), r"\bibv_\w+ failed|nvshmem .{0,40}(?:failed|error)|nvshmem setup", "weak"),
    _sign("nccl_error", "nccl warn", r"NCCL WARN(?!.{0,80}(?:plugin|libnccl-net|libnccl-tuner|libnccl-env|libibverbs))", "weak"),
    _sign(
        "peer_lost",
        ("connection", "recvvalue", "broken pipe", "no route to host", "lost connection", "heartbeat"),
        r"connection (?:was )?(?:reset|closed|aborted) by (?:remote )?peer|recvValue failed|no route to host|broken pipe"
        r"|failed to recv, got 0 bytes|heartbeat monitor timed out|lost connection to (?:rank|peer|node)",
        "weak",
    ),
)

SERVER = (
    _sign("watchdog", "watchdog timeout", r"(?<!soft )watchdog timeout ?\((?!.{0,200}soft ?= ?True)", proof=True),
    _sign(
        "watchdog", "watchdog", r"(?:scheduler|detokenizer|tokenizer)\w* watchdog.{0,60}(?:timed out|timeout)(?!.{0,200}soft ?= ?True)", proof=True
    ),
    _sign(
        "scheduler_crashed",
        ("crashed with exit code", "died during initialization", "initialization failed", "crashed with signal"),
        r"subprocess \S+ (?:\(pid=\d+\) )?crashed with (?:exit code|signal) ?(?P<exit>-?\d+)?|(?:scheduler|detokenizer"
        r"|worker)\S*(?: \S+)? died during initialization(?:.{0,20}exit code: ?(?P<exit2>-?\d+))?"
        r"|initialization failed\. please see the error messages above",
        "doom",
        True,
    ),
    _sign(
        "scheduler_crashed",
        ("device-side assert", "illegal memory", "launch failure", "misaligned", "illegal instruction"),
        r"^(?!.*captur\w* (?:\w+ ){0,3}graphs? failed).*"
        r"(?:CUDA error: (?:device-side assert|an illegal (?:memory|instruction)|unspecified launch failure|misaligned address)"
        r"|illegal memory access was encountered)",
        hint=_CUDA_ERROR_HINT,
    ),
    _sign("scheduler_crashed", "failed (exitcode", r"failed \(exitcode: (?P<exit>-?\d+)\) local_rank", "plain"),  # torchrun's word of a rank
    _sign("", "childfailederror", r"\bChildFailedError:", "echo"),
    _sign("scheduler_crashed", ("is dead", "exit code"), r"rank \d+ scheduler is dead|^Exit code: ?(?P<exit>-\d+)$", "doom", True),
    _sign("exited", "eoferror", r"^EOFError:?$", "echo"),  # the pipe from a process that is gone
    _sign(
        "scheduler_crashed",
        "finish loading",
        r"other ranks that didn't finish loading",
        "weak",
        hint=_OTHER_RANK_HINT,
    ),
    _sign("", "monitoredbarrier", r"reached monitoredBarrier, but", "echo"),
    _sign("warmup_failed", "warmup failed", r"server warmup failed; aborting", proof=True),
    _sign(
        "scheduler_crashed",
        "bus error",
        r"fatal python error: (?P<exit>bus error)|(?P<exit2>bus error) encountered|^(?P<exit3>bus error)\b",
        proof=True,
        hint=_BUS_HINT,
    ),
    _sign(
        "scheduler_crashed",
        ("corrupt", "invalid pointer", "double free", "smashing", "unaligned", "invalid size", "assertion", "received at time", "check failed", "segfault enc"),
        r"^(?:free|(?:m|re|c)alloc|malloc_consolidate|munmap_chunk|realloc|corrupted|double free or|_int_malloc|tcache)\b.{0,60}(?P<exit>invalid|corrupt\w*|unaligned"
        r"|double[- ]\w+|memory)|^\*{3} (?P<exit2>stack smashing|SIG[A-Z]+ received|buffer overflow)|\b(?P<exit3>Assertion [`'].{1,200}' failed)"
        r"|^[FE]\d{4} [\d:.]+ .{0,120}(?P<exit4>Check failed)|(?P<exit5>Segfault encountered)",
        proof=True,
        hint=_DUMP_HINT,
    ),
    _sign(
        "scheduler_crashed",
        ("segmentation fault", "fatal python error", "terminate called", "aborted", "core dumped"),
        r"fatal python error: (?P<exit>[^\n]{1,60})|(?P<exit2>segmentation fault)|(?P<exit3>terminate called) (?:after|without)|\((?P<exit4>core dumped)\)",
        proof=True,
        hint=_DUMP_HINT,
    ),
    _sign(
        "scheduler_crashed",
        ("segfault at", "general protection", "traps:"),
        r"\bsglang\S*\[\d+\]: (?P<exit>segfault) at|(?P<exit2>traps): sglang",
        "weak",
        True,
        sources=("kernel",),
    ),
    _sign(
        "scheduler_crashed",
        ("segfault at", "dumped core", "general protection"),
        r"(?:sglang|python|pt_)\S*\[\d+\]: (?P<exit>segfault) at|process \d+ \((?:sglang|python|pt_)[^)]{0,64}\).{0,60}(?P<exit2>dumped core)"
        r"|(?P<exit3>traps): (?:sglang|python)",
        "weak",
        sources=("kernel", "systemd"),
    ),
    _sign("", ("sigquit", "child failed"), r"received sigquit from a child|SIGQUIT received|it usually means (?:one|the) child failed", "doom", True),
)

# Before all that compilers, downloads and loaders say of it in their own words; not what NCCL says of its shared memory.
DISK = (
    _sign(
        "disk_full",
        ("errno 28", "no space left", "quota exceeded", "errno 122", "enospc", "edquot", "os error 28"),
        r"^(?!.{0,300}(?:/dev/shm/nccl|shared memory segment|NCCL (?:WARN|INFO))).*(?:\[Errno (?:28|122)\]|no space left on device|disk quota exceeded"
        r"|\bENOSPC\b|\bEDQUOT\b|os error 28\b)",
        sources=("unit", "systemd"),
    ),
)

NODE = (
    _sign(
        "cache_not_writable",
        ("permission denied", "read-only file system", "errno 13", "errno 30", "not writable", "cannot create", "not a directory"),
        r"(?:permission denied|read-only file system|not writable|cannot create)[^/~]{0,60}(?P<path>[~/][^'\"\s]{0,400}(?:cache|triton"
        r"|inductor|flashinfer|deep_gemm|torch_extensions|\.nv|\.config|\.local|/tmp)[^'\"\s]{0,300})"
        r"|(?P<path2>[~/][^'\"\s]{0,400}cache[^'\"\s]{0,300})['\"]? (?:is )?not writable"
        r"|(?:permission denied|read-only file system|not a directory|not writable|cannot create)[^/~]{0,60}(?P<path3>(?:/nonexistent|/dev/null/|/var/empty"
        r"|(?:/root|/home/[^/'\"\s]+)?/\.[a-z]|/root/?(?=['\"])|/home/[^/'\"\s]+/?(?=['\"])|~)[^'\"\s]{0,300})",
    ),
    _sign(
        "no_permission",
        ("permission denied", "errno 13", "errno 1]", "read-only file system", "operation not permitted", "errno 30"),
        r"^(?:\S+\.)?(?:PermissionError|OSError)\b.{0,40}(?:permission denied|not permitted"
        r"|read-only)[^/~]{0,20}(?P<path>[~/][^'\"\s]{0,600})?|\[Errno (?:1|13|30)\]|permission denied: ",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*DISK, *CARD, *SIZES, *SERVER, *MEMORY, *GPU, *MODEL, *NETWORK, *NODE, *RULES)
