# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that names the strategy a campaign decided for."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_winner
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Name the strategy that won a campaign
description:
  - Chooses over all hosts with the hardware of the given one, so that equal machines serve alike. A strategy that failed on one of
    them cannot win.
  - Invalid points and strategies whose server restarted are never ranked. A difference inside the 95 % intervals, or inside the
    drift that the repeated strategy shows, is a tie; a tie goes to what served before, then to the better all-rounder, then to the
    one that loads quickest.
positional: host, goal
options:
  _input:
    description: The campaigns by host.
    type: dict
    required: true
  host:
    description: The host to choose for.
    type: str
    required: true
  goal:
    description: What to choose for.
    type: str
    choices: [throughput, latency, slo, balanced]
    required: true
"""

EXAMPLES = r"""
- name: Choose
  ansible.builtin.set_fact:
    best: "{{ {inventory_hostname: campaign} | gpuops.sglang.campaign_winner(inventory_hostname, 'throughput') }}"
"""

RETURN = r"""
_value:
  description: The choice.
  type: dict
  contains:
    winner:
      description: Name of the strategy; empty when none can be chosen.
      type: str
    tied:
      description: All strategies that cannot be told apart, when there are several.
      type: list
      elements: str
    why:
      description: One sentence on the choice.
      type: str
    left_out:
      description: Strategies that were not ranked, each with the reason.
      type: dict
"""

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.sglang.plugins.plugin_utils import _campaign
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.ranking import GOALS


def campaign_winner(campaigns, host, goal):
    """Winner, ties and the reason."""
    if goal not in GOALS:
        raise AnsibleFilterError(f"goal is '{goal}'; there are {', '.join(GOALS)}")
    return _campaign.winner(campaigns, host, goal)


class FilterModule:
    """Registers the filter."""

    def filters(self):
        return {"campaign_winner": campaign_winner}
