# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The style sheet of the HTML report: one set of colours for light and paper, one for dark."""

from __future__ import annotations

LIGHT = """--page: #fbfbfa; --card: #ffffff; --ink: #1b1f24; --muted: #5b636d; --grid: #e3e6ea; --line: #d5d9de;
--good: #176b3a; --good-bg: #e3f3e9; --bad: #a3241c; --bad-bg: #fbe9e7; --warn: #7a5200; --warn-bg: #fdf2d8;
--s0: #1f6fb5; --s1: #c2501d; --s2: #0f7d5f; --s3: #8c4a9e; --s4: #8a6a00; --s5: #b83266; --s6: #3c7f93; --s7: #5b636d;"""
DARK = """--page: #14171b; --card: #1c2026; --ink: #e8eaed; --muted: #a4adb8; --grid: #30363e; --line: #3a414a;
--good: #7fd6a1; --good-bg: #17362a; --bad: #ff9d92; --bad-bg: #43201d; --warn: #f0c566; --warn-bg: #3b2f13;
--s0: #6db3f2; --s1: #f28f5c; --s2: #4fcba2; --s3: #cf9ae0; --s4: #dcb94a; --s5: #f389b2; --s6: #86cbe0; --s7: #a4adb8;"""

CSS = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .25rem; }}
h2 {{ font-size: 1.25rem; margin: 2.5rem 0 .25rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }}
h3 {{ font-size: 1rem; margin: 1.75rem 0 .5rem; }}
p {{ margin: .25rem 0; }} .muted {{ color: var(--muted); font-size: .9rem; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem; margin: 1rem 0; }}
.tile {{ background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; }}
.tile.goal {{ border-color: var(--good); box-shadow: inset 0 0 0 1px var(--good); }}
.tile b {{ display: block; font-size: 1.3rem; line-height: 1.3; overflow-wrap: anywhere; }}
.tile span {{ color: var(--muted); font-size: .875rem; display: block; }}
.scroll {{ overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .4rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }}
thead th {{ color: var(--muted); font-weight: 600; vertical-align: bottom; }}
tbody tr:last-child > * {{ border-bottom: 0; }}
th:first-child, .left {{ text-align: left; }}
tbody th {{ font-weight: 600; }}
.best {{ font-weight: 700; color: var(--good); background: var(--good-bg); }}
.invalid {{ color: var(--muted); }}
td.left {{ white-space: normal; min-width: 8rem; }}
.chip {{ display: inline-block; white-space: nowrap; border-radius: 1rem; padding: 0 .55rem; font-size: .8rem; font-weight: 600; margin-right: .25rem; }}
.chip.good {{ color: var(--good); background: var(--good-bg); }}
.chip.bad {{ color: var(--bad); background: var(--bad-bg); }}
.chip.warn {{ color: var(--warn); background: var(--warn-bg); }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(31rem, 100%), 1fr)); gap: .75rem; margin-top: 1rem; }}
figure {{ margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  display: flex; flex-direction: column; }}
figcaption {{ margin-bottom: .5rem; }} figcaption b {{ display: block; }} figcaption span {{ color: var(--muted); font-size: .875rem; }}
svg {{ width: 100%; height: auto; display: block; margin-top: auto; }}
summary {{ cursor: pointer; color: var(--muted); margin: .75rem 0 .5rem; }}
ul {{ padding-left: 1.2rem; margin: .5rem 0; }} li {{ margin: .35rem 0; overflow-wrap: anywhere; }}
code {{ font: .85rem ui-monospace, Menlo, Consolas, monospace; color: var(--muted); display: block; white-space: pre-wrap; }}
@media print {{
  :root {{ color-scheme: light; {LIGHT} --page: #fff; }}
  body {{ padding: 0; max-width: none; font-size: 10pt; }}
  h2 {{ break-before: auto; }} figure, .tile, tr {{ break-inside: avoid; }} .plots {{ grid-template-columns: 1fr 1fr; }}
  .scroll {{ overflow: visible; }} table {{ font-size: 7.5pt; }} th, td {{ padding: 2pt 3pt; }} td.left {{ min-width: 0; }}
  .chip {{ font-size: 6.5pt; padding: 0 3pt; }} .tiles {{ grid-template-columns: repeat(4, 1fr); gap: 4pt; }} .tile b {{ font-size: 11pt; }}
  .tile span, figcaption span {{ font-size: 8pt; }} * {{ print-color-adjust: exact; }}
}}
"""
