# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits on the node until an SGLang service is ready, or says why it will not be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_wait_ready
short_description: Wait until an SGLang service is ready, or learn why it is not
version_added: 1.0.0
description:
  - Follows the start of a systemd unit by its journal, its state, the kernel's socket table and the server's own answers.
  - Ready means all of - the unit is active under the start that is waited for, the port is held by one of its own processes,
    C(/ready) (C(/health) before SGLang 0.5.20) says yes, the expected model is listed, and one token was generated.
  - Any other end names its cause, with the line of the log that shows it, and comes as soon as the cause is known.
  - Never starts, stops or restarts anything.
  - When called from a playbook it prints a line for each host at every O(heartbeat) and at each change of phase,
    and goes on after a lost connection.
author:
  - gpuops.sglang contributors (@gpuops)
requirements:
  - python3-requests
  - python3-jmespath, for O(ready_query)
notes:
  - Reading the journal and the owner of a socket needs root; without it the result says what could not be seen.
extends_documentation_fragment:
  - gpuops.sglang.attributes
  - gpuops.sglang.endpoint
  - gpuops.sglang.wait
attributes:
  check_mode:
    support: full
    details: Reports what is now and never waits; RV(verdict) is V(waiting) when nothing can be said yet, and the task does not fail.
  diff_mode:
    support: none
  action:
    description: There is an action plugin of the same name that runs on the controller.
    support: full
options:
  name:
    description: Name of the systemd unit; C(.service) may be left out.
    type: str
    required: true
  strategy:
    description: Name of the strategy, for the record of load times.
    type: str
  version:
    description: Version of SGLang that the unit runs; some log lines and endpoints changed between versions.
    type: str
  heartbeat:
    description: Seconds between two lines about a host that still loads.
    type: float
    default: 15
  journal_lines:
    description: How many lines of the journal around the cause to return at most.
    type: int
    default: 20
  error_patterns:
    description: Further lines that mean the start has failed, looked for beside the built-in ones.
    type: list
    elements: dict
    suboptions:
      regex:
        description: Python regular expression, searched for in each line of the unit's journal.
        type: str
        required: true
      code:
        description: Code to report as RV(cause.code).
        type: str
      hint:
        description: What to do about it.
        type: str
  ready_query:
    description: JMESPath expression over the answer of C(/v1/models) that must be true as well.
    type: str
  generate:
    description: Whether one token must be generated before the service counts as ready.
    type: bool
    default: true
  cursor:
    description:
      - Journal cursor taken before the start; what was written before it is not looked at.
      - Without it, or when the present start is older than the cursor, reading begins where the present start began.
    type: str
  invocation_id:
    description: InvocationID of the start to wait for. Without it the first one seen.
    type: str
  history:
    description: File of JSON lines on the node where successful starts are recorded, and from which usual load times are taken.
    type: path
  nnodes:
    description: Number of nodes of the replica.
    type: int
    default: 1
  node_rank:
    description: Rank of this node; only rank V(0) has the HTTP endpoint.
    type: int
    default: 0
  dist_init_addr:
    description: Address and port where the ranks of several nodes meet.
    type: str
  watch:
    description: Used by the action plugin between its calls; leave it out.
    type: dict
    suboptions:
      token:
        description: Name of the wait.
        type: str
        required: true
      grace:
        description: Seconds to wait for the end before answering.
        type: float
        default: 3
      idle:
        description: Seconds without a question after which the wait ends by itself.
        type: float
        default: 300
      elapsed:
        description: Seconds that the wait has lasted already.
        type: float
        default: 0
seealso:
  - module: gpuops.sglang.sglang_stop
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Start the server without waiting for it
  ansible.builtin.systemd_service:
    name: sglang-k26-ep8
    state: started
    no_block: true

- name: Wait until it serves, or show why it does not
  gpuops.sglang.sglang_wait_ready:
    name: sglang-k26-ep8
    port: 30001
    model: kimi-k2.6
    wait_timeout: 1800

- name: Wait for a server with a key behind TLS
  gpuops.sglang.sglang_wait_ready:
    name: sglang-k26-ep8
    host: gpu-node-1.example.com
    port: 30001
    scheme: https
    ca_path: /etc/ssl/certs/example-ca.pem
    api_key: "{{ vault_sglang_api_key }}"

- name: Treat a line of our own plugin as the end of the start
  gpuops.sglang.sglang_wait_ready:
    name: sglang-k26-ep8
    port: 30001
    error_patterns:
      - regex: 'LicenseError: .*'
        code: licence
        hint: Renew the licence file under /etc/example.
"""

RETURN = r"""
verdict:
  description: How the wait ended. In check mode also V(waiting).
  returned: always
  type: str
  sample: ready
phase:
  description: Where the start was at the end.
  returned: always
  type: str
  sample: weights
elapsed:
  description: Seconds from the beginning of the wait.
  returned: always
  type: float
  sample: 135.2
timeline:
  description: What was seen, in order.
  returned: always
  type: list
  elements: dict
