# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models on disk: what is missing, cut off, or unreadable is found without reading weights."""

from __future__ import annotations

import json
import os
import pwd
import struct

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils import _model_files

USER = pwd.getpwuid(os.geteuid()).pw_name


def shard(tensors=1, cut=0):
    listed = {f"w{n}": {"dtype": "U8", "shape": [8], "data_offsets": [8 * n, 8 * n + 8]} for n in range(tensors)}
    header = json.dumps({"__metadata__": {"format": "pt"}, **listed})
    whole = struct.pack("<Q", len(header)) + header.encode() + bytes(8 * tensors)
    return whole[: len(whole) - cut]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "models" / "demo"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"num_hidden_layers": 2}')
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (folder / name).write_bytes(shard())
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def problems(path, **more):
    return [f"{problem['code']}: {problem['text']}" for problem in _model_files.look(str(path), USER, **more).problems]


def test_a_whole_model(model):
    found = _model_files.look(str(model), USER)
    assert found.problems == [] and found.kind == "local" and found.config == {"num_hidden_layers": 2}
    assert found.size == 2 * len(shard())


def test_an_identifier_is_not_looked_for(model):
    found = _model_files.look("org/name", USER)
    assert (found.kind, found.problems) == ("hub", [])


def test_a_missing_path_says_how_far_it_goes(model):
    (model.parent / "empty").mkdir()
    assert problems(model.parent / "other") == [f"model_not_found: {model.parent / 'other'} does not exist ({model.parent} exists)"]
    assert problems(model.parent / "empty" / "x")[0].endswith(f"({model.parent / 'empty'} exists and is empty: is it mounted?)")
    assert problems("/nowhere-at-all/x") == ["model_not_found: /nowhere-at-all/x does not exist"]


@pytest.mark.parametrize("harm, said", [
    (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
    (lambda folder: (folder / "config.json").write_text("{"), "is no valid JSON"),
    (lambda folder: (folder / "config.json").write_text("[]"), "holds no mapping"),
    (lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"), "is no valid JSON"),
    (lambda folder: (folder / "model-00002-of-00002.safetensors").unlink(), "lacks 1 of 2 weight files: model-00002-of-00002.safetensors"),
    (lambda folder: (folder / "model.safetensors.index.json").write_text("[]"), "cannot be read as an index"),
    (lambda folder: (folder / "model-00001-of-00002.safetensors").write_bytes(shard(2, cut=4)), "is cut off: "),
    (lambda folder: (folder / "model-00001-of-00002.safetensors").write_text("version https://git-lfs.github.com/spec/v1\nsize 9"), "only a pointer"),
    (lambda folder: (folder / "model-00001-of-00002.safetensors").write_bytes(b""), "no readable safetensors header"),
])
def test_each_harm_is_one_problem(model, harm, said):
    harm(model)
    found = problems(model)
    assert len(found) == 1 and found[0].startswith("model_not_found: ") and said in found[0]


def test_no_weights_matter_only_when_they_are_read(model):
    for path in model.glob("model*"):
        path.unlink()
    assert "holds no weights" in problems(model)[0]
    assert problems(model, weights_needed=False) == []


def test_one_file_of_another_format(model):
    gguf = model.parent / "model.gguf"
    gguf.write_bytes(b"GGUF")
    assert problems(gguf) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as somebody else")
def test_a_file_the_service_cannot_read(model):
    for folder in (model, *model.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(0o755)
    (model / "config.json").chmod(0o600)
    found = _model_files.look(str(model), "nobody").problems
    assert [problem["code"] for problem in found] == ["no_permission"] and "nobody cannot read" in found[0]["text"] and "config.json" in found[0]["text"]
