# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main process once all ranks have loaded: binds, warms up, serves, watches its children, drains, ends."""

from __future__ import annotations

import os
import signal
import time

from sglang.standin import log
from sglang.standin.endpoints import STARTING, UNHEALTHY, UP, Endpoints
from sglang.standin.engine import Engine, Ring
from sglang.standin.gpu import GpuLoad, visible
from sglang.standin.http import Server as HttpServer
from sglang.standin.loop import Loop
from sglang.standin.warmup import Warmup

DRAIN_TICK = 5.0  # seconds between two looks at what is still running
WATCH_EVERY = 1.0  # seconds between two looks at the children
SETTLE = 5.0  # seconds the real server waits before it looks at its dead
RELEASE = 1.0  # seconds the ranks have to leave by themselves
FOLLOWER_PATHS = ("/health", "/health_generate", "/ping")


class Server:
    """State of the serving process."""

    def __init__(self, start):
        self.start = start
        self.layout, self.knobs, self.faults = start.layout, start.knobs, start.faults
        self.timeline, self.cluster, self.stamps = start.timeline, start.cluster, start.stamps
        self.scale = self.knobs.number("TIME_SCALE", 1.0)
        self.loop = Loop()
        self.status = STARTING
        self.stopping = False
        self.exit_status = 0
        self.http = self.engine = self.endpoints = self.warmup = None

    def run(self) -> int:
        """Serve until told to end; the exit status."""
        if self.layout.node_rank >= 1:
            return self._follow()
        self._make()
        log.uvicorn("Started server process [%d]" % self.start.pid)
        log.uvicorn("Waiting for application startup.")
        self.warmup.start()
        log.line("Using fallback token IDs for yes/no (9693/2152)")
        log.uvicorn("Application startup complete.")
        if not self._bind():
            return self._port_taken()
        self._serve_signals()
        if self.faults.here("warmup") and not self.faults.is_("hang"):
            self._strike_late()
        self.loop.every(WATCH_EVERY * self.scale, self._watch)
        self.loop.every(DRAIN_TICK * self.scale, self._drain)
        self.loop.run()
        return self.exit_status

    def _make(self) -> None:
        ring = Ring(self.loop, self.cluster.pulse_in, self.cluster.pulse_out)
        self.engine = Engine(self.loop, self.layout, self.start.speed, ring, self.knobs)
        self.engine.warm_step = max(self.timeline.length("warmup") / 16, 0.001)
        self.endpoints = Endpoints(self)
        args = self.layout.args
        level = (args.log_level_http or args.log_level).lower()
        self.http = HttpServer(
            self.loop, self.endpoints.handle, self.knobs.sglang_number("SGLANG_TIMEOUT_KEEP_ALIVE", 5),
            tuple(args.uvicorn_access_log_exclude_prefixes or ()), level in ("debug", "info", "trace"),
        )
        self.warmup = Warmup(self)
        cards = visible(self.knobs.environ)
        load = GpuLoad(self.knobs.environ, [cards[r.gpu] if cards and r.gpu < len(cards) else str(r.gpu) for r in self.layout.ranks])
        self.loop.every(0.5, lambda: self._tell_load(load))

    def _tell_load(self, load: GpuLoad) -> None:
        running = self.engine.running_count
        load.tell(self.start.speed.utilisation(running), self.start.speed.power_share(running))

    def _bind(self) -> bool:
        args = self.layout.args
        if args.ssl_certfile:
            self.http.use_tls(args.ssl_certfile, args.ssl_keyfile, args.ssl_keyfile_password)
        try:
            if self.faults.is_("port_in_use"):
                raise OSError
            self.http.listen(args.host, args.port)
        except OSError as error:
            reason = "address already in use" if error.errno in (None, 98) else (error.strerror or "").lower()
            log.uvicorn(
                "[Errno %d] error while attempting to bind on address ('%s', %d): %s" % (error.errno or 98, args.host, args.port, reason),
                "ERROR",
            )
            return False
        self.stamps.event("bound")
        scheme = "https" if args.ssl_certfile else "http"
        log.uvicorn("Uvicorn running on %s://%s:%d (Press CTRL+C to quit)" % (scheme, args.host, args.port))
        return True

    def _port_taken(self) -> int:
        """The way out of a late port conflict: the warm-up may well have been answered by the other server."""
        log.uvicorn("Waiting for application shutdown.")
        self.warmup.wait(max(2.0 * self.scale, 1.0))
        log.uvicorn("Application shutdown complete.")
        pid = self.start.pid
        log.line("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d" % (pid, pid))
        first = self.cluster.schedulers[0]
        self.cluster.kill_all()
        log.line("Subprocess scheduler_0 (pid=%d) crashed with exit code -9. Triggering SIGQUIT for cleanup..." % first.pid)
        log.line("Received sigquit from a child process. It usually means the child failed.")
        self.start.die()
        return 1

    def become_ready(self) -> None:
        """The warm-up was answered. Called from its thread."""
        if not self.http.listener:
            return  # somebody else answered: the port is his
        self.engine.warm_step = 0.0
        self.status = UP
        self.stamps.event("ready")
        if self.faults.here("ready"):
            self.loop.after(self.faults.after, self._strike_late)

    def _strike_late(self) -> None:
        if self.faults.is_("dead_detokenizer"):
            os.kill(self.cluster.detokenizer.pid, signal.SIGKILL)
        else:
            self.cluster.tell_ranks(signal.SIGUSR1)

    def _serve_signals(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self.faults.is_("ignore_sigterm") else self._on_sigterm)
        signal.signal(signal.SIGINT, self._on_sigint)
        signal.signal(signal.SIGQUIT, self._on_sigquit)
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        os.set_blocking(read_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self.loop.selector.register(read_end, 1, lambda events: os.read(read_end, 64))

    def _on_sigterm(self, number, frame) -> None:
        self.stamps.event("sigterm")
        log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self.stopping = True

    def _on_sigint(self, number, frame) -> None:
        self.loop.after(0, self._shut_down)

    def _on_sigquit(self, number, frame) -> None:
        """A child failed: nothing is answered from here on, and the end comes after the diagnosis."""
        log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        if self.faults.is_("engine_dead"):
            return
        dump = self.knobs.sglang_flag("SGLANG_PYSPY_DUMP_BEFORE_CRASH", True)
        core = self.knobs.sglang_flag("SGLANG_CUDA_COREDUMP_BEFORE_CRASH", True)
        if dump or core:
            log.line("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
            time.sleep(SETTLE * self.scale)
            alive = [child for child in self.cluster.living() if child is not self.cluster.detokenizer]
            wait = self.knobs.sglang_number("SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS", 60)
            if not alive:
                log.line("No live scheduler processes found; skipping py-spy and CUDA coredump.")
            elif core and wait > 0:
                log.line("Waiting %.1f seconds for CUDA coredumps before exiting." % wait)
                time.sleep(wait * self.scale)
        self.start.die()

    def die(self) -> None:
        """End by SIGKILL, for the warm-up that failed."""
        self.start.die()

    def _watch(self) -> None:
        if self.faults.is_("engine_dead") or self.exit_status or not self.loop.running:
            return
        child = self.cluster.dead_child()
        if not child:
            return
        if self.knobs.release() <= (0, 5, 6):
            return  # no monitor in those days: the server stays up dead
        log.line("Subprocess %s (pid=%d) crashed with exit code %d. Triggering SIGQUIT for cleanup..." % (child.name, child.pid, child.exit_code))
        os.kill(self.start.pid, signal.SIGQUIT)

    def _drain(self) -> None:
        if not self.stopping:
            return
        if self.status == UNHEALTHY or self.knobs.sglang_flag("SGL_FORCE_SHUTDOWN", False):
            why = "health check failed" if self.status == UNHEALTHY else "force shutdown flag set"
            log.line("Signal SIGTERM received while %s. Force exiting." % why)
            self.start.die()
        rids = list(self.endpoints.generation.jobs)
        if self.faults.is_("drain_hang"):
            rids.append("0" * 32)
        log.line("Gracefully exiting... Remaining number of requests %d. Remaining requests remaining_rids=%r." % (len(rids), rids))
        if not rids:
            self._shut_down()

    def _shut_down(self) -> None:
        pid = self.start.pid
        self.cluster.release(RELEASE)
        log.line("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d" % (pid, pid))
        log.uvicorn("Shutting down")
        self.http.close()
        log.uvicorn("Waiting for application shutdown.")
        log.uvicorn("Application shutdown complete.")
        log.uvicorn("Finished server process [%d]" % pid)
        if self.knobs.release() <= (0, 5, 18) and self.stopping:
            self.start.die()
        self.loop.stop()

    def _follow(self) -> int:
        """A node without rank 0: a health server that always says yes, and no ear for SIGTERM."""
        self.http = HttpServer(self.loop, _follower_answer, log_access=False)
        args = self.layout.args
        try:
            self.http.listen(args.host, args.port)
            log.line("Dummy health check server started in background thread at %s:%d" % (args.host, args.port))
            self.stamps.event("bound")
        except OSError as error:
            log.line("Dummy health check server failed to start: %s" % error)
        self._serve_signals()
        signal.signal(signal.SIGTERM, self._follower_sigterm)
        self.loop.every(WATCH_EVERY * self.scale, self._watch_follower)
        self.loop.run()
        return 0

    def _follower_sigterm(self, number, frame) -> None:
        self.stamps.event("sigterm")
        log.line(
            "SIGTERM received on node_rank %d; waiting for the rank-0 ShutdownReq broadcast to stop the schedulers." % self.layout.node_rank
        )

    def _watch_follower(self) -> None:
        if self.cluster.schedulers[0].poll() == 0:
            self.loop.stop()
        else:
            self._watch()

    def cache_hit_rate(self) -> float:
        """Cached part of all prompt tokens so far."""
        totals = self.engine.totals
        return round(totals["cached"] / max(totals["cached"] + totals["uncached"], 1), 4)

    def facts(self) -> dict:
        """What /server_info says: all arguments with the keys in clear, and the state of the scheduler."""
        layout, length = self.layout, self.timeline.length
        startup = {
            "load_weight": length("weights"), "kv_cache_allocation": length("kv_cache"), "scheduler_e2e": self.timeline.seconds,
            "cuda_graph": {"prefill": 0.0, "decode": length("graphs") if layout.graphs else 0.0},
        }
        state = {
            "world_size": layout.tp * layout.pp, "startup_time": startup,
            "effective_max_running_requests_per_dp": layout.max_running, "last_gen_throughput": round(self.engine.throughput, 2),
            "memory_usage": {
                "weight": round(layout.weight_gb, 3), "kvcache": round(layout.kv_gb, 3), "startup_available": 8.2,
                "token_capacity": layout.max_total_tokens, "token_capacity_swa": None, "graph": {"prefill": 0.0, "decode": 1.445},
            },
            "pp_max_micro_batch_size": layout.micro_batch,
        }
        facts = self.start.resolved()
        facts.update(
            launch_command=layout.args.launch_command, status="ready", max_total_num_tokens=layout.max_total_tokens,
            max_req_input_len=layout.context_len - 6, startup_time={**startup, "tokenizer_e2e": self.timeline.seconds},
            kv_events=None, internal_states=[state], version=".".join(str(part) for part in self.knobs.release()), frontend="python",
        )
        return facts


def _follower_answer(request) -> None:
    if request.path in FOLLOWER_PATHS:
        request.reply(200)
    else:
        request.reply(404, {"detail": "Not Found"})
