# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback as Ansible drives it: silent without measurements, files with them, and never an exception."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ansible_collections.gpuops.sglang.plugins.callback.sglang_report import CallbackModule

from ..plugin_utils.samples import benchmark, campaign


EVERY_FORMAT = ["json", "csv", "md", "html"]


@pytest.fixture
def callback(tmp_path, monkeypatch):
    plugin = CallbackModule()
    options = {"output_dir": str(tmp_path / "out"), "formats": ["json"], "goal": "throughput", "width": 0, "points": [], "previous_report": None}
    monkeypatch.setattr(plugin, "get_option", options.get)
    monkeypatch.setattr(plugin, "get_option_and_origin", lambda name: (options[name], options.get("origin", "default")))
    said = SimpleNamespace(lines=[], warnings=[], columns=79)
    said.display = lambda text, color=None: said.lines.append(text)
    said.warning = said.warnings.append
    plugin._display = said
    return SimpleNamespace(plugin=plugin, options=options, said=said, out=tmp_path / "out")


def result(data, host="gpu-node-1", **args):
    return SimpleNamespace(result=data, host=SimpleNamespace(get_name=lambda: host), task=SimpleNamespace(args=args))


def end(callback, **custom):
    callback.plugin.v2_playbook_on_stats(SimpleNamespace(custom=custom))


def test_nothing_measured_is_nothing_said(callback):
    callback.plugin.v2_runner_on_ok(result({"changed": False}))
    callback.plugin.v2_runner_on_failed(result({"verdict": "failed", "cause": {"code": "cuda_oom"}}, name="sglang-k26-ep8"))
    end(callback)
    assert (callback.said.lines, callback.said.warnings, callback.out.exists()) == ([], [], False)


def test_all_files_are_written_and_the_path_is_the_last_word(callback):
    callback.options["formats"] = EVERY_FORMAT
    callback.plugin.v2_runner_item_on_ok(result({"benchmark": benchmark("ep8")}))
    end(callback)
    assert sorted(path.name for path in callback.out.iterdir()) == ["report.csv", "report.html", "report.json", "report.md"]
    assert str(callback.out / "report.html") in callback.said.lines[-1]
    assert max(map(len, callback.said.lines[:-1])) <= 79


def test_custom_stats_are_enough(callback):
    end(callback, _run={"sglang_benchmarks": {"k26-ep8": benchmark("ep8")}})
    assert (callback.out / "report.json").exists()


def test_the_report_that_is_replaced_can_be_the_previous_one(callback):
    callback.options["previous_report"] = str(callback.out / "report.json")
    callback.plugin.v2_runner_on_ok(result({"benchmark": benchmark("ep8")}))
    end(callback)
    assert any("cannot be read" in line for line in callback.said.lines)
    callback.plugin.v2_runner_on_ok(result({"benchmark": benchmark("ep8", scale=0.8)}))
    end(callback)
    changes = json.loads((callback.out / "report.json").read_text())["tables"][0]["changes"]
    assert {change["verdict"] for change in changes if change["what"].startswith("tok/s")} == {"worse"}


@pytest.mark.parametrize(
    "data",
    [None, {"benchmark": {"points": [{"concurrency": "many"}]}}, {"benchmark": {"points": [{}], "settings": {"slo": {"ttft": "soon"}}}}],
)
def test_what_cannot_be_read_is_a_warning(callback, data):
    callback.plugin.v2_runner_on_ok(result(data))
    callback.plugin.v2_runner_on_ok(result({"benchmark": benchmark("ep8")}))
    end(callback)
    assert len(callback.said.warnings) == 1
    assert (callback.out / "report.json").exists()


@pytest.mark.parametrize(("origin", "goals", "marked"), [
    ("default", ["latency"], "latency"),
    ("default", ["latency", "latency"], "latency"),
    ("default", ["latency", "balanced"], "throughput"),
    ("default", ["nonsense"], "throughput"),
    ("env: SGLANG_REPORT_GOAL", ["latency"], "throughput"),
])
def test_the_goal_of_the_campaign_is_marked_unless_another_was_chosen(callback, origin, goals, marked):
    callback.options["origin"] = origin
    for number, goal in enumerate(goals):
        callback.plugin.v2_runner_on_ok(result({"ansible_facts": {"sglang_compare_campaign": {**campaign(), "goal": goal}}}, host=f"n{number}"))
    end(callback)
    assert json.loads((callback.out / "report.json").read_text())["goal"] == marked


def test_a_folder_that_cannot_be_made_is_a_warning(callback, tmp_path):
    (tmp_path / "file").write_text("")
    callback.options["output_dir"] = str(tmp_path / "file" / "out")
    callback.plugin.v2_runner_on_ok(result({"benchmark": benchmark("ep8")}))
    end(callback)
    assert len(callback.said.warnings) == 1


def test_a_lost_host_is_told(callback):
    callback.plugin.v2_runner_on_ok(result({"benchmark": benchmark("ep8")}))
    callback.plugin.v2_runner_on_unreachable(result({"unreachable": True}, host="gpu-node-2"))
    end(callback)
    assert any("gpu-node-2 could not be reached" in line for line in callback.said.lines)


def test_no_secret_reaches_screen_or_files(callback):
    callback.options["formats"] = EVERY_FORMAT
    secrets = ("k-5ecret-1", "hf_5ecret2abc")
    leaky = campaign()
    cause = leaky["legs"][4]["cause"]
    cause["line"] = "server_args={'model_path': '/m', 'api_key': 'k-5ecret-1', 'host': '0.0.0.0'}"
    cause["summary"] = "HTTPError: 401 ... Authorization: Bearer k-5ecret-1"
    cause["hint"] = "sglang.launch_server --api-key k-5ecret-1, token hf_5ecret2abc"
    measured = leaky["legs"][0]["benchmark"]
    measured.update(server_info={"api_key": "k-5ecret-1"}, warnings=["launched with --api-key k-5ecret-1"])
    measured["flags"]["api_key"] = "k-5ecret-1"
    callback.plugin.v2_runner_on_ok(result({"ansible_facts": {"sglang_compare_campaign": leaky}}))
    end(callback)
    texts = [*callback.said.lines, *(path.read_text() for path in callback.out.iterdir())]
    assert len(texts) > 4
    assert not [secret for secret in secrets for text in texts if secret in text]
