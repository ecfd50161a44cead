# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles make of settings that come as words, by `-e name=value` or from an INI inventory, and of records of what served before."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.gpuops.sglang.plugins.filter.campaign_returning import campaign_returning

ROLES = Path(__file__).resolve().parents[3] / "roles"


def settings_of(role: str, given: dict) -> dict:
    """The variables of a role as its tasks see them."""
    loader, found = DataLoader(), {}
    for part in ("defaults", "vars"):
        found.update(loader.load_from_file(str(ROLES / role / part / "main.yml"), trusted_as_template=True))
    return {"inventory_hostname": "n1", "ansible_play_hosts_all": ["n1"], "ansible_facts": {}, "omit": "left out", **found, **given}


def value(role: str, expression: str, **given):
    return Templar(loader=DataLoader(), variables=settings_of(role, given)).template(trust_as_template("{{ %s }}" % expression))


def option(role: str, tasks: str, name: str, **given):
    """What a module is given for an option that a task sets by a template."""
    line = next(line for line in (ROLES / role / "tasks" / tasks).read_text(encoding="utf-8").splitlines() if line.strip().startswith(f"{name}: "))
    return value(role, line.partition('"{{')[2].rpartition("}}")[0], **given)


@pytest.mark.parametrize("name", ["num_prompts", "duration", "request_rate"])
@pytest.mark.parametrize("nothing", [0, "0"])
def test_a_nought_that_is_a_word_is_a_nought(name, nothing):
    assert option("sglang_benchmark", "main.yml", name, **{f"sglang_benchmark_{name}": nothing}) == "left out"
    assert float(option("sglang_benchmark", "main.yml", name, **{f"sglang_benchmark_{name}": "12"})) == 12


@pytest.mark.parametrize(
    "given,asked",
    [
        ({}, "127.0.0.1"),
        ({"sglang_server_host": "::"}, "::1"),
        ({"sglang_server_host": "10.0.0.5"}, "10.0.0.5"),
        ({"sglang_server_host": "0.0.0.0", "sglang_server_probe_host": "llm.example.com"}, "llm.example.com"),
        ({"sglang_benchmark_from": "controller", "ansible_host": "192.0.2.7"}, "192.0.2.7"),
    ],
)
def test_the_server_is_asked_where_its_start_was_probed(given, asked):
    assert value("sglang_benchmark", "sglang_benchmark_host", **given) == asked


def test_lists_may_come_as_words():
    assert value("sglang_benchmark", "_sglang_benchmark_points | map('int')", sglang_benchmark_concurrency="1,8") == [1, 8]
    assert value("sglang_benchmark", "_sglang_benchmark_clients", sglang_benchmark_clients="c1,c2") == ["c1", "c2"]
    assert value("sglang_compare", "_sglang_compare_strategies", sglang_compare_strategies="tp8, ep8") == ["tp8", "ep8"]


@pytest.mark.parametrize("on_node,copied", [("false", True), ("true", False), (False, True), (True, False)])
def test_a_wheelhouse_is_copied_unless_it_is_on_the_node(on_node, copied):
    given = {"sglang_runtime_wheelhouse": "/wheels", "sglang_runtime_wheelhouse_on_node": on_node}
    assert value("sglang_runtime", "_sglang_runtime_wheels_copied", **given) is copied


def test_other_requirements_than_were_installed_are_seen():
    def differ(installed: str, **given) -> bool:
        check = {"installed": {"requirements": installed}}
        return value("sglang_runtime", "_sglang_runtime_requirements_differ", __sglang_runtime_check=check, **given)

    extra = {"sglang_runtime_extra_packages": ["flashinfer-python"]}
    stamp = value("sglang_runtime", "_sglang_runtime_stamp", **extra)
    assert not differ("")
    assert differ("", **extra) and differ("", sglang_runtime_pip_arguments="--pre")
    assert not differ(stamp, **extra)
    assert differ(stamp) and differ(stamp, sglang_runtime_extra_packages=["other"])


POINTS = [
    {"status": "valid", "concurrency": 1, "causes": []},
    {"status": "invalid", "concurrency": 8, "causes": [{"code": "lost_requests", "summary": "3 of 9"}]},
]


