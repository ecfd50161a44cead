# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What processes of the server do to themselves: names, titles, dying with their parent."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


def stat_fields(pid: int | str = "self") -> list[str]:
    """Fields of /proc/PID/stat from the third on; [] when the process is gone."""
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(") ")[2].split()
    except OSError:
        return []


def start_time(pid: int | str = "self") -> int:
    """Clock ticks since boot at which the process started: tells two owners of one pid apart."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def set_title(title: str) -> None:
    """Show the title in ps, where the command line was, and as the process name."""
    _libc.prctl(PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    fields = stat_fields()
    if len(fields) < 47:
        return
    begin, end = int(fields[45]), int(fields[46])
    if begin and end > begin:
        room = end - begin
        ctypes.memmove(begin, title.encode()[: room - 1].ljust(room, b"\0"), room)


def die_with(parent: int) -> None:
    """Be killed by the kernel when the parent ends, also when it already has."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Take the opposite back, for a process that is to be left behind."""
    _libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
