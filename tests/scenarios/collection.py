# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the collection's code importable under its name from a checkout, wherever that lies."""

from __future__ import annotations

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _find_collection() -> None:
    """Make the checkout importable under the collection's name, wherever it lies."""
    path = ROOT
    for name in ("ansible_collections.gpuops.sglang", "ansible_collections.gpuops", "ansible_collections"):
        package = types.ModuleType(name)
        package.__path__ = [str(path)] if name.endswith("sglang") else []
        sys.modules.setdefault(name, package)


_find_collection()
_UTILS = "ansible_collections.gpuops.sglang.plugins.module_utils"
journal = __import__(f"{_UTILS}._journal", fromlist=["Decoder"])
readiness = __import__(f"{_UTILS}._readiness", fromlist=["Wait", "WaitOptions"])
observation = __import__(f"{_UTILS}._observation", fromlist=["UnitState"])
