# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that limit a wait."""

from __future__ import annotations


class ModuleDocFragment:

    DOCUMENTATION = r"""
options:
  wait_timeout:
    description: Seconds after which a start that is not ready has taken too long; counted for each host from the beginning of its own wait.
    type: float
    default: 1800
  wait_sleep:
    description: Seconds between two requests while the server answers but is not ready. What systemd and the journal tell is seen at once.
    type: float
    default: 1
  stall_timeout:
    description:
      - Seconds without a new phase or any progress after which the start has stalled.
      - Without it, taken from earlier starts where O(history) knows some, else 600.
    type: float
  extend_while_progress:
    description: Whether a start that still moves may go on after O(wait_timeout).
    type: bool
    default: false
  restart_limit:
    description:
      - How many restarts by systemd are needed before the wait fails with RV(cause.code=crash_loop).
      - With V(0) the first end of the process fails the wait with its own cause.
    type: int
    default: 0
  probe_timeout:
    description: Seconds that one request may take. The server's own C(/health) may take 20 seconds before it says no.
    type: float
    default: 25
"""
