# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service needs in its environment that a login shell would have: search path, home, caches, and no proxy to itself."""

from __future__ import annotations

import os

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ITSELF = ("127.0.0.1", "localhost", "0.0.0.0", "::1")


def complete(environment: dict[str, str], venv: str, home: str, cache: str, host: str) -> dict[str, str]:
    """The environment with everything added that strategy and inventory left open."""
    cuda = environment.get("CUDA_HOME", "/usr/local/cuda")
    added = {
        "PATH": f"{venv}/bin:{cuda}/bin:{_SYSTEM_PATH}",
        "HOME": home,
        "CUDA_HOME": cuda,
        "XDG_CACHE_HOME": cache,
        # Weights from a hub are the same for every version of the server, compiled kernels are not.
        "HF_HOME": f"{os.path.dirname(cache)}/huggingface",
        "SGLANG_CACHE_DIR": f"{cache}/sglang",
        "FLASHINFER_WORKSPACE_BASE": cache,
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "PYTHONUNBUFFERED": "1",
    }
    # The server sends its first request to its own address, and kills itself when that is answered by a proxy.
    given = environment.get("NO_PROXY", environment.get("no_proxy", "")).split(",")
    direct = ",".join(dict.fromkeys(name.strip() for name in [*given, *_ITSELF, host] if name.strip()))
    return {**added, **environment, "NO_PROXY": direct, "no_proxy": direct}
