# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does for ansible-test what get-pip does, which it would download from elsewhere: installs pip from the wheel beside this file."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

own_options = ("--no-setuptools", "--no-wheel")
wheel = next(Path(__file__).resolve().parent.glob("pip-*.whl"))
sys.path.insert(0, str(wheel))
sys.argv[1:] = ["install", *(argument for argument in sys.argv[1:] if argument not in own_options)]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
