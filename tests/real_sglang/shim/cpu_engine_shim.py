# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets torchvision import beside a CPU build of torch: declares the two operators that its missing library would bring."""

from __future__ import annotations

import importlib.abc
import sys


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Finds nothing itself; it acts once, when torchvision is first asked for."""

    def find_spec(self, name, path=None, target=None):
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        import torch

        self.library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            try:
                self.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            except RuntimeError:  # a torchvision that fits its torch has declared it already
                pass
        # Libraries undo their declarations when collected.
        sys.modules[__name__].keep_alive = self
        return None


sys.meta_path.insert(0, _BeforeTorchvision())
