# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a scenario, a start told as a timeline, against the decision code of the collection with a scripted clock."""

from __future__ import annotations

import json
from typing import Any

from collection import journal, readiness
from options import options_of
from world import Flight, World

_LOOPS = 2_000_000


def play(scenario: dict[str, Any], sliced: bool = False) -> tuple[Any, float, Any]:
    """Play one scenario to its verdict: the verdict, its script second, and the wait that gave it.

    ``sliced`` hands the wait from one process to the next, as it were, whenever no request is on its way.
    """
    options = options_of(scenario)
    wait = readiness.Wait(options, _query())
    world = World(scenario, options)
    entries = sorted(scenario["timeline"], key=lambda entry: entry["t"])
    now, flight, place = 0.0, None, 0
    for _turn in range(_LOOPS):
        while place < len(entries) and entries[place]["t"] <= now + 1e-9:
            _happen(wait, world, now, entries[place])
            place += 1
        if flight is not None and flight.due(world) <= now + 1e-9:
            answer = flight.land(world, now)
            probe, flight = flight.probe, None
            world.asked(probe.path)
            wait.on_answer(now, probe, answer)
        _look(wait, world, now)
        if flight is None:
            probe = wait.next_probe(now)
            flight = Flight(probe, now) if probe is not None else None
            if flight is not None and flight.due(world) <= now + 1e-9:
                continue
        verdict = wait.verdict(now)
        if verdict is not None:
            return verdict, round(now, 3), wait
        if sliced and flight is None:
            wait = readiness.Wait.load(options, json.loads(json.dumps(wait.dump())), _query())
        moments = [wait.next_wakeup(now)]
        if place < len(entries):
            moments.append(float(entries[place]["t"]))
        if flight is not None:
            moments.append(flight.due(world))
        now = max(min(moments), now + 1e-3)
    raise RuntimeError("the wait comes to no verdict")


def _happen(wait: Any, world: World, now: float, entry: dict[str, Any]) -> None:
    world.apply(entry)
    if entry.get("kernel"):
        wait.on_kernel(now, world.kernel(now, entry["kernel"]))
    if entry.get("journal"):
        wait.on_journal(now, world.journal(now, entry["journal"]))
    if "gpu" in entry:
        wait.on_gpu(now, entry["gpu"])
    if entry.get("peers"):
        wait.on_peers(now, {name: _peer(world, now, told or {}) for name, told in entry["peers"].items()})


def _peer(world: World, now: float, told: dict[str, Any]) -> dict[str, Any]:
    other = World({}, world.options)
    other.unit, other.decoder = {}, journal.Decoder("", world.options.secrets)
    data: dict[str, Any] = {"journal": []}
    if "unit" in told:
        other.set_unit(told["unit"] or {})
        data["unit"] = other.state()
    data["journal"] = other.journal(now, told.get("journal") or [])
    return data


def _look(wait: Any, world: World, now: float) -> None:
    for _again in range(4):
        wanted = wait.wants(now)
        if not wanted:
            return
        if "unit" in wanted:
            wait.on_unit(now, world.state())
        if "listener" in wanted:
            wait.on_listener(now, world.listener())


def _query() -> Any:
    try:
        import jmespath
    except ImportError:
        return None
    return jmespath.search
