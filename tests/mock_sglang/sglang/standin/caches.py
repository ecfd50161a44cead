# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders the real server compiles kernels into: the stand-in really writes there, so real faults of the node show."""

from __future__ import annotations

import os

KERNEL_BYTES = 65536


class Caches:
    """The kernel cache of this user."""

    def __init__(self, environ):
        home = environ.get("HOME", "/")
        self.folder = environ.get("SGLANG_CACHE_DIR") or os.path.join(home, ".cache", "sglang")

    def use(self) -> None:
        """Write one compiled kernel; raises what the system says when that cannot be done."""
        folder = os.path.join(self.folder, "triton")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "standin.cubin"), "wb") as kernel:
            kernel.write(b"\0" * KERNEL_BYTES)
            kernel.flush()
            os.fsync(kernel.fileno())
