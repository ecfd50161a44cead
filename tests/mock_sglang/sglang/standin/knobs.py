# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test can tell the stand-in through its environment, or through a file that wins over it."""

from __future__ import annotations

import os

KNOB_FILE = "/run/mock_sglang.env"
PHASES = ("process", "distributed", "weights", "kv_cache", "graphs", "bind", "warmup", "ready")


def _file_settings(path: str) -> dict[str, str]:
    settings = {}
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, found, value = line.strip().partition("=")
                if found and not name.startswith("#"):
                    settings[name.strip()] = value.strip()
    except OSError:
        pass
    return settings


class Knobs:
    """Settings by their name without the MOCK_SGLANG_ prefix, in lower case."""

    def __init__(self, environ=None):
        self.environ = dict(os.environ if environ is None else environ)
        self.environ.update(_file_settings(self.environ.get("MOCK_SGLANG_FILE", KNOB_FILE)))

    def text(self, name: str, default: str = "") -> str:
        """One setting as it was given."""
        return self.environ.get("MOCK_SGLANG_" + name, default)

    def number(self, name: str, default: float) -> float:
        """One setting as a number; what is no number is the default."""
        try:
            return float(self.text(name) or default)
        except ValueError:
            return default

    def flag(self, name: str, default: bool) -> bool:
        """One setting as yes or no."""
        return self.text(name, "1" if default else "0").lower() not in ("", "0", "no", "false")

    def sglang_number(self, name: str, default: float) -> float:
        """One of SGLang's own variables as a number."""
        try:
            return float(self.environ.get(name) or default)
        except ValueError:
            return default

    def sglang_flag(self, name: str, default: bool) -> bool:
        """One of SGLang's own switches."""
        return self.environ.get(name, "1" if default else "0").lower() in ("1", "true", "yes")

    def release(self) -> tuple[int, ...]:
        """The SGLang release whose manners are played, as numbers."""
        from sglang.version import __version__

        words = (self.text("VERSION") or __version__).split("+")[0].split(".")
        return tuple(int("".join(c for c in word if c.isdigit()) or 0) for word in words[:3])
