# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The written-down speed model: figures of the field, and an engine that reaches them on a scripted clock."""

from __future__ import annotations

import heapq
import itertools

import pytest
from sglang.standin import log
from sglang.standin.arguments import parse
from sglang.standin.engine import Engine, Job
from sglang.standin.knobs import Knobs
from sglang.standin.layout import Layout
from sglang.standin.loop import Timer
from sglang.standin.speed import SpeedModel

TP8 = ("--tp-size", 8)
EP8 = (*TP8, "--ep-size", 8)
EP4 = (*TP8, "--ep-size", 4)
PP8 = ("--pp-size", 8, "--max-running-requests", 64)
PP8_FIELD = (*PP8, "--pp-async-batch-depth", 8, "--pp-max-micro-batch-size", 64)
TUNED = ("--max-running-requests", 256, "--num-continuous-decode-steps", 8)


class ScriptedLoop:
    """The event loop with a clock that jumps."""

    def __init__(self):
        self.time, self.timers, self.order = 0.0, [], itertools.count()

    def now(self):
        return self.time

    def at(self, moment, call):
        timer = Timer(call)
        heapq.heappush(self.timers, (moment, next(self.order), timer))
        return timer

    def after(self, seconds, call):
        return self.at(self.time + seconds, call)

    def every(self, seconds, call):
        """Pulses and measurements need no clock of their own here."""

    def run_until(self, end):
        while self.timers and self.timers[0][0] <= end:
            self.time, _order, timer = heapq.heappop(self.timers)
            if timer.call:
                timer.call()
        self.time = end


class QuickRing:
    """A ring whose answers are always there."""

    sent = back = 0

    def pulse(self):
        return 0

    def stalled(self):
        return False


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setattr(log, "line", lambda text, prefix="": None)


def make(flags, **knobs):
    settings = Knobs({"MOCK_SGLANG_FILE": "", "MOCK_SGLANG_JITTER": "0", **knobs})
    layout = Layout(parse(["--model-path", "org/demo", *map(str, flags)]), settings)
    speed = SpeedModel(layout, settings.number("SPEED", 1.0))
    loop = ScriptedLoop()
    return loop, layout, speed, Engine(loop, layout, speed, QuickRing(), settings)


def measure(flags, concurrency, seconds=60.0, prompt_tokens=64, max_new=128, **knobs):
    """Output tokens per second of a closed loop over the second half of the time, and the most that ran at once."""
    loop, _layout, _speed, engine = make(flags, **knobs)
    seen = {"tokens": 0, "running": 0}
    number = itertools.count()

    def emit(job):
        seen["tokens"] += loop.time > seconds / 2
        seen["running"] = max(seen["running"], engine.running_count)
        if job.done:
            ask()

    def ask():
        engine.submit(Job("r", "%060d" % next(number), prompt_tokens, max_new, emit))

    for _turn in range(concurrency):
        ask()
    loop.run_until(seconds)
    return seen["tokens"] / (seconds / 2), seen["running"]


@pytest.mark.parametrize(
    "flags, concurrency, wanted",
    [
        (TP8, 1, 26), (TP8, 32, 577), (TP8, 256, 808), ((*TP8, *TUNED), 1, 98), ((*TP8, *TUNED), 256, 1291),
        (PP8_FIELD, 1, 36), (PP8_FIELD, 64, 396), (PP8_FIELD, 256, 396), (PP8, 32, 248), (PP8, 1, 25),
        (EP8, 1, 65), (EP8, 256, 961), ((*EP8, *TUNED), 256, 1538), (EP4, 256, 1531),
    ],
)
def test_the_field_s_figures_come_out(flags, concurrency, wanted):
    reached, _running = measure(flags, concurrency)
    assert reached == pytest.approx(wanted, rel=0.06)


def test_the_default_micro_batch_lets_8_of_32_run():
    assert measure(PP8, 32)[1] == 8
    assert measure(PP8_FIELD, 32)[1] == 32


def test_no_more_than_the_limit_run():
    assert measure((*EP8, "--max-running-requests", 16), 64, seconds=20)[1] == 16


def test_a_full_kv_pool_makes_requests_wait():
    assert measure((*EP8, "--max-total-tokens", 2048), 64, seconds=20)[1] == 2048 // (64 + 128)


def test_the_speed_can_be_scaled():
    assert measure(EP8, 8, MOCK_SGLANG_SPEED="2")[0] == pytest.approx(2 * measure(EP8, 8)[0], rel=0.02)


def test_disabled_graphs_cost_speed():
    assert measure((*EP8, "--cuda-graph-backend-decode", "disabled"), 1)[0] == pytest.approx(65 * 0.45, rel=0.05)


def test_load_times_keep_the_field_s_ratio():
    factors = {name: make(flags)[2].load_factor for name, flags in (("tp8", TP8), ("ep8", EP8), ("pp8", PP8), ("ep4", EP4))}
    assert factors == pytest.approx({"tp8": 570 / 135, "ep8": 1.0, "pp8": 90 / 135, "ep4": 150 / 135})
    assert make(("--tp-size", 1))[2].load_factor == 1.0


def first_token(engine, loop, prompt, tokens):
    seen = []
    engine.submit(Job("r", prompt, tokens, 1, lambda job: seen.append(loop.time)))
    begin = loop.time
    loop.run_until(begin + 30)
    return seen[0] - begin


def test_a_known_prompt_is_read_faster_until_the_cache_is_flushed():
    loop, _layout, _speed, engine = make(EP8)
    prompt, tokens = "words " * 12000, 18000
    first, second = first_token(engine, loop, prompt, tokens), first_token(engine, loop, prompt, tokens)
    assert second < first / 10
    assert engine.flush()
    assert first_token(engine, loop, prompt, tokens) == pytest.approx(first)
    assert make((*EP8, "--disable-radix-cache"))[3].cache.look_up(prompt) == 0


def test_the_first_requests_can_be_slowed_by_compiling():
    loop, _layout, _speed, engine = make(EP8, MOCK_SGLANG_JIT_SECONDS="3", MOCK_SGLANG_JIT_REQUESTS="2")
    times = [first_token(engine, loop, "prompt %d" % at, 4) for at in range(3)]
    assert times[0] > 3 and times[1] > 3 and times[2] < 0.1


def test_busy_cards_draw_more_where_more_is_done():
    tuned, pipe = make((*EP8, *TUNED))[2], make(PP8)[2]
    assert tuned.utilisation(0) == 0
    assert tuned.power_share(256) > 3 * pipe.power_share(8)
    assert pipe.utilisation(8) < 30 < tuned.utilisation(8)