cause:
  description: Why the verdict is not V(ready). The codes do not change their meaning.
  returned: always
  type: dict
  contains:
    code:
      description: Short name of the cause.
      type: str
    summary:
      description: The cause in one sentence.
      type: str
    line:
      description: The line of the log that shows it.
      type: str
    rank:
      description: The rank that wrote the line.
      type: str
    hint:
      description: What to do.
      type: str
    seen:
      description: How often the line was seen.
      type: int
unit:
  description: The last state of the unit.
  returned: always
  type: dict
http:
  description: What the endpoints answered last.
  returned: always
  type: dict
journal:
  description: Lines around the cause, secrets masked.
  returned: always
  type: list
  elements: str
commands:
  description: The commands that were run on the node.
  returned: always
  type: list
  elements: str
usual_seconds:
  description: Median seconds of each phase of earlier starts, and their C(total); empty when there were none.
  returned: always
  type: dict
started_at:
  description: Time of day on the node when the server's process began.
  returned: always
  type: str
  sample: "19:02:11"
load_seconds:
  description: Seconds from the start of the process until it was ready, when this wait or an earlier one that kept O(history) watched it.
  returned: always
  type: float
ended_monotonic:
  description: Monotonic clock of the node at the verdict, in seconds.
  returned: always
  type: float
waiting:
  description: How a wait that goes on stands; only the action plugin sees it.
  returned: never in a playbook
  type: dict
"""

import importlib.util
import re
import traceback

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox, told
from ansible_collections.gpuops.sglang.plugins.module_utils._wait_job import Job, go_on_alone

ARGUMENTS = dict(
    name=dict(type="str", required=True),
    host=dict(type="str", default="127.0.0.1"),
    port=dict(type="int", default=30000),
    scheme=dict(type="str", choices=["http", "https"], default="http"),
    ca_path=dict(type="path"),
    api_key=dict(type="str", no_log=True),
    model=dict(type="str"),
    strategy=dict(type="str"),
    version=dict(type="str"),
    wait_timeout=dict(type="float", default=1800),
    wait_sleep=dict(type="float", default=1),
    stall_timeout=dict(type="float"),
    extend_while_progress=dict(type="bool", default=False),
    restart_limit=dict(type="int", default=0),
    probe_timeout=dict(type="float", default=25),
    heartbeat=dict(type="float", default=15),
    journal_lines=dict(type="int", default=20),
    error_patterns=dict(
        type="list",
        elements="dict",
        options=dict(regex=dict(type="str", required=True), code=dict(type="str"), hint=dict(type="str")),
    ),
    ready_query=dict(type="str"),
    generate=dict(type="bool", default=True),
    cursor=dict(type="str"),
    invocation_id=dict(type="str"),
    history=dict(type="path"),
    nnodes=dict(type="int", default=1),
    node_rank=dict(type="int", default=0),
    dist_init_addr=dict(type="str"),
    watch=dict(
        type="dict",
        options=dict(
            token=dict(type="str", required=True, no_log=False),
            grace=dict(type="float", default=3),
            idle=dict(type="float", default=300),
            elapsed=dict(type="float", default=0),
        ),
    ),
)


def jmespath_search(module):
    """The function behind ready_query; None when there is no query."""
    if not module.params["ready_query"]:
        return None
    try:
        import jmespath
    except ImportError:
        module.fail_json(msg=missing_required_lib("jmespath", reason="for ready_query"), exception=traceback.format_exc())
    try:
        jmespath.compile(module.params["ready_query"])
    except jmespath.exceptions.JMESPathError as error:
        module.fail_json(msg="ready_query is not a JMESPath expression: %s" % error)
    return jmespath.search


def check_patterns(module):
    for pattern in module.params["error_patterns"] or []:
        try:
            re.compile(pattern["regex"])
        except re.error as error:
            module.fail_json(msg="error_patterns: %r is not a regular expression: %s" % (pattern["regex"], error))


def answer(module, result):
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


def watch(module, query):
    """Let the wait go on by itself, or find the one that does, and tell how it stands."""
    options = module.params["watch"]
    mailbox = Mailbox.of(options["token"])
    if mailbox.create() or not mailbox.alive():
        go_on_alone(Job(module.params, query, mailbox.read("state.json"), options["elapsed"]), mailbox, options["idle"])
    found = told(mailbox, options["grace"])
    if "result" in found:
        mailbox.remove()
        answer(module, found["result"])
    module.exit_json(changed=False, waiting=dict(folder=mailbox.folder, progress=found["progress"]))


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if importlib.util.find_spec("requests") is None:
        module.fail_json(msg=missing_required_lib("requests", reason="to ask the server"))
    check_patterns(module)
    query = jmespath_search(module)
    if module.check_mode:
        answer(module, Job(module.params, query).look())
    if module.params["watch"]:
        watch(module, query)
    answer(module, Job(module.params, query).to_the_end())


if __name__ == "__main__":
    main()
