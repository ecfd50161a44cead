# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stops SGLang services within a limit, and waits until their processes, ports and GPUs are free."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_stop
short_description: Stop SGLang services and wait until their GPUs are free
version_added: 1.0.0
description:
  - Stops systemd units and lets them finish their running requests within a limit; after it the unit's control group is killed.
  - Afterwards no process of the units is left, and the given ports and GPUs are free; else the module fails and says who holds them.
  - A unit that ends up failed, or was failed before, is reset, so that a forced stop is never taken for a failure of the next start.
  - Units that wait for their next restart or are being stopped already are handled as well.
  - Kills nothing outside the control groups of the given units unless O(kill_foreign) says so.
author:
  - gpuops.sglang contributors (@gpuops)
extends_documentation_fragment:
  - gpuops.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Says which units it would stop or reset; ports and GPUs are not looked at.
  diff_mode:
    support: full
options:
  names:
    description: Names of the systemd units; C(.service) may be left out. They are stopped together.
    type: list
    elements: str
    required: true
    aliases: [name]
  timeout:
    description:
      - Seconds after which the control group of a unit that still drains is killed.
      - Without it, the unit's own C(TimeoutStopSec) and half a minute for systemd to kill it.
    type: float
  version:
    description:
      - Version of SGLang the units run. Up to 0.5.18 the server kills itself after a clean drain, which is no fault then.
      - Without it, each unit's own, where the folder of its interpreter is named for the version as the role sglang_runtime does.
    type: str
  ports:
    description: Ports that nobody may listen on afterwards.
    type: list
    elements: int
    default: []
    aliases: [port]
  gpus:
    description: Indexes or UUIDs of the GPUs that must be free afterwards, or V(all).
    type: list
    elements: str
    default: []
  gpu_timeout:
    description: Seconds to wait for the driver to give the memory back.
    type: float
    default: 60
  disable:
    description: Whether the units are kept from starting at boot as well.
    type: bool
    default: false
  kill_foreign:
    description: Whether processes outside the units that still hold the ports or GPUs are ended.
    type: bool
    default: false
  journal_lines:
    description: How many lines of the journal of the stop to return for each unit.
    type: int
    default: 20
seealso:
  - module: gpuops.sglang.sglang_wait_ready
  - module: gpuops.sglang.sglang_gpu_info
"""

EXAMPLES = r"""
- name: Stop one strategy so that the next can have its GPUs
  gpuops.sglang.sglang_stop:
    names: [sglang-k26-ep8]
    ports: [30001]
    gpus: [all]

- name: Give running requests five minutes at most
  gpuops.sglang.sglang_stop:
    names: [sglang-k26-ep8]
    timeout: 300
"""

RETURN = r"""
verdict:
  description:
    - V(stopped), V(stopped_forced) when a drain was cut off at its limit, or V(stopped_unclean) when ranks died before the drain was over.
    - When the module fails, V(stop_timeout), V(gpu_busy) or V(port_in_use).
  returned: always
  type: str
  sample: stopped
cause:
  description: Why the verdict is not V(stopped).
  returned: always
  type: dict
units:
  description: How each unit went, in the order they were given.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Full name of the unit.
      type: str
    verdict:
      description: How this unit's stop ended.
      type: str
    before:
      description: State before the stop.
      type: str
      sample: active/running
    after:
      description: State afterwards.
      type: str
      sample: inactive/dead
    seconds:
      description: How long the stop took.
      type: float
    remaining_requests:
      description: Requests still running when the server last said so.
      type: int
    journal:
      description: Last lines of the journal of the stop.
      type: list
      elements: str
killed:
  description: Processes outside the units that were ended because O(kill_foreign) is set.
  returned: always
  type: list
  elements: dict
cursor:
  description: End of the journal after the stop; a wait for the next start that begins there sees nothing of this one. Empty in check mode.
  returned: always
  type: str
commands:
  description: The commands that were run on the node.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.sglang.plugins.module_utils._stop_job import StopJob

FAILURES = ("stop_timeout", "gpu_busy", "port_in_use")


def main():
    module = AnsibleModule(
        argument_spec=dict(
            names=dict(type="list", elements="str", required=True, aliases=["name"]),
            timeout=dict(type="float"),
            version=dict(type="str"),
            ports=dict(type="list", elements="int", default=[], aliases=["port"]),
            gpus=dict(type="list", elements="str", default=[]),
            gpu_timeout=dict(type="float", default=60),
            disable=dict(type="bool", default=False),
            kill_foreign=dict(type="bool", default=False),
            journal_lines=dict(type="int", default=20),
        ),
        supports_check_mode=True,
    )
    job = StopJob(module.params)
    if not job.answered:
        module.fail_json(msg="systemd gives no answer about %s" % ", ".join(module.params["names"]), commands=job.commands.lines)
    if module.check_mode:
        module.exit_json(**job.plan())
    result = job.run()
    for warning in job.warnings:
        module.warn(warning)
    if result["verdict"] in FAILURES:
        module.fail_json(msg="%(summary)s %(hint)s" % result["cause"], **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
