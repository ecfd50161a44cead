# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the stand-in stops and dies: drain, signals, children, what stays behind."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import threading
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

NVIDIA_SMI = Path(__file__).resolve().parents[2] / "mock_sglang" / "bin" / "nvidia-smi"
LONG = {"prompt": "x", "max_tokens": 300, "ignore_eos": True}


def gone(pids) -> bool:
    return not any(Path("/proc/%d/cmdline" % pid).exists() and Path("/proc/%d/cmdline" % pid).read_bytes() for pid in pids)


def test_idle_it_drains_at_the_next_tick_and_ends_with_0(standin):
    server = standin("--tp-size", 2).until_ready()
    children = list(server.children().values())
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    log = server.log()
    assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in log
    assert "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]." in log
    assert server.until(lambda: gone(children))
    assert server.stamps()["sigterm"] <= server.stamps()["died"]


def test_running_requests_are_served_to_the_end(standin):
    server = standin(MOCK_SGLANG_SPEED="60").until_ready()
    got = {}
    body = {**LONG, "max_tokens": 600, "stream_options": {"include_usage": True}}
    client = threading.Thread(target=lambda: got.update(events=server.stream("/v1/completions", body)))
    client.start()
    server.until(lambda: server.json("GET", "/v1/loads")["loads"][0]["num_running_reqs"])
    server.process.send_signal(signal.SIGTERM)
    server.until_logged("Remaining number of requests 1.")
    assert server.status("/v1/models") == 200
    assert server.ask("POST", "/v1/completions", {"prompt": "late", "max_tokens": 1})[0] == 200
    client.join()
    assert got["events"][-2]["usage"]["completion_tokens"] == 600
    assert server.end() == 0


@pytest.mark.parametrize(
    "number, environ, status",
    [
        (signal.SIGINT, {}, 0),
        (signal.SIGTERM, {"SGL_FORCE_SHUTDOWN": "1"}, -9),
        (signal.SIGTERM, {"MOCK_SGLANG_VERSION": "0.5.18"}, -9),
        (signal.SIGTERM, {"MOCK_SGLANG_VERSION": "0.5.19"}, 0),
        (signal.SIGKILL, {}, -9),
    ],
)
def test_other_ends_of_a_ready_server(standin, number, environ, status):
    server = standin("--tp-size", 2, **environ).until_ready()
    children = list(server.children().values())
    server.process.send_signal(number)
    assert server.end() == status
    server.until(lambda: gone(children), "death of the children")
    assert server.until(lambda: "died" in server.stamps(), "stamp")


def test_before_the_port_is_bound_sigterm_ends_it_at_once(standin):
    server = standin("--tp-size", 2, MOCK_SGLANG_LOAD_SECONDS="60")
    server.until(lambda: "started" in server.stamps(), "start")
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == -signal.SIGTERM
    assert server.until(lambda: server.stamps().get("died"), "stamp of the watcher")


def test_a_drain_that_never_ends(standin):
    server = standin(MOCK_SGLANG_FAULT="drain_hang").until_ready()
    server.process.send_signal(signal.SIGTERM)
    server.until(lambda: server.log().count("Remaining number of requests 1.") >= 3, "three looks")
    assert server.process.poll() is None


def test_sigterm_can_be_ignored(standin):
    server = standin(MOCK_SGLANG_FAULT="ignore_sigterm").until_ready()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert server.status("/ready") == 200


@pytest.mark.parametrize("title, name", [("sglang::scheduler_TP1", "scheduler_1"), ("sglang::detokenizer", "detokenizer")])
def test_a_killed_child_takes_the_server_with_it(standin, title, name):
    server = standin("--tp-size", 2, SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS="0").until_ready()
    pid = server.children()[title]
    os.kill(pid, signal.SIGKILL)
    assert server.end() == -9
    assert "Subprocess %s (pid=%d) crashed with exit code -9. Triggering SIGQUIT for cleanup..." % (name, pid) in server.log()


def test_releases_without_a_monitor_stay_up_dead(standin):
    server = standin("--tp-size", 2, MOCK_SGLANG_VERSION="0.5.6").until_ready()
    os.kill(server.children()["sglang::scheduler_TP0"], signal.SIGKILL)
    with pytest.raises(TimeoutError):
        server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=0.3)
    assert server.status("/v1/models") == 200


def test_a_stopped_rank_stops_the_tokens(standin):
    server = standin("--tp-size", 2).until_ready()
    rank = server.children()["sglang::scheduler_TP1"]
    os.kill(rank, signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, timeout=0.3)
    os.kill(rank, signal.SIGCONT)
    assert server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200


def test_a_client_that_leaves_frees_its_place(standin):
    server = standin(MOCK_SGLANG_SPEED="0.5").until_ready()
    with pytest.raises(TimeoutError):
        server.ask("POST", "/v1/completions", LONG, timeout=0.3)
    server.until(lambda: not server.json("GET", "/v1/loads")["loads"][0]["num_running_reqs"], "idle")


def test_flushing_is_refused_while_busy_and_abort_ends_it(standin):
    server = standin(MOCK_SGLANG_SPEED="0.5").until_ready()
    client = threading.Thread(target=lambda: server.ask("POST", "/v1/completions", LONG))
    client.start()
    server.until(lambda: server.json("GET", "/v1/loads")["loads"][0]["num_running_reqs"])
    assert server.ask("POST", "/flush_cache")[0] == 400
    assert server.ask("POST", "/abort_request", {"abort_all": True})[0] == 200
    client.join()
    assert server.ask("POST", "/flush_cache")[0] == 200


