# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML report opened in a real browser: no console message, plots to be seen, right in light, in the dark and on paper."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpuops.sglang.plugins.plugin_utils._report import as_html, plots, style, tables
from ansible_collections.gpuops.sglang.plugins.plugin_utils._report.gather import Collector

from ..unit.plugins.plugin_utils.samples import campaign

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr",
)  # fmt: skip
DARK = ("--blink-settings=preferredColorScheme=0",)
LIGHT = ("--blink-settings=preferredColorScheme=1",)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the report was not opened in a browser"),
    pytest.mark.skipif(not plots.available(), reason="matplotlib is not installed: there are no plots to look at"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    collector = Collector()
    collector.see("gpu-node-1", {"ansible_facts": {"sglang_compare_campaign": campaign()}})
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(as_html.dumps(tables.build(collector.rows(), "2026-11-29 21:15 UTC", "throughput")), encoding="utf-8")
    return path


def browse(path: Path, profile: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", *arguments, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def console(done: subprocess.CompletedProcess) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def colours(text: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(bytes.fromhex(value)) for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{6})", text)}


def pixels_of(image, colour: tuple[int, ...], tolerance: int = 6) -> int:
    return int((abs(image.astype(int) - colour).max(axis=2) <= tolerance).sum())


def test_console_messages_would_be_seen(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('seen')</script>", encoding="utf-8")
    assert console(browse(bad, tmp_path / "profile", "--dump-dom"))


def test_page_opens_without_a_console_message(page, tmp_path):
    done = browse(page, tmp_path / "profile", "--dump-dom")
    assert console(done) == []
    assert done.stdout.count("<svg") == 4


@pytest.mark.parametrize(("scheme", "switch", "block"), [("light", LIGHT, style.LIGHT), ("dark", DARK, style.DARK)])
def test_plots_are_to_be_seen(page, tmp_path, scheme, switch, block):
    from matplotlib.image import imread

    shot = tmp_path / f"{scheme}.png"
    browse(page, tmp_path / "profile", "--window-size=1280,2200", f"--screenshot={shot}", *switch)
    image = (imread(shot)[:, :, :3] * 255).round().astype("uint8")
    expected = colours(block)
    assert pixels_of(image[:4, :4], expected["page"]) == 16
    for line in ("s0", "s1", "s2", "s3"):
        assert pixels_of(image, expected[line]) > 400, f"hardly anything is drawn in {line}"


def test_paper_is_light_even_for_those_who_read_in_the_dark(page, tmp_path):
    printed = tmp_path / "report.pdf"
    browse(page, tmp_path / "profile", f"--print-to-pdf={printed}", "--no-pdf-header-footer", *DARK)
    content = printed.read_bytes()
    assert content.startswith(b"%PDF")
    assert 20_000 < len(content) < 3_000_000
