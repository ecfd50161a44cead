# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two kernel functions that a dense text model needs on a CPU; every other name fails only when it is called."""

from __future__ import annotations

import torch

__version__ = "0.0.0+cpu.shim"

# SGLang registers operators under this namespace and expects it to exist.
_namespace = torch.library.Library("sgl_kernel", "FRAGMENT")


def _slots(starts, ends):
    """Yield (row of the request, first position, last position, first slot, last slot) for each request of a batch."""
    slot = 0
    for row, (first, last) in enumerate(zip(starts.tolist(), ends.tolist())):
        yield row, first, last, slot, slot + last - first
        slot += last - first


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len):
    """Write the cache slots of each request into its row of the request table."""
    for row, first, last, low, high in _slots(start_offset, end_offset):
        req_to_token[int(req_pool_indices[row]), first:last] = out_cache_loc[low:high].to(req_to_token.dtype)


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len):
    """Read the cache slots of each request back from its row of the request table."""
    for row, first, last, low, high in _slots(start_offset, end_offset):
        out_cache_loc[low:high] = req_to_token[int(req_pool_indices[row]), first:last].to(out_cache_loc.dtype)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def not_on_a_cpu(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU version here")

    return not_on_a_cpu
