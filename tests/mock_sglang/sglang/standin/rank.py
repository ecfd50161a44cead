# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One scheduler process: walks through the phases of a load, then hands on whatever comes round the ring."""

from __future__ import annotations

import os
import signal
import time

from sglang.standin import log
from sglang.standin.checks import check_model
from sglang.standin.faults import SITE, wait_for_death
from sglang.standin.gpu import GpuMemory, NoCard
from sglang.standin.layout import CONTEXT_MIB, GPU_MIB, GRAPH_MIB
from sglang.standin.peers import BYE
from sglang.standin.processes import outlive_parent

TOTAL_GB = GPU_MIB / 1024
BUSY_SHARE = 0.1  # of a card held by others, from which the real server calls it unbalanced
MEBIBYTE = 1 << 20


class RankProcess:
    """The life of one rank; every method runs in its own process."""

    def __init__(self, server, rank, ready_fd: int):
        self.server = server
        self.layout = server.layout
        self.rank = rank
        self.timeline = server.timeline
        self.faults = server.faults
        self.old = server.knobs.release()
        self.memory = NoCard() if server.layout.on_cpu else GpuMemory(server.knobs, rank.gpu, rank.title)
        self.ready_fd = ready_fd
        self.first = rank.index == 0

    def say(self, text: str) -> None:
        """One log line of this rank."""
        log.line(text, self.rank.prefix)

    def load(self) -> None:
        """All phases up to the moment the main process may bind; an error ends everything."""
        try:
            self._distributed()
            self._weights()
            self._kv_cache()
            self._graphs()
            self._sizes()
        except Exception as error:  # the real one passes any error of a scheduler to the main process this way
            frames = (("%s/srt/managers/scheduler.py" % SITE, 6362, "run_scheduler_process", "scheduler = Scheduler(server_args, port_args)"),)
            text = "%s: %s" % (type(error).__name__ if type(error).__module__ == "builtins" else "torch.AcceleratorError", error)
            self.say("Scheduler hit an exception: %s\n" % log.traceback(text, frames))
            os.kill(os.getppid(), signal.SIGQUIT)
            wait_for_death()
        os.write(self.ready_fd, b"r")

    def _strike(self, phase: str) -> None:
        if self.faults.here(phase):
            self._own_way()
            self.faults.strike_rank(self.layout, self.rank)

    def _own_way(self) -> None:
        if self.rank.index != self.faults.rank:
            return
        if self.faults.is_("eat_memory"):
            self._eat_memory()
        if self.faults.is_("killed_unknown"):
            self.server.stamps.event("died")  # systemd may end the watcher before it has written
            os.kill(os.getppid(), signal.SIGKILL)
        if self.faults.is_("exit0"):
            self.say("Scheduler hit an exception: %s\n" % self.faults.traceback(self.layout, self.rank))
        if self.faults.is_("exit0") or self.faults.is_("exit"):
            os.kill(os.getppid(), signal.SIGUSR1)
            wait_for_death()

    def _eat_memory(self) -> None:
        """Really use host memory, until the unit's limit kills us or the bound is reached."""
        eaten = []
        for _turn in range(int(self.server.knobs.number("EAT_MIB", 2048)) // 16):
            block = bytearray(16 * MEBIBYTE)
            block[:: 4096] = b"x" * len(block[:: 4096])
            eaten.append(block)
            time.sleep(0.01)
        wait_for_death()

    def _distributed(self) -> None:
        word = "parallel" if self.old >= (0, 5, 21) else "torch distributed"
        begin = time.monotonic()
        self.say("Init %s begin." % word)
        self.server.peers.meet(self)
        if not self.memory.exists:
            raise RuntimeError("CUDA error: invalid device ordinal")
        held = self.memory.others_mib()
        if held > GPU_MIB * BUSY_SHARE and self.server.knobs.sglang_flag("SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK", True):
            free = TOTAL_GB - held / 1024
            raise RuntimeError(
                "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=%.2f, "
                "local_gpu_memory=%.2f, local_gpu_memory * 0.9=%.2f" % (free, TOTAL_GB, TOTAL_GB * 0.9)
            )
        self._strike("distributed")
        self.memory.hold(CONTEXT_MIB)
        self.timeline.wait_end("distributed")
        usage = CONTEXT_MIB / 1024
        if word == "parallel":
            self.say("Init parallel ends. elapsed=%.2f s" % (time.monotonic() - begin))
            self.say("Memory baseline taken. mem usage=%.2f GB" % usage)
        else:
            self.say("Init torch distributed ends. elapsed=%.2f s, mem usage=%.2f GB" % (time.monotonic() - begin, usage))

    def _weights(self) -> None:
        free = TOTAL_GB - CONTEXT_MIB / 1024
        begin = time.monotonic()
        self.say("Load weight begin. avail mem=%.2f GB" % free)
        if self.first:
            self.server.caches.use()
        shards = self.server.shards
        strike_at = max(int(shards * 0.4), 1)
        length = self.timeline.ends["weights"] - begin
        parts = shards if self.first else 4
        for done in range(parts + 1):
            self.timeline.sleep_until(begin + length * done / parts)
            if self.first:
                self._shard_bar(done, shards, begin)
            if done * shards >= strike_at * parts and done < parts:
                self._strike("weights")
            self.memory.hold(CONTEXT_MIB + self.layout.weight_gb * 1024 * done / parts)
        if self.first:
            log.raw("\n")
        check_model(self.layout)
        left = free - self.layout.weight_gb
        self.say(
            "Load weight end. elapsed=%.2f s, type=%s, avail mem=%.2f GB, mem usage=%.2f GB."
            % (time.monotonic() - begin, self.layout.architectures[0], left, self.layout.weight_gb)
        )

    def _shard_bar(self, done: int, total: int, begin: float) -> None:
        spent = time.monotonic() - begin
        name = "Multi-thread loading shards" if self.old >= (0, 5, 15) else "Loading safetensors checkpoint shards"
        clock = "%02d:%02d" % (spent // 60, spent % 60)
        if done:
            left = spent * (total - done) / done
            rest = "%s<%02d:%02d, %5.2fit/s" % (clock, left // 60, left % 60, done / max(spent, 1e-3))
        else:
            rest = "%s<?, ?it/s" % clock
        log.raw("\r%s: %3d%% Completed | %d/%d [%s]" % (name, done * 100 // total, done, total, rest))

    def _kv_cache(self) -> None:
        layout = self.layout
        if layout.max_total_tokens <= 0:
            raise RuntimeError(
                "Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=%s"
                % layout.mem_fraction
            )
        self._strike("kv_cache")
        self.timeline.wait_end("kv_cache")
        half = layout.kv_gb / 2
        self.memory.hold(CONTEXT_MIB + (layout.weight_gb + layout.kv_gb) * 1024)
        tokens = layout.max_total_tokens
        if self.old >= (0, 5, 21):
            self.say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: %d, K size: %.2f GB, V size: %.2f GB" % (tokens, half, half))
        else:
            self.say("KV Cache is allocated. #tokens: %d, K size: %.2f GB, V size: %.2f GB" % (tokens, half, half))
        self.say("Memory pool end. avail mem=%.2f GB" % self._left())

    def _left(self) -> float:
        return TOTAL_GB - CONTEXT_MIB / 1024 - self.layout.weight_gb - self.layout.kv_gb

    def _graphs(self) -> None:
        self._strike_graphs_when_off()
        if not self.layout.graphs:
            self.timeline.wait_end("graphs")
            return
        new = self.old >= (0, 5, 15)
        begin = time.monotonic()
        begin_text = "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=%.2f GB"
        if not new:
            begin_text = "Capture cuda graph begin. This can take up to several minutes. avail mem=%.2f GB"
        self.say(begin_text % self._left())
        sizes = list(reversed(self.layout.decode_sizes))
        length = self.timeline.ends["graphs"] - begin
        steps = len(sizes) if self.first else 2
        for done in range(steps + 1):
            self.timeline.sleep_until(begin + length * done / steps)
            if self.first:
                self._capture_bar(sizes, done, begin)
            if done == steps // 2:
                self._strike("graphs")
        if self.first:
            log.raw("\n")
        spent, used = time.monotonic() - begin, GRAPH_MIB / 1024
        self.memory.hold(CONTEXT_MIB + (self.layout.weight_gb + self.layout.kv_gb) * 1024 + GRAPH_MIB)
        if new:
            text = "Capture target decode CUDA graph end. bs=%s, elapsed=%.2f s, mem usage=%.2f GB, avail mem=%.2f GB."
            self.say(text % (self.layout.decode_sizes, spent, used, self._left() - used))
        else:
            text = "Capture cuda graph end. Time elapsed: %.2f s. mem usage=%.2f GB. avail mem=%.2f GB."
            self.say(text % (spent, used, self._left() - used))

    def _strike_graphs_when_off(self) -> None:
        if not self.layout.graphs:
            self._strike("graphs")

    def _capture_bar(self, sizes: list[int], done: int, begin: float) -> None:
        total, spent = len(sizes), time.monotonic() - begin
        size = sizes[min(done, total - 1)]
        left = self._left() - GRAPH_MIB / 1024 * done / total
        rest = "00:%02d<?, ?it/s" % spent
        if done:
            rest = "00:%02d<00:%02d, %5.2fit/s" % (spent, spent * (total - done) / done, done / max(spent, 1e-3))
        drawn = ("#" * (done * 10 // total)).ljust(10)
        log.raw("\rCapturing batches (bs=%d avail_mem=%.2f GB): %3d%%|%s| %d/%d [%s]" % (size, left, done * 100 // total, drawn, done, total, rest))

    def _sizes(self) -> None:
        if any(name.startswith("TP") and name != "TP0" for name in self.rank.names):
            return
        layout = self.layout
        self.say(
            "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%d, max_running_requests=%d, context_len=%d, "
            "available_%s_mem=%.2f GB"
            % (
                layout.max_total_tokens, layout.chunk, layout.args.max_prefill_tokens, layout.max_running, layout.context_len,
                "cpu" if layout.on_cpu else "gpu", self._left() - GRAPH_MIB / 1024 * layout.graphs,
            )
        )
        if self.first:
            self.say("Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False hicache_attached=False")

    def serve(self, read_fd: int, write_fd: int) -> None:
        """Hand on what comes round the ring, and fail after ready when that was asked for."""
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._told)
        while True:
            data = self.server.peers.wait(read_fd)
            if data == BYE:
                os._exit(0)
            if data.startswith(b"lost"):
                self._peer_lost(data.decode().split(" ")[1])
            if not data:
                wait_for_death()
            try:
                os.write(write_fd, data)
            except OSError:
                wait_for_death()

    def _peer_lost(self, peer: str) -> None:
        error = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer %s" % peer
        frames = (("%s/srt/distributed/parallel_state.py" % SITE, 1210, "all_reduce", "work.wait()"),)
        self.say("Scheduler hit an exception: %s\n" % log.traceback(error, frames))
        os.kill(os.getppid(), signal.SIGQUIT)
        wait_for_death()

    def _told(self, number, frame) -> None:
        """The main process says that the server is ready: now the late faults strike."""
        if number == signal.SIGUSR2:
            self.server.peers.say_bye()
            os._exit(0)
        if self.faults.is_("orphan") and self.first:
            self._leave_orphan()
        if self.faults.is_("engine_dead") and self.rank.index == self.faults.rank:
            self.say("Scheduler hit an exception: %s\n" % self.faults.traceback(self.layout, self.rank))
            wait_for_death()
        if self.faults.is_("watchdog") and self.rank.index == self.faults.rank:
            self._watchdog()
        self._strike(self.faults.phase)

    def _watchdog(self) -> None:
        scale = self.server.knobs.number("TIME_SCALE", 1.0)
        self.say("Pyspy dump for PID %d:\nThread 0x7F (active): \"MainThread\"\n    all_reduce (parallel_state.py:1210)" % os.getpid())
        self.say("Scheduler watchdog timeout (self.watchdog_timeout=%d, self.soft=False)" % self.layout.args.watchdog_timeout)
        time.sleep(5 * scale)
        os.kill(os.getppid(), signal.SIGQUIT)
        wait_for_death()

    def _leave_orphan(self) -> None:
        if os.fork():
            return
        outlive_parent()
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        memory = GpuMemory(self.server.knobs, self.rank.gpu, self.rank.title)
        memory.hold(CONTEXT_MIB + self.layout.weight_gb * 1024)
        for fd in (0, 1, 2):
            os.close(fd)
        time.sleep(self.server.knobs.number("ORPHAN_SECONDS", 600))
        os._exit(0)
