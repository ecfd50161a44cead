# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns what was seen of a unit, its journal and its answers into the cause that a person is told."""

from __future__ import annotations

import re
import signal

from ansible_collections.gpuops.sglang.plugins.module_utils._cause_table import CAUSES
from ansible_collections.gpuops.sglang.plugins.module_utils._causes import describe, signal_hint
from ansible_collections.gpuops.sglang.plugins.module_utils._exec_steps import EXEC_STEP_HINT, EXEC_STEPS
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Finding
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._signatures import Diagnosis
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_unit import Run, UnitWatch

_STATUS = re.compile(r"status=(\d+)/(\w+)")
_STEP_LINE = (
    r"failed at step",
    r"requested working directory|(?:failed|unable) to (?:locate|execute|set up|determine|load|open|create|drop|change)",
    r"status=2\d\d/",
)
_STEP_PATH = r"\b(?:failed|unable) to .{0,80}[ ']/"  # systemd's word on the path that was in the way
_END_LINE = (r"main process exited", r"control process exited", r"failed with result", r"deactivated successfully")
_GENERIC = ("scheduler_crashed", "exited", "killed_unknown")
# What a restart cannot heal: such an end is told at once, however many restarts the wait would allow.
HOPELESS = (
    "bad_flags",
    "missing_cuda_lib",
    "no_kernel_for_arch",
    "driver_too_old",
    "driver_mismatch",
    "driver_missing",
    "model_auth_missing",
    "model_auth_denied",
)
_UNREADABLE_RESULTS = ("success", "exit-code", "signal", "core-dump", "")


def make(code: str, words: dict[str, str], line: str = "", rank: str = "", hint: str = "", seen: int = 1, time_us: int = 0) -> Cause:
    if code not in CAUSES:
        return Cause(code, "A line matched an error pattern given with the task.", line, rank, hint or "See the line.", seen, time_us)
    summary, usual_hint = describe(code, words)
    return Cause(code, summary, line, rank, hint or usual_hint, seen, time_us)


_CUT_OFF = (
    "The line of the error itself did not come: read on below the line in the journal; if journald dropped lines, set LogRateLimitIntervalSec=0 in the "
    "unit and start again."
)


def of_finding(found: Finding, words: dict[str, str]) -> Cause:
    hint = found.hint or (_CUT_OFF if found.pending else "")
    return make(found.code, {**words, **found.words}, found.line, found.rank, hint, found.seen, found.time_us)


def of_end(diagnosis: Diagnosis, watch: UnitWatch, run: Run, run_key: str, words: dict[str, str], last_line: str) -> Cause:
    """Why a run of the unit ended; ``last_line`` is the last that it wrote itself."""
    found = diagnosis.best() if len(watch.runs) > 1 and run is watch.run else diagnosis.best(run_key, run.ended)
    strong = found is not None and found.strong and (run_key in found.runs or run is not watch.run)
    if run.result == "start-limit-hit" or watch.kept_from_restarting() or watch.line(r"start request repeated too quickly")["text"]:
        return _start_limit(diagnosis, watch, words)
    step = _exec_step(watch, run)
    if step is not None:
        return _unit_exec(watch, step, words)
    if run.result == "resources" and not strong:
        item = watch.line(r"failed to", r"failed with result")
        return make("unit_exec", {**words, "step": "", "step_hint": EXEC_STEP_HINT}, item["text"], time_us=item["time_us"])
    if run.result == "exec-condition" and not strong:
        return of_never_started(watch, words)
    told = watch.line(r"on client request")
    if told["text"] and run.exit_code == "killed" and not strong:
        return make("stopped", words, told["text"], time_us=told["time_us"])
    if run.result == "watchdog" and not strong:
        item = watch.line(r"watchdog timeout", r"failed with result", *_END_LINE)
        hint = "Set WatchdogSec=0 in the unit (a drop-in may have set it): SGLang sends systemd no signs of life."
        cause = make("watchdog", words, item["text"], hint=hint, time_us=item["time_us"])
        cause.summary = "systemd's watchdog ended the server because it sent no sign of life."
        return cause
    if run.result == "oom-kill" and (not strong or found.code in _GENERIC):
        item = watch.line(r"oom", r"failed with result")
        return make("host_oom", words, item["text"], time_us=item["time_us"])
    stopped_first = run.stop_asked is not None and (found is None or found.at >= run.stop_asked or not strong)
    over = watch.line(r"reached runtime time limit")
    if over["text"] and not (strong and found.proof):
        hint = "Take RuntimeMaxSec= out of the unit (systemctl cat shows the drop-in that sets it), then start it again."
        how = " because its RuntimeMaxSec= was over"
        return make("exited", {**words, "how": how}, over["text"], hint=hint, time_us=over["time_us"])
    if run.result == "timeout" and (not strong or stopped_first):
        return _timed_out(watch, run, words)
    if watch.stopped_by_somebody(run) and (not strong or stopped_first):
        item = watch.line(r"stopp(?:ing|ed) ", *_END_LINE)
        return make("stopped", words, run.stop_line or item["text"], time_us=0 if run.stop_line else item["time_us"])
    if stopped_first and run.exit_code == "killed":
        item = watch.line(r"killing process", r"stopp(?:ing|ed) ", *_END_LINE)
        return make("stopped", words, item["text"], time_us=item["time_us"])
    if found is not None and found.code != "exited":
        return of_finding(found, words)
    return _unexplained(watch, run, found, words, last_line)


