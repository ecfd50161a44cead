# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a virtual environment holds, and what systemd and the kernel say, is read from made-up trees and texts."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _installed, _node
from ansible_collections.gpuops.sglang.plugins.module_utils._running import UnitLook

HELP = "usage: sglang serve [-h]\n\noptions:\n" + "".join(f"  --flag-{n} VALUE, --other-{n} VALUE\n                        about it\n" for n in range(30))


class FakeCommands:
    """Answers every command with one prepared text."""

    def __init__(self, code=0, output="", errors=""):
        self.answer = (code, output, errors)
        self.seen = []

    def run(self, argv, timeout=30):
        self.seen.append(argv)
        return self.answer


@pytest.fixture
def venv(tmp_path):
    folder = tmp_path / "0.5.23"
    info = folder / "lib" / "python3.11" / "site-packages" / "sglang-0.5.23+standin.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23+standin\n\nVersion: not this\n")
    (info / "RECORD").write_text("")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text("#!/bin/sh\n")
    (folder / "bin" / "python").chmod(0o755)
    return folder


def test_installed_version(venv):
    found = _installed.look(str(venv.parent), "0.5.23")
    assert (found.version, found.python, found.broken) == ("0.5.23+standin", str(venv / "bin" / "python"), "")


def test_nothing_is_installed(tmp_path):
    found = _installed.look(str(tmp_path), "0.5.23")
    assert (found.version, found.broken) == ("", "")


def test_two_versions_in_one_environment(venv):
    (venv / "lib" / "python3.11" / "site-packages" / "sglang-0.5.22.dist-info").mkdir()
    assert "several versions of sglang" in _installed.look(str(venv.parent), "0.5.23").broken


def test_interpreter_is_gone(venv):
    (venv / "bin" / "python").unlink()
    assert _installed.look(str(venv.parent), "0.5.23").broken == "has an interpreter that cannot be run"


def test_what_was_installed_beside_it(venv):
    installed = _installed.look(str(venv.parent), "0.5.23")
    assert _installed.requirements(installed) == ""
    (venv / _installed.REQUIREMENTS_FILE).write_text("a1b2\n")
    assert _installed.requirements(installed) == "a1b2"


def test_flags_are_asked_once(venv):
    installed = _installed.look(str(venv.parent), "0.5.23")
    commands = FakeCommands(output=HELP)
    assert _installed.kept_flags(installed) is None
    flags, why = _installed.ask_flags(commands, installed, {}, keep=True)
    assert len(flags) == 30 and why == "" and flags["flag-3"] == ("str", ("other-3",), ())
    assert _installed.kept_flags(installed) == flags
    assert sorted(os.listdir(venv)) == [".gpuops-flags.json", "bin", "lib"]


def test_flags_of_an_older_installation_are_not_used(venv):
    installed = _installed.look(str(venv.parent), "0.5.23")
    _installed.ask_flags(FakeCommands(output=HELP), installed, {}, keep=True)
    os.utime(os.path.join(installed.dist_info, "RECORD"), ns=(1, 1))
    assert _installed.kept_flags(installed) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"stamp": 1, "flags": {}}', '{"stamp": null, "flags": []}'])
def test_a_broken_file_of_flags_is_as_none(venv, text):
    (venv / ".gpuops-flags.json").write_text(text)
    assert _installed.kept_flags(_installed.look(str(venv.parent), "0.5.23")) is None


def test_check_mode_keeps_nothing(venv):
    installed = _installed.look(str(venv.parent), "0.5.23")
    commands = FakeCommands(output=HELP)
    flags, _why = _installed.ask_flags(commands, installed, {}, keep=False)
    assert len(flags) == 30 and not (venv / ".gpuops-flags.json").exists()
    assert "PYTHONDONTWRITEBYTECODE=1" in commands.seen[0]


def test_the_question_leaves_nothing_in_the_caches_of_the_service(venv):
    commands = FakeCommands(output=HELP)
    environment = {"SGLANG_USE_CPU_ENGINE": "1", "SGLANG_CACHE_DIR": "/var/cache/sglang", "HOME": "/var/lib/sglang", "TRITON_CACHE_DIR": "/var/cache/x"}
    _installed.ask_flags(commands, _installed.look(str(venv.parent), "0.5.23"), environment, keep=True)
    said = " ".join(commands.seen[0])
    assert "SGLANG_USE_CPU_ENGINE=1" in said and "/var/cache" not in said and "/var/lib/sglang" not in said


@pytest.mark.parametrize("answer, why", [
    ((1, "", "Traceback\nImportError: libnuma.so.1: cannot open shared object file\n"), "ImportError: libnuma.so.1: cannot open shared object file"),
    ((0, "usage: x\n", ""), "usage: x"),
    ((124, "", ""), "exit status 124"),
])
def test_a_server_that_does_not_list_its_flags(venv, answer, why):
    flags, said = _installed.ask_flags(FakeCommands(*answer), _installed.look(str(venv.parent), "0.5.23"), {}, keep=True)
    assert flags is None and said == why and not (venv / ".gpuops-flags.json").exists()


@pytest.mark.parametrize("packages, major", [
    (["torch-2.14.1+cu130.dist-info"], 13),
    (["torch-2.13.0+cpu.dist-info"], None),
    (["torch-2.14.1.dist-info", "nvidia_nccl_cu13-2.30.7.dist-info"], 13),
    (["torch-2.14.1.dist-info"], None),
    ([], None),
])
def test_cuda_of_the_wheels(venv, packages, major):
    for package in packages:
        (venv / "lib" / "python3.11" / "site-packages" / package).mkdir()
    assert _installed.cuda_major(_installed.look(str(venv.parent), "0.5.23")) == major


