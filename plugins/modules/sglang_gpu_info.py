# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells which GPUs a node has, who uses them, and what is wrong with their driver."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_gpu_info
short_description: Gather NVIDIA GPUs, their processes and the state of their driver
version_added: 1.0.0
description:
  - Asks C(nvidia-smi) for the GPUs of a node and the processes on them, with owner and systemd unit of each.
  - When the driver cannot be used, finds out which fault it is; the faults are told apart because their remedies differ.
author:
  - gpuops.sglang contributors (@gpuops)
extends_documentation_fragment:
  - gpuops.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  topology:
    description: Whether to ask how the GPUs are linked.
    type: bool
    default: false
  cuda_major:
    description: CUDA major version of the server's wheels; a driver too old for it is a fault.
    type: int
  gpu_count:
    description: Number of GPUs the node must have at least; fewer are a fault.
    type: int
  fail_on_fault:
    description: Whether a fault fails the task.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Look at the GPUs
  gpuops.sglang.sglang_gpu_info:
    topology: true
  register: gpu

- name: Refuse a node that cannot run wheels for CUDA 13 on eight GPUs
  gpuops.sglang.sglang_gpu_info:
    cuda_major: 13
    gpu_count: 8
    fail_on_fault: true
"""

RETURN = r"""
gpus:
  description: The GPUs in the order of their indexes; a value the driver cannot give is null.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index as C(nvidia-smi) counts.
      type: int
    uuid:
      description: UUID of the GPU.
      type: str
    name:
      description: Product name.
      type: str
    memory_total_mib:
      description: Memory of the GPU.
      type: int
    memory_used_mib:
      description: Memory in use.
      type: int
    driver_version:
      description: Version of the driver.
      type: str
    compute_cap:
      description: Compute capability.
      type: str
      sample: "12.0"
    power_limit_w:
      description: Power limit in watts.
      type: float
    bus_id:
      description: PCI bus identifier.
      type: str
    processes:
      description: Compute processes on the GPU - pid, name, memory_mib, user and unit.
      type: list
      elements: dict
driver_version:
  description: Version of the driver, empty when it cannot be used.
  returned: always
  type: str
cause:
  description: The fault, null when there is none.
  returned: always
  type: dict
  contains:
    code:
      description: >-
        One of V(driver_missing), V(driver_too_old), V(driver_mismatch), V(module_not_built), V(secure_boot), V(module_conflict),
        V(fabric_manager), V(gpu_lost), V(gpu_count).
      type: str
    summary:
      description: The fault in one sentence.
      type: str
    hint:
      description: What to do.
      type: str
topology:
  description: The link from each GPU to each other one, such as V(NV18), V(PIX), V(NODE) or V(SYS).
  returned: when O(topology) is set
  type: dict
commands:
  description: The commands that were run on the node.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.sglang.plugins.module_utils import _gpu
from ansible_collections.gpuops.sglang.plugins.module_utils._unit import Commands


def main():
    module = AnsibleModule(
        argument_spec=dict(
            topology=dict(type="bool", default=False),
            cuda_major=dict(type="int"),
            gpu_count=dict(type="int"),
            fail_on_fault=dict(type="bool", default=False),
        ),
        supports_check_mode=True,
    )
    commands = Commands()
    gpus, cause = _gpu.gather(commands)
    driver_version = gpus[0]["driver_version"] if gpus else ""
    cause = cause or _gpu.unfit(gpus, driver_version, module.params["cuda_major"], module.params["gpu_count"])
    result = dict(changed=False, gpus=gpus, driver_version=driver_version, cause=vars(cause) if cause else None, commands=commands.lines)
    if module.params["topology"]:
        result["topology"] = _gpu.parse_topology(commands.run(["nvidia-smi", "topo", "-m"])[1])
    if cause and module.params["fail_on_fault"]:
        module.fail_json(msg="%s %s" % (cause.summary, cause.hint), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
