# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that adds up what several load generators measured at the same time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: merge_benchmarks
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Add up the results of several load generators
description:
  - Takes results of M(gpuops.sglang.sglang_benchmark#module) that were made with C(histograms) and gives one result of the same shape.
  - Points that were told the same C(start_at) become one. Their tokens, requests and histograms are added; the rate is that of the time
    from the first start to the last token.
  - A point is valid only when every part is. Starts more than a second apart are marked C(uneven_start).
positional: load_seconds
options:
  _input:
    description: The C(benchmark) of each client and point.
    type: list
    elements: dict
    required: true
  load_seconds:
    description: Seconds the server took to start, put into the result.
    type: float
"""

EXAMPLES = r"""
- name: Add up what two clients measured
  ansible.builtin.set_fact:
    whole: "{{ measured.results | map(attribute='benchmark') | list | gpuops.sglang.merge_benchmarks }}"
"""

RETURN = r"""
_value:
  description: One result, as C(docs/benchmark-result.md) describes it.
  type: dict
"""

from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.sglang.plugins.module_utils._load.merge import merge_benchmarks as merge


def merge_benchmarks(parts: Any, load_seconds: Any = None) -> dict[str, Any]:
    """Merge the results of several clients."""
    try:
        return merge([dict(part) for part in parts], load_seconds)
    except (ValueError, KeyError, TypeError) as error:
        raise AnsibleFilterError("merge_benchmarks needs results that were made with histograms: %s" % error) from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        return {"merge_benchmarks": merge_benchmarks}
