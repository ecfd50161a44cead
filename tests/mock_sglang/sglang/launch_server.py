# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module entry point: ``python -m sglang.launch_server [flags]``."""

from __future__ import annotations

import sys

from sglang.standin.launch import launch

if __name__ == "__main__":
    sys.stderr.write(
        "%s:71: UserWarning: 'python -m sglang.launch_server' is still supported, but 'sglang serve' is the "
        "recommended entrypoint.\n  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n" % __file__
    )
    launch(sys.argv[1:])
