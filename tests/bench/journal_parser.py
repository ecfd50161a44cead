# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how many journal lines a second the wait reads on one core, and that the time grows linearly with the input.

Two figures a corpus: decoded (JSON, bytes, colours, carriage returns, secrets masked), and all that a wait does with a line."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scenarios"))

from collection import journal, readiness  # noqa: E402

UNIT = "sglang-bench.service"
FLOOR = 50_000  # lines a second
LINEAR = 1.6  # time per line of the long input, at most so many times that of the short one

ORDINARY = (
    "[2026-01-05 10:00:{s:02d} TP{r}] Prefill batch, #new-seq: 1, #new-token: {n}, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0",
    "[2026-01-05 10:00:{s:02d} TP{r}] Decode batch, #running-req: {n}, #token: {n}, token usage: 0.01, cuda graph: True, gen throughput "
    "(token/s): 88.06, #queue-req: 0",
    'INFO:     10.0.0.9:{n} - "GET /health HTTP/1.1" 503 Service Unavailable',
    'INFO:     127.0.0.1:{n} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "Loading safetensors checkpoint shards:  {p}% Completed | {r}/20 [00:05<01:35,  5.0s/it]",
    "[2026-01-05 10:00:{s:02d} TP{r}] Load weight begin. avail mem=78.51 GB",
    "[2026-01-05 10:00:{s:02d} TP{r}] Using default MoE kernel config. Performance might be sub-optimal!",
    "Capturing batches (bs={r} avail_mem=7.01 GB):  {p}%|####      | 8/20 [00:10<00:12]",
)
ERRORS = (
    "[2026-01-05 10:00:{s:02d} TP{r}] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/sglang/lib/model_runner.py", line {n}, in load_model',
    '    raise RuntimeError("Not enough memory. Please try to increase --mem-fraction-static.")',
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:{n}",
    '[rank{r}]:[W105 10:00:02.100 ProcessGroupNCCL.cpp:1826] Failed to check the "should dump" flag on TCPStore, with error: Connection reset by peer',
    "gpu-1:4107:{n} [0] NCCL INFO comm 0x55 rank {r} nranks 8 failed to find a path",
)


def lines_of(shapes: tuple[str, ...], count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [
        chance.choice(shapes).format(s=chance.randrange(60), r=chance.randrange(8), n=chance.randrange(1024, 60000), p=chance.randrange(100))
        for _line in range(count)
    ]


def records(texts: list[str]) -> bytes:
    out = []
    for number, text in enumerate(texts):
        out.append(
            json.dumps(
                {
                    "MESSAGE": text,
                    "_SYSTEMD_INVOCATION_ID": "i1",
                    "_PID": "4107",
                    "__CURSOR": f"s=1;i={number:x}",
                    "PRIORITY": "6",
                    "__REALTIME_TIMESTAMP": str(1767607200000000 + number),
                    "__MONOTONIC_TIMESTAMP": str(1000000 + number),
                }
            ).encode()
        )
    return b"\n".join(out) + b"\n"


def hostile(count: int) -> list[str]:
    """Lines made to make a careless regex slow: long runs of what the patterns repeat."""
    parts = (
        "api_key=",
        "Traceback ",
        "a.",
        "[",
        "error: ",
        "out of memory ",
        "not divisible ",
        "x_size ",
        "https://",
        "/cache",
        "permission denied ",
        "100% Completed | 1/2 ",
        "\t",
        "hf_",
        "A" * 40,
    )
    chance = random.Random(3)
    return [(chance.choice(parts) * chance.randrange(1, 40))[:600] for _line in range(count)]


def noise(count: int) -> list[str]:
    """Lines of random printable characters, no two alike."""
    chance = random.Random(5)
    return ["".join(map(chr, chance.choices(range(32, 127), k=chance.randrange(160)))) for _line in range(count)]


def decode_all(raw: bytes) -> int:
    decoder = journal.Decoder(UNIT, ("s3cret-key-of-the-server",))
    return sum(len(decoder.feed(raw[start : start + 65536])) for start in range(0, len(raw), 65536))


def read_all(raw: bytes) -> int:
    """Everything that the waiting module does with journal lines: decode, mask, follow the phases, look for the cause."""
    decoder = journal.Decoder(UNIT, ("s3cret-key-of-the-server",))
    wait = readiness.Wait(readiness.WaitOptions(unit=UNIT, secrets=("s3cret-key-of-the-server",), invocation_id="i1"))
    count = 0
    for start in range(0, len(raw), 65536):
        entries = decoder.feed(raw[start : start + 65536])
        count += len(entries)
        wait.on_journal(1.0, entries)
    return count


def rate(make: Callable[[int], list[str]], count: int, reader: Callable[[bytes], int] = read_all, repeats: int = 3) -> float:
    raw = records(make(count))
    best = 0.0
    for _repeat in range(repeats):
        began = time.process_time()
        read = reader(raw)
        best = max(best, read / max(time.process_time() - began, 1e-9))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=60_000)
    count = parser.parse_args().lines
    corpora: dict[str, Callable[[int], list[str]]] = {
        "ordinary": lambda n: lines_of(ORDINARY, n, 1),
        "errors": lambda n: lines_of(ORDINARY * 3 + ERRORS, n, 2),
        "hostile": hostile,
        "noise": noise,
        "one_huge_message": lambda n: ["\r".join(lines_of(ORDINARY, n, 4))],
    }
    rates, decoded, worst = {}, {}, 0.0
    sys.stdout.write(f"{'lines/s':18} {'decoded':>10} {'whole':>10}   time per line, long input to short\n")
    for name, make in corpora.items():
        small, large = rate(make, count // 8), rate(make, count)
        rates[name], decoded[name] = round(large), round(rate(make, count, decode_all))
        worst = max(worst, small / large)
        sys.stdout.write(f"{name:18} {decoded[name]:10} {rates[name]:10}   {small / large:.2f}\n")
    enough = rates["ordinary"] >= FLOOR and worst <= LINEAR
    sys.stdout.write(
        json.dumps(
            {
                "bench": "journal_parser",
                "lines_per_s": rates["ordinary"],
                "rates": rates,
                "decoded": decoded,
                "floor": FLOOR,
                "linearity": round(worst, 2),
                "ok": enough,
            }
        )
        + "\n"
    )
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
