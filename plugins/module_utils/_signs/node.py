# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the node's files: full, read-only, not permitted."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import sign

# Before all that compilers, downloads and loaders say of it in their own words; not what NCCL says of its shared memory.
DISK = (
    sign(
        "disk_full",
        ("errno 28", "no space left", "quota exceeded", "errno 122", "enospc", "edquot", "os error 28"),
        r"^(?!.{0,300}(?:/dev/shm/nccl|shared memory segment|NCCL (?:WARN|INFO))).*(?:\[Errno (?:28|122)\]|no space left on device|disk quota exceeded"
        r"|\bENOSPC\b|\bEDQUOT\b|os error 28\b)",
        sources=("unit", "systemd"),
    ),
)

NODE = (
    sign(
        "cache_not_writable",
        ("permission denied", "read-only file system", "errno 13", "errno 30", "not writable", "cannot create", "not a directory"),
        r"(?:permission denied|read-only file system|not writable|cannot create)[^/~]{0,60}(?P<path>[~/][^'\"\s]{0,400}(?:cache|triton"
        r"|inductor|flashinfer|deep_gemm|torch_extensions|\.nv|\.config|\.local|/tmp)[^'\"\s]{0,300})"
        r"|(?P<path2>[~/][^'\"\s]{0,400}cache[^'\"\s]{0,300})['\"]? (?:is )?not writable"
        r"|(?:permission denied|read-only file system|not a directory|not writable|cannot create)[^/~]{0,60}(?P<path3>(?:/nonexistent|/dev/null/|/var/empty"
        r"|(?:/root|/home/[^/'\"\s]+)?/\.[a-z]|/root/?(?=['\"])|/home/[^/'\"\s]+/?(?=['\"])|~)[^'\"\s]{0,300})",
    ),
    sign(
        "no_permission",
        ("permission denied", "errno 13", "errno 1]", "read-only file system", "operation not permitted", "errno 30"),
        r"^(?:\S+\.)?(?:PermissionError|OSError|ZMQError)\b.{0,40}(?:permission denied|not permitted"
        r"|read-only)[^/~]{0,20}(?P<path>[~/][^'\"\s]{0,600})?|\[Errno (?:1|13|30)\]|permission denied: ",
    ),
)