SHOW = """Id=sglang-k-ep8.service
LoadState=loaded
ActiveState=activating
SubState=auto-restart
MainPID=0
InvocationID=abc
UnitFileState=enabled
NeedDaemonReload=yes
DropInPaths=/etc/systemd/system/sglang-k-ep8.service.d/a.conf /run/b.conf
FragmentPath={unit}
ControlGroup=
ExecMainStartTimestamp=Thu 1970-01-01 00:01:40.500000 UTC
EnvironmentFiles={env} (ignore_errors=no)
LoadCredential=sglang.yaml:{key}
ExecStart={{ path=/opt/p ; argv[]=/opt/p -m sglang.launch_server --port 30001 --tp-size 8 ; ignore_errors=no ; start_time=[n/a] }}
Environment=NCCL_ALGO=Ring CUDA_VISIBLE_DEVICES=0,1 "X=a b"
"""


def test_a_unit_between_two_starts_is_known_by_what_systemd_would_start(tmp_path):
    files = {name: tmp_path / name for name in ("unit", "env", "key")}
    for path in files.values():
        path.write_text("x")
        os.utime(path, (50, 50))
    found = _node.units(FakeCommands(output=SHOW.format(**files)), "sglang-k-ep8.service")["sglang-k-ep8.service"]
    assert found.enabled and found.need_daemon_reload and found.busy and found.started == 100.5
    assert found.argv[-4:] == ["--port", "30001", "--tp-size", "8"] and found.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert found.drop_ins == ["/etc/systemd/system/sglang-k-ep8.service.d/a.conf", "/run/b.conf"]
    assert found.written == {str(path): 50.0 for path in files.values()}


def test_process_start_is_read_byte_for_byte(tmp_path):
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"python\0-m\0x\0--a\0$ % # \" '\0\0")
    (folder / "environ").write_bytes(b"A=1=2\0B=\0odd\0")
    assert _node.process(7, str(tmp_path)) == (["python", "-m", "x", "--a", "$ % # \" '", ""], {"A": "1=2", "B": ""})
    assert _node.process(8, str(tmp_path)) == ([], {})


def test_files_are_compared_by_text_owner_and_mode(tmp_path):
    unit, key, extra = tmp_path / "a.service", tmp_path / "k.yaml", tmp_path / "old.env"
    for path, mode in ((unit, 0o644), (key, 0o644), (extra, 0o600)):
        path.write_text("text")
        path.chmod(mode)
    digest = hashlib.sha256(b"text").hexdigest()
    mine = os.geteuid() == 0
    assert _node.compare_files({str(unit): digest, str(key): digest, str(extra): "", str(tmp_path / "none"): "", str(tmp_path / "new"): digest}) == {
        str(unit): {"exists": True, "same": mine, "foreign": True},
        str(key): {"exists": True, "same": False, "foreign": False},
        str(extra): {"exists": True, "same": False, "foreign": False},
        str(tmp_path / "none"): {"exists": False, "same": True, "foreign": False},
        str(tmp_path / "new"): {"exists": False, "same": False, "foreign": False},
    }
    assert _node.compare_files({str(unit): hashlib.sha256(b"other").hexdigest()})[str(unit)]["same"] is False


def test_a_unit_as_the_role_writes_it_is_no_stranger_s(tmp_path):
    template = Path(__file__).parents[4] / "roles/sglang_server/templates/unit.service.j2"
    unit = tmp_path / "a.service"
    unit.write_bytes(template.read_bytes())
    assert _node.compare_files({str(unit): ""})[str(unit)]["foreign"] is False


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "previous").mkdir()
    copy = tmp_path / "previous" / "k.yaml"
    copy.write_text("api-key: old")
    return lambda unit: _node.copies(["/etc/sglang/k.yaml", "/etc/sglang/k.env"], unit, str(tmp_path))


@pytest.mark.parametrize("more, outdated", [
    ({}, True),
    ({"pids": [1]}, False),
    ({"active_state": "activating"}, False),
    ({"written": {"/etc/sglang/k.yaml": 20.0}}, False),
    ({"need_daemon_reload": True}, False),
])
def test_copies_are_outdated_when_what_came_after_them_serves(kept, more, outdated):
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = ["python", "--port", str(server.getsockname()[1])]
        unit = UnitLook("sglang-k.service", **{"active_state": "active", "started": 10.0, "argv": argv, "pids": [os.getpid()], **more})
        found = kept(unit)
    assert [os.path.basename(path) for path in found["files"]] == ["k.yaml"] and found["outdated"] is outdated
    assert kept(unit)["outdated"] is False, "nobody listens any more"


def test_no_copies_no_question(tmp_path):
    assert _node.copies(["/etc/sglang/k.yaml"], None, str(tmp_path)) == {"files": [], "outdated": False}


@pytest.mark.parametrize("text, record", [(json.dumps({"deployments": {}}), {"deployments": {}}), ("{", {}), ("[]", {}), (None, {})])
def test_known_good_record(tmp_path, text, record):
    if text is not None:
        (tmp_path / "known_good.json").write_text(text)
    assert _node.known_good(str(tmp_path)) == record


def test_end_of_the_journal():
    assert _node.cursor(FakeCommands(output="-- cursor: s=a;i=1\n")) == "s=a;i=1"
    assert _node.cursor(FakeCommands(code=1)) == ""
