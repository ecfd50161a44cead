# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that says what a leg of a campaign came to."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_leg
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Write down in a campaign what one of its legs came to
description:
  - Returns the campaign with one leg completed, by its measurement or by the cause that kept it from being measured.
  - Processes outside the strategy that hold the GPUs make the leg C(not_run); any other cause makes it C(failed).
positional: leg
options:
  _input:
    description: The campaign.
    type: dict
    required: true
  leg:
    description: Number of the leg.
    type: int
    required: true
  deployment:
    description: Name of its deployment.
    type: str
    default: ''
  results:
    description: Results of the tasks of the leg, the most telling first. The first that holds a cause explains a failure.
    type: list
    elements: dict
    default: []
  benchmark:
    description: What M(gpuops.sglang.sglang_benchmark) measured, if it came to that.
    type: dict
  loads:
    description: Text of the C(loads.jsonl) of the node, where the load time of the start is found.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Keep what came of the leg
  ansible.builtin.set_fact:
    campaign: "{{ campaign | gpuops.sglang.campaign_leg(1, deployment='k26-ep8', benchmark=measured.benchmark) }}"
"""

RETURN = r"""
_value:
  description: The campaign with the leg completed.
  type: dict
"""

from ansible_collections.gpuops.sglang.plugins.plugin_utils import _campaign


def campaign_leg(campaign, leg, *, deployment="", results=(), benchmark=None, loads=""):
    """The campaign with one leg completed."""
    done = [_campaign.finished_leg(one, deployment, list(results), loads, benchmark) if one["leg"] == leg else one for one in campaign["legs"]]
    return {**campaign, "legs": done}


class FilterModule:
    """Registers the filter."""

    def filters(self):
        return {"campaign_leg": campaign_leg}
