# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets tests import the checkout as ansible_collections.gpuops.sglang, wherever it lies."""

from __future__ import annotations

import os
import sys
from pathlib import Path

COLLECTIONS = Path(__file__).resolve().parents[1] / "playbooks" / "collections"

sys.path.insert(0, str(COLLECTIONS))
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(COLLECTIONS)
