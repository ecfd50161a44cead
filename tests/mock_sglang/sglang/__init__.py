# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for SGLang: same command line, log lines and HTTP answers, no model behind them."""

from sglang.version import __version__

__all__ = ["__version__"]