def of_restart(watch: UnitWatch, words: dict[str, str]) -> Cause:
    item = next((item for item in watch.lines if re.search(r"stopping ", item["text"], re.IGNORECASE)), watch.line(r"start(?:ing|ed) "))
    return make("stopped", words, item["text"], time_us=item["time_us"])


def of_never_started(watch: UnitWatch, words: dict[str, str]) -> Cause:
    item = watch.why_not_started()
    if item["text"]:
        hint = "Mend what the line names (a mount, another unit, a Condition of the unit); systemctl status and systemctl list-dependencies --failed show it."
        return make("unit_exec", {**words, "step": ": it did not even try", "step_hint": hint}, item["text"], time_us=item["time_us"])
    cause = make("stopped", words, hint="Start it (systemctl start), or see what its start job waits for (systemctl list-jobs).")
    cause.summary = "The unit does not run and nothing starts it."
    return cause


def of_crash_loop(diagnosis: Diagnosis, watch: UnitWatch, words: dict[str, str], last_line: str = "") -> Cause:
    found = diagnosis.best()
    count = watch.restarts
    told = {
        **words,
        "restarts": f" ({count} restart{'s' if count != 1 else ''} during the wait)",
        "inner_hint": "Read the lines before each end in the unit's journal.",
    }
    if found is None:
        if last_line and any(re.search(_END_LINE[1], item["text"], re.IGNORECASE) for item in watch.lines):
            told["inner_hint"] = "A command beside the server fails (ExecStartPre= or ExecStartPost=): mend what the line says, or that step of the unit."
            return make("crash_loop", told, last_line, seen=count)
        return make("crash_loop", told, watch.line(*_END_LINE)["text"] or _any_end_line(watch), seen=count)
    inner = of_finding(found, words) if found.code in CAUSES and found.code != "exited" else None
    seen = max(len(found.runs), 1)
    told["inner"] = f"The same error was seen {seen} times. " if seen > 1 else ""
    if inner is not None:
        told["inner_hint"] = f"{inner.summary} {inner.hint}"
    return make("crash_loop", told, found.line, found.rank, seen=seen, time_us=found.time_us)


def of_zombie(found: Finding | None, words: dict[str, str]) -> Cause:
    """The HTTP server lives on, the engine is gone: the first error of the rank that died."""
    if found is None:
        return make("engine_dead", words)
    inner = of_finding(found, words)
    hint = "" if found.code in _GENERIC else f"Mend the first error of the rank that died, then restart the unit: {inner.summary} {inner.hint}"
    return make("engine_dead", words, found.line, found.rank, hint, found.seen, found.time_us)


def _start_limit(diagnosis: Diagnosis, watch: UnitWatch, words: dict[str, str]) -> Cause:
    found = diagnosis.best()
    if found is None:
        item = watch.line(r"start request repeated|start-limit")
        return make("start_limit", words, item["text"], time_us=item["time_us"])
    inner = of_finding(found, words)
    told = {**words, "inner": f"; the error before: {inner.summary.rstrip('.')}" if found.code != "exited" else ""}
    return make("start_limit", told, found.line, found.rank, seen=found.seen, time_us=found.time_us)


def _exec_step(watch: UnitWatch, run: Run) -> tuple[int, str] | None:
    """The step before the program ran that failed, as systemd numbers and names it."""
    if run.exit_code == "exited" and run.exit_status is not None and 200 <= run.exit_status <= 245:
        name = EXEC_STEPS.get(run.exit_status, (str(run.exit_status), ""))[0]
        return run.exit_status, name
    told = _STATUS.search(watch.line(r"process exited, code=exited, status=2\d\d/")["text"])
    if told and 200 <= int(told.group(1)) <= 245:
        return int(told.group(1)), told.group(2)
    return None


