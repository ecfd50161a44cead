# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decisions of a campaign: in which order strategies run, what is left to do, what a leg came to, who won."""

from __future__ import annotations

import json
import random
from typing import Any

from ._report.reading import OUTSIDE_CAUSES, row_of_leg
from ._report.ranking import choose
from ._report.tables import build

MEASURED, UNSTABLE, FAILED, NOT_RUN = "measured", "unstable", "failed", "not_run"


def legs(strategies: list[str], seed: int | str | None = None, repeat_first: bool = True) -> list[dict[str, Any]]:
    """The legs of a campaign in their order; a seed shuffles them, the same seed always in the same way."""
    order = list(dict.fromkeys(strategies))
    if seed is not None:
        random.Random(str(seed)).shuffle(order)
    if repeat_first and len(order) > 1:
        order.append(order[0])
    return [{"leg": n, "strategy": strategy, "repeat": strategy in order[: n - 1], "status": ""} for n, strategy in enumerate(order, 1)]


def resume(kept: Any, wanted: dict[str, Any], retry_failed: bool = False) -> dict[str, Any]:
    """Go on with the campaign that was kept when it asked the same and is not over, else begin the wanted one."""
    if not isinstance(kept, dict) or kept.get("asked") != wanted["asked"] or not isinstance(kept.get("legs"), list):
        return wanted
    redo = ("", NOT_RUN, FAILED, UNSTABLE) if retry_failed else ("", NOT_RUN)
    to_do = [leg for leg in kept["legs"] if leg["status"] in redo]
    if kept.get("finished") and not (retry_failed and to_do):
        return wanted
    fresh = {leg["leg"]: leg for leg in wanted["legs"]}
    # Since it was over, something else may have been deployed, which is what has to come back this time.
    previous = wanted["previous"] if kept.get("finished") else kept.get("previous") or {}
    return {**kept, "finished": False, "previous": previous, "legs": [fresh[leg["leg"]] if leg in to_do else leg for leg in kept["legs"]]}


def plain(value: Any) -> Any:
    """The value as it will be when it was written as JSON and read again, so that both can be compared."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def returning(records: list[dict[str, Any]], serving: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the recorded deployments that share neither port nor GPUs with another one that serves."""
    found = []
    for record in records:
        others = [other for other in serving if other["unit"] != record["unit"]]
        if not any(other["port"] == record["port"] or set(other["gpus"]) & set(record["gpus"]) for other in others):
            found.append(record)
    return found


def finished_leg(leg: dict[str, Any], deployment: str, results: list[Any], loads: str = "", benchmark: Any = None) -> dict[str, Any]:
    """The leg with what came of it: its measurement, or the cause that the first failed result gives."""
    answer = {**leg, "deployment": deployment, "cause": None, "load": None, "benchmark": benchmark}
    if benchmark and benchmark.get("points"):
        status = benchmark.get("status")
        return {**answer, "status": status if status in (UNSTABLE, FAILED) else MEASURED, "load": _load(loads, str(leg["strategy"]), results)}
    cause = _first_cause([benchmark, *results])
    return {**answer, "status": NOT_RUN if cause["code"] in OUTSIDE_CAUSES else FAILED, "cause": cause}


def winner(campaigns: dict[str, dict[str, Any]], host: str, goal: str) -> dict[str, Any]:
    """The strategy for a host: chosen over all hosts of its hardware, so that equal machines serve alike."""
    rows = [row_of_leg(leg, name) for name, campaign in campaigns.items() for leg in campaign.get("legs", []) if leg.get("status")]
    table = next((table for table in build(rows, "", goal).tables if host in table.hosts), None)
    serving = str((campaigns.get(host, {}).get("previous") or {}).get("strategy") or "")
    answer = choose(table.rows if table else [], goal, serving)
    return {**answer, "winner": answer["winner"].partition(" ")[0]}  # without the version, which a table of several adds


def _first_cause(results: list[Any]) -> dict[str, str]:
    """The cause of the first result that has one; results without one only lend their message."""
    messages = []
    for result in results:
        if not isinstance(result, dict):
            continue
        cause = result.get("cause")
        if isinstance(cause, dict) and cause.get("code") and result.get("verdict") not in ("ready", "ok", "stopped"):
            return {key: str(cause.get(key) or "") for key in ("code", "summary", "line", "rank", "hint")}
        if result.get("failed") and result.get("msg"):
            messages.append(str(result["msg"]))
    text = messages[0].strip() if messages else "no reason was given"
    code, found, rest = text.partition(": ")
    if found and code.isidentifier() and code.islower():
        return {"code": code, "summary": rest.splitlines()[0], "line": "", "rank": "", "hint": ""}
    return {"code": "task_failed", "summary": text.splitlines()[0], "line": "", "rank": "", "hint": ""}


def _load(loads: str, strategy: str, results: list[Any]) -> dict[str, Any] | None:
    """The record of the start that was measured, as the wait keeps it on the node."""
    invocations = {str(unit["invocation_id"]) for unit in (_unit(result) for result in results) if unit.get("invocation_id")}
    records = []
    for line in loads.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("strategy") == strategy:
            records.append(record)
    same = [record for record in records if record.get("invocation_id") in invocations]
    if not same:
        return None
    return {"seconds": same[-1].get("total"), "phases": same[-1].get("phases") or {}}


def _unit(result: Any) -> dict[str, Any]:
    unit = result.get("unit") if isinstance(result, dict) else None
    return unit if isinstance(unit, dict) else {}