def test_what_several_clients_came_to_is_told():
    given = {"ansible_facts": {"sglang_benchmarks": {"k26-ep8": {"points": POINTS}}}, "sglang_benchmark_deployment": "k26-ep8"}
    assert value("sglang_benchmark", "_sglang_benchmark_first_bad", **given) == "Concurrency 8 is invalid: lost_requests: 3 of 9"
    assert value("sglang_benchmark", "_sglang_benchmark_bad | length", **given) == 1


def record(name: str, port: int, gpus: str, **more) -> dict:
    strategy = name.rpartition("-")[2]
    return {
        "unit": f"sglang-{name}.service", "deployment": name, "strategy": strategy, "port": port, "gpus": gpus.split(),
        "model_path": "/m", "served_model_name": "kimi", **more,
    }


OWN, LEFT, RIGHT = record("k26-ep8", 30001, "0 1 2 3 4 5 6 7"), record("left-half", 30101, "0 1 2 3"), record("right-half", 30201, "4 5 6 7")
QUARTER = record("k26-quarter", 30001, "4 5")


def ending(before: list[dict], now: list[dict], finally_: str = "previous", winner: str = "", unit: str = "as it was"):
    """How a campaign ends: the ending, the units that are stopped, and those that come back."""
    given = {
        "sglang_server_name": "k26", "sglang_compare_finally": finally_, "sglang_compare_choice": {"winner": winner},
        "sglang_compare_campaign": {
            "legs": [],
            "previous": {"strategy": "", "checksum": "as it was", "deployments": {one["deployment"]: one for one in before}},
        },
        "_sglang_compare_known_good": {one["deployment"]: one for one in now},
        "__sglang_compare_unit": {"stat": {"checksum": unit}},
    }
    stopped, candidates, serving = (value("sglang_compare", f"_sglang_compare_{name}", **given) for name in ("leftovers", "candidates", "serving"))
    back = given["_sglang_compare_returning"] = campaign_returning(candidates, serving)
    how, after = (value("sglang_compare", f"_sglang_compare_{name}", **given) for name in ("ending", "known_good_after"))
    return how, [one["unit"] for one in stopped], [one["unit"] for one in back], after


def test_all_that_made_room_comes_back_when_what_served_before_does():
    how, stopped, back, after = ending([LEFT, QUARTER], [OWN])
    assert (how, stopped, back) == ("start", [OWN["unit"]], [LEFT["unit"], QUARTER["unit"]])
    assert after == {"deployments": {"left-half": LEFT, "k26-quarter": QUARTER}}


def test_without_a_deployment_of_this_name_the_others_come_back():
    how, stopped, back, _after = ending([LEFT, RIGHT], [OWN])
    assert (how, stopped, back) == ("start", [OWN["unit"]], [LEFT["unit"], RIGHT["unit"]])


def test_what_no_leg_could_take_the_place_of_serves_on():
    how, stopped, back, after = ending([OWN], [OWN])
    assert (how, stopped, back, after) == ("start", [], [OWN["unit"]], {"deployments": {"k26-ep8": OWN}})


def test_a_deployment_whose_unit_a_leg_wrote_anew_is_deployed_again_and_the_others_come_back():
    how, stopped, back, _after = ending([LEFT, QUARTER], [QUARTER], unit="changed")
    assert (how, stopped, back) == ("deploy", [], [LEFT["unit"]])


def test_who_is_not_in_the_way_of_the_winner_comes_back():
    how, stopped, back, after = ending([LEFT, RIGHT], [QUARTER], "winner", "quarter")
    assert (how, stopped, back) == ("winner", [], [LEFT["unit"]])
    assert sorted(after["deployments"]) == ["k26-quarter", "left-half"]
    assert ending([LEFT, RIGHT], [OWN], "winner", "ep8")[2] == []


def test_cards_and_names_are_given_again_as_they_were_asked_for():
    def again(name: str, before: dict) -> object:
        campaign = {"legs": [], "previous": {"deployments": {before["deployment"]: before}}}
        cards = {"gpus": [{"index": index} for index in range(8)]}
        return value("sglang_compare", name, sglang_server_name="k26", sglang_compare_campaign=campaign, __sglang_runtime_check=cards)

    assert again("_sglang_compare_before_gpus", OWN) == "all"
    assert again("_sglang_compare_before_gpus", QUARTER) == ["4", "5"]
    assert again("_sglang_compare_before_name", OWN) == "kimi"
    assert again("_sglang_compare_before_name", {**OWN, "served_model_name": "/m"}) == ""
