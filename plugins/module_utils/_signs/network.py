# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of ranks that do not reach each other, and of ports."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import FILES_HINT, sign

_NCCL_SAYS = ("wrong_interface", "driver_too_old", "nccl_error", "cuda_oom", "graph_capture_oom", "gpu_lost", "disk_full")
_MEMLOCK_HINT = "Set LimitMEMLOCK=infinity in the unit (memlock): limits.conf is not read for units."
_SHM_HINT = "Give /dev/shm more room, or free what earlier runs left there."
_NCCL_HINT = "Start once with NCCL_DEBUG=INFO; check LimitMEMLOCK=infinity (memlock), /dev/shm (shm), NCCL_P2P_LEVEL or NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1."
_ABORTED_HINT = "The communicator was ended because another rank failed: look at the first error of the other ranks."
_NCCL_VERSION_HINT = "The nodes run different versions of NCCL: install the same release of the wheels (nvidia-nccl) on all of them."
_NVLS_HINT = "Start the fabric manager in the driver's version, or leave out multicast over NVLink: NCCL_NVLS_ENABLE=0."
_NCCL_NET_HINT = "The ranks do not reach the address in the line: check the route, the firewall between the nodes and NCCL_SOCKET_IFNAME (the interface)."
_NCCL_IB_HINT = "Check NCCL_IB_GID_INDEX, NCCL_IB_HCA and the fabric (ibstat), or go without InfiniBand: NCCL_IB_DISABLE=1."
_NCCL_P2P_HINT = "These cards do not reach each other's memory (nvidia-smi topo -p2p r): set NCCL_P2P_DISABLE=1, or a lower NCCL_P2P_LEVEL."
_NCCL_TWICE_HINT = "Two ranks were given one GPU: check CUDA_VISIBLE_DEVICES, base_gpu_id and tp x pp x dp against the GPUs of the node."
_ADDRESS_HINT = "Set --host to an address of this node (ip -br address lists them) or to 0.0.0.0: the one in the line is not on this node."
_MOUNT_HINT = "Mount the file system of the model again (findmnt, the NFS server), then start the unit."
_MODULE_HINT = "The Python of the unit lacks this module: install that SGLang version in the virtual environment that ExecStart= names."
_ALL_REDUCE_HINT = "Set disable_custom_all_reduce: these cards do not reach each other's memory (nvidia-smi topo -p2p r)."
_LOW_PORT_HINT = "Ports below 1024 need AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit; better choose a port from 1024 on."

