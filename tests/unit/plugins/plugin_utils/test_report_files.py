# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader finds in the printed table and in each file."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest

from ansible_collections.gpuops.sglang.plugins.plugin_utils._report import as_csv, as_html, as_json, as_markdown, plots, previous, table, tables
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.gather import Collector

from .samples import benchmark, campaign

EVERY_WIDTH = (60, 79, 100, 140, 200)


def report_of(*results, goal="throughput"):
    collector = Collector()
    for result in results:
        collector.see("gpu-node-1", result)
    return tables.build(collector.rows(), "2026-11-29 21:15 UTC", goal)


@pytest.fixture(scope="module")
def whole():
    return report_of({"ansible_facts": {"sglang_compare_campaign": campaign()}})


@pytest.mark.parametrize("width", EVERY_WIDTH)
def test_no_line_is_wider_than_asked(whole, width):
    lines = table.plain(table.draw(whole, width)).splitlines()
    assert max(map(len, lines)) <= width


def test_the_table_says_who_wins_and_what_went_wrong(whole):
    text = table.plain(table.draw(whole, 79))
    for expected in (
        "98.0*", "1,498=", "(577)", "failed: kv_pool_too_small", "not run: gpu_busy",
        "tie: ep8, 1,498 tok/s at C=256", "remedy: raise mem_fraction_static or use more GPUs",
        "pid 4711 (python3) holds 9,312 MiB", "97 of 200 requests lost", "tp8, run again at the end", "raise pp_max_micro_batch_size",
    ):  # fmt: skip
        assert expected in re.sub(r"\s+", " ", text)


def test_one_strategy_alone_is_not_called_a_winner():
    text = table.plain(table.draw(report_of({"benchmark": benchmark("ep8")}), 79))
    assert "best" not in text
    assert "1,498" in text


def test_many_hosts_are_one_row_and_the_slow_one_is_named():
    hosts = {f"gpu-node-{n}": 0.7 if n == 3 else 1.0 for n in range(1, 6)}
    report = report_of(*({"benchmark": benchmark("ep8", host=host, scale=scale)} for host, scale in hosts.items()))
    text = table.plain(table.draw(report, 79))
    assert "5 hosts, mean" in re.sub(r"\s+", " ", text)
    assert "gpu-node-3 is 30% below the other hosts with ep8" in text


def test_a_host_where_a_strategy_was_not_run_is_named():
    collector = Collector()
    held = {"verdict": "preflight_failed", "cause": {"code": "gpu_busy", "summary": "pid 4711 holds 9,312 MiB"}}
    for host in ("h1", "h2"):
        collector.see(host, {"benchmark": benchmark("tp8", host=host)})
    collector.see("h1", {"benchmark": benchmark("ep8", host="h1")})
    collector.see("h2", held, {"name": "sglang-k26-ep8"}, failed=True)
    report = tables.build(collector.rows(), "2026-11-29 21:15 UTC", "throughput")
    text = re.sub(r"\s+", " ", table.plain(table.draw(report, 79)))
    assert "ep8: not run on h2: pid 4711 holds 9,312 MiB" in text
    assert "T throughput (goal) ep8, 1,498" in text


def test_other_hardware_and_other_workloads_get_tables_of_their_own():
    other_card = benchmark("ep8", host="h200", gpus={"count": 8, "names": ["NVIDIA H200"], "power_limit_w": 700.0})
    longer = benchmark("ep8", deployment="k26-ep8-long", settings={"input_len": 8192, "output_len": 256})
    report = report_of({"benchmark": benchmark("ep8")}, {"benchmark": other_card}, {"benchmark": longer})
    assert [(one.hardware.gpu_name, one.workload.input_len, len(one.rows)) for one in report.tables] == [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 1024, 1),
        ("NVIDIA H200", 1024, 1),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 8192, 1),
    ]


def test_json_has_its_version_and_all_rows(whole):
    data = json.loads(as_json.dumps(whole))
    assert (data["schema"], data["schema_version"]) == ("gpuops.sglang/report", 1)
    winners = data["tables"][0]["winners"]
    assert winners["latency"]["strategy"] == "tp8"
    assert winners["throughput"]["strategy"] is None
    assert sorted(winners["throughput"]["tied"]) == ["ep4", "ep8"]
    assert len(data["tables"][0]["rows"]) == 7


