# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the command line to a server that listens, or to the end the real one would take."""

from __future__ import annotations

import os
import signal
import sys
import time

from sglang.standin import arguments, log
from sglang.standin.caches import Caches
from sglang.standin.cluster import Cluster
from sglang.standin.faults import ERRORS, SITE, Faults, wait_for_death
from sglang.standin.knobs import Knobs
from sglang.standin.layout import Layout
from sglang.standin.peers import Peers
from sglang.standin.server import Server
from sglang.standin.speed import SpeedModel
from sglang.standin.stamps import Stamps
from sglang.standin.timeline import Timeline

DEFAULT_LOAD_SECONDS = 5.0
DEFAULT_SHARDS = 64


class Start:
    """What one start is made of; children see it as it was when they were forked."""

    def __init__(self, begin: float):
        self.begin = begin
        self.pid = os.getpid()
        self.knobs = Knobs()
        self.stamps = Stamps(self.knobs.text("STAMPS"))
        self.stamps.event("started")
        self.faults = Faults(self.knobs)
        self.caches = Caches(self.knobs.environ)
        self.cluster = Cluster(self)
        self.shards = int(self.knobs.number("SHARDS", DEFAULT_SHARDS))
        self.layout = self.timeline = self.speed = self.peers = None
        self.server = None

    def leave(self, status: int) -> None:
        """End the main process with a status; children are ended first."""
        self.cluster.kill_all()
        self.stamps.dying()
        os._exit(status)

    def die(self) -> None:
        """End all processes of the server by SIGKILL, the main process last."""
        log.line("kill_process_tree called: parent_pid=%d, include_parent=True, pid=%d" % (self.pid, self.pid))
        self.cluster.kill_all()
        self.stamps.dying()
        os.kill(self.pid, signal.SIGKILL)
        wait_for_death()

    def on_launch_sigquit(self, number, frame) -> None:
        """A rank failed while loading."""
        log.line("Received sigquit from a child process. It usually means the child failed.")
        self.die()

    def on_told_to_exit(self, number, frame) -> None:
        """The clean-up path that forgets the failure ends with 0; a plain exit says nothing at all."""
        if self.faults.is_("exit0"):
            log.line("Received sigquit from a child process. It usually means the child failed.")
            self.leave(0)
        self.leave(int(self.knobs.number("EXIT_STATUS", 1)))

    def fail(self, text: str) -> None:
        """An error of the main process before it serves: traceback, exit 1."""
        log.line("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d" % (self.pid, self.pid))
        log.raw(text + "\n")
        self.leave(1)

    def prepare(self, argv: list[str]) -> None:
        """Command line to layout; leaves with 2 or 1 as the real server does."""
        if self.faults.fault and self.faults.fault.end == "usage":
            arguments.build_parser().error(self.faults.fault.error)
        frames = (("%s/launch_server.py" % SITE, 29, "run_server", "server_args.resolve_once()"),)
        try:
            args = arguments.parse(argv)
            self.layout = Layout(args, self.knobs)
        except (AssertionError, ValueError, OSError, RuntimeError) as error:
            self.fail(log.traceback("%s: %s" % (type(error).__name__.replace("IOError", "OSError"), error), frames))
        self.speed = SpeedModel(self.layout, self.knobs.number("SPEED", 1.0))
        seconds = self.knobs.number("LOAD_SECONDS", DEFAULT_LOAD_SECONDS)
        if self.knobs.flag("LOAD_BY_STRATEGY", True):
            seconds *= self.speed.load_factor
        self.timeline = Timeline(self.begin, seconds)
        self.peers = Peers(self.layout, self.knobs)

    def load(self) -> None:
        """Everything before the port is bound."""
        signal.signal(signal.SIGQUIT, self.on_launch_sigquit)
        signal.signal(signal.SIGUSR1, self.on_told_to_exit)
        self.timeline.wait_end("process")
        if self.faults.here("process"):
            self._strike_main()
        log.line("server_args=%r" % self.resolved())
        log.line("Using default HuggingFace chat template with detected content format: string")
        if self.layout.pp > 1:
            log.line("Pipeline parallelism is incompatible with overlap schedule. Overlap schedule is disabled.")
        self.cluster.start()
        try:
            self.cluster.wait_ready()
        except RuntimeError as error:
            frames = (("%s/srt/entrypoints/engine.py" % SITE, 2030, "_wait_for_scheduler_ready", "raise _scheduler_died_error(i, scheduler_procs[i])"),)
            self.fail(log.traceback("RuntimeError: %s" % error, frames))
        if self.layout.node_rank == 0:
            self._log_timings()
        if self.faults.here("bind"):
            self._strike_main()

    def _strike_main(self) -> None:
        fault = self.faults.fault
        self.faults.say(self.layout)
        if fault.end == "hang":
            wait_for_death()
        if self.faults.is_("killed_unknown") or fault.end == "killed":
            os.kill(self.pid, fault.signal or signal.SIGKILL)
        if fault.end == "exit":
            self.leave(int(self.knobs.number("EXIT_STATUS", 1)))
        if fault.end in ERRORS:
            self.fail(self.faults.traceback(self.layout))

    def _log_timings(self) -> None:
        seconds = {phase: self.timeline.length(phase) for phase in ("weights", "kv_cache", "graphs", "process")}
        log.line(
            "Engine startup timings (s): load_weight=%.2f, kv_cache_allocation=%.2f, scheduler_e2e=%.2f, cuda_graph={prefill=0.00, "
            "decode=%.2f, target_verify=0.00, draft_prefill=0.00, draft_decode=0.00, draft_extend=0.00}, tokenizer_e2e=%.2f"
            % (
                seconds["weights"], seconds["kv_cache"], time.monotonic() - self.begin - seconds["process"], seconds["graphs"],
                time.monotonic() - self.begin,
            )
        )

    def resolved(self) -> dict:
        """All arguments as they are used; the keys stand in it in clear, as in the real one."""
        layout = self.layout
        values = dict(vars(layout.args))
        values.pop("config", None)
        values.pop("launch_command", None)
        values.update(
            tokenizer_path=layout.args.tokenizer_path or layout.args.model_path, served_model_name=layout.model_name,
            ep_size=layout.ep, dp_size=layout.dp, attn_dp_size=layout.attn_dp, mem_fraction_static=layout.mem_fraction,
            chunked_prefill_size=layout.chunk, device=layout.args.device or "cuda",
            disable_overlap_schedule=layout.args.disable_overlap_schedule or layout.pp > 1,
        )
        return values


def launch(argv: list[str]) -> None:
    """Run a server until its end."""
    start = Start(time.monotonic())
    start.prepare(argv)
    start.load()
    start.server = Server(start)
    status = start.server.run()
    sys.stderr.flush()
    start.leave(status)
