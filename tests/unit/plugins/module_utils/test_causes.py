# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public catalogue in docs/causes.md says what the code says."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpuops.sglang.plugins.module_utils._cause_table import CAUSES
from ansible_collections.gpuops.sglang.plugins.module_utils._causes import describe, signal_hint
from ansible_collections.gpuops.sglang.plugins.module_utils._exec_steps import EXEC_STEPS

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "causes.md").read_text(encoding="utf-8")


def test_every_code_stands_in_the_catalogue_with_its_sentences():
    for code in CAUSES:
        row = next((line for line in PAGE.splitlines() if line.startswith(f"| `{code}` |")), "")
        summary, hint = describe(
            code,
            {
                "inner_hint": "The remedy of the repeated error.",
                "step_hint": "What that step needs.",
                "unit": "UNIT",
                "number": "PORT",
                "found": "ONE",
                "wanted": "ANOTHER",
                "address": "dist_init_addr",
                "peer": "NODE",
                "journal": "the journal",
                "got": "SOMETHING",
                "graph_bs": "cuda_graph_max_bs_decode",
                "no_graphs": "cuda_graph_backend_decode: disabled",
            },
        )
        assert summary in row and hint in row, code


def test_the_catalogue_names_no_code_that_does_not_exist():
    codes = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(codes) == sorted(CAUSES)


def test_the_steps_of_systemd_are_numbered_as_it_numbers_them():
    assert (EXEC_STEPS[200][0], EXEC_STEPS[203][0], EXEC_STEPS[217][0], EXEC_STEPS[226][0]) == ("CHDIR", "EXEC", "USER", "NAMESPACE")


def test_a_death_by_signal_has_a_place_to_look_at():
    assert "coredumpctl" in signal_hint(11) and signal_hint(11) == signal_hint(-11)
    assert "/dev/shm" in signal_hint(7)
    assert signal_hint(15) == signal_hint(999) == ""