def test_csv_has_one_line_a_point_and_one_for_what_did_not_run(whole):
    lines = list(csv.DictReader(io.StringIO(as_csv.dumps(whole))))
    assert len(lines) == 5 * 9 + 2
    assert next(line for line in lines if line["strategy"] == "ep8_tuned")["cause"] == "kv_pool_too_small"
    assert [line["valid"] for line in lines if line["strategy"] == "pp8"][-1] == "False"


def test_csv_text_is_never_a_formula():
    report = report_of({"benchmark": benchmark("ep8", model="=HYPERLINK(1)")})
    assert "'=HYPERLINK(1)" in as_csv.dumps(report)


def test_markdown_tables_are_square(whole):
    for block in as_markdown.dumps(whole).split("\n\n"):
        if block.startswith("|"):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


class Reader(HTMLParser):
    """Collects what a page would fetch, run or mention twice, and whether its tags are closed."""

    EMPTY = {"meta", "link", "br"}

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.links, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href"):
                self.links.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_whole_and_fetches_nothing(whole):
    text = as_html.dumps(whole)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert "script" not in reader.tags
    assert len(reader.ids) == len(set(reader.ids))
    assert all(link.startswith(("#", "data:")) for link in reader.links)
    assert not re.search(r"url\((?!#)|@import", text)


def test_html_shows_log_lines_as_text():
    bad = benchmark("ep8", warnings=["<script>alert(1)</script>"], model='"><img src=x>')
    text = as_html.dumps(report_of({"benchmark": bad}))
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.skipif(not plots.available(), reason="matplotlib is not installed")
def test_plots_take_their_colours_from_the_page(whole):
    text = as_html.dumps(whole)
    drawings = re.findall(r"<svg .*?</svg>", text, flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert not re.search(r"#[0-9a-f]{6}", drawing)
        assert 'role="img"' in drawing


def test_a_page_without_matplotlib_says_so(whole, monkeypatch):
    monkeypatch.setattr(plots, "Figure", None)
    text = as_html.dumps(whole)
    assert "<svg" not in text
    assert "matplotlib is not installed" in text


def past(report, strategy="tp8", concurrency=8, factor=1.0):
    data = json.loads(as_json.dumps(report))
    for row in data["tables"][0]["rows"]:
        for point in row["points"]:
            if (row["strategy"], point["concurrency"]) == (strategy, concurrency):
                point["tok_s"] *= factor
    return data


@pytest.mark.parametrize(("factor", "verdicts"), [(1.0, set()), (1.01, set()), (1.2, {"worse"}), (0.8, {"better"})])
def test_changes_since_an_earlier_report(factor, verdicts):
    report = report_of({"ansible_facts": {"sglang_compare_campaign": campaign()}})
    previous.compare(report, past(report, factor=factor), "last.json")
    changes = {(change.strategy, change.what, change.verdict) for change in report.tables[0].changes if change.verdict != "same"}
    assert changes == {("tp8", "tok/s at C=8", verdict) for verdict in verdicts}
    assert ("WORSE" in table.plain(table.draw(report, 79))) == ("worse" in verdicts)


def test_reports_of_something_else_are_not_compared():
    report = report_of({"benchmark": benchmark("ep8")})
    previous.compare(report, {"points": []}, "other.json")
    longer = report_of({"benchmark": benchmark("ep8", settings={"input_len": 8192, "output_len": 256})})
    previous.compare(report, json.loads(as_json.dumps(longer)), "longer.json")
    assert report.tables[0].changes == []
    assert len(report.notes) == 2


def test_labels_that_would_overlap_move_apart():
    assert plots.spread([1, 1, 5], 1) == [0.5, 1.5, 5]


def test_pareto_front_keeps_what_nobody_beats():
    assert plots.pareto([(10, 5), (20, 9), (15, 4), (20, 12)]) == [(15, 4), (20, 9)]
