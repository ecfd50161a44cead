# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the pretended nvidia-smi which process holds how much memory on which card."""

from __future__ import annotations

import json
import os

from sglang.standin.processes import start_time

HOLDERS = "/run/fake-gpu"
FALLBACK = "/dev/shm/fake-gpu"  # a hardened unit may not write below /run
DEFAULT_COUNT = 8


def holder_folders(environ) -> list[str]:
    """Folders that are looked at, the preferred one first."""
    given = environ.get("FAKE_GPU_DIR")
    return [given] if given else [HOLDERS, FALLBACK]


def _writable_folder(environ) -> str:
    folders = holder_folders(environ)
    if not os.path.isdir(folders[0]):
        return ""  # no pretended cards on this machine
    for folder in folders:
        try:
            os.makedirs(folder, mode=0o1777, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            try:
                os.chmod(folder, 0o1777)
            except OSError:
                pass
            return folder
    return ""


def visible(environ) -> list[str] | None:
    """Cards this process may use, by index or uuid; None when all are visible."""
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return None
    return [word.strip() for word in listed.split(",") if word.strip()]


def card_count(environ) -> int:
    """Cards of this machine; 0 when nobody pretends any, and then none is missing either."""
    folders = holder_folders(environ)
    if not os.path.isdir(folders[0]):
        return 0
    for folder in folders:
        try:
            with open(os.path.join(folder, "gpus.json"), encoding="utf-8") as file:
                return len(json.load(file)["gpus"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return DEFAULT_COUNT


class NoCard:
    """What stands for the card of a rank that computes on the CPU."""

    exists = True

    def hold(self, mib: float) -> None:
        """Host memory is nobody's to count here."""

    def others_mib(self) -> int:
        return 0


class GpuMemory:
    """Memory of one rank on its card, written to a file that counts only while the rank lives."""

    def __init__(self, knobs, gpu: int, title: str):
        self.environ = knobs.environ
        seen = visible(self.environ)
        count = card_count(self.environ)
        self.exists = gpu < len(seen) if seen is not None else not count or gpu < count
        self.card = seen[gpu] if seen is not None and self.exists else str(gpu)
        self.linger = knobs.number("GPU_LINGER", 0)
        self.folder = _writable_folder(self.environ)
        self.record = {"pid": os.getpid(), "start": start_time(), "name": title, "card": self.card, "mib": 0}
        if self.linger:
            self.record["linger"] = self.linger

    def hold(self, mib: float) -> None:
        """Say how much this process holds now."""
        self.record["mib"] = int(mib)
        write_record(self.folder, "%d.json" % self.record["pid"], self.record)

    def others_mib(self) -> int:
        """Memory that other living processes hold on the same card."""
        held = 0
        for folder in holder_folders(self.environ):
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                held += self._held_by(os.path.join(folder, name))
        return held

    def _held_by(self, path: str) -> int:
        try:
            with open(path, encoding="utf-8") as file:
                other = json.load(file)
            if other["pid"] == self.record["pid"] or str(other["card"]) != self.card:
                return 0
            started = start_time(other["pid"])
            if not started or other.get("start", started) != started:
                return 0
            return int(other["mib"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def write_record(folder: str, name: str, record: dict) -> None:
    """Replace one file at a stroke, so that a reader never sees half of it."""
    if not folder:
        return
    path = os.path.join(folder, name)
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(path + ".new", path)
    except OSError:
        pass


class GpuLoad:
    """How busy this server keeps its cards, for utilisation and power."""

    def __init__(self, environ, cards: list[str]):
        self.folder = _writable_folder(environ)
        self.cards = cards
        self.pid, self.start = os.getpid(), start_time()
        self.last = None

    def tell(self, utilisation: int, power_share: float) -> None:
        """Write the figures when they changed."""
        figures = (utilisation, round(power_share, 2))
        if figures == self.last:
            return
        self.last = figures
        record = {"pid": self.pid, "start": self.start, "cards": self.cards, "utilisation": utilisation, "power_share": figures[1]}
        write_record(self.folder, "load-%d.json" % self.pid, record)
