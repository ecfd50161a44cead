# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check before a launch: each thing that is wrong on a node becomes its own finding, settings first."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _preflight
from ansible_collections.gpuops.sglang.plugins.module_utils._model_files import Model
from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Cause
from ansible_collections.gpuops.sglang.plugins.module_utils._plan import build
from ansible_collections.gpuops.sglang.plugins.module_utils._preflight import Facts
from ansible_collections.gpuops.sglang.plugins.module_utils._running import UnitLook

DENSE = {"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "intermediate_size": 14336}


def plan(flags=None, **options):
    options = {"slug": "k", "model_path": "/models/k", "port": 30001, "version": "0.5.23", **options}
    return build("s", {"s": {"flags": flags or {"tp-size": 8}}}, options)


def gpu(index, **more):
    return {
        "index": index, "uuid": f"GPU-{index}", "name": "card", "memory_total_mib": 97887, "memory_used_mib": 0, "driver_version": "580.95.05",
        "compute_cap": "12.0", "processes": [], **more,
    }


def unit(name="sglang-k-s.service", active=True, port=30001, gpus=None, **more):
    running = {"active_state": "active", "sub_state": "running", "main_pid": 50, "pids": [50, 51]}
    state = running if active else {"active_state": "inactive", "sub_state": "dead"}
    environment = {"CUDA_VISIBLE_DEVICES": gpus} if gpus else {}
    argv = ["python", "-m", "sglang.launch_server", "--port", str(port), "--nccl-port", str(port + 1)]
    return UnitLook(name, argv=argv, environment=environment, **{"load_state": "loaded", **state, **more})


def node(**more):
    base = {
        "installed_version": "0.5.23", "user": "sglang", "gpus": [gpu(index) for index in range(8)], "unit": unit(active=False),
        "models": [Model("/models/k", "local", config=DENSE)],
    }
    return Facts(**copy.deepcopy({**base, **more}))


def process(pid, **more):
    return {"pid": pid, "name": "python3", "memory_mib": 40000, "user": "ann", "unit": "", **more}


def test_a_fit_node():
    findings = _preflight.check(plan(), node())
    assert findings.verdict() == "ok" and findings.cause() is None and findings.items == []


@pytest.mark.parametrize("facts, code, verdict, said", [
    ({"installed_version": ""}, "unit_exec", "preflight_failed", "0.5.23 is not installed"),
    ({"installed_version": "0.5.22"}, "unit_exec", "preflight_failed", "has SGLang 0.5.22, the plan is for 0.5.23"),
    ({"broken": "holds several versions of sglang: 1, 2"}, "unit_exec", "preflight_failed", "holds several versions"),
    ({"lacking": "/opt/py/bin/python3"}, "no_requests", "preflight_failed", "/opt/py/bin/python3 runs the modules on this node and has no requests"),
    ({"lacking": "/opt/py/bin/python3", "packages_reach": False, "dry": True}, "no_requests", "preflight_failed", "has no requests"),
    ({"user_exists": False}, "unit_exec", "preflight_failed", "user sglang does not exist"),
    ({"gpus": [], "driver": Cause("driver_mismatch", "580.82 and 580.95", hint="Reboot.")}, "driver_mismatch", "preflight_failed", "580.82"),
    ({"gpus": [gpu(0), gpu(1)]}, "bad_sizes", "refused", "there are 2"),
    ({"gpus": [gpu(index, driver_version="550.127") for index in range(8)]}, "driver_too_old", "preflight_failed", "550.127 is too old for CUDA 13"),
    ({"models": [Model("/models/k", "local", config={**DENSE, "num_attention_heads": 12})]}, "bad_sizes", "refused", "num_attention_heads 12 % tp 8 = 4"),
    ({"models": [Model("/models/k", "local", exists=False, problems=[{"code": "model_not_found", "text": "/models/k does not exist"}])]},
     "model_not_found", "preflight_failed", "/models/k does not exist."),
    ({"unreadable": {"ssl-keyfile": "/etc/tls.key: Permission denied", "ssl-certfile": ""}},
     "no_permission", "preflight_failed", "sglang cannot read /etc/tls.key: Permission denied (--ssl-keyfile)"),
    ({"unit": unit(active=False, load_state="masked")}, "unit_masked", "preflight_failed", "is masked"),
    ({"listeners": {30001: {"pid": 9, "name": "nginx", "unit": "nginx.service"}}},
     "port_in_use", "preflight_failed", "30001 is held by pid 9 (nginx) of nginx.service"),
    ({"listeners": {30002: {"pid": 0, "name": "", "unit": ""}}}, "port_in_use", "preflight_failed", "30002 is held by a process that cannot be seen"),
    ({"gpus": [gpu(0, processes=[process(99)])] + [gpu(index) for index in range(1, 8)]},
     "gpu_busy", "preflight_failed", "pid 99 (python3) holds 40000 MiB on GPU 0, owner ann"),
    ({"gpus": [gpu(index, memory_used_mib=30000 if index == 3 else 0) for index in range(8)]}, "gpu_busy", "preflight_failed", "GPU 3 has 30000 of 97887 MiB"),
    ({"flags": {"tp-size": ("str", (), ())}, "installed_version": "0.9.9"}, "bad_flags", "refused", "SGLang 0.9.9: 0.9.9 has no --model-path"),
])
def test_what_is_wrong(facts, code, verdict, said):
    findings = _preflight.check(plan(), node(**facts))
    assert findings.verdict() == verdict
    assert findings.cause()["code"] == code and said in findings.cause()["summary"]


def test_in_check_mode_what_a_role_would_install_is_no_error():
    findings = _preflight.check(plan(), node(installed_version="", user_exists=False, dry=True))
    assert findings.verdict() == "ok" and {item["level"] for item in findings.items} == {"warning"}


def test_settings_come_before_the_node():
    findings = _preflight.check(plan(), node(gpus=[gpu(0)], models=[Model("/models/k", "local", problems=[{"code": "model_not_found", "text": "gone"}])]))
    assert findings.cause()["code"] == "bad_sizes" and len(findings.items) >= 3


def test_requests_may_be_missing_where_check_mode_would_install_it():
    findings = _preflight.check(plan(), node(lacking="/usr/bin/python3", dry=True))
    assert findings.verdict() == "ok" and [(item["code"], item["level"]) for item in findings.items] == [("no_requests", "warning")]
    (error,) = _preflight.check(plan(), node(lacking="/usr/bin/python3")).items
    assert "ansible_python_interpreter" in error["hint"] and error["level"] == "error"


def test_a_server_on_the_cpu_asks_for_no_gpu():
    findings = _preflight.check(plan({"device": "cpu"}), node(gpus=[], driver=Cause("driver_missing", "no nvidia-smi")))
    assert findings.verdict() == "ok"


def test_units_that_make_room_do_not_hold_anything():
    old = unit("sglang-k-old.service", pids=[50, 51])
    busy = [gpu(index, memory_used_mib=90000, processes=[process(51, unit="sglang-k-old.service")]) for index in range(8)]
    facts = node(units=[old], gpus=busy, listeners={30001: {"pid": 50, "name": "python", "unit": "sglang-k-old.service"}})
    assert _preflight.check(plan(), facts).verdict() == "ok"
    (conflict,) = _preflight.conflicts(plan(), facts)
    assert conflict["unit"] == "sglang-k-old.service" and conflict["deployment"] == "k-old" and conflict["shares"] == ["gpus", "port"]
    assert conflict["host"] == "127.0.0.1"
    facts.units[0].argv += ["--host", "10.0.0.5"]
    assert _preflight.conflicts(plan(), facts)[0]["host"] == "10.0.0.5"


def test_a_restart_is_not_in_its_own_way():
    busy = [gpu(index, memory_used_mib=90000, processes=[process(51, unit="sglang-k-s.service")]) for index in range(8)]
    facts = node(unit=unit(), gpus=busy, listeners={30001: {"pid": 50, "name": "python", "unit": "sglang-k-s.service"}})
    assert _preflight.check(plan(), facts).verdict() == "ok"
    assert _preflight.conflicts(plan(), facts) == []


def test_orphans_of_a_unit_are_strangers():
    facts = node(unit=unit(active=False), gpus=[gpu(0, processes=[process(77, name="sglang::scheduler_TP0")])] + [gpu(index) for index in range(1, 8)])
    assert "sglang::scheduler_TP0" in _preflight.check(plan(), facts).cause()["summary"]
    allowed = _preflight.check(plan(), facts, gpus_must_be_free=False)
    assert allowed.verdict() == "ok" and allowed.items[0]["level"] == "warning"


def test_strangers_on_other_cards_do_not_matter():
    facts = node(gpus=[gpu(index, processes=[process(99)] if index > 3 else []) for index in range(8)])
    assert _preflight.check(plan({"tp-size": 4}, gpus=[0, 1, 2, 3]), facts).verdict() == "ok"
    absent = _preflight.check(plan({"tp-size": 2}, gpus=[3, 11]), facts)
    assert absent.cause()["code"] == "gpu_count" and "GPU 11 is named" in absent.cause()["summary"]


def test_two_deployments_side_by_side():
    facts = node(units=[unit("sglang-o-s.service", port=30011, gpus="4,5,6,7")])
    beside = plan({"tp-size": 4}, gpus=[0, 1, 2, 3])
    assert _preflight.check(beside, facts).verdict() == "ok"
    assert _preflight.conflicts(beside, facts) == [] and _preflight.replaces(beside, facts) == []


def test_neighbours_with_overlapping_ports_are_refused_with_both_names():
    facts = node(units=[unit("sglang-o-s.service", port=30005, gpus="4,5,6,7")])
    cause = _preflight.check(plan({"tp-size": 4}, gpus=[0, 1, 2, 3]), facts).cause()
    assert cause["code"] == "bad_flags" and "sglang-k-s.service" in cause["summary"] and "sglang-o-s.service" in cause["summary"]


def test_what_starts_at_boot_is_replaced_even_when_it_does_not_run():
    facts = node(units=[unit("sglang-k-old.service", active=False, enabled=True), unit("sglang-k-off.service", active=False)])
    assert _preflight.replaces(plan(), facts) == ["sglang-k-old.service"]
    assert _preflight.conflicts(plan(), facts) == []


def test_ephemeral_range_and_hand_made_changes_are_reported():
    facts = node(ephemeral=(30000, 60999), unit=unit(need_daemon_reload=True, drop_ins=["/etc/systemd/system/x.d/a.conf"]))
    findings = _preflight.check(plan(), facts)
    said = " ".join(item["summary"] for item in findings.items)
    assert findings.verdict() == "ok" and "30000 to 60999" in said and "a.conf" in said and "since they were changed" in said


def test_what_cannot_be_told_is_said():
    findings = _preflight.check(plan(version="0.9.1"), node(installed_version="0.9.1", flags_unread="no module named x", models=[Model("org/name", "hub")]))
    notes = {item["summary"] for item in findings.items if item["code"] == "not_checked"}
    assert findings.verdict() == "ok" and any("org/name comes from a hub" in note for note in notes) and any("neither in the table" in note for note in notes)


def test_code_of_the_models_own_is_noted():
    model = Model("/models/k", "local", config={**DENSE, "auto_map": {"AutoConfig": "x"}})
    assert "remote_code" in {item["code"] for item in _preflight.check(plan(), node(models=[model])).items}
    trusted = plan({"tp-size": 8, "trust-remote-code": True})
    assert _preflight.check(trusted, node(models=[model])).items == []


def test_value_that_the_installed_version_does_not_take():
    listed = {"attention-backend": ("str", (), ("flashinfer",))}
    findings = _preflight.check(plan({"tp-size": 8, "attention-backend": "triton"}), node(flags=listed))
    assert findings.cause()["code"] == "bad_flags" and "takes one of flashinfer" in findings.cause()["summary"]


def test_without_a_plan_nothing_is_an_error():
    findings = _preflight.check_runtime(Facts(driver=Cause("driver_missing", "nvidia-smi is not installed"), broken="is half made"))
    assert findings.verdict() == "ok" and len(findings.items) == 2
