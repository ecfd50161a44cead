# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The speed model: output tokens per second by strategy and by the number of requests that run."""

from __future__ import annotations

import math

# (requests that run together, output tokens per second of them all) on 8 PCIe cards; the ranking is the field's
CURVES = {
    "tp": ((1, 26), (8, 187), (32, 577), (64, 745), (128, 808)),
    "tp_tuned": ((1, 98), (8, 470), (32, 905), (64, 1110), (128, 1230), (256, 1291)),
    "pp": ((1, 25), (8, 248), (32, 352), (64, 380)),
    "pp_async": ((1, 36), (8, 255), (32, 366), (64, 396)),
    "ep": ((1, 65), (8, 330), (32, 700), (64, 865), (128, 961)),
    "ep_tuned": ((1, 79), (8, 450), (32, 960), (64, 1260), (128, 1440), (256, 1538)),
    "ep_partial": ((1, 62), (8, 420), (32, 930), (64, 1240), (128, 1430), (256, 1531)),
}
LOAD_FACTORS = {"tp": 570 / 135, "pp": 90 / 135, "ep": 1.0, "ep_partial": 150 / 135}  # of an EP8 load
TUNED_FROM_STEPS = 4  # --num-continuous-decode-steps from which a strategy counts as tuned
PREFILL_TOKENS_PER_SECOND = {"tp": 9000.0, "pp": 12000.0, "ep": 14000.0}
PREFILL_OVERHEAD = 0.012
NO_GRAPH_FACTOR = 0.45
BEST_PEAK = 1538.0


def interpolate(curve, running: float) -> float:
    """The curve at a number of requests, straight between its points on a log scale of requests."""
    first, last = curve[0], curve[-1]
    if running <= first[0]:
        return first[1] * running
    if running >= last[0]:
        return float(last[1])
    for (left, low), (right, high) in zip(curve, curve[1:]):
        if running <= right:
            share = (math.log(running) - math.log(left)) / (math.log(right) - math.log(left))
            return low + share * (high - low)
    return float(last[1])


class SpeedModel:
    """How fast one replica is, from its sizes and the flags that matter."""

    def __init__(self, layout, scale: float = 1.0):
        args = layout.args
        self.family = "pp" if layout.pp > 1 else "ep" if layout.ep > 1 else "tp"
        partial = self.family == "ep" and layout.ep < layout.tp
        tuned = args.num_continuous_decode_steps >= TUNED_FROM_STEPS
        name = self.family
        if self.family == "pp" and args.pp_async_batch_depth > 0:
            name = "pp_async"
        elif partial:
            name = "ep_partial"
        elif tuned and self.family != "pp":
            name += "_tuned"
        self.curve_name = name
        self.load_factor = LOAD_FACTORS["ep_partial" if partial else self.family]
        if self.family == "tp":
            self.load_factor = 1 + (self.load_factor - 1) * min(layout.tp - 1, 7) / 7
        cards = (layout.tp * layout.pp / 8) ** 0.6
        self.scale = scale * cards * (1.0 if layout.graphs else NO_GRAPH_FACTOR)

    def tokens_per_second(self, running: int) -> float:
        """Output of all running requests together."""
        return interpolate(CURVES[self.curve_name], running) * self.scale if running else 0.0

    def step_seconds(self, running: int) -> float:
        """Time of one decode step, in which every running request gets one token."""
        return running / self.tokens_per_second(running)

    def prefill_seconds(self, tokens: int) -> float:
        """Time to read a prompt, of which the cached part is already left out."""
        return (PREFILL_OVERHEAD + tokens / PREFILL_TOKENS_PER_SECOND[self.family]) / max(self.scale, 1e-6)

    def utilisation(self, running: int) -> int:
        """What nvidia-smi would call GPU utilisation, in percent."""
        if not running:
            return 0
        if self.family == "pp":
            return min(98, int(6 + 90 * running / (running + 40)))
        return min(100, 82 + running)

    def power_share(self, running: int) -> float:
        """Part of the way from idle to full power; bubbles and waits for the bus draw little."""
        return min(1.0, self.tokens_per_second(running) / BEST_PEAK / max(self.scale, 1e-6))