# What NCCL itself says, most of it behind "Last error:" in the line below its exception.
NCCL_SAID = (
    sign("nccl_error", "mismatched nccl version", r"mismatched NCCL version", hint=_NCCL_VERSION_HINT),
    sign("nccl_error", "ibv_create", r"^NCCL last error: .*ibv_create_\w+ .{0,60}cannot allocate memory", hint=_MEMLOCK_HINT),
    sign("nccl_error", "nvls", r"NCCL WARN .{0,120}NVLS|NVLS .{0,200}fabric manager", "weak", hint=_NVLS_HINT),
    sign("nccl_error", "peer access", r"NCCL WARN .{0,120}peer access is not supported", "weak", hint=_NCCL_P2P_HINT),
    sign("nccl_error", "communicator was aborted", r"NCCL communicator was aborted", "weak", hint=_ABORTED_HINT),
    sign("wrong_interface", "no socket interface", r"no socket interface found"),
    sign(
        "nccl_error",
        "nccl last error: ",
        r"^NCCL last error: .*(?:no route to host|connection refused|timed out|network is unreachable)",
        hint=_NCCL_NET_HINT,
    ),
    sign("nccl_error", "duplicate gpu", r"duplicate GPU detected", hint=_NCCL_TWICE_HINT),
    sign("nccl_error", "nccl last error: ", r"^NCCL last error: .*(?:ibv_modify|ibv_create|ibv_open|ibv_query|GID)", hint=_NCCL_IB_HINT),
    sign("nccl_error", "nccl last error: ", r"^NCCL last error: .*peer access is not supported", hint=_NCCL_P2P_HINT),
    sign("nccl_error", "nccl last error: ", r"^NCCL last error: .*too many open files", hint=FILES_HINT),
    sign("nccl_error", "ibv_reg_mr", r"^(?:NCCL last error: )?(?:Call to )?ibv_reg_mr\w* .{0,80}(?:failed|cannot allocate)", hint=_MEMLOCK_HINT),
    sign(
        "nccl_error",
        ("shared memory segment", "/dev/shm"),
        r"^(?:NCCL last error: )?(?:Error(?: while|:)?.{0,40})(?:creating|opening|extend\w*|attach\w*|open) (?:shared memory (?:segment|object)|/dev/shm/nccl)",
        hint=_SHM_HINT,
    ),
    sign("driver_too_old", "nccl last error: ", r"^NCCL last error: .*driver version is insufficient"),
    sign("fabric_manager", "nccl last error: ", r"^NCCL last error: .*(?:not yet initialized|failure 802)"),
    sign("cuda_oom", "nccl last error: ", r"^NCCL last error: .*Cuda failure.{0,40}out of memory"),
    sign("nccl_error", "nccl last error: ", r"^NCCL last error: (?!.*(?:closed by (?:remote )?peer|reset by peer|exited?\b)).+", hint=_NCCL_HINT),
)

