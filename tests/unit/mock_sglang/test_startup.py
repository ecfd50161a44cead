# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a start of the stand-in against one of the real server: lines, processes, the life of the port, a late conflict."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import time
import urllib.request

import pytest
from sglang.standin.arguments import parse
from sglang.standin.knobs import Knobs
from sglang.standin.layout import Layout

STATIC = ("/v1/models", "/model_info", "/get_model_info", "/server_info", "/v1/loads", "/metrics", "/")
TRUTHFUL = ("/ready", "/health", "/health_generate", "/ping")


def assert_in_order(log: str, patterns) -> None:
    lines, at = log.splitlines(), 0
    for pattern in patterns:
        kind, _sep, rest = pattern.partition(" ")
        if kind == "cpu":
            continue
        expression = re.compile(rest if kind == "gpu" else pattern)
        while at < len(lines) and not expression.search(lines[at]):
            at += 1
        assert at < len(lines), "not found, or not in this order: %s\n%s" % (pattern, log)


@pytest.mark.parametrize("sizes", [(), ("--tp-size", 4, "--ep-size", 4), ("--pp-size", 3)], ids=["tp1", "ep4", "pp3"])
def test_lines_come_in_the_order_of_the_real_server(standin, real_startup, sizes):
    assert_in_order(standin(*sizes, MOCK_SGLANG_JITTER="0").until_ready().log(), real_startup)


@pytest.mark.parametrize(
    "flags, prefix, title",
    [
        ((), "", "sglang::scheduler"),
        (("--tp-size", 2), " TP1", "sglang::scheduler_TP1"),
        (("--tp-size", 8, "--ep-size", 4), " TP7 EP3", "sglang::scheduler_TP7_EP3"),
        (("--pp-size", 2), " PP1", "sglang::scheduler_PP1"),
        (("--tp-size", 2, "--pp-size", 2), " PP1 TP1", "sglang::scheduler_PP1_TP1"),
        (("--tp-size", 4, "--pp-size", 2, "--nnodes", 2, "--node-rank", 1), " PP1 TP3", "sglang::scheduler_PP1_TP3"),
        (("--dp-size", 2), " DP1", "sglang::scheduler_DP1"),
        (("--tp-size", 2, "--attn-dp-size", 2), " DP1 TP1", "sglang::scheduler_DP1_TP1"),
    ],
)
def test_ranks_are_told_by_prefix_and_title(flags, prefix, title):
    args = parse(["--model-path", "org/demo", *map(str, flags)])
    rank = Layout(args, Knobs({"MOCK_SGLANG_FILE": ""})).ranks[-1]
    assert (rank.prefix, rank.title) == (prefix, title)


def test_the_processes_are_those_of_the_real_server(standin):
    server = standin("--tp-size", 2, "--ep-size", 2).until_ready()
    assert re.search(r"\[.{19} TP1 EP1\] Load weight end\.", server.log())
    assert set(server.children()) >= {"sglang::scheduler_TP0_EP0", "sglang::scheduler_TP1_EP1", "sglang::detokenizer"}


@pytest.mark.parametrize(
    "version, words",
    [
        ("0.5.19", ("Init torch distributed begin.", "Init torch distributed ends. elapsed=", "Capture target decode CUDA graph begin.")),
        ("0.5.10", ("Capture cuda graph begin. This can take up to several minutes.", "Loading safetensors checkpoint shards:")),
    ],
)
def test_older_releases_have_their_own_lines(standin, version, words):
    log = standin(MOCK_SGLANG_VERSION=version).until_ready().log()
    assert all(word in log for word in words)


def test_the_port_lives_as_the_real_one_does(standin):
    server = standin("--enable-metrics", MOCK_SGLANG_FAULT="hang@warmup").until_logged("Uvicorn running")
    assert {path: server.status(path) for path in STATIC} == dict.fromkeys(STATIC, 200)
    assert {path: server.status(path) for path in TRUTHFUL} == dict.fromkeys(TRUTHFUL, 503)
    assert server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200

    ready = standin("--enable-metrics", MOCK_SGLANG_LOAD_SECONDS="0.6", MOCK_SGLANG_FAULT="drain_hang")
    assert [ready.status(path) for path in ("/ready", "/v1/models")] == [0, 0]
    ready.until_ready()
    assert {path: ready.status(path) for path in ("/ready", "/ping", *STATIC)} == dict.fromkeys(("/ready", "/ping", *STATIC), 200)
    ready.process.send_signal(signal.SIGTERM)
    ready.until_logged("SIGTERM received")
    assert {path: ready.status(path) for path in TRUTHFUL} == dict.fromkeys(TRUTHFUL, 503)
    assert ready.status("/v1/models") == 200
    ready.kill()
    assert ready.status("/ready") == 0


