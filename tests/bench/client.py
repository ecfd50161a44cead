# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores load clients against a server that knows what it sent: ours beside both clients of sglang.bench_serving.

The server has one core, the client the other. Each cell's figures come with the server's own; the last line is JSON.
The clients of SGLang are taken from the wheels of the real server where those can be had, otherwise they are left out.
    client [--cells c512,short] [--clients ours,sglang_rust]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "bench-peers"
TOKENS = 256
PEERS = {"sglang_py": "sglang.bench_serving", "sglang_rust": "sglang.benchmark.rust_client"}
# name -> (settings of the server, concurrency, requests)
CELLS = {
    "c32": ({}, 32, 64),
    "c512": ({}, 512, 1024),
    "c512_50k": ({"itl_ms": 10}, 512, 1024),
    "short": ({"cap": 100}, 8, 16),
    "sse_error": ({"every": 4, "fault": "sse_error"}, 5, 20),
    "http_429": ({"every": 4, "fault": "http_429"}, 5, 20),
    "cut": ({"every": 4, "fault": "cut"}, 5, 20),
    "chunk4": ({"chunk": 4}, 8, 16),
}
DEFAULTS = {"ttft_ms": 50, "itl_ms": 20, "chunk": 1, "cap": 0, "every": 0, "fault": "none", "usage": 1}
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {"<unk>": 0, **{"w%03d" % number: number + 1 for number in range(1000)}}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
made.save_pretrained(sys.argv[1])
"""


def say(text: str) -> None:
    print(text, flush=True)


def pinned(core: int) -> list[str]:
    """The words in front of a command that put it on a core of its own, where there are two, and ahead of other work, where that is allowed."""
    cores = sorted(os.sched_getaffinity(0))
    words = ["nice", "-n", "-10"] if os.geteuid() == 0 else []
    return words + (["taskset", "--cpu-list", str(cores[core])] if len(cores) > 1 else [])


class Server:
    """The truth server, compiled once and run on the first core."""

    def __init__(self) -> None:
        source, binary = HERE / "truthserver" / "truthserver.c", CACHE / "truthserver"
        CACHE.mkdir(parents=True, exist_ok=True)
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["gcc", "-O2", "-Wall", "-o", str(binary), str(source)], check=True)
        self.process = subprocess.Popen([*pinned(0), str(binary)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return json.load(answer)

    def set(self, **settings: Any) -> None:
        self.get("/set?" + "&".join(f"{name}={value}" for name, value in {**DEFAULTS, **settings}.items()))


def peers() -> pathlib.Path | None:
    """The interpreter of an environment with SGLang's clients, made from the wheelhouse of the real server."""
    python = CACHE / "venv" / "bin" / "python"
    if (CACHE / ".made").exists():
        return python
    wheels = ROOT / ".cache" / "wheelhouse" / "real"
    try:
        subprocess.run([sys.executable, str(ROOT / "tests" / "real_sglang" / "wheelhouse.py"), str(wheels)], check=True)
        subprocess.run(["python3.11", "-m", "venv", str(CACHE / "venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-qq", "--no-index", "--find-links", str(wheels), "sglang"], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([str(python), "-c", TOKENIZER, str(CACHE / "tokenizer")], check=True)
    except (subprocess.CalledProcessError, OSError) as error:
        say(f"SGLang's own clients are left out, their environment cannot be made: {error}")
        return None
    (CACHE / ".made").touch()
    return python


def timed(command: list[str], output: pathlib.Path | None = None) -> tuple[str, float]:
    """Standard output and CPU seconds, those of children included, of a command on the second core."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "playbooks" / "collections"), HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([*pinned(1), *command], stdout=out, stderr=errors, env=environment)
        _pid, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode or (output and not output.exists()):
            raise RuntimeError(f"{' '.join(command[:4])} ended with {process.returncode}: {errors.read()[-800:]}")
        return out.read(), used.ru_utime + used.ru_stime


def run_ours(server: Server, concurrency: int, requests: int) -> dict[str, Any]:
    text, cpu = timed([sys.executable, str(HERE / "client_once.py"), str(server.port), str(concurrency), str(requests), str(TOKENS)])
    found = json.loads(text)
    return {
        "tok_s": found["output_tok_s"], "completed": found["completed"], "ttft_p50_ms": found["ttft_ms"]["p50"], "itl_p50_ms": found["itl_ms"]["p50"],
        "itl_p99_ms": found["itl_ms"]["p99"], "cpu_s": cpu, "status": found["status"], "causes": [cause["code"] for cause in found["causes"]]}


def run_peer(python: pathlib.Path, client: str, server: Server, concurrency: int, requests: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "result.jsonl"
        text, cpu = timed([
            str(python), "-m", PEERS[client], "--backend", "sglang-oai-chat", "--base-url", f"http://127.0.0.1:{server.port}", "--model", "truth",
            "--tokenizer", str(CACHE / "tokenizer"), "--dataset-name", "random-ids", "--random-input-len", "32", "--random-output-len", str(TOKENS),
            "--random-range-ratio", "1.0", "--num-prompts", str(requests), "--max-concurrency", str(concurrency), "--warmup-requests", "0",
            "--output-file", str(output)], output)
        found = json.loads(output.read_text().splitlines()[-1])
    return {
        "tok_s": found["output_throughput"], "completed": found["completed"], "ttft_p50_ms": found["median_ttft_ms"], "itl_p50_ms": found["median_itl_ms"],
        "itl_p99_ms": found["p99_itl_ms"], "cpu_s": cpu}


def measure(server: Server, python: pathlib.Path | None, client: str, cell: str) -> dict[str, Any]:
    settings, concurrency, requests = CELLS[cell]
    # Ours makes checks first; the faults begin when it empties the cache, and the facts with them.
    server.set(**settings, armed=0 if client == "ours" else 1)
    try:
        found = run_ours(server, concurrency, requests) if client == "ours" else run_peer(python, client, server, concurrency, requests)
    except RuntimeError as error:
        return {"failed": str(error)}
    truth = server.get("/truth")
    found["error_pct"] = round(100 * (found["tok_s"] / truth["tok_s"] - 1), 2) if truth["tok_s"] and found["tok_s"] else None
    found["truth"] = {
        "tok_s": truth["tok_s"], "completed": truth["completed"], "ttft_p50_ms": truth["ttft_p50_ms"],
        "itl_p50_ms": truth["gap_p50_ms"] / settings.get("chunk", 1),
        "itl_p99_ms": truth["gap_p99_ms"], "ideal_tok_s": round(ideal(settings, concurrency), 1)}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}


def ideal(settings: dict[str, Any], concurrency: int) -> float:
    """Tokens a second of a client that costs no time at all."""
    facts = {**DEFAULTS, **settings}
    tokens = min(TOKENS, facts["cap"] or TOKENS)
    return concurrency * tokens / ((facts["ttft_ms"] + facts["itl_ms"] * (tokens - facts["chunk"])) / 1e3)


def table(cell: str, client: str, found: dict[str, Any]) -> str:
    if "failed" in found:
        return f"{cell:10} {client:12} {found['failed'][:100]}"
    truth = found["truth"]
    words = ", ".join(found.get("causes") or []) or ""
    return (
        f"{cell:10} {client:12} {found['tok_s']:9.1f} tok/s ({found['error_pct']:+7.2f} %)  good {found['completed']:4d} of {truth['completed']:4d}  "
        f"TTFT {found['ttft_p50_ms']:7.1f} ({truth['ttft_p50_ms']:.1f})  ITL {found['itl_p50_ms']:6.2f} / {found['itl_p99_ms']:6.1f} "
        f"({truth['itl_p50_ms']:.2f} / {truth['itl_p99_ms']:.1f})  CPU {found['cpu_s']:5.1f} s  {words}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cells", default=",".join(CELLS))
    options.add_argument("--clients", default=",".join(["ours", *PEERS]))
    asked = options.parse_args()
    clients = asked.clients.split(",")
    python = peers() if set(clients) & set(PEERS) else None
    server = Server()
    report: dict[str, Any] = {}
    say("In brackets the server's own figures; clients and server have a core each.")
    try:
        for cell in asked.cells.split(","):
            for client in clients:
                if client == "ours" or python:
                    found = report.setdefault(client, {})[cell] = measure(server, python, client, cell)
                    say(table(cell, client, found))
                    time.sleep(0.5)
    finally:
        server.process.terminate()
        server.process.wait()
    say(json.dumps(report))
    return 0 if "ours" in report and all("failed" not in found for found in report["ours"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