class Cards:
    """The pretended nvidia-smi over the folder of a server."""

    def __init__(self, folder):
        self.folder = folder

    def ask(self, *words, status=0) -> str:
        loader = SourceFileLoader("nvidia_smi", str(NVIDIA_SMI))
        tool = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(tool)
        tool.FOLDERS = [str(self.folder)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert tool.main(list(words)) == status
        return said.getvalue()

    def holders(self) -> list[list[str]]:
        lines = self.ask("--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits").splitlines()
        return [line.split(", ") for line in lines]


@pytest.fixture
def carded(standin, tmp_path):
    cards = Cards(tmp_path / "cards")
    cards.folder.mkdir()
    return lambda *flags, **environ: (standin(*flags, FAKE_GPU_DIR=str(cards.folder), **environ), cards)


@pytest.fixture
def cards(tmp_path):
    return Cards(tmp_path)


def test_ranks_hold_memory_on_their_cards_while_they_live(carded):
    server, cards = carded("--tp-size", 2, "--base-gpu-id", 1)
    server.until_ready()
    assert [row[1] for row in cards.holders()] == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
    used = cards.ask("--query-gpu=index,memory.used", "--format=csv,noheader,nounits").splitlines()
    assert [line for line in used if int(line.split(", ")[1]) > 80000] == [used[1], used[2]]
    server.kill()
    assert cards.holders() == []


def test_memory_can_be_given_back_late(carded):
    server, cards = carded(MOCK_SGLANG_GPU_LINGER="0.3")
    server.until_ready()
    server.kill()
    assert len(cards.holders()) == 1
    server.until(lambda: not cards.holders(), "release")


def test_an_orphan_keeps_its_card_and_the_next_start_finds_it_busy(carded, standin):
    server, cards = carded(MOCK_SGLANG_FAULT="orphan", MOCK_SGLANG_ORPHAN_SECONDS="20")
    server.until_ready()
    server.until(lambda: len(cards.holders()) == 2, "orphan")
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()
    ((pid, name, mib),) = server.until(lambda: len(cards.holders()) == 1 and cards.holders(), "death of the rank")
    assert name == "sglang::scheduler" and int(mib) > 60000
    again = standin(FAKE_GPU_DIR=str(cards.folder))
    assert again.end() == -9
    assert "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=" in again.log()
    os.kill(int(pid), signal.SIGKILL)


def test_more_ranks_than_cards(carded):
    server, _cards = carded("--tp-size", 4, CUDA_VISIBLE_DEVICES="0,1")
    assert server.end() == -9
    assert "CUDA error: invalid device ordinal" in server.log()


def test_what_the_cards_say(carded):
    server, cards = carded("--tp-size", 8, MOCK_SGLANG_SPEED="0.5")
    server.until_ready()
    client = threading.Thread(target=lambda: server.ask("POST", "/v1/completions", {**LONG, "max_tokens": 20}))
    client.start()
    fields = "utilization.gpu,power.draw,temperature.gpu,clocks.sm,clocks.mem,clocks_throttle_reasons.active,pci.bus_id,pstate,driver_version,compute_cap,name"
    query = ("--query-gpu=" + fields, "--format=csv,noheader,nounits", "--id=7")
    busy = server.until(lambda: not cards.ask(*query).startswith("0,") and cards.ask(*query), "load")
    client.join()
    utilisation, watts = busy.split(", ")[:2]
    assert int(utilisation) > 50 and 78 < float(watts) < 600
    assert busy.strip().endswith("580.95.05, 12.0, NVIDIA RTX PRO 6000 Blackwell Server Edition")
    assert len(cards.ask("-L").splitlines()) == 8
    assert cards.ask("topo", "-m").splitlines()[1].split()[:3] == ["GPU0", "X", "NODE"]
    assert "97887MiB" in cards.ask()
    assert 'Field "nope" is not a valid field to query' in cards.ask("--query-gpu=nope", "--format=csv", status=2)


@pytest.mark.parametrize(
    "fault, status, text",
    [
        ("driver_mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95"),
        ("driver_missing", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        ("gpu_lost", 15, "GPU is lost.  Reboot the system to recover this GPU"),
        ("missing 3", 0, "GPU 2:"),
    ],
)
def test_an_ill_driver(cards, fault, status, text):
    (cards.folder / "fault").write_text(fault + "\n")
    said = cards.ask("-L", status=status)
    assert text in said and "GPU 3:" not in said


def test_it_runs_as_a_command(cards):
    done = subprocess.run([NVIDIA_SMI, "-L"], capture_output=True, text=True, env={**os.environ, "FAKE_GPU_DIR": str(cards.folder)}, check=True)
    assert done.stdout.splitlines()[7].startswith("GPU 7: NVIDIA RTX PRO 6000 Blackwell Server Edition (UUID: GPU-")


def test_cards_can_be_described(cards):
    (cards.folder / "gpus.json").write_text(json.dumps({"driver": "570.10", "topology": "nvlink", "gpus": [{"name": "NVIDIA H200", "memory_mib": 143771}] * 2}))
    assert cards.ask("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").splitlines() == ["NVIDIA H200, 143771 MiB, 570.10"] * 2
    assert "NV18" in cards.ask("topo", "-m")
