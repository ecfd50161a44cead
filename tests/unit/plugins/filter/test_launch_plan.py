# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter hands its arguments on in plain types, and refuses with the code first."""

from __future__ import annotations

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.sglang.plugins.filter import launch_plan

STRATEGIES = {"tp2": {"flags": {"tp-size": 2}, "flags_by_compute_cap": {12: {"attention-backend": "triton"}}}}
OPTIONS = {"slug": "k", "model_path": "/m", "version": "0.5.23"}


class Text(str):
    """A string of another type, as templating hands over."""


def plan(name="tp2", **options):
    return launch_plan.FilterModule().filters()["launch_plan"](name, STRATEGIES, **{**OPTIONS, **options})


def test_strings_come_out_plain():
    made = plan(Text("tp2"), model_path=Text("/m"), overrides={Text("served-model-name"): Text("demo")}, gpus=(0, 1))
    assert made["served_model_name"] == "demo" and made["gpus"] == ["0", "1"]
    assert {type(word) for word in made["argv"]} == {str}


def test_numbers_as_keys_are_capabilities():
    assert plan(node={"compute_cap": "12.0"})["flags"]["attention-backend"] == "triton"


@pytest.mark.parametrize("options, said", [
    ({"overrides": {"tp-size": 3, "ep-size": 2}}, "bad_sizes: tp 3 % ep 2 = 1"),
    ({"overrides": {"tpsize": 3}}, "bad_flags: 0.5.23 has no --tpsize"),
    ({"colour": "red"}, "launch_plan has no argument 'colour': known are overrides"),
])
def test_refusals(options, said):
    with pytest.raises(AnsibleFilterError, match=f"^{said}"):
        plan(**options)


def test_every_argument_is_documented():
    documented = set(yaml.safe_load(launch_plan.DOCUMENTATION)["options"])
    assert documented - {"_input", "strategies"} == set(launch_plan._OPTIONS)