NETWORK = (
    sign(
        "nccl_timeout",
        ("watchdog", "collective", "timeout"),
        r"watchdog got stuck for \d+|hang blocking the watchdog|watchdog caught collective operation timeout"
        r"|collective operation timeout: WorkNCCL|some NCCL operations have failed or timed out",
        proof=True,
    ),
    sign(
        "wrong_interface",
        ("interface", "address for", "connectfullmesh", "socket interface"),
        r"unable to find (?:address|interface)|no (?:such )?(?:socket )?(?:network )?interface.{0,40}(?:found|match)?"
        r"|(?:network )?interface .{0,40}(?:not found|does not exist)|connectFullMesh failed",
        hint="",
    ),
    sign(
        "wrong_interface",
        ("docker", "bridge", "using [0]", "bootstrap", "lo:127"),
        r"(?:NET/\w+|Bootstrap) ?: Using (?:\[0\])?(?:docker\w*|br-\w+|virbr\w*|veth\w*|cni\w*|lo)(?::|\b)",
        "weak",
    ),
    sign(
        "wrong_interface",
        ("172.17.", "127.0."),
        r"(?:connect|remote|peer).{0,80}(?:172\.17\.\d|127\.0\.[01]\.1).{0,80}(?:refused|timed out|no route|failed)|(?:refused|timed out"
        r"|no route).{0,80}(?:172\.17\.\d|127\.0\.[01]\.1)",
        "weak",
    ),
    sign("rendezvous_timeout", "store->get", r"store->get\(.{0,80}got error: .{0,80}time(?:d )?-?out", "weak"),
    sign("peer_lost", "store->get", r"store->get\(.{0,80}got error: .{0,80}(?:reset|closed|refused|aborted|broken pipe|recv|unreachable|no route)", "weak"),
    sign("rendezvous_timeout", "cannot be retrieved", r"network addresses of .{0,200} cannot be retrieved"),
    sign(
        "rendezvous_timeout",
        ("timed out", "clients joined", "rendezvous", "timeout"),
        r"client socket has timed out after|timed out after .{0,60}waiting for clients|\d+/\d+ clients joined|rendezvous.{0,60}(?:timed? ?out|timeout|failed)"
        r"|wait timeout after \d+ ?ms, keys|(?<!mooncake )store\b(?! server).{0,40}timed? ?out|failed to connect to .{0,80}:\d+.{0,40}timed out",
    ),
    sign(
        "port_in_use",
        ("errno 99", "cannot assign requested"),
        r"\[Errno 99\].{0,60}\bbind|\bbind\w*\b.{0,160}cannot assign requested|cannot assign requested address.{0,80}\b(?:bind|tcp://)"
        r"|^OSError: \[Errno 99\]",
        hint=_ADDRESS_HINT,
    ),
    sign(
        "port_in_use",
        ("bind", "addr='tcp:"),
        r"\[Errno 13\].{0,40}\bbind\b|\bbind\b(?! mount).{0,160}(?:permission denied|EACCES)|(?:permission denied|EACCES).{0,80}\bbind\b(?! mount)"
        r"|permission denied \(addr='tcp:",
        hint=_LOW_PORT_HINT,
    ),
    sign(
        "port_in_use",
        ("bind", "no address added", "add port"),
        r"(?:failed|unable|could not|cannot|can't|couldn't) (?:to )?bind\b(?!.{0,30}(?:numa|cpu|core|thread|mem)).{0,80}(?:address|port|socket|:\d{2,5}\b)"
        r"|no address added out of total|failed to add port to server",
    ),
    sign(
        "port_in_use",
        ("errno 98", "eaddrinuse", "in use", "already allocated", "is not available in", "failed to listen", "errno 48"),
        r"\[Errno (?:98|48)\].{0,200}|EADDRINUSE|address already in use|port (?:\d+ )?is already (?:in use|used|allocated)|bootstrap_port \d+ is already in use"
        r"|at (?P<number>\d+) is not available in \d+ seconds|server socket has failed to listen",
        proof=True,
    ),
    sign("port_in_use", "in use", r"port (?P<number>\d+) is in use", "weak"),
    sign("model_not_found", ("stale file handle", "transport endpoint"), r"stale file handle|transport endpoint is not connected", hint=_MOUNT_HINT),
    sign("exited", "no module named", r"(?:python[\d.]*: |Error: )No module named '?sglang\b", hint=_MODULE_HINT),
    sign(
        "nccl_error",
        ("ibv_reg_mr", "memlock", "cannot allocate memory"),
        r"ibv_reg_mr.{0,80}(?:failed|cannot allocate)|memlock",
        "weak",
        hint=_MEMLOCK_HINT,
    ),
    sign(
        "nccl_error",
        ("shared memory segment", "/dev/shm"),
        r"(?:creating|opening|extending|open) shared memory (?:segment|object)|/dev/shm/nccl\S*.{0,60}(?:no space|failed)",
        "weak",
        hint=_SHM_HINT,
    ),
    sign(
        "peer_lost",
        ("ncclremoteerror", "exiting prematurely", "remote process"),
        r"ncclRemoteError|remote process (?:has )?exit|connection closed by remote peer",
        "weak",
    ),
    sign(
        "nccl_error",
        ("nccl", "distbackenderror"),
        r"DistBackendError|NCCL error|nccl(?:SystemError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument)",
        yields_to=_NCCL_SAYS,
    ),
    sign("nccl_error", "peer access", r"peer access is not supported", hint=_ALL_REDUCE_HINT),
    sign("nccl_error", ("ibv_", "nvshmem"), r"\bibv_\w+ failed|nvshmem .{0,40}(?:failed|error)|nvshmem setup", "weak"),
    sign("nccl_error", "nccl warn", r"NCCL WARN(?!.{0,80}(?:plugin|libnccl-net|libnccl-tuner|libnccl-env|libibverbs))", "weak"),
    sign(
        "peer_lost",
        ("connection", "recvvalue", "failed to recv", "broken pipe", "no route to host", "lost connection", "heartbeat"),
        r"connection (?:was )?(?:reset|closed|aborted) by (?:remote )?peer|recvValue failed|no route to host|broken pipe"
        r"|failed to recv, got 0 bytes|heartbeat monitor timed out|lost connection to (?:rank|peer|node)",
        "weak",
    ),
)