def test_health_makes_a_token_and_takes_its_second(shared):
    begin = time.monotonic()
    assert shared.status("/health") == 200
    assert 0.9 < time.monotonic() - begin < 10


def test_ready_is_stamped_when_it_turns_200(standin):
    server = standin()
    moment = server.until(lambda: server.status("/ready") == 200 and time.monotonic())
    stamps = server.stamps()
    assert stamps["started"] < stamps["bound"] < stamps["ready"] <= moment
    assert moment - stamps["ready"] < 3


@pytest.mark.parametrize("version, ready, ping, load", [("0.5.23", 200, 503, 404), ("0.5.22", 200, 200, 404), ("0.5.19", 404, 200, 200)])
def test_endpoints_of_older_releases(standin, version, ready, ping, load):
    hung = standin(MOCK_SGLANG_VERSION=version, MOCK_SGLANG_FAULT="hang@warmup").until_logged("Uvicorn running")
    assert hung.status("/ping") == ping
    assert hung.status("/get_load") == load
    assert hung.status("/ready") == (404 if ready == 404 else 503)


def test_a_late_port_conflict_says_ready_and_dies(standin):
    first = standin().until_ready()
    second = standin("--port", first.port)
    assert second.end() == -9
    log = second.log()
    assert_in_order(
        log,
        [
            "Application startup complete",
            r"ERROR:    \[Errno 98\] error while attempting to bind on address \('127.0.0.1', %d\): address already in use" % first.port,
            "Waiting for application shutdown",
            "The server is fired up and ready to roll!",
            "Application shutdown complete",
            r"Subprocess scheduler_0 \(pid=\d+\) crashed with exit code -9\. Triggering SIGQUIT for cleanup\.\.\.",
        ],
    )
    assert "ready" not in second.stamps()
    assert first.status("/ready") == 200


def test_the_first_request_honours_the_proxy_of_the_environment(standin):
    proxy = standin(MOCK_SGLANG_FAULT="not_our_server").until_ready()
    through = standin(http_proxy="http://127.0.0.1:1", NO_PROXY="localhost,10.0.0.0/8", MOCK_SGLANG_TIME_SCALE="0.002")
    assert through.end() == -9
    assert "Initialization failed. warmup error: Traceback" in through.log()
    past = standin(http_proxy="http://127.0.0.1:%d" % proxy.port, NO_PROXY="localhost,127.0.0.0/8").until_ready()
    assert '"GET /model_info HTTP/1.1" 200' in past.log()


def test_console_script_entry(standin):
    server = standin("serve", "org/demo", "--model-type", "llm", entry=("-c", "from sglang.cli.main import main; main()"))
    server.until_ready()
    assert server.json("GET", "/v1/models")["data"][0]["id"] == "org/demo"


def test_tls(standin, tmp_path):
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    made = subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-keyout", files[0], "-out", files[1], *subject,
        ],
        capture_output=True, check=False,
    )
    if made.returncode:
        pytest.skip("no openssl here")
    server = standin("--ssl-keyfile", files[0], "--ssl-certfile", files[1]).until_ready()
    context = ssl.create_default_context(cafile=files[1])
    with urllib.request.urlopen("https://127.0.0.1:%d/v1/models" % server.port, context=context) as answer:
        assert answer.status == 200


def test_two_nodes_meet_and_the_second_waits_for_the_first_one_s_word(standin, unused_port):
    address = "127.0.0.1:%d" % unused_port
    flags = ("--tp-size", 2, "--nnodes", 2, "--dist-init-addr", address)
    second = standin(*flags, "--node-rank", 1)
    first = standin(*flags, "--node-rank", 0)
    first.until_ready()
    second.until_logged("Dummy health check server started")
    assert " TP1]" in second.log() and " TP0]" in first.log()
    assert (second.status("/health"), second.status("/ready"), second.status("/v1/models")) == (200, 404, 404)
    second.process.send_signal(signal.SIGTERM)
    second.until_logged("SIGTERM received on node_rank 1; waiting for the rank-0 ShutdownReq broadcast")
    assert second.process.poll() is None
    first.process.send_signal(signal.SIGTERM)
    assert (first.end(), second.end()) == (0, 0)


def test_a_lost_node_ends_the_others(standin, unused_port):
    address = "127.0.0.1:%d" % unused_port
    flags = ("--tp-size", 2, "--nnodes", 2, "--dist-init-addr", address)
    second, first = standin(*flags, "--node-rank", 1), standin(*flags, "--node-rank", 0)
    first.until_ready()
    second.kill()
    assert first.end() == -9
    assert "Connection closed by peer" in first.log()
