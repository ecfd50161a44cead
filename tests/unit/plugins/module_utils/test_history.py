# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests what is remembered of earlier starts."""

from __future__ import annotations

import json

from ansible_collections.gpuops.sglang.plugins.module_utils import _history


def record(total, strategy="ep8", **more):
    return dict({"strategy": strategy, "version": "0.5.23", "model": "kimi", "total": total, "phases": {"weights": total / 2}}, **more)


def test_usual_is_the_median_of_the_last_starts_of_the_same_kind():
    records = [record(900)] * 9 + [record(130), record(135), record(140), record(600), record(134)] + [record(30, "tp8")] * 3
    assert _history.usual(records, "ep8", "0.5.23", "kimi") == {"weights": 67.5, "total": 135}
    assert _history.usual(records, "ep8", "0.5.22", "kimi") == {}


def test_a_damaged_file_loses_its_damaged_lines_only(tmp_path):
    path = tmp_path / "loads.jsonl"
    foreign = ["{cut", "[]", '{"phases": 3, "total": 1}', '{"phases": {}, "total": "x"}', '{"phases": {}, "total": true}']
    lines = [json.dumps(record(10)), *foreign, json.dumps(record(20))]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    assert [one["total"] for one in _history.load(str(path))] == [10, 20]
    assert _history.load(str(tmp_path / "none")) == []


def test_starts_are_appended_and_the_file_stays_small(tmp_path):
    path = tmp_path / "new/loads.jsonl"
    _history.append(str(path), record(1, invocation_id="i1"))
    assert _history.of_invocation(_history.load(str(path)), "i1")["total"] == 1
    assert _history.of_invocation(_history.load(str(path)), "") is None
    path.write_text((json.dumps(record(1)) + "\n") * 1000)
    _history.append(str(path), record(2))
    kept = _history.load(str(path))
    assert len(kept) == 500
    assert kept[-1]["total"] == 2
