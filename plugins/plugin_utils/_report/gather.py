# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects measurements, causes and load times from the results of tasks, in whatever shape a play wraps them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .model import Hardware, Row
from .ranking import GOALS
from .reading import Clean, as_is, hardware_of_gpus, load_of, phases_of, row_of_benchmark, row_of_failure, row_of_leg

UNIT = re.compile(r"^sglang-(?P<deployment>[a-z0-9][a-z0-9-]*-(?P<strategy>[a-z0-9][a-z0-9_]*?))(\.service)?$")
BAD_VERDICTS = ("failed", "timeout", "stalled", "refused", "preflight_failed")
_WATCHED = 0.5  # of a load; a wait that came later knows how long it took, but not its phases


class Collector:
    """Remembers, for every host and deployment, the last measurement, the last cause and the last load."""

    def __init__(self, clean: Clean = as_is) -> None:
        self._clean = clean
        self._measured: dict[tuple[str, str, str], Row] = {}  # host, deployment, campaign
        self._failed: dict[tuple[str, str], Row] = {}
        self._loads: dict[tuple[str, str], dict[str, Any]] = {}
        self._hardware: dict[str, Hardware] = {}
        self._campaigns: dict[str, list[Row]] = {}
        self._goals: dict[str, str] = {}  # by host
        self._unreachable: dict[str, None] = {}

    def see(self, host: str, result: Any, args: dict[str, Any] | None = None, failed: bool = False) -> None:
        """Take what there is in one task's result; anything else is passed over."""
        if not isinstance(result, dict):
            return
        for item in result.get("results") or () if isinstance(result.get("results"), list) else ():
            self.see(host, item, args, bool(isinstance(item, dict) and item.get("failed")))
        self._see_facts(host, result.get("ansible_facts"))
        stats = result.get("ansible_stats")
        self._see_facts(host, stats.get("data") if isinstance(stats, dict) else None)
        self._see_benchmark(host, result.get("benchmark"))
        self._see_gpus(host, result.get("gpus"))
        self._see_wait(host, result, args or {}, failed)

    def see_stats(self, host: str, stats: dict[str, Any]) -> None:
        """Take what ``set_stats`` left for the end of the run."""
        self._see_facts(host, stats)

    def unreachable(self, host: str) -> None:
        """A host that was lost: what is missing of it is not the strategies' fault."""
        self._unreachable[host] = None

    def notes(self) -> list[str]:
        """What concerns the whole run."""
        return [f"{host} could not be reached any more; its figures end there" for host in self._unreachable]

    def goal(self) -> str:
        """The goal that the campaigns decided for, "" when there is none or several."""
        goals = set(self._goals.values())
        return goals.pop() if len(goals) == 1 else ""

    def rows(self) -> list[Row]:
        """Every strategy that was measured or failed; empty when nothing was measured."""
        rows = [row for rows in self._campaigns.values() for row in rows]
        told = {(row.host, row.deployment) for row in rows}
        rows += [row for key, row in self._measured.items() if key[:2] not in told]
        told |= {key[:2] for key in self._measured}
        if not any(row.points for row in rows):
            return []
        rows += [row for key, row in self._failed.items() if key not in told]
        return [self._completed(row) for row in rows]

    def _completed(self, row: Row) -> Row:
        load = self._loads.get((row.host, row.deployment))
        if load:
            seconds, phases = load_of(load)
            row = replace(row, load_s=seconds if row.load_s is None else row.load_s)
            if not row.load_phases and sum(phases.values()) >= _WATCHED * (seconds or 0):
                row = replace(row, load_phases=phases)
        if not row.hardware.gpu_name and row.host in self._hardware:
            row = replace(row, hardware=self._hardware[row.host])
        return row

    def _see_facts(self, host: str, facts: Any) -> None:
        if not isinstance(facts, dict):
            return
        campaign = facts.get("sglang_compare_campaign")
        if isinstance(campaign, dict) and isinstance(campaign.get("legs"), list):
            done = [leg for leg in campaign["legs"] if isinstance(leg, dict) and leg.get("status")]
            self._campaigns[host] = [row_of_leg(leg, host, self._clean) for leg in done]
            if campaign.get("goal") in GOALS:
                self._goals[host] = campaign["goal"]
        benchmarks = facts.get("sglang_benchmarks")
        for benchmark in benchmarks.values() if isinstance(benchmarks, dict) else ():
            self._see_benchmark(host, benchmark)

    def _see_benchmark(self, host: str, raw: Any) -> None:
        if not isinstance(raw, dict) or not isinstance(raw.get("points"), list):
            return
        row = row_of_benchmark(raw, host, self._clean)
        self._measured[(row.host, row.deployment, str(raw.get("campaign") or ""))] = row

    def _see_gpus(self, host: str, gpus: Any) -> None:
        if isinstance(gpus, list) and gpus and all(isinstance(gpu, dict) and gpu.get("name") for gpu in gpus):
            self._hardware[host] = hardware_of_gpus(gpus)

    def _see_wait(self, host: str, result: dict[str, Any], args: dict[str, Any], failed: bool) -> None:
        deployment, strategy = _named(result, args)
        if not deployment:
            return
        cause = result.get("cause")
        if result.get("verdict") == "ready":
            self._failed.pop((host, deployment), None)
            if result.get("load_seconds") is not None:
                self._loads[(host, deployment)] = {"seconds": result["load_seconds"], "phases": phases_of(result.get("timeline"))}
        elif failed and isinstance(cause, dict) and result.get("verdict") in BAD_VERDICTS:
            self._failed[(host, deployment)] = row_of_failure(strategy, deployment, host, cause, self._clean)


def _named(result: dict[str, Any], args: dict[str, Any]) -> tuple[str, str]:
    """Deployment and strategy a result speaks of: by its own words, by the plan or by the unit's name."""
    plan = args.get("plan") if isinstance(args.get("plan"), dict) else {}
    unit = result.get("unit")
    unit_name = unit.get("name") if isinstance(unit, dict) else unit
    found = UNIT.match(str(plan.get("unit") or args.get("name") or unit_name or ""))
    deployment = plan.get("deployment") or (found and found["deployment"]) or ""
    strategy = args.get("strategy") or plan.get("name") or (found and found["strategy"]) or deployment
    return str(deployment), str(strategy)
