# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A start is followed through its phases by the lines of old and new versions."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Entry
from ansible_collections.gpuops.sglang.plugins.module_utils._phases import Phases

NEW = [
    (5, "[2026-11-29 10:00:05 TP0] Init parallel begin.", "distributed"),
    (7, "[2026-11-29 10:00:07 TP0] Init parallel ends. elapsed=2.08 s", "distributed"),
    (8, "[2026-11-29 10:00:08 TP0] Load weight begin. avail mem=93.52 GB", "weights"),
    (8, "[2026-11-29 10:00:08 TP1] Load weight begin. avail mem=93.52 GB", "weights"),
    (20, "Multi-thread loading shards:  62% Completed | 41/66 [00:12<00:07,  3.4it/s]", "weights"),
    (30, "[2026-11-29 10:00:30 TP0] Load weight end. elapsed=22.06 s, type=X, avail mem=21.52 GB, mem usage=72.00 GB.", "weights"),
    (33, "[2026-11-29 10:00:33 TP1] Load weight end. elapsed=25.06 s, type=X, avail mem=21.52 GB, mem usage=72.00 GB.", "kv_cache"),
    (34, "[2026-11-29 10:00:34 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192, K size: 0.00 GB, V size: 0.00 GB", "kv_cache"),
    (35, "[2026-11-29 10:00:35 TP0] Capture target decode CUDA graph begin. This can take up to several minutes. avail mem=8.90 GB", "graphs"),
    (40, "Capturing batches (bs=64 avail_mem=7.01 GB):  40%|####      | 8/20 [00:10<00:12]", "graphs"),
    (50, "[2026-11-29 10:00:50 TP0] Capture target decode CUDA graph end. Time elapsed: 8.04 s. mem usage=0.80 GB. avail mem=8.10 GB.", "graphs"),
    (51, "[2026-11-29 10:00:51] INFO:     Started server process [21601]", "bind"),
    (52, "[2026-11-29 10:00:52] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)", "warmup"),
    (55, "[2026-11-29 10:00:55] The server is fired up and ready to roll!", "warmup"),
]


def feed(phases, lines):
    for now, text, *_expected in lines:
        phases.feed(float(now), Entry(text))


def test_every_phase_is_seen_and_timed():
    phases = Phases()
    phases.start(0.0)
    for now, text, expected in NEW:
        phases.feed(float(now), Entry(text))
        assert phases.phase == expected, text
    assert phases.announced
    phases.finish(56.0)
    assert phases.phase == "ready"
    assert phases.seconds == {"process": 5.0, "distributed": 3.0, "weights": 25.0, "kv_cache": 2.0, "graphs": 16.0, "bind": 1.0, "warmup": 4.0}


def test_older_words_tell_the_same():
    phases = Phases()
    phases.start(0.0)
    feed(
        phases,
        [
            (1, "[2025-01-01 10:00:00 TP0] Init torch distributed begin."),
            (2, "[2025-01-01 10:00:00 TP0] Load weight begin. avail mem=78.51 GB"),
            (3, "[2025-01-01 10:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.20 GB"),
        ],
    )
    assert phases.phase == "kv_cache" and set(phases.seconds) == {"process", "distributed", "weights"}


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (NEW[:5], "weights 62 % (41 of 66 shards), 94 GB free"),
        (NEW[:10], "graphs 40 % (8 of 20 batches), 7 GB free"),
        ([(1, "Fetching 30 files:  10%|#         | 3/30 [00:05<00:45]")], "download 10 % (3 of 30 files)"),
        ([(1, "model-00001-of-00061.safetensors:  23%|##3   | 1.15G/4.98G [00:10<00:35, 107MB/s]")], "download 23 % (1.15G of 4.98G)"),
        ([], "process"),
    ],
)
def test_progress_reads_like_a_sentence(lines, text):
    phases = Phases()
    phases.start(0.0)
    feed(phases, lines)
    assert phases.text() == text


def test_only_change_is_progress():
    phases = Phases()
    phases.start(0.0)
    line = Entry("Loading safetensors checkpoint shards:  40% Completed | 8/20 [00:40<01:00,  5.0s/it]")
    assert phases.feed(1.0, line)
    assert not phases.feed(2.0, Entry("Loading safetensors checkpoint shards:  40% Completed | 8/20 [01:20<01:00, 10.0s/it]"))
    assert not phases.feed(3.0, Entry('INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 503 Service Unavailable'))
    assert phases.feed(4.0, Entry("Loading safetensors checkpoint shards:  45% Completed | 9/20 [01:21<01:00, 10.0s/it]"))


def test_capturing_is_known_by_rank():
    phases = Phases()
    feed(
        phases,
        [
            (1, "[10:00:00 TP0] Capture cuda graph begin. avail mem=8 GB"),
            (1, "[10:00:00 TP1] Capture cuda graph begin. avail mem=8 GB"),
            (2, "[10:00:02 TP0] Capture cuda graph end. Time elapsed: 1 s."),
        ],
    )
    assert not phases.capturing("TP0") and phases.capturing("TP1") and phases.capturing("")


def test_a_backlog_read_late_is_timed_by_the_lines_own_clock():
    phases = Phases()
    phases.start(100.0)
    for written, text in ((110, NEW[0][1]), (130, NEW[2][1])):
        phases.feed(500.0, Entry(text, monotonic_us=written * 1_000_000))
    assert phases.seconds == {"process": 10.0, "distributed": 20.0}


def test_it_can_be_kept_as_json():
    phases = Phases()
    phases.start(0.0)
    feed(phases, NEW[:6])
    other = Phases()
    other.restore(json.loads(json.dumps(phases.dump())))
    feed(other, NEW[6:])
    assert other.phase == "warmup" and other.seconds["weights"] == 25.0
