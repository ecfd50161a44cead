# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Console script: ``sglang serve [MODEL] [flags]`` and ``sglang version``."""

from __future__ import annotations

import sys

from sglang.version import __version__


def _serve(argv: list[str]) -> None:
    if argv and not argv[0].startswith("-"):
        argv = ["--model-path", *argv]
    if "--model-type" in argv:
        at = argv.index("--model-type")
        argv = argv[:at] + argv[at + 2:]
    argv = [arg for arg in argv if not arg.startswith("--model-type=")]
    wants_help = "-h" in argv or "--help" in argv
    named = any(arg.split("=")[0] in ("--model-path", "--model") for arg in argv)
    if not named and not wants_help:
        # the real dispatcher looks for the model before it reads --config
        raise ValueError("Error: --model-path is required. Please provide the path to the model.")
    from sglang.standin.launch import launch

    launch(argv)


def main() -> None:
    """Entry point of the console script."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "serve":
        _serve(sys.argv[2:])
    elif command == "version":
        sys.stdout.write("sglang version: %s\n" % __version__)
    else:
        sys.stderr.write("usage: sglang {serve,version} ...\n")
        sys.exit(0 if command in ("-h", "--help") else 2)
