# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills a folder with the wheels of the real SGLang for an x86-64 CPU and the hosts' Python 3.11: wheelhouse.py DIRECTORY.

The release's own wheel is repacked as version 0.5.23+cpu: its files are untouched, the shim is added, and its list of
requirements, which names CUDA builds only, is replaced by requirements.txt. So the ordinary role installs it the
ordinary way, with an ordinary ``sglang==0.5.23``.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "0.5.23"
CPU_VERSION = f"{VERSION}+cpu"


def requirements() -> list[str]:
    lines = (HERE / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def metadata(original: str) -> str:
    """The wheel's METADATA with the CPU version and the CPU requirements."""
    head, _blank, body = original.partition("\n\n")
    kept = [line for line in head.splitlines() if not line.startswith(("Version:", "Requires-Dist:", "Provides-Extra:"))]
    kept.append(f"Version: {CPU_VERSION}")
    kept += [f"Requires-Dist: {requirement}" for requirement in requirements()]
    return "\n".join(kept) + "\n\n" + body


def record_row(name: str, data: bytes) -> tuple[str, str, str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return name, f"sha256={digest}", str(len(data))


def record_text(rows: list[tuple[str, str, str]]) -> str:
    """RECORD is CSV: names with a comma, such as those of tuned kernel settings, are quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def repack(wheel: pathlib.Path, directory: pathlib.Path) -> None:
    old_info, new_info = f"sglang-{VERSION}.dist-info/", f"sglang-{CPU_VERSION}.dist-info/"
    target = directory / wheel.name.replace(f"-{VERSION}-", f"-{CPU_VERSION}-")
    record = []
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:

        def add(name: str, data: bytes) -> None:
            out.writestr(name, data)
            record.append(record_row(name, data))

        for name in source.namelist():
            if name.endswith("/") or name == old_info + "RECORD":
                continue
            data = source.read(name)
            if name == old_info + "METADATA":
                data = metadata(data.decode()).encode()
            add(name.replace(old_info, new_info), data)
        for path in sorted((HERE / "shim").rglob("*")):
            if path.suffix in (".py", ".pth"):
                add(str(path.relative_to(HERE / "shim")), path.read_bytes())
        out.writestr(new_info + "RECORD", record_text([*record, (new_info + "RECORD", "", "")]))


def download(*arguments: str) -> None:
    for_the_hosts = ["--python-version", "3.11", "--only-binary", ":all:"]
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-qq", *for_the_hosts, *arguments], check=True)


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    done = directory / ".complete"
    key = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(HERE.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)).hexdigest()
    if done.exists() and done.read_text() == key:
        return
    directory.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    for stale in directory.glob("sglang-*.whl"):
        stale.unlink()
    download("--dest", str(directory), "--requirement", str(HERE / "requirements.txt"))
    with tempfile.TemporaryDirectory() as scratch:
        download("--no-deps", "--dest", scratch, f"sglang=={VERSION}")
        repack(next(pathlib.Path(scratch).glob("sglang-*.whl")), directory)
    done.write_text(key)


if __name__ == "__main__":
    main()
