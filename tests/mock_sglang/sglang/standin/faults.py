# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strikes with the fault a test asked for: where, in which rank, and only for the first starts if so told."""

from __future__ import annotations

import os
import signal
import time

from sglang.standin import log
from sglang.standin.fault_table import FAULTS
from sglang.standin.knobs import PHASES

ERRORS = ("exception", "main_error")  # the same error, met by a rank or by the main process
SITE = os.path.dirname(os.path.dirname(__file__))
AFTER_DEATH = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:%d"
STORE_NOISE = (
    "[rank{rank}]:[W{day} {clock} ProcessGroupNCCL.cpp:1826] [PG ID 0 PG GUID 0 Rank {rank}] Failed to check the \"should "
    "dump\" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Connection reset by peer\n"
)


def _count_start(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            count = int(file.read() or 0)
    except (OSError, ValueError):
        count = 0
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write("%d\n" % (count + 1))
    except OSError:
        pass
    return count + 1


class Faults:
    """The fault of this start, if there is one."""

    def __init__(self, knobs):
        self.knobs = knobs
        name, _sep, phase = knobs.text("FAULT").partition("@")
        first_starts = int(knobs.number("FAULT_STARTS", 0))
        if name and first_starts:
            counter = knobs.text("FAULT_COUNTER") or os.path.join(knobs.environ.get("HOME", "/tmp"), ".mock_sglang_starts")
            if _count_start(counter) > first_starts:
                name = ""
        if name and name not in FAULTS:
            raise ValueError("MOCK_SGLANG_FAULT: unknown fault '%s'; known: %s" % (name, ", ".join(sorted(FAULTS))))
        if phase and phase not in PHASES:
            raise ValueError("MOCK_SGLANG_FAULT: unknown phase '%s'; known: %s" % (phase, ", ".join(PHASES)))
        self.name = name
        self.fault = FAULTS.get(name)
        self.phase = phase or (self.fault.phase if self.fault else "")
        self.rank = int(knobs.number("FAULT_RANK", 0))
        self.after = knobs.number("FAULT_AFTER", 0.5)

    def here(self, phase: str) -> bool:
        """Does the fault strike in this phase?"""
        return bool(self.fault) and self.phase == phase

    def is_(self, name: str) -> bool:
        """Is it this one?"""
        return self.name == name

    def fill(self, text: str, layout, rank=None) -> str:
        """Put this launch's figures into the text of a line."""
        values = {
            "rank": rank.index if rank else 0,
            "gpu": rank.gpu if rank else 0,
            "size": self.knobs.text("FAULT_SIZE", "2.37"),
            "free": self.knobs.text("FAULT_FREE", "310.12"),
            "model": layout.args.model_path if layout else "",
            "tp": layout.tp if layout else 0,
            "fraction": layout.mem_fraction if layout else "",
            "line": self.knobs.text("FAULT_LINE", "RuntimeError: something broke"),
            "day": time.strftime("%m%d"),
            "clock": time.strftime("%H:%M:%S.") + "122310",
        }
        for key, value in values.items():
            text = text.replace("{%s}" % key, str(value))
        return text

    def traceback(self, layout, rank=None) -> str:
        """The traceback of this fault."""
        file, function = self.fault.frame
        frames = (
            ("%s/srt/managers/scheduler.py" % SITE, 6362, "run_scheduler_process", "scheduler = Scheduler(server_args, port_args)"),
            ("%s/srt/%s" % (SITE, file), 900, function, "raise"),
        )
        text = log.traceback(self.fill(self.fault.error, layout, rank), frames)
        return "\n".join([text, *(self.fill(line, layout, rank) for line in self.fault.after)])

    def say(self, layout, rank=None) -> None:
        """Write the lines that come before the end."""
        for text in self.fault.before:
            log.line(self.fill(text, layout, rank), rank.prefix if rank else "")
        for text in self.fault.plain:
            log.raw(self.fill(text, layout, rank) + ("" if text.startswith("\r") else "\n"))

    def strike_rank(self, layout, rank) -> None:
        """Fail inside a scheduler process as its kind does; comes back only when nothing was to happen."""
        fault = self.fault
        if rank.index != self.rank:
            if fault.end in ERRORS:
                self._echo(layout, rank)
            return
        self.say(layout, rank)
        if fault.end in ERRORS:
            log.line("Scheduler hit an exception: %s\n" % self.traceback(layout, rank), rank.prefix)
            os.kill(os.getppid(), signal.SIGQUIT)
            wait_for_death()
        if fault.end == "killed":
            if fault.signal != signal.SIGKILL:
                signal.signal(fault.signal, signal.SIG_DFL)
            os.kill(os.getpid(), fault.signal)
            wait_for_death()
        if fault.end == "hang":
            wait_for_death()

    def _echo(self, layout, rank) -> None:
        """Other ranks die of the first one's death a moment later: the noise below the cause."""
        if not self.knobs.flag("ECHOES", True):
            wait_for_death()
        time.sleep(0.05 + 0.01 * rank.index)
        frames = (("%s/srt/distributed/parallel_state.py" % SITE, 1210, "all_reduce", "work.wait()"),)
        error = log.traceback(AFTER_DEATH % (20101 + rank.index), frames)
        log.line("Scheduler hit an exception: %s\n" % error, rank.prefix)
        for _turn in range(3):
            log.raw(self.fill(STORE_NOISE, layout, rank))
        wait_for_death()


def wait_for_death() -> None:
    """Stay, without using the processor, until somebody ends this process."""
    while True:
        signal.pause()
