# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep sees of the node it runs on: GPUs, the unit, and the journal line that says why the unit died."""

from __future__ import annotations

from typing import Any, Iterable

from ansible_collections.gpuops.sglang.plugins.module_utils import _history
from ansible_collections.gpuops.sglang.plugins.module_utils._follow import unit_matches
from ansible_collections.gpuops.sglang.plugins.module_utils._journal import Decoder
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Context, Diagnosis
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands, show, unit_name, unit_state

from .control import Control, Trouble
from .watch import GPU_FIELDS, Sample, has_fast_links, parse_gpus

_QUERY = ["nvidia-smi", "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader,nounits"]
_LOADS = "/var/lib/gpuops-sglang/loads.jsonl"  # where the role sglang_server has its waits keep them
_PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "NRestarts", "MainPID", "InvocationID")


class Node:
    """The machine the server runs on, as far as it is this one."""

    def __init__(self, commands: Commands, unit: str, gpus: Iterable[Any], control: Control, secrets: tuple[str, ...] = ()) -> None:
        self.commands = commands
        self.unit_wanted = unit_name(unit) if unit else ""
        self.gpus_wanted = [] if list(map(str, gpus)) in (["all"], []) else list(gpus)
        self.control = control
        self.secrets = secrets
        self.has_gpus = False

    def unit(self) -> dict[str, Any] | None:
        """Invocation, restarts and main process of the unit; ``None`` when none was named."""
        if not self.unit_wanted:
            return None
        found = show(self.commands, [self.unit_wanted], _PROPERTIES)
        state = unit_state(found[0]) if found else unit_state({})
        return {
            "invocation_id": state.invocation_id,
            "restarts": state.restarts,
            "main_pid": state.main_pid,
            "active_state": state.active_state,
            "load_state": state.load_state,
        }

    def require_unit(self) -> None:
        """Refuse to measure a unit that does not run."""
        found = self.unit()
        if found is None or found["active_state"] == "active":
            return
        if found["load_state"] == "not-found":
            raise Trouble(
                "unit_missing",
                "there is no unit %s on this host" % self.unit_wanted,
                "Run the benchmark on the node, or leave name out when it runs elsewhere.",
            )
        raise Trouble(
            "stopped", "the unit %s is %s" % (self.unit_wanted, found["active_state"] or "unknown to systemd"), "Deploy it, and wait until it is ready."
        )

    def load_seconds(self, loads: str = _LOADS) -> float | None:
        """How long the start of what runs now took, as the wait for it kept it on the node."""
        found = self.unit()
        record = _history.of_invocation(_history.load(loads), found["invocation_id"]) if found else None
        return record["total"] if record else None

    def gpu_rows(self) -> list[dict[str, Any]]:
        """One look at the GPUs; empty where there is no nvidia-smi."""
        code, output, _errors = self.commands.run(_QUERY, timeout=10)
        return parse_gpus(output, self.gpus_wanted) if code == 0 else []

    def hardware(self) -> dict[str, Any] | None:
        """Names, driver, power limit and links of the GPUs."""
        rows = self.gpu_rows()
        self.has_gpus = bool(rows)
        if not rows:
            return None
        limits = [row["power_limit_w"] for row in rows if row["power_limit_w"]]
        code, topology, _errors = self.commands.run(["nvidia-smi", "topo", "-m"], timeout=30)
        return {
            "count": len(rows),
            "names": list(dict.fromkeys(row["name"] for row in rows)),
            "driver": rows[0]["driver"],
            "power_limit_w": max(limits) if limits else None,
            "fast_links": has_fast_links(topology) if code == 0 else None,
        }

    def look(self, now: float) -> Sample:
        """One sample during a run."""
        try:
            server = self.control.loads()
        except (Trouble, ValueError, TypeError, OSError):
            server = None
        return Sample(now, self.gpu_rows() if self.has_gpus else [], server)

    def blame(self, before: dict[str, Any]) -> tuple[str, str]:
        """Why that life of the unit ended, by its journal: a code of the catalogue and the line, both "" when it does not say."""
        argv = ["journalctl", "--output=json", "--all", "--no-pager", "--lines=3000"] + unit_matches(self.unit_wanted)
        code, output, _errors = self.commands.run(argv)
        if code:
            return "", ""
        diagnosis = Diagnosis()
        for entry in Decoder(self.unit_wanted, self.secrets).feed(output.encode("utf-8") + b"\n"):
            if entry.invocation_id == before["invocation_id"]:
                diagnosis.feed(entry, Context(phase="ready", serving=True))
        found = diagnosis.best()
        return (found.code, found.line) if found else ("", "")
