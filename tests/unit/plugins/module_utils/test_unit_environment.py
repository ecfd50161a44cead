# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service has no login shell: what the unit's environment adds, and what it leaves to the user."""

from __future__ import annotations

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._unit_environment import complete


def completed(**given: str) -> dict[str, str]:
    return complete(given, "/opt/sglang/0.5.23", "/var/lib/sglang", "/var/cache/sglang/0.5.23", "10.0.0.5")


def test_compilers_of_the_venv_and_of_cuda_come_first():
    assert completed(CUDA_HOME="/usr/local/cuda-13.0")["PATH"].startswith("/opt/sglang/0.5.23/bin:/usr/local/cuda-13.0/bin:/usr/local/sbin")


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR", "SGLANG_CACHE_DIR"])
def test_caches_of_compiled_code_belong_to_the_version(name):
    assert completed()[name].startswith("/var/cache/sglang/0.5.23")


def test_downloaded_models_outlive_an_upgrade():
    assert completed()["HF_HOME"] == "/var/cache/sglang/huggingface"


@pytest.mark.parametrize("name", ["PATH", "HOME", "HF_HOME", "PYTHONUNBUFFERED"])
def test_what_the_user_sets_stays(name):
    assert completed(**{name: "mine"})[name] == "mine"


@pytest.mark.parametrize("given", [{}, {"NO_PROXY": "intranet.example"}, {"no_proxy": "intranet.example"}])
def test_requests_to_itself_never_leave_through_a_proxy(given):
    environment = completed(**given)
    assert environment["NO_PROXY"] == environment["no_proxy"]
    names = environment["NO_PROXY"].split(",")
    assert {"127.0.0.1", "localhost", "0.0.0.0", "10.0.0.5", *given.values()} <= set(names)
    assert len(names) == len(set(names))
