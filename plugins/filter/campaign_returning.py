# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that says which deployments can come back after a campaign."""

from __future__ import annotations

DOCUMENTATION = r"""
name: campaign_returning
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Choose the deployments that can come back after a campaign
description:
  - Leaves out of the given records those whose port or GPUs are taken by another deployment that serves.
positional: serving
options:
  _input:
    description: Records of deployments that served before, as C(known_good.json) keeps them.
    type: list
    elements: dict
    required: true
  serving:
    description: Records of the deployments that serve now.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: See who can come back
  ansible.builtin.debug:
    msg: "{{ campaign.previous.deployments.values() | gpuops.sglang.campaign_returning(serving) | map(attribute='unit') }}"
"""

RETURN = r"""
_value:
  description: The records that are in nobody's way.
  type: list
  elements: dict
"""

from ansible_collections.gpuops.sglang.plugins.plugin_utils import _campaign


def campaign_returning(records, serving):
    """The records that are in nobody's way."""
    return _campaign.returning(list(records), list(serving))


class FilterModule:
    """Registers the filter."""

    def filters(self):
        return {"campaign_returning": campaign_returning}
