# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of sglang_benchmark: options in, result out, here or in a process that goes on by itself."""

from __future__ import annotations

import os
import platform
import secrets
import socket
import ssl
import sys
import time
import traceback
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox, leave_behind
from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands, unit_name

from . import http1
from .connection import resolve
from .control import Control, Trouble
from .node import Node
from .precheck import PATHS
from .prompts import Workload, read_lines
from .store import Store, key_of
from .sweep import Settings, Stopped, Sweep, Tools
from .tally import Slo
from .workers import LoadFailed

SCHEMA = 1
CLIENT = "1.0.0"
SAME = (
    "concurrency",
    "input_len",
    "output_len",
    "num_prompts",
    "duration",
    "request_rate",
    "warmup_requests",
    "seed",
    "flush_cache",
    "slo",
    "endpoint",
    "prompts",
    "prompts_path",
    "prefix_len",
    "prefix_groups",
    "range_ratio",
    "extra_body",
    "max_repeats",
    "precision",
)
WAIT_FOR_OTHER = 300.0
WRITE_PAUSE = 1.0


def deployment_of(params: dict[str, Any]) -> str:
    """The deployment's name: given, or from the unit, or from where it answers."""
    if params["deployment"]:
        return params["deployment"]
    if params["name"]:
        name = unit_name(params["name"])[: -len(".service")]
        return name[len("sglang-") :] if name.startswith("sglang-") else name
    return "%s:%d" % (params["host"], params["port"])


