# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that puts the strategies of a campaign in order, or takes up one that was broken off."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_legs
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Order the strategies of a campaign, or go on with one that was broken off
description:
  - Turns a list of strategies into a campaign, one leg a strategy.
  - When a campaign is given that asked the same and is not over, that one is returned with what is left to do.
positional: asked
options:
  _input:
    description: Names of the strategies.
    type: list
    elements: str
    required: true
  asked:
    description: Everything that makes two campaigns the same, such as model, version and sweep. Kept with the campaign.
    type: dict
    required: true
  seed:
    description: Shuffles the order. The same seed gives the same order; without one the order is kept.
    type: raw
  repeat_first:
    description: Run the first strategy once more at the end, so that drift is seen.
    type: bool
    default: true
  kept:
    description: The campaign that was kept on the node, if any.
    type: dict
  previous:
    description: What serves now, before the campaign begins. One that is taken up keeps its own, unless it was over.
    type: dict
    default: {}
  id:
    description: Name of the campaign if it begins now.
    type: str
    required: true
  retry_failed:
    description: Take up a campaign also when it is over, and run again what failed in it.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan a campaign
  ansible.builtin.set_fact:
    campaign: "{{ ['tp8', 'ep8'] | gpuops.sglang.campaign_legs({'model': 'kimi-k2.6'}, id='first', seed=7) }}"
"""

RETURN = r"""
_value:
  description: The campaign.
  type: dict
  contains:
    id:
      description: Name of the campaign.
      type: str
    asked:
      description: What makes it the same as another.
      type: dict
    previous:
      description: What served before it began.
      type: dict
    finished:
      description: Whether it is over.
      type: bool
    legs:
      description: One entry a strategy, in the order they run; C(status) is empty for what is still to do.
      type: list
      elements: dict
"""

from ansible_collections.gpuops.sglang.plugins.plugin_utils import _campaign


def campaign_legs(strategies, asked, *, id, seed=None, repeat_first=True, kept=None, previous=None, retry_failed=False):
    """A campaign that begins, or the kept one."""
    asked = _campaign.plain({**asked, "strategies": list(strategies), "seed": seed, "repeat_first": bool(repeat_first)})
    wanted = {
        "id": str(id),
        "asked": asked,
        "previous": previous or {},
        "finished": False,
        "legs": _campaign.legs(list(strategies), seed, repeat_first),
    }
    return _campaign.resume(kept, wanted, retry_failed)


class FilterModule:
    """Registers the filter."""

    def filters(self):
        return {"campaign_legs": campaign_legs}
