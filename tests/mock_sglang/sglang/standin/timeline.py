# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each phase of a load begins and ends, as parts of the load time that was asked for."""

from __future__ import annotations

import signal
import time

SHARES = (("process", 0.12), ("distributed", 0.06), ("weights", 0.50), ("kv_cache", 0.05), ("graphs", 0.20), ("warmup", 0.07))


class Timeline:
    """Monotonic end of every phase, the same for all ranks of a start."""

    def __init__(self, begin: float, seconds: float):
        self.seconds = seconds
        self.ends, share = {}, 0.0
        for phase, part in SHARES:
            share += part
            self.ends[phase] = begin + share * seconds

    def go_on_after(self, phase: str) -> None:
        """Let the phases after this one begin now, for a start that had to wait for others."""
        late = time.monotonic() - self.ends[phase]
        self.ends = {name: end + max(late, 0) for name, end in self.ends.items()}

    def length(self, phase: str) -> float:
        """Seconds the phase takes."""
        return dict(SHARES)[phase] * self.seconds

    def wait_end(self, phase: str) -> None:
        """Sleep until the phase is over."""
        self.sleep_until(self.ends[phase])

    @staticmethod
    def sleep_until(moment: float) -> None:
        """Sleep until a monotonic moment, which may be past."""
        left = moment - time.monotonic()
        if left > 0:
            time.sleep(left)


def defer_to_default(*numbers: int) -> None:
    """Give signals their default action, as a fresh process has it."""
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
