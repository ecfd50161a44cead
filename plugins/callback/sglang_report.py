# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gathers what a play measured and, at its end, prints one table and writes the report files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: sglang_report
type: notification
short_description: Table and report of measured SGLang strategies
version_added: 1.0.0
author:
  - gpuops.sglang contributors (@gpuops)
description:
  - Gathers the results of M(gpuops.sglang.sglang_benchmark), the causes of failed starts and the load times of every play,
    prints one table after the recap and writes a report as JSON, CSV, Markdown and HTML.
  - Prints and writes nothing when nothing was measured, and never makes a play fail.
  - The format of the files is described in C(docs/report.md).
requirements:
  - to be named in C(callbacks_enabled)
  - matplotlib on the controller, for the plots of the HTML page only
options:
  output_dir:
    description: Folder of the report files, made when it is missing; relative to the folder the play is started from.
    type: path
    default: sglang-report
    env:
      - name: SGLANG_REPORT_DIR
    ini:
      - section: callback_sglang_report
        key: output_dir
  formats:
    description: The files to write, any of V(json), V(csv), V(md), V(html). An empty list writes none.
    type: list
    elements: str
    default: [json, csv, md, html]
    env:
      - name: SGLANG_REPORT_FORMATS
    ini:
      - section: callback_sglang_report
        key: formats
  previous_report:
    description:
      - A C(report.json) of an earlier run. Figures of the same hardware, model and workload are compared and regressions are flagged.
      - It is read before anything is written, so it may be the file in O(output_dir) that this run replaces.
    type: path
    env:
      - name: SGLANG_REPORT_PREVIOUS
    ini:
      - section: callback_sglang_report
        key: previous_report
  goal:
    description:
      - What the winner is chosen for; all goals are shown, this one is marked.
      - Where it is not set, the report of a campaign marks the goal the campaign decided for.
    type: str
    choices: [throughput, latency, slo, balanced]
    default: throughput
    env:
      - name: SGLANG_REPORT_GOAL
    ini:
      - section: callback_sglang_report
        key: goal
  width:
    description: Columns of the printed table. V(0) takes the terminal's, and 79 where the output is no terminal.
    type: int
    default: 0
    env:
      - name: SGLANG_REPORT_WIDTH
    ini:
      - section: callback_sglang_report
        key: width
  points:
    description: Concurrencies whose latencies get a column. By default the lowest and the highest that all strategies have.
    type: list
    elements: int
    default: []
    env:
      - name: SGLANG_REPORT_POINTS
    ini:
      - section: callback_sglang_report
        key: points
"""

EXAMPLES = r"""
# ansible.cfg
# [defaults]
# callbacks_enabled = gpuops.sglang.sglang_report
#
# [callback_sglang_report]
# output_dir = reports/latest
# previous_report = reports/latest/report.json
# goal = latency
"""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

from ansible.plugins.callback import CallbackBase
from ansible.utils.color import stringc

from ansible_collections.gpuops.sglang.plugins.module_utils._redact import Redactor
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report import as_csv, as_html, as_json, as_markdown, plots, previous, table, tables
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.gather import Collector

WRITERS = {"json": as_json.dumps, "csv": as_csv.dumps, "md": as_markdown.dumps, "html": as_html.dumps}
COLOURS = {"title": "bright blue", "best": "bright green", "bad": "red", "warn": "yellow", "dim": "dark gray"}
NARROW = 79
NARROWEST = 60
WIDEST = 200


class CallbackModule(CallbackBase):
    """Only listens; whatever goes wrong in here is a warning."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "gpuops.sglang.sglang_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._collector = Collector(Redactor().clean)

    def v2_runner_on_ok(self, result):
        self._see(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._see(result, failed=True)

    def v2_runner_item_on_ok(self, result):
        self._see(result)

    def v2_runner_item_on_failed(self, result):
        self._see(result, failed=True)

    def v2_runner_on_unreachable(self, result):
        self._collector.unreachable(result.host.get_name())

    def v2_playbook_on_stats(self, stats):
        try:
            self._report(stats)
        except Exception as error:
            self._display.warning(f"sglang_report: no report, since {type(error).__name__}: {error}")

    def _see(self, result, failed=False):
        try:
            data = result.result
            invocation = data.get("invocation")
            args = invocation.get("module_args") if isinstance(invocation, dict) else None
            self._collector.see(result.host.get_name(), data, args or result.task.args, failed)
        except Exception as error:
            self._display.warning(f"sglang_report: a result was passed over, since {type(error).__name__}: {error}")

    def _report(self, stats):
        for host, custom in (stats.custom or {}).items():
            self._collector.see_stats("" if host == "_run" else host, custom)
        rows = self._collector.rows()
        if not rows:
            return
        generated = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        report = tables.build(rows, generated, self._goal())
        report.notes += self._collector.notes()
        self._compare(report)
        self._print(report)
        self._write(report)

    def _goal(self):
        """The option where somebody set it, else what the campaign decided for."""
        chosen, origin = self.get_option_and_origin("goal")
        return (self._collector.goal() if origin == "default" else "") or chosen

    def _compare(self, report):
        path = self.get_option("previous_report")
        if not path:
            return
        try:
            past = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            report.notes.append(f"previous report {path} cannot be read: {error}")
            return
        previous.compare(report, past, str(path))

    def _print(self, report):
        terminal = sys.stdout.isatty()
        width = self.get_option("width") or (min(self._display.columns, WIDEST) if terminal else NARROW)
        self._display.display("")
        for line in table.draw(report, max(width, NARROWEST), self.get_option("points")):
            spans = [stringc(text, COLOURS[style]) if terminal and style else text for text, style in line]
            self._display.display("".join(spans).rstrip())

    def _write(self, report):
        formats = [name for name in self.get_option("formats") if name]
        unknown = [name for name in formats if name not in WRITERS]
        if unknown:
            self._display.warning(f"sglang_report: no such format: {', '.join(unknown)}; there are {', '.join(WRITERS)}")
        wanted = [name for name in formats if name in WRITERS]
        if not wanted:
            return
        folder = Path(self.get_option("output_dir"))
        folder.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            folder.joinpath(f"report.{name}").write_text(WRITERS[name](report), encoding="utf-8")
        self._display.display(f"\nreport   {folder / ('report.html' if 'html' in wanted else f'report.{wanted[0]}')}")
        if "html" in wanted and not plots.available():
            self._display.display(f"note     {plots.MISSING}")
