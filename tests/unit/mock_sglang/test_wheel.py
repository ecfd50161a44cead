# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package builds without an index and without a build tool, and says that it is a stand-in."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mock_sglang"


@pytest.fixture
def backend():
    spec = importlib.util.spec_from_file_location("wheel_backend", PACKAGE / "wheel_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("wanted, version", [("", "0.5.23+standin"), ("0.5.22", "0.5.22+standin")])
def test_a_wheel(tmp_path, monkeypatch, backend, wanted, version):
    if wanted:
        monkeypatch.setenv("MOCK_SGLANG_BUILD_VERSION", wanted)
    name = backend.build_wheel(str(tmp_path))
    assert name == "sglang-%s-py3-none-any.whl" % version
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
        info = "sglang-%s.dist-info/" % version
        assert {"sglang/launch_server.py", "sglang/standin/flags.json", info + "METADATA", info + "RECORD"} <= set(names)
        assert not [entry for entry in names if "__pycache__" in entry]
        assert b"sglang = sglang.cli.main:main" in wheel.read(info + "entry_points.txt")
        assert len(wheel.read(info + "RECORD").decode().splitlines()) == len(names)
        assert wheel.read("sglang/version.py").decode().rstrip().endswith('__version__ = "%s"' % version)
