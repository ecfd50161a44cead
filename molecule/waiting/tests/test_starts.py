# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts that go wrong in the server, in its unit or on its node, and what the wait says of each."""

from __future__ import annotations

import pytest

from nodes import main_pid, prop
from trials import UNIT, Trial, code

SERVER = "/opt/sglang/0.5.23+standin/bin/python -m sglang.launch_server --model-path /srv/models/kimi-k2.6 --served-model-name kimi-k2.6"
FOREIGN = f"systemd-run --quiet --unit foreign --uid ops --setenv HOME=/tmp --setenv FAKE_GPU_DIR=/none --setenv MOCK_SGLANG_LOAD_SECONDS=1 {SERVER}"


@pytest.fixture
def trial(host, plays):
    return Trial(host, plays)


@pytest.fixture
def foreigner(trial):
    """Somebody else's server of the same model has our port."""
    trial.host.check_output(f"{FOREIGN} --port 30001")
    trial.until(lambda: trial.host.run("curl -s http://127.0.0.1:30001/ready").rc == 0)
    yield main_pid(trial.host, "foreign")
    trial.host.check_output("systemctl kill -s KILL foreign; systemctl reset-failed foreign; true")


def test_ready(trial):
    answer = trial.waited()
    assert answer["verdict"] == "ready" and answer["unit"]["main_pid"] == main_pid(trial.host, UNIT)


def test_foreign_server_of_the_same_model(trial, foreigner):
    trial.stand_in(load_seconds=20)
    answer = trial.go(start=True, wait={})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "foreign_listener")
    assert str(foreigner) in answer["msg"] and "serves kimi-k2.6" in answer["msg"]


def test_ready_to_roll_of_a_server_that_never_had_its_port(trial, foreigner):
    """The other server answered its warm-up, so it calls itself ready, though it could not bind."""
    trial.service("Restart=no")
    trial.stand_in(time_scale=2)
    trial.start_by_hand()
    trial.until(lambda: prop(trial.host, UNIT, "ActiveState") == "failed" and trial.logged("ready to roll!"))
    answer = trial.go(wait={})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "port_in_use")
    assert "[Errno 98]" in answer["cause"]["line"]


def test_engine_dead_behind_a_live_server(trial):
    trial.stand_in(fault="engine_dead", fault_after=0)
    trial.start_by_hand()
    trial.until(lambda: trial.logged("Scheduler hit an exception"))
    answer = trial.go(wait={})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "engine_dead")
    assert "device-side assert" in answer["cause"]["line"]
    assert prop(trial.host, UNIT, "ActiveState") == "active"


def test_exit_status_0_is_no_success(trial):
    trial.stand_in(fault="exit0")
    answer = trial.waited()
    assert (answer["verdict"], code(answer)) == ("failed", "bad_sizes")
    assert "ValueError" in answer["cause"]["line"]


def test_start_limit_while_it_is_waited_for(trial):
    trial.stand_in(fault="cuda_oom")
    trial.service("RestartSec=100ms")
    answer = trial.waited(restarts=9)
    assert (answer["verdict"], code(answer)) == ("failed", "start_limit")
    assert "ran out of memory before the server was ready" in answer["cause"]["summary"]


