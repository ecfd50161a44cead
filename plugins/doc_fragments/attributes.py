# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the attributes that every module of the collection states."""

from __future__ import annotations


class ModuleDocFragment:

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and tells what it would do, or how things are, without changing anything.
  diff_mode:
    description: Returns details on what changes when in diff mode.
  platform:
    description: The systems that the module can work on.
    platforms: posix
    support: full
"""