def _unit_exec(watch: UnitWatch, step: tuple[int, str], words: dict[str, str]) -> Cause:
    number, name = step
    item, about = watch.line(*_STEP_LINE), watch.line(_STEP_PATH)["text"].partition(": ")[2]
    line = item["text"] if not about or about in item["text"] else f"{item['text']}; before it: {about}"
    hint = EXEC_STEPS.get(number, ("", ""))[1] or EXEC_STEP_HINT
    told = {**words, "step": f": the step {name} failed before the program ran (status={number}/{name})", "step_hint": hint}
    return make("unit_exec", told, line, time_us=item["time_us"])


def _timed_out(watch: UnitWatch, run: Run, words: dict[str, str]) -> Cause:
    item = watch.line(r"start\S* operation timed out|start-pre|start-post|start timed out")
    silent = run.was_starting and not run.was_active and run.stop_asked is None and not watch.stop_timed_out
    if item["text"] or silent:
        return make(
            "exited",
            {**words, "how": " because systemd's start limit ran out", "why": ""},
            item["text"] or watch.line(*_END_LINE)["text"],
            hint="Raise TimeoutStartSec= or see what ExecStartPre= waits for.",
        )
    item = watch.line(r"timed out", r"killing process", r"failed with result")
    return make("stop_timeout", words, item["text"], time_us=item["time_us"])


def _signal_name(status: int | None) -> str:
    try:
        return signal.Signals(status or 0).name
    except ValueError:
        return f"signal {status}"


def _any_end_line(watch: UnitWatch) -> str:
    return next((item["text"] for item in watch.lines if re.search(_END_LINE[0], item["text"], re.IGNORECASE)), "")


# What shells, interpreters and launchers say, as distinct from the server.
_OF_A_SHELL = re.compile(
    r"^(?:\S+: line \d+: |exec: |\S*\b(?:ba|da)?sh: |env: |\S*python[\d.]*: (?:can't open file|No module named)|docker: |podman: |Error: )"
)
# What an exit status alone may mean, as no more than a hint.
_STATUS_HINTS = {
    2: "Status 2 is how the server's argument parser ends: look for its error line, and check the flags against this version.",
    3: "Status 3 is how the web server ends when it cannot bind its port: see who owns it (ss -ltnp).",
}


def _unexplained(watch: UnitWatch, run: Run, found: Finding | None, words: dict[str, str], last_line: str) -> Cause:
    control = watch.line(r"(?:control|main) process exited")
    if "ontrol process" in control["text"] and found is None:
        cause = make("exited", {**words, "how": "", "why": ""}, last_line or control["text"], hint="Mend what the line says, or that step of the unit.")
        cause.summary = "A command beside the server (ExecStartPre= or ExecStartPost=) failed, so systemd gave the start up."
        return cause
    killed = run.exit_code in ("killed", "dumped")
    item = watch.line(*_END_LINE)
    if killed and found is None:
        how = f" ({'dumped core, ' if run.exit_code == 'dumped' else ''}{_signal_name(run.exit_status)})"
        hint = signal_hint(run.exit_status or 0) if run.exit_status != signal.SIGKILL else ""
        return make("killed_unknown", {**words, "how": how}, item["text"], hint=hint, time_us=item["time_us"])
    how = ""
    if run.exit_code == "exited":
        how = f" (exit status {run.exit_status or 0})"
    elif killed:
        how = f" ({_signal_name(run.exit_status)})"
    if run.result not in _UNREADABLE_RESULTS:
        how += f", for systemd the result is {run.result}"
    journal = words.get("journal", "the journal")
    silent = f" and no line of {journal} is a known cause: its last one is quoted" if last_line else f" and no line of {journal} says why"
    told = {**words, "how": how, "why": " with an error" if found else silent}
    if found is None:
        hint = _STATUS_HINTS.get(run.exit_status or 0, "") if run.exit_code == "exited" else ""
        if _OF_A_SHELL.search(last_line):
            hint = "Mend the command in ExecStart=, or the script that it runs: the line is not the server's own."
        return make("exited", told, last_line or item["text"], hint=hint, time_us=0 if last_line else item["time_us"])
    return make(
        "exited",
        {**told, **found.words},
        found.line,
        found.rank,
        found.hint or "Mend the error in the line; the traceback stands above it in the journal.",
        found.seen,
        found.time_us,
    )
