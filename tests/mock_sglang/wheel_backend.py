# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the stand-in's wheel with the standard library alone, so that it installs without an index."""

from __future__ import annotations

import base64
import hashlib
import os
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASE_VERSION = "0.5.23"
REQUIRES_PYTHON = ">=3.9"
FIXED_TIME = (2026, 1, 1, 0, 0, 0)


def version() -> str:
    """Release to pretend to be; a test of an upgrade builds the package twice."""
    return os.environ.get("MOCK_SGLANG_BUILD_VERSION", BASE_VERSION) + "+standin"


def _metadata() -> str:
    return (
        "Metadata-Version: 2.1\nName: sglang\nVersion: %s\n"
        "Summary: Stand-in for SGLang: same command line, log and HTTP, no model\n"
        "License: GPL-3.0-or-later\nRequires-Python: %s\n" % (version(), REQUIRES_PYTHON)
    )


def _files() -> dict[str, bytes]:
    files = {}
    for path in sorted((HERE / "sglang").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".json"):
            files[path.relative_to(HERE).as_posix()] = path.read_bytes()
    files["sglang/version.py"] += ('\n__version__ = "%s"\n' % version()).encode()
    return files


def _record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (name, digest, len(data))


def get_requires_for_build_wheel(config_settings=None):
    """PEP 517: nothing is needed to build."""
    return []


def get_requires_for_build_sdist(config_settings=None):
    """PEP 517: nothing is needed to build."""
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: write the wheel and return its file name."""
    info = "sglang-%s.dist-info" % version()
    files = _files()
    files[info + "/METADATA"] = _metadata().encode()
    files[info + "/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: wheel_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[info + "/entry_points.txt"] = b"[console_scripts]\nsglang = sglang.cli.main:main\n"
    record = "".join(_record_line(name, data) for name, data in files.items()) + info + "/RECORD,,\n"
    files[info + "/RECORD"] = record.encode()
    name = "sglang-%s-py3-none-any.whl" % version()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, FIXED_TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: write the source archive and return its file name."""
    base = "sglang-%s" % version()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as archive:
        for name in ("pyproject.toml", "wheel_backend.py", "README.md", "sglang"):
            archive.add(HERE / name, base + "/" + name)
    return base + ".tar.gz"
