# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finished points on disk, so that a campaign that was cut off repeats none of them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from typing import Any

SAFE = re.compile(r"[^A-Za-z0-9._-]+")


def key_of(settings: dict[str, Any]) -> str:
    """A name for everything that makes two sweeps the same."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode("utf-8")).hexdigest()[:32]


def name_of(point: dict[str, Any]) -> str:
    """A point's name within its sweep."""
    return "%s@%s" % (point["concurrency"], point.get("request_rate"))


class Store:
    """One file per campaign and deployment; valid points of the same sweep in the same campaign are handed out again."""

    def __init__(self, folder: str, campaign: str, deployment: str, key: str) -> None:
        self.folder = os.path.join(folder, SAFE.sub("_", campaign) or "latest") if folder else ""
        self.path = os.path.join(self.folder, SAFE.sub("_", deployment) + ".json")
        self.key = key
        self.keeps = bool(campaign)
        self.trouble = ""
        self.points: dict[str, dict[str, Any]] = {}
        self._lock = -1
        self._open()

    def _open(self) -> None:
        if not self.folder:
            return
        try:
            os.makedirs(self.folder, mode=0o755, exist_ok=True)
            self._lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.trouble = "points are not kept on disk: %s: %s" % (self.folder, error.strerror)
            self.folder = ""

    def take(self) -> bool:
        """Take this sweep for this process; False while an earlier run of it still goes on."""
        if self._lock < 0:
            return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self._read()
        return True

    def _read(self) -> None:
        if not self.keeps:
            return
        try:
            with open(self.path, encoding="utf-8") as handle:
                found = json.load(handle)
        except (OSError, ValueError):
            return
        if isinstance(found, dict) and found.get("key") == self.key:
            self.points = {name: point for name, point in found["points"].items() if point["status"] == "valid"}

    def get(self, concurrency: int, request_rate: float | None) -> dict[str, Any] | None:
        """A finished point of an earlier run of this campaign."""
        return self.points.get(name_of({"concurrency": concurrency, "request_rate": request_rate}))

    def put(self, point: dict[str, Any]) -> None:
        """Keep a point."""
        self.points[name_of(point)] = point
        if not self.folder:
            return
        draft = self.path + ".new"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w", encoding="utf-8") as handle:
                json.dump({"key": self.key, "points": self.points}, handle)
            os.replace(draft, self.path)
        except OSError as error:
            self.trouble = "points are not kept on disk: %s: %s" % (self.folder, error.strerror)

    def release(self) -> None:
        """Let others have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