def test_start_that_systemd_refuses(trial):
    """The limit was hit before: this start never begins, and nobody resets it here."""
    trial.stand_in(fault="cuda_oom")
    trial.service("RestartSec=100ms")
    trial.start_by_hand()
    trial.until(lambda: prop(trial.host, UNIT, "ActiveState") == "failed" and prop(trial.host, UNIT, "SubState") == "failed")
    assert trial.host.run("systemctl start %s", UNIT).rc, "a daemon-reload before it would have made it possible"
    answer = trial.go(wait={})["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "start_limit")


def test_blocked_before_the_server_begins(trial):
    trial.service("ExecStartPre=/bin/sleep 5")
    answer = trial.waited()
    assert answer["verdict"] == "ready"
    assert "(unit start-pre)" in trial.outcome.text
    assert {step["phase"] for step in answer["timeline"] if "start-pre" in step["what"]} == {"process"}


def test_blocked_for_longer_than_the_stall_limit(trial):
    trial.service("ExecStartPre=/bin/sleep 30")
    answer = trial.waited(stall=3)
    assert (answer["verdict"], answer["phase"]) == ("stalled", "process")
    assert "start-pre" in answer["msg"] and "ExecStartPre=" in answer["msg"]


WARDEN = """
import os, signal, sys, time
group, limit = "/sys/fs/cgroup/system.slice/" + sys.argv[1], int(sys.argv[2]) * 2**20

def members():
    try:
        return [int(pid) for pid in open(group + "/cgroup.procs")]
    except OSError:
        return []

def resident(pid):
    try:
        return int(open("/proc/%d/statm" % pid).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

while max(map(resident, members()), default=0) < limit:
    time.sleep(0.05)
for mark in ("user.oomd_ooms", "user.oomd_kill"):
    os.setxattr(group, mark, b"1")
for pid in members():
    os.kill(pid, signal.SIGKILL)
"""


@pytest.fixture
def memory_warden(trial):
    """Where the control groups have no memory controller, so that MemoryMax= bites nobody: kills as systemd-oomd kills, which
    tells systemd by marks on the group; all that systemd makes of it is its own."""
    if "memory" in trial.host.file("/sys/fs/cgroup/cgroup.controllers").content_string.split():
        yield
        return
    trial.host.check_output("systemd-run --quiet --collect --unit warden python3 -c %s %s 400", WARDEN, UNIT)
    yield
    trial.host.run("systemctl stop warden")


def test_out_of_memory_by_its_own_limit(trial, memory_warden):
    trial.stand_in(fault="eat_memory", eat_mib=2048)
    trial.service("MemoryMax=400M", "MemorySwapMax=0", "Restart=no")
    answer = trial.waited()
    assert (answer["verdict"], code(answer)) == ("failed", "host_oom")
    assert "MemoryMax" in answer["msg"]
    assert prop(trial.host, UNIT, "Result") == "oom-kill"


def test_cache_without_room(trial):
    trial.host.run("rm -rf /var/cache/sglang/*/sglang; dd if=/dev/zero of=/var/cache/sglang/full bs=64k status=none")
    answer = trial.waited()
    trial.host.check_output("rm /var/cache/sglang/full")
    assert (answer["verdict"], code(answer)) == ("failed", "disk_full")
    assert "No space left on device" in answer["cause"]["line"]
    assert trial.waited()["verdict"] == "ready"


PROXY = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Proxy(BaseHTTPRequestHandler):
    def do_GET(self): self.send_error(403)
HTTPServer(("127.0.0.1", 3128), Proxy).serve_forever()
"""


@pytest.fixture
def company_proxy(trial):
    """A node whose every process is told to use a proxy, which knows nothing of this machine."""
    settings = " ".join(f"{name}=http://127.0.0.1:3128" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"))
    trial.host.check_output("systemd-run --quiet --unit proxy python3 -c %s", PROXY)
    trial.host.check_output(
        "mkdir -p /etc/systemd/system.conf.d; printf '[Manager]\\nDefaultEnvironment=%%s\\n' %s > /etc/systemd/system.conf.d/proxy.conf;"
        "tr ' ' '\\n' <<< %s > /etc/environment; systemctl daemon-reexec", settings, settings)
    yield
    trial.host.check_output("rm /etc/systemd/system.conf.d/proxy.conf; : > /etc/environment; systemctl daemon-reexec; systemctl stop proxy")


def test_company_proxy(trial, company_proxy):
    answer = trial.waited()
    assert answer["verdict"] == "ready", "the unit of the role does not use it"
    assert "http_proxy=http://127.0.0.1:3128" in trial.host.check_output("tr '\\0' '\\n' < /proc/%s/environ", str(main_pid(trial.host, UNIT)))

    trial.service("UnsetEnvironment=NO_PROXY no_proxy")
    trial.stand_in(time_scale=0.01)
    answer = trial.waited()
    assert (answer["verdict"], code(answer)) == ("failed", "http_proxy")
    assert "NO_PROXY" in answer["cause"]["hint"]


def test_somebody_who_may_not_read_the_journal(trial):
    trial.stand_in(fault="killed_unknown", load_seconds=10)  # the wait begins before the last of its starts
    trial.service("RestartSec=100ms")
    trial.start_by_hand()
    answer = trial.go(wait={"restarts": 9}, ansible_user="ops")["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "start_limit"), "systemd's state tells without any line"
    assert "journal_unreadable" in " ".join(answer.get("warnings", []))


def test_lines_that_journald_dropped(trial):
    trial.service("LogRateLimitIntervalSec=1s", "LogRateLimitBurst=1")
    trial.stand_in(load_seconds=4)
    answer = trial.waited()
    assert answer["verdict"] == "ready"
    assert "journal_unreadable" in " ".join(answer.get("warnings", []))


CLOCK = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.fixture
def journal_clock(trial):
    """The journal's own clock, which a test may set; a container may not set the machine's."""
    if trial.host.run("apt-get update && apt-get install --yes --no-install-recommends libfaketime").rc or not trial.host.file(CLOCK).exists:
        pytest.skip("no package of libfaketime to be had, and a container may not set the machine's clock")
    folder = "/etc/systemd/system/systemd-journald.service.d"
    trial.host.check_output(
        "echo +0 > /run/clock; mkdir -p %s; printf '[Service]\\nEnvironment=LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=/run/clock FAKETIME_NO_CACHE=1"
        " FAKETIME_DONT_FAKE_MONOTONIC=1\\n' > %s/clock.conf; systemctl daemon-reload; systemctl restart systemd-journald", folder, CLOCK, folder)
    yield lambda offset: trial.host.check_output("echo %s > /run/clock", offset)
    trial.host.check_output("rm -r %s; systemctl daemon-reload; systemctl restart systemd-journald", folder)


def test_clock_set_back_while_it_loads(trial, journal_clock):
    trial.stand_in(load_seconds=10, fault="graph_capture_oom")
    begun = trial.begin(stop={}, start=True, wait={})
    trial.until(lambda: main_pid(trial.host, UNIT) and trial.logged("Load weight begin"))
    journal_clock("-2h")
    answer = trial.end(begun)["wait"]
    assert (answer["verdict"], code(answer)) == ("failed", "graph_capture_oom")
    assert answer["cause"]["time_us"] / 1e6 < float(trial.host.check_output("date +%s")) - 3600, "the cause was written after the clock was set back"


def test_neighbour_that_crashes_all_the_time(trial):
    unit = "sglang-other-ep8.service"
    trial.host.check_output(
        "sed -e 's/--port 30001/--port 30101/; s/--nccl-port 30002/--nccl-port 30102/'"
        " -e '/^.Service.$/a Environment=FAKE_GPU_DIR=/none MOCK_SGLANG_FILE=/none MOCK_SGLANG_FAULT=cuda_oom' -e 's/^StartLimitBurst=.*/StartLimitBurst=99/'"
        " -e 's/^RestartSec=.*/RestartSec=200ms/' /etc/systemd/system/%s > /etc/systemd/system/%s; systemctl daemon-reload; systemctl start --no-block %s",
        UNIT, unit, unit)
    trial.stand_in(load_seconds=4)
    answer = trial.waited(restarts=1)
    neighbour = trial.go(unit=unit, wait={"port": 30101, "restarts": 1})["wait"]
    restarts = int(prop(trial.host, unit, "NRestarts"))
    trial.host.check_output("systemctl stop %s; rm /etc/systemd/system/%s; systemctl daemon-reload", unit, unit)
    assert restarts > 2
    assert answer["verdict"] == "ready" and "warnings" not in answer and answer["unit"]["restarts"] == 0
    assert (neighbour["verdict"], code(neighbour)) == ("failed", "crash_loop")


def test_controller_that_dies_during_the_wait(trial, plays):
    slow = {"sglang_server_environment": {"MOCK_SGLANG_LOAD_SECONDS": "12"}}
    process = plays.start("deploy_ep8.yml", **slow)
    trial.until(lambda: main_pid(trial.host, UNIT))
    for line in process.stdout:
        if "] weights" in line:
            break
    process.kill()
    pid = main_pid(trial.host, UNIT)
    plays.run("deploy_ep8.yml", **slow).succeeded()
    assert main_pid(trial.host, UNIT) == pid and prop(trial.host, UNIT, "NRestarts") == "0"
