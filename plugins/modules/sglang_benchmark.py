# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how fast an SGLang server answers at a list of concurrencies, and says when a figure is not to be trusted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_benchmark
short_description: Measure throughput and latency of an SGLang server
version_added: 1.0.0
description:
  - Streams requests at an OpenAI-compatible endpoint, in a closed loop of so many requests at once or at a rate, one point for each
    entry of O(concurrency).
  - Needs nothing but Python and C(requests) on the host that makes the load, and measures its own lateness.
  - Tokens are counted by the server's own C(usage). A request counts only with status 200, a finish reason, the end of the stream, at
    least one token and no error on the way.
  - Every point is C(valid), C(invalid) with the causes (lost requests, a restarted server, a saturated client, short answers), or
    C(failed). Only valid ones are ever called best.
  - A wrong key, model, context length or endpoint is one error before any load is sent.
  - When called from a playbook it prints a line for each host at every O(heartbeat), goes on after a lost connection, and adds to the
    facts of deployments that were measured before.
  - Finished points are kept under O(state_dir), so that a O(campaign) that was cut off does not repeat them.
  - Never changes anything, except that O(flush_cache) empties the server's prefix cache.
author:
  - gpuops.sglang contributors (@gpuops)
requirements:
  - python3-requests
notes:
  - The load runs on the host that the task runs on. Delegate the task to make it elsewhere; unit and GPUs are then not seen.
  - The shape of the result is described in C(docs/benchmark-result.md) of the collection.
extends_documentation_fragment:
  - gpuops.sglang.attributes
  - gpuops.sglang.endpoint
attributes:
  check_mode:
    support: full
    details: Makes all checks, with a handful of requests, and sends no load; RV(benchmark.status) is V(checked).
  diff_mode:
    support: none
  action:
    description: There is an action plugin of the same name that runs on the controller.
    support: full