class Job:
    """One benchmark."""

    def __init__(self, params: dict[str, Any], session: Any, tell: Callable[[dict[str, Any]], bool] = lambda progress: True) -> None:
        self.params, self.tell = params, tell
        secret = tuple(one for one in (params["api_key"], params["admin_api_key"]) if one)
        self.clean = Redactor(secret)
        self.commands = Commands()
        self.control = Control(
            session, params["scheme"], params["host"], params["port"], params["api_key"] or "", params["admin_api_key"] or "", params["ca_path"] or ""
        )
        self.node = Node(self.commands, params["name"] or "", params["gpus"] or [], self.control, secret)
        self.settings = self._settings()
        kept = {name: params[name] for name in SAME}
        self.asked = dict(kept, prompts_path=os.path.basename(params["prompts_path"] or ""))
        # One valid point more or less in the list must not lose those that are done.
        self.key = key_of(dict(kept, concurrency=None, model=params["model"], digest=params["deployment_digest"], start_at=None))

    def _settings(self) -> Settings:
        params = self.params
        limits = {name: value / 1e3 for name, value in (params["slo"] or {}).items() if value is not None}
        names = (
            "concurrency",
            "input_len",
            "num_prompts",
            "duration",
            "request_rate",
            "warmup_requests",
            "flush_cache",
            "request_timeout",
            "max_repeats",
            "precision",
            "processes",
            "start_at",
            "histograms",
        )
        full = bool((params["extra_body"] or {}).get("ignore_eos", True))
        return Settings(slo=Slo(**limits), full_length=full, **{name: params[name] for name in names})

    def workload(self) -> Workload:
        """What the requests are made of."""
        params, control = self.params, self.control
        made = Workload(
            params["model"] or "",
            params["endpoint"],
            params["output_len"],
            params["input_len"],
            0,
            params["prefix_groups"],
            params["range_ratio"],
            params["seed"],
            secrets.token_hex(8),
            params["extra_body"] or {},
        )
        made.request_start = http1.post(PATHS[params["endpoint"]], control.netloc, control.headers())
        if params["prompts"] == "file":
            try:
                with open(params["prompts_path"], encoding="utf-8") as handle:
                    made.lines = read_lines(handle)
            except (OSError, ValueError) as error:
                raise Trouble(
                    "client_setup",
                    "the prompts file %s cannot be used: %s" % (params["prompts_path"], error),
                    "Give a JSON lines file on the host that makes the load.",
                ) from error
        return made

    def _target(self) -> Any:
        host = self.control.netloc.rpartition(":")[0].strip("[]")
        tls = None
        try:
            if self.params["scheme"] == "https":
                tls = ssl.create_default_context(cafile=self.params["ca_path"] or None)
            return resolve(host, self.params["port"], tls)
        except OSError as error:
            raise Trouble("client_setup", "no connection to %s can be prepared: %s" % (self.control.base, error)) from error

    def _enough_files(self) -> None:
        """Each stream is a file descriptor; raise the limit as far as this process may."""
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = max(self.params["concurrency"]) + 64
        if soft >= wanted:
            return
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise Trouble(
                "client_setup",
                "a concurrency of %d needs %d open files, and the limit here is %d" % (max(self.params["concurrency"]), wanted, hard),
                "Raise LimitNOFILE or nofile for the user that runs the benchmark.",
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def base(self) -> dict[str, Any]:
        """The result before anything was measured."""
        params = self.params
        return {
            "schema": SCHEMA,
            "deployment": deployment_of(params),
            "strategy": params["strategy"] or "",
            "unit": self.node.unit_wanted,
            "campaign": params["campaign"] or "",
            "host": params["inventory_host"] or socket.gethostname(),
            "client": socket.gethostname(),
            "endpoint": self.control.base + PATHS[params["endpoint"]],
            "model": params["model"] or "",
            "max_model_len": None,
            "versions": {"sglang": "", "client": CLIENT, "python": platform.python_version()},
            "flags": {},
            "gpus": None,
            "load_seconds": params["load_seconds"],
            "settings": self.asked,
            "started_at": round(time.time(), 3),
            "ended_at": None,
            "points": [],
            "status": "failed",
            "cause": None,
            "best": {},
            "advice": [],
            "warnings": [],
        }

    def run(self, only_check: bool = False) -> dict[str, Any]:
        """All of it; what went wrong stands in ``cause``."""
        made = self.base()
        store = None
        try:
            self.node.require_unit()
            if made["load_seconds"] is None:
                made["load_seconds"] = self.node.load_seconds()
            self._enough_files()
            workload, target = self.workload(), self._target()
            made["gpus"] = self.node.hardware()
            tools = Tools(self.control, target, self.node.unit, self.node.look, self.tell, self.node.blame)
            store = Store("" if only_check else self.params["state_dir"] or "", self.params["campaign"] or "", made["deployment"], self.key)
            if not only_check:
                self._take(store)
            sweep = Sweep(self.settings, workload, tools, store)
            self._ground(made, sweep, workload)
            if not only_check:
                sweep.points = []
                made["points"] = sweep.run()
                made.update(sweep.verdicts(made["gpus"]))
            else:
                made["status"] = "checked"
        except Trouble as trouble:
            made["cause"] = trouble.cause()
        except LoadFailed as error:
            made["cause"] = {
                "code": "client_setup",
                "summary": "the load generator broke: %s" % str(error).strip().splitlines()[-1],
                "hint": str(error)[-1500:],
            }
        finally:
            if store is not None:
                store.release()
        if store is not None and store.trouble:
            made["warnings"].append(store.trouble)
        made["ended_at"] = round(time.time(), 3)
        return self.clean.clean_all(made)

    def _take(self, store: Store) -> None:
        deadline = time.monotonic() + WAIT_FOR_OTHER
        while not store.take():
            if time.monotonic() > deadline:
                raise Trouble(
                    "client_setup",
                    "another benchmark of this deployment runs on this host",
                    "Wait for it to end; it stops by itself when nobody asks for it any more.",
                )
            if not self.tell({"phase": "waits for an earlier run of this benchmark to end"}):
                raise Stopped()
            time.sleep(0.5)

    def _ground(self, made: dict[str, Any], sweep: Sweep, workload: Workload) -> None:
        if self.params["prefix_len"]:
            self._check_prefix()
        ground = sweep.check()
        if self.params["prefix_len"]:
            # Same words a token as the whole prompt.
            workload.prefix_words = round(workload.words * self.params["prefix_len"] / self.params["input_len"])
            workload.words -= workload.prefix_words
        if self.params["flush_cache"]:
            trouble = self.control.flush_cache()
            if "HTTP 401" in trouble or "HTTP 403" in trouble:
                raise Trouble("auth", "flush_cache is refused: %s" % trouble, "Set admin_api_key to the server's admin key.")
        made.update(model=ground.model, max_model_len=ground.max_model_len, flags=ground.flags, warnings=made["warnings"] + ground.warnings)
        made["versions"]["sglang"] = ground.version

    def _check_prefix(self) -> None:
        if self.params["prefix_len"] >= self.params["input_len"]:
            raise Trouble("client_setup", "prefix_len %d leaves nothing of input_len %d" % (self.params["prefix_len"], self.params["input_len"]))


def go_on_alone(make: Callable[[Callable[[dict[str, Any]], bool]], Job], mailbox: Mailbox, idle: float) -> None:
    """Leave a process behind that measures, keeps the mailbox up to date, and stops when nobody has asked for ``idle`` seconds."""
    leave_behind(mailbox, "sglang-load", lambda: _work(make, mailbox, idle))


def _work(make: Callable[..., Job], mailbox: Mailbox, idle: float) -> None:
    reporter = Reporter(mailbox, idle)
    try:
        job = make(reporter)
        result = job.run()
    except Stopped:
        mailbox.remove()
        return
    except Exception:  # whatever it was, the one who asks must hear of it
        result = {"broken": traceback.format_exc(limit=-4)}
    mailbox.write("result.json", result)
    mailbox.ring()


class Reporter:
    """Writes the progress into the mailbox; says no when nobody has asked for a long time."""

    def __init__(self, mailbox: Mailbox, idle: float) -> None:
        self.mailbox, self.idle = mailbox, idle
        self.began = time.monotonic()
        self.stamp, self.asked_at, self.written_at = 0, self.began, 0.0

    def __call__(self, progress: dict[str, Any]) -> bool:
        now = time.monotonic()
        stamp = self.mailbox.asked()
        if stamp != self.stamp:
            self.stamp, self.asked_at = stamp, now
        if not stamp or now - self.asked_at > self.idle:
            return False
        if now - self.written_at >= WRITE_PAUSE:
            self.written_at = now
            self.mailbox.write("progress.json", dict(progress, pid=os.getpid(), since=round(now - self.began, 1), python=sys.version.split()[0]))
        return True
