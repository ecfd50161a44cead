# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names the exception that a traceback ends with: by a signature, by what the traceback went through, or as one that nobody knows."""

from __future__ import annotations

import re
from dataclasses import replace

from ansible_collections.gpuops.sglang.plugins.module_utils._causes import names_setting
from ansible_collections.gpuops.sglang.plugins.module_utils._matching import Finding, Line, finding, match, shortened
from ansible_collections.gpuops.sglang.plugins.module_utils._tracebacks import Traceback

_FLAG = re.compile(r"--[a-z]")
_CONFIG_HINT = "The model's own config.json does not suit this version: deploy a version that knows this model, or mend that file."
_LOST_ANOTHER = (
    "This process only lost the connection to another one, which died without a word that could be read: look at the core dump (coredumpctl), the kernel "
    "log (journalctl -k) and the last lines of the other ranks."
)
_PROXY = re.compile(
    r"Response \[(?:30[12378]|403|407|502|504|511)\]|Response \[503\].{0,300}<(?:html|!doctype)|proxy|squid|tunnel connection failed", re.IGNORECASE
)
# Codes that a failed first request of the server itself may look like; the true cause then is the request.
_LOOKS_LIKE_WARMUP = ("http_proxy", "hub_unreachable", "model_auth_denied", "model_auth_missing", "model_not_found", "no_permission")
_ARGUMENT_KINDS = ("AssertionError", "ValueError", "NotImplementedError")  # of a rank, when the message names a setting
_ARGUMENT_FRAMES = ("AssertionError", "ValueError", "NotImplementedError", "RuntimeError")  # raised where arguments are read
_ARGUMENT_ERRORS = ("ValueError", "NotImplementedError")
_NAMES_AN_ARGUMENT = re.compile(r"--[a-z]|\b[a-z]+(?:_[a-z0-9]+)+\b|\bargument\b")


def named(traceback: Traceback, line: Line, nodes: int, capability: str) -> Finding:
    """What the last line of a traceback says; harmless tracebacks are not asked about."""
    proven = traceback.head in ("scheduler", "warmup")
    line = replace(line, rank="" if traceback.mixed else traceback.rank or line.rank)
    if traceback.asserted and line.body.strip(": ") == "AssertionError":
        told = f"AssertionError: {traceback.asserted}"  # without a text of its own, its source is all it says
        line = replace(line, entry=replace(line.entry, text=line.entry.text.replace(line.body, told)), text=line.text.replace(line.body, told), body=told)
    found = match(line, nodes, capability)
    if traceback.head == "warmup" and (found is None or found.kind in ("weak", "wrapper", "echo") or found.code in _LOOKS_LIKE_WARMUP):
        found = finding("http_proxy" if _PROXY.search(line.text) else "warmup_failed", line)
    elif found is None:
        of_arguments = (traceback.place == "arguments" or traceback.parses) and not (proven or line.rank)
        of_a_part = traceback.place == "library" or bool(traceback.asserted) and not of_arguments
        found = unknown(line, proven or of_a_part, of_arguments, traceback.place in ("weights", "python"))
        if not proven and found.code == "scheduler_crashed":
            found.code, found.kind = "exited", "plain"
    elif found.code == "exited" and proven:
        found.code, found.kind = "scheduler_crashed", "fatal"
    elif found.kind in ("echo", "doom"):
        found.code, found.kind = "scheduler_crashed", "hearsay" if found.kind == "echo" else "weak"
        found.hint = found.hint or ("" if found.words.get("exit") else _LOST_ANOTHER)
    of_the_model = traceback.place == "config" or "hf_config" in line.body
    if of_the_model and found.code in ("bad_flags", "bad_sizes", "exited") and not (_FLAG.search(line.body) or line.body.startswith(("OSError", "File"))):
        found.code, found.hint = found.code if found.code == "bad_sizes" else "unsupported_model", found.hint or _CONFIG_HINT
    found.order = traceback.order
    found.time_us = traceback.time_us or found.time_us
    found.proof = found.proof or proven
    found.shaped = True
    if traceback.head == "thread":
        found.proof, found.kind = False, "weak"
    return found


def unknown(line: Line, proven: bool = False, of_arguments: bool = False, elsewhere: bool = False) -> Finding:
    """An exception of no known signature: of a rank, of the argument rules, or of anything else."""
    name, _colon, message = line.body.partition(":")
    if proven and name in _ARGUMENT_KINDS and names_setting(message):
        found = finding("bad_flags", line)
        found.words["flag"] = f": {shortened(message)}"
        return found
    if proven:
        return finding("scheduler_crashed", line)
    if not message.strip() and name.endswith("ImportError"):
        found = finding("exited", line, "wrapper")
        found.yields_to = ["missing_cuda_lib", "no_kernel_for_arch", "driver_too_old"]
        return found
    kind = name.rpartition(".")[2]
    like_one = not elsewhere and (kind == "AssertionError" or kind in _ARGUMENT_ERRORS and _NAMES_AN_ARGUMENT.search(message))
    read_there = of_arguments and (kind in _ARGUMENT_FRAMES or kind == "TypeError" and "must be" in message)
    if read_there or like_one and line.context.phase == "process" and not line.rank:
        found = finding("bad_flags", line, "plain")
        found.words["flag"] = f": {shortened(message)}"
        return found
    return finding("exited", line, "plain")