options:
  name:
    description:
      - Systemd unit of the server; C(.service) may be left out.
      - With it a restart during a point is seen at once, and the line of the journal that explains it is quoted.
    type: str
  deployment:
    description: Name of the result among the facts. From O(name) without C(sglang-) and C(.service) when not given, else host and port.
    type: str
  strategy:
    description: Name of the strategy, for the report.
    type: str
  deployment_digest:
    description: Hash of what is deployed, such as C(digest) of a launch plan; points of another digest are not taken over.
    type: str
  load_seconds:
    description:
      - Seconds the server took from start to ready, for the report.
      - Without it, what the wait for the start of O(name) left on this host, if it did.
    type: float
  inventory_host:
    description: Name of the measured host in the result. Set to the inventory's name when called from a playbook.
    type: str
  gpus:
    description: Indexes of the GPUs the deployment uses, for power and utilisation. All when empty.
    type: list
    elements: raw
    default: []
  admin_api_key:
    description: Key for O(flush_cache), where the server has an admin key.
    type: str
  endpoint:
    description: Which interface to ask.
    type: str
    choices: [chat, completions]
    default: chat
  concurrency:
    description: How many requests are under way at once, one point each. With O(request_rate) the most that are sent at once.
    type: list
    elements: int
    default: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
  input_len:
    description: Tokens of a prompt, the chat template included; made by asking the server for its count of a few prompts.
    type: int
    default: 1024
  output_len:
    description: Tokens of an answer. C(ignore_eos) is set, so that all have this length.
    type: int
    default: 256
  range_ratio:
    description: Lengths are spread evenly between this share of O(input_len) and O(output_len), and the whole. V(1.0) for fixed lengths.
    type: float
    default: 1.0
  num_prompts:
    description: Requests of a run, but at least as many as are under way at once.
    type: int
  duration:
    description:
      - Seconds after which a run sends nothing more. With O(num_prompts) the first of both ends it.
      - Without either a run takes at least 20 seconds, twice the concurrency, and 8 requests.
    type: float
  request_rate:
    description:
      - Requests a second in an open loop with random (Poisson) arrivals; a closed loop without it.
      - Latencies count from the moment a request was meant to be sent, so waiting for a free slot is part of them.
    type: float
  warmup_requests:
    description:
      - Requests before each point that are not counted.
      - Without it as many as the concurrency (2 to 64), and 32 more before the first point.
    type: int
  max_repeats:
    description: A point is run again until its interval is narrow enough, but at most so often.
    type: int
    default: 5
  precision:
    description: Half-width of the 95 % interval of the throughput, in per cent of it, that is narrow enough.
    type: float
    default: 3.0
  prompts:
    description:
      - With V(random) no prompt starts like another, so that the prefix cache cannot serve it.
      - With V(file) those of O(prompts_path).
    type: str
    choices: [random, file]
    default: random
  prompts_path:
    description: JSON lines, each with C(prompt), C(text) or C(messages), and C(output_len) if it has its own; on the host that makes the load.
    type: path
  prefix_len:
    description: Tokens at the start of every random prompt that it shares with others.
    type: int
    default: 0
  prefix_groups:
    description: How many different shared prefixes there are.
    type: int
    default: 1
  seed:
    description: Seed of words, lengths and arrival times.
    type: int
    default: 42
  flush_cache:
    description: Empty the server's prefix cache before each run.
    type: bool
    default: false
  slo:
    description: Limits in milliseconds that a request has to keep to count for the goodput.
    type: dict
    suboptions:
      ttft:
        description: To the first token.
        type: float
      tpot:
        description: For each token after the first, on average.
        type: float
      e2e:
        description: To the last token.
        type: float
  extra_body:
    description: Further fields of each request; V(null) takes one away.
    type: dict
    default: {}
  request_timeout:
    description: Seconds after which a request without an end is lost.
    type: float
    default: 600
  processes:
    description: Load processes. V(0) begins with one and takes more when one cannot follow.
    type: int
    default: 0
  start_at:
    description: Moment, in seconds since the epoch, at which the load starts; several load generators start together with it. For a single point.
    type: float
  histograms:
    description: Whether points carry histograms that P(gpuops.sglang.merge_benchmarks#filter) can add up.
    type: bool
    default: false
  campaign:
    description: Name of a campaign. Valid points of the same campaign, deployment and settings are taken over instead of measured again.
    type: str
  state_dir:
    description: Where points are kept. Nothing is kept when empty.
    type: path
    default: /var/lib/gpuops-sglang/benchmarks
  fail_on:
    description: Whether the task fails when no point is valid (V(failed)), when any is not (V(invalid)), or only when nothing could be tried (V(never)).
    type: str
    choices: [never, failed, invalid]
    default: failed
  heartbeat:
    description: Seconds between two lines about a host that is being measured.
    type: float
    default: 15
  watch:
    description: Used by the action plugin to leave the measurement running and to ask for it again.
    type: dict
    suboptions:
      token:
        description: Name of the measurement, made by the caller.
        type: str
        required: true
      grace:
        description: Seconds to wait for an end in this call.
        type: float
        default: 3
      idle:
        description: Seconds without a question after which the measurement stops.
        type: float
        default: 120
"""

EXAMPLES = r"""
- name: Measure a deployment from its own node
  gpuops.sglang.sglang_benchmark:
    name: sglang-k26-ep8
    strategy: ep8
    port: 30001
    model: kimi-k2.6
    concurrency: [1, 8, 64]
    slo: {ttft: 2000, tpot: 50}

- name: Go on where a campaign was cut off
  gpuops.sglang.sglang_benchmark:
    name: sglang-k26-tp8
    port: 30001
    campaign: "2026-12-01"
    api_key: "{{ vault_api_key }}"

- name: Ten requests a second from the controller, and what they take
  gpuops.sglang.sglang_benchmark:
    host: "{{ ansible_host }}"
    port: 30001
    concurrency: [256]
    request_rate: 10
    duration: 60
  delegate_to: localhost

- name: Decide on what was measured
  ansible.builtin.assert:
    that: ansible_facts['sglang_benchmarks']['k26-ep8'].best.throughput.output_tok_s > 1000
"""

RETURN = r"""
benchmark:
  description: The result, described in full in C(docs/benchmark-result.md).
  returned: always
  type: dict
  contains:
    schema: {description: Version of the format., type: int, returned: always}
    deployment: {description: What was measured., type: str, returned: always}
    strategy: {description: Its strategy., type: str, returned: always}
    status:
      description:
        - V(ok) when every point is valid, V(partial) when some are, V(failed) when none is, V(unstable) when the server restarted
          during the sweep, V(checked) in check mode.
      type: str
      returned: always
    cause:
      description: Why nothing could be measured, with C(code), C(summary) and C(hint).
      type: dict
      returned: always
    points:
      description:
        - One entry for each concurrency, with C(status), C(causes), C(warnings), C(completed), C(failed), C(errors), C(output_tok_s),
          C(output_tok_s_ci95), C(total_tok_s), C(requests_s), C(ttft_ms), C(itl_ms), C(tpot_ms), C(e2e_ms), C(steady), C(gpu),
          C(server), C(client), C(unit) and more.
      type: list
      elements: dict
      returned: always
    best:
      description: The points that win for throughput, a single stream, latency and the SLO.
      type: dict
      returned: when measured
    advice:
      description: What held the server back and what to change, with the evidence.
      type: list
      elements: dict
      returned: always
    gpus:
      description: Names, number, driver and power limit of the GPUs.
      type: dict
      returned: always
    flags:
      description: The server's settings that shape speed.
      type: dict
      returned: always
ansible_facts:
  description: The same under C(sglang_benchmarks), by deployment, beside those of earlier tasks.
  returned: when something was measured
  type: dict
  contains:
    sglang_benchmarks: {description: Results by deployment., type: dict, returned: when something was measured}
commands:
  description: The commands that were run on the host.
  returned: always
  type: list
  elements: str
"""

try:
    import requests

    HAS_REQUESTS = True
except ImportError:
    HAS_REQUESTS = False

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.gpuops.sglang.plugins.module_utils._load.job import Job, go_on_alone
from ansible_collections.gpuops.sglang.plugins.module_utils._mailbox import Mailbox, told

ARGUMENTS = dict(
    name=dict(type="str"),
    deployment=dict(type="str"),
    strategy=dict(type="str"),
    deployment_digest=dict(type="str"),
    load_seconds=dict(type="float"),
    inventory_host=dict(type="str"),
    gpus=dict(type="list", elements="raw", default=[]),
    host=dict(type="str", default="127.0.0.1"),
    port=dict(type="int", default=30000),
    scheme=dict(type="str", choices=["http", "https"], default="http"),
    ca_path=dict(type="path"),
    api_key=dict(type="str", no_log=True),
    admin_api_key=dict(type="str", no_log=True),
    model=dict(type="str"),
    endpoint=dict(type="str", choices=["chat", "completions"], default="chat"),
    concurrency=dict(type="list", elements="int", default=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
    input_len=dict(type="int", default=1024),
    output_len=dict(type="int", default=256),
    range_ratio=dict(type="float", default=1.0),
    num_prompts=dict(type="int"),
    duration=dict(type="float"),
    request_rate=dict(type="float"),
    warmup_requests=dict(type="int"),
    max_repeats=dict(type="int", default=5),
    precision=dict(type="float", default=3.0),
    prompts=dict(type="str", choices=["random", "file"], default="random"),
    prompts_path=dict(type="path"),
    prefix_len=dict(type="int", default=0),
    prefix_groups=dict(type="int", default=1),
    seed=dict(type="int", default=42),
    flush_cache=dict(type="bool", default=False),
    slo=dict(type="dict", options=dict(ttft=dict(type="float"), tpot=dict(type="float"), e2e=dict(type="float"))),
    extra_body=dict(type="dict", default={}),
    request_timeout=dict(type="float", default=600),
    processes=dict(type="int", default=0),
    start_at=dict(type="float"),
    histograms=dict(type="bool", default=False),
    campaign=dict(type="str"),
    state_dir=dict(type="path", default="/var/lib/gpuops-sglang/benchmarks"),
    fail_on=dict(type="str", choices=["never", "failed", "invalid"], default="failed"),
    heartbeat=dict(type="float", default=15),
    watch=dict(
        type="dict",
        options=dict(token=dict(type="str", required=True, no_log=False), grace=dict(type="float", default=3), idle=dict(type="float", default=120)),
    ),
)
AT_LEAST = dict(
    input_len=1,
    output_len=1,
    num_prompts=1,
    duration=0.1,
    request_rate=0.001,
    warmup_requests=0,
    max_repeats=1,
    prefix_len=0,
    prefix_groups=1,
    processes=0,
    request_timeout=1,
    range_ratio=0.01,
)


def wrong_value(params):
    """Say which option has a value that makes no sense, "" for none."""
    if not params["concurrency"] or min(params["concurrency"]) < 1:
        return "concurrency must be a list of numbers of at least 1"
    if params["range_ratio"] > 1:
        return "range_ratio must not be more than 1"
    if params["start_at"] and len(params["concurrency"]) > 1:
        return "start_at is for a single point, and concurrency has %d" % len(params["concurrency"])
    for name, least in AT_LEAST.items():
        if params[name] is not None and params[name] < least:
            return "%s must be at least %g" % (name, least)
    return ""


def failure(benchmark, fail_on):
    """Why the task has to fail, "" when it does not."""
    cause = benchmark["cause"]
    if cause:
        return "%s cannot be measured: %s: %s. %s" % (benchmark["deployment"], cause["code"], cause["summary"], cause["hint"])
    bad = [point for point in benchmark["points"] if point["status"] != "valid"]
    if benchmark["status"] == "checked" or fail_on == "never" or not bad or (fail_on == "failed" and len(bad) < len(benchmark["points"])):
        return ""
    return "%s: %d of %d points are not valid. %s" % (benchmark["deployment"], len(bad), len(benchmark["points"]), told_of(bad[0]))


def told_of(point):
    """A point's causes in one line."""
    return "Concurrency %d is %s: %s" % (point["concurrency"], point["status"], "; ".join("%(code)s: %(summary)s" % cause for cause in point["causes"]))


def answer(module, result, commands):
    """Hand the result over, with facts and warnings."""
    if "broken" in result:
        module.fail_json(msg="the measurement broke off: " + result["broken"])
    benchmark, found = result, dict(changed=False, commands=commands)
    for text in benchmark["warnings"]:
        module.warn("%s: %s" % (benchmark["deployment"], text))
    for point in benchmark["points"]:
        if point["status"] != "valid":
            module.warn("%s: %s" % (benchmark["deployment"], told_of(point)))
    found["benchmark"] = benchmark
    if benchmark["points"]:
        found["ansible_facts"] = {"sglang_benchmarks": {benchmark["deployment"]: benchmark}}
    why = failure(benchmark, module.params["fail_on"])
    if why:
        module.fail_json(msg=why, **found)
    module.exit_json(**found)


def watch(module, make):
    """Begin a measurement that goes on by itself, or ask for one that was begun."""
    options = module.params["watch"]
    mailbox = Mailbox.of(options["token"])
    if mailbox.create() or not mailbox.alive():
        go_on_alone(make, mailbox, options["idle"])
    found = told(mailbox, options["grace"])
    if "result" in found:
        mailbox.remove()
        answer(module, found["result"], [])
    module.exit_json(changed=False, waiting=dict(folder=mailbox.folder, progress=found["progress"]))


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True, required_if=[("prompts", "file", ["prompts_path"])])
    if not HAS_REQUESTS:
        module.fail_json(msg=missing_required_lib("requests", reason="for the calls beside the load"))
    wrong = wrong_value(module.params)
    if wrong:
        module.fail_json(msg=wrong)

    def make(*tell):
        return Job(module.params, requests.Session(), *tell)

    if module.params["watch"] and not module.check_mode:
        watch(module, make)
    job = make()
    answer(module, job.run(only_check=module.check_mode), job.commands.lines)


if __name__ == "__main__":
    main()
