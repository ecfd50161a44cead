# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The signatures of the catalogue: which line of a journal or kernel log names which cause."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.early import EARLY
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.gpu import GPU
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.memory import MEMORY
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.model import MODEL
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.network import NCCL_SAID, NETWORK
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.node import DISK, NODE
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.server import LAST_WORDS, SERVER
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.settings import RULES, SIZES
from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import Signature

# The first that fits a line wins, so the order counts.
SIGNATURES: tuple[Signature, ...] = (*NCCL_SAID, *DISK, *EARLY, *SIZES, *SERVER, *MEMORY, *GPU, *MODEL, *NETWORK, *NODE, *RULES, *LAST_WORDS)
