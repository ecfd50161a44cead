# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every source file says under which licence it stands, in its first lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TAG = "SPDX-License-Identifier: GPL-3.0-or-later"
COPYRIGHT = "Copyright: (c) 2026, gpuops.sglang contributors"
# Formats that take no comment, texts for readers, files made by a tool, and data recorded from elsewhere.
WITHOUT = {".json", ".jsonl", ".safetensors", ".md", ".rst", ".log", ".svg", ".png", ".txt", ".csv", ".pth"}
EXEMPT = {"COPYING", ".gitignore", "changelogs/changelog.yaml"}


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    bad = []
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if path.suffix in WITHOUT or name in EXEMPT or path.is_symlink() or not path.is_file():
            continue
        head = "".join(path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[:6])
        # An empty package marker has nothing to license.
        if path.stat().st_size and (TAG not in head or COPYRIGHT not in head):
            bad.append(name)
    for name in bad:
        print(f"{name}: copyright and SPDX line are not among the first six lines")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
