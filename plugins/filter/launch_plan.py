# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that turns a strategy into a command line, an environment, ports and GPUs, or refuses it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: launch_plan
author: gpuops.sglang contributors (@gpuops)
version_added: 1.0.0
short_description: Turn a strategy into the plan of a launch
description:
  - Takes the name of a strategy and gives everything that is needed to write its systemd unit.
  - It touches nothing and asks nobody, and refuses what cannot work, with the code C(bad_sizes) or C(bad_flags), the numbers,
    and the sizes or names that would do.
  - What it cannot tell, because the model's configuration, the number of GPUs or the flags of the version are not known, is
    listed in C(checks) as C(not_checked).
positional: strategies
options:
  _input:
    description: Name of the strategy.
    type: str
    required: true
  strategies:
    description:
      - The strategies by name. Each may hold C(summary), C(base) (the strategy it builds on), C(flags), C(environment), C(gpus), and
        C(flags_by_compute_cap) (flags for GPUs of a compute capability such as V(12) or V(9.0) only).
      - Flags go by the server's own long names, with C(-) or C(_). V(true) writes the flag alone, V(false) and V(null) leave it out
        (V(false) writes C(--no-x) where the server has that form), a list writes several values, a mapping writes JSON.
      - V(null) takes away a flag or variable of the base.
    type: dict
    required: true
  overrides:
    description: Flags that win over those of the strategy.
    type: dict
    default: {}
  environment:
    description: Environment variables that win over those of the strategy.
    type: dict
    default: {}
  slug:
    description: Short name of the model, part of the unit's name.
    type: str
    required: true
  model_path:
    description: Directory of the model on the node, or its identifier on a hub.
    type: str
    required: true
  served_model_name:
    description: Name under which the model is served. The model path when empty.
    type: str
    default: ''
  host:
    description: Address to listen on.
    type: str
    default: 127.0.0.1
  port:
    description: HTTP port. A deployment takes a block of ten ports from here on.
    type: int
    default: 30000
  gpus:
    description: V(all), or a list of indexes or UUIDs.
    type: raw
    default: all
  gpu_count:
    description: How many GPUs the node has.
    type: int
  nnodes:
    description: Number of nodes of one replica.
    type: int
    default: 1
  node_rank:
    description: Which of these nodes this one is.
    type: int
    default: 0
  dist_init_addr:
    description: Address of the first node, C(HOST) or C(HOST:PORT). Needed when there are several.
    type: str
    default: ''
  version:
    description: SGLang release the plan is for.
    type: str
    required: true
  node:
    description:
      - Facts of the node. C(compute_cap) is the compute capability of its GPUs, C(ip_local_port_range) the two ends of its
        ephemeral port range.
    type: dict
    default: {}
  model_config:
    description: The model's parsed C(config.json).
    type: dict
  has_secrets:
    description: Whether keys are handed to the server in a configuration file, as the systemd credential C(sglang.yaml).
    type: bool
    default: false
  root:
    description: Directory that holds one virtual environment per version.
    type: path
    default: /opt/sglang
  home:
    description:
      - Home of the user that the server runs as. When given, the environment is completed with what a service does not get from a login
        shell, search path, caches and exceptions from the proxy among it, wherever strategy and O(environment) leave them open.
    type: path
    default: ''
  cache:
    description: Directory for the caches of this version, below O(home) when empty. Models from a hub are kept beside it, for all versions.
    type: path
    default: ''
  others:
    description: Plans of other deployments that run beside this one on the same node; their ports must not overlap.
    type: list
    elements: dict
    default: []
  extra:
    description: Words put at the end of the command line as they are, unchecked.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Plan expert parallelism over eight GPUs
  ansible.builtin.set_fact:
    plan: >-
      {{ 'ep8' | gpuops.sglang.launch_plan(sglang_server_strategies_builtin, slug='k26', model_path='/models/kimi-k2.6',
         port=30001, gpu_count=8, version='0.5.23') }}

- name: Plan a strategy of one's own on four named GPUs
  ansible.builtin.set_fact:
    plan: >-
      {{ 'tp4' | gpuops.sglang.launch_plan({'tp4': {'flags': {'tp_size': 4, 'speculative-algorithm': 'EAGLE3',
         'speculative-draft-model-path': '/models/draft'}}}, slug='qwen', model_path='/models/qwen', gpus=[0, 1, 2, 3], version='0.5.23') }}
"""

RETURN = r"""
_value:
  description:
    - The plan.
    - C(name), C(base_chain), C(summary), C(slug), C(deployment), C(unit), C(version) and C(python) say what is launched.
    - C(argv) holds the words after the interpreter, C(exec_lines) the same quoted for C(ExecStart=), a flag a line.
    - C(environment) holds the variables, C(environment_lines) the same quoted for C(Environment=).
    - C(flags), C(model_path), C(served_model_name), C(host), C(port), C(gpus), C(gpu_count), C(device), C(nnodes), C(node_rank) and
      C(dist_init_addr) are the settings after merging.
    - C(ports) holds C(http), C(nccl), C(dist), the ends C(first) and C(last) of the block, and C(ranges) with ports outside of it.
    - C(sizes) holds C(tp), C(pp), C(dp), C(ep), C(attn_dp), C(moe_tp), C(nnodes) and C(world_size).
    - C(checks) lists what was checked, each with C(name), C(status) (C(ok) or C(not_checked)) and C(detail).
    - C(warnings) lists what works but should be known.
    - C(digest) is a hash of command line and environment.
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuops.sglang.plugins.module_utils._plan import build
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

_OPTIONS = (
    "overrides",
    "environment",
    "slug",
    "model_path",
    "served_model_name",
    "host",
    "port",
    "gpus",
    "gpu_count",
    "nnodes",
    "node_rank",
    "dist_init_addr",
    "version",
    "node",
    "model_config",
    "has_secrets",
    "root",
    "home",
    "cache",
    "others",
    "extra",
)


def _plain(value: Any) -> Any:
    """The value in Python's own types: templating hands over lazy and tagged ones."""
    if isinstance(value, Mapping):
        return {_plain(key) if isinstance(key, str) else str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(inner) for inner in value]
    return value


def launch_plan(name: Any, strategies: Any, **options: Any) -> dict[str, Any]:
    """Plan the launch of one strategy."""
    for option in options:
        if option not in _OPTIONS:
            raise AnsibleFilterError(f"launch_plan has no argument {option!r}: known are {', '.join(_OPTIONS)}")
    try:
        return build(_plain(name), _plain(strategies), _plain(options))
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from refusal


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Any]:
        return {"launch_plan": launch_plan}
