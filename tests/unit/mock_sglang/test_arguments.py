# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: names, abbreviations, refusals, the --config file, and sizes that do not fit."""

from __future__ import annotations

import json

import pytest
from sglang.standin.arguments import parse, read_flags
from sglang.standin.checks import check_model
from sglang.standin.knobs import Knobs
from sglang.standin.layout import Layout
from sglang.standin.yaml_subset import load_mapping

MODEL = ["--model-path", "org/demo"]


def layout(*flags, **environ):
    return Layout(parse([*MODEL, *map(str, flags)]), Knobs({"MOCK_SGLANG_FILE": "", **environ}))


def test_all_options_of_the_release_are_there():
    names = {name for flag in read_flags() for name in flag["options"]}
    assert len(read_flags()) == 531
    assert {"--tp-size", "--pp-async-batch-depth", "--cuda-graph-max-bs-decode", "--num-continuous-decode-steps", "--attn-dp-size"} <= names
    assert not {"--cuda-graph-max-bs", "--enable-ep-moe", "--max-micro-batch-size"} & names


@pytest.mark.parametrize(
    "flags, name, value",
    [
        (["--tp", "8"], "tp_size", 8),
        (["--ep", "8"], "ep_size", 8),
        (["--trust-remote"], "trust_remote_code", True),
        (["--context-length", "128k"], "context_length", 128000),
    ],
)
def test_short_forms(flags, name, value):
    assert getattr(parse([*MODEL, *flags]), name) == value


@pytest.mark.parametrize(
    "flags, error",
    [
        (["--no-such-flag"], "sglang serve: error: unrecognized arguments: --no-such-flag"),
        (["--pp", "8"], "sglang serve: error: ambiguous option: --pp could match --pp-size, --pp-max-micro-batch-size"),
        (["--tp-size", "two"], "sglang serve: error: argument --tp-size/--tensor-parallel-size: invalid int value: 'two'"),
        (["--attention-backend", "nonsense"], "sglang serve: error: argument --attention-backend: invalid choice: 'nonsense' (choose from "),
        (["--cuda-graph-max-bs", "16"], "error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode"),
    ],
)
def test_refused_by_the_parser(capsys, flags, error):
    with pytest.raises(SystemExit) as end:
        parse([*MODEL, *flags])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: sglang serve [-h] --model-path MODEL_PATH") and error in said


def test_the_model_is_required(capsys):
    with pytest.raises(SystemExit):
        parse(["--tp-size", "2"])
    assert "the following arguments are required: --model-path/--model" in capsys.readouterr().err


def test_a_deprecated_switch_works_and_says_so(capfd):
    assert layout("--dp-size", 2, "--tp-size", 2, "--enable-dp-attention").attn_dp == 2
    assert "'--enable-dp-attention' is deprecated and will be removed in a future release. Use '--attn-dp-size <dp-size>' instead." in capfd.readouterr().err


CONFIG = """
# secrets and the rest
api-key: "k$ #1"   # a comment
admin-api-key: 'it''s'
enable-metrics: true
enable-cache-report: false
tp-size: 4
cuda-graph-bs-decode: [1, 2, 4]
uvicorn-access-log-exclude-prefixes:
  - /health
  - /ready
json-model-override-args: {"a": 1}
served-model-name: null
"""


def test_a_config_file_is_read_and_the_command_line_wins(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    args = parse([*MODEL, "--config", str(tmp_path / "c.yaml"), "--tp-size", "8"])
    assert (args.api_key, args.admin_api_key, args.tp_size) == ("k$ #1", "it's", 8)
    assert (args.enable_metrics, args.enable_cache_report) == (True, False)
    assert (args.cuda_graph_bs_decode, args.uvicorn_access_log_exclude_prefixes) == ([1, 2, 4], ["/health", "/ready"])
    assert json.loads(args.json_model_override_args) == {"a": 1}
    assert args.served_model_name == "None"  # the trap of the real one


@pytest.mark.parametrize(
    "name, text, error",
    [
        ("c.json", "", "Config file must be YAML format, got: .json"),
        ("c.yaml", "enable-dp-attention: true", "Unsupported config option 'enable_dp_attention' with action"),
        ("c.yaml", "- a\n- b", "Config file must contain a dictionary at root level"),
    ],
)
def test_config_files_that_are_refused(tmp_path, name, text, error):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=error):
        parse([*MODEL, "--config", str(tmp_path / name)])


def test_a_config_file_in_one_word_is_not_looked_at(tmp_path):
    assert parse([*MODEL, "--config=" + str(tmp_path / "missing.yaml")]).api_key is None


def test_unknown_names_in_a_config_file_are_refused_like_flags(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text("no-such: 1\n")
    with pytest.raises(SystemExit):
        parse([*MODEL, "--config", str(tmp_path / "c.yaml")])
    assert "unrecognized arguments: --no-such 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, value",
    [
        ("a: 1.5", 1.5), ("a: -3", -3), ("a: x y", "x y"), ("a: 'yes'", "yes"), ("a: off", False),
        ("a: [a, 'b, c']", ["a", "b, c"]), ("a:\n  b: 1", {"b": 1}),
    ],
)
def test_yaml_values(text, value):
    assert load_mapping(text) == {"a": value}


@pytest.mark.parametrize(
    "flags, error",
    [
        (("--tp-size", 3, "--nnodes", 2), "tp_size must be divisible by number of nodes"),
        (("--pp-size", 2, "--pp-max-micro-batch-size", 0), "pp_max_micro_batch_size must be a positive integer or None"),
        (("--pp-size", 2, "--speculative-algorithm", "NGRAM"), "Pipeline parallelism currently only supports EAGLE"),
        (("--dp-size", 2, "--nnodes", 2, "--tp-size", 2), "multi-node data-parallel replicas are not supported"),
        (("--tp-size", 4, "--attn-dp-size", 3), "tp_size must be divisible by attn_dp_size"),
        (("--served-model-name", "a:b"), "served_model_name cannot contain a colon"),
        (("--ssl-keyfile", "/nowhere"), "Both --ssl-keyfile and --ssl-certfile"),
        (("--page-size", 64, "--chunked-prefill-size", 100), "chunked_prefill_size must be divisible by page_size"),
        (("--chat-template", "/no/such.jinja"), "is not a built-in template name or a valid chat template file path"),
    ],
)
def test_rules_that_are_checked_before_the_ranks_start(flags, error):
    with pytest.raises((AssertionError, ValueError, RuntimeError), match=error):
        layout(*flags)


@pytest.mark.parametrize(
    "flags, config, error",
    [
        (("--tp-size", 8, "--ep-size", 3), {}, "tp_size 8 must be divisible by ep_size 3"),
        (("--tp-size", 5), {"num_experts": 128, "moe_intermediate_size": 1536}, r"moe_intermediate_size 1536 must be divisible by moe_tp_size \(5\)"),
        (
            ("--tp-size", 4), {"num_experts": 128, "moe_intermediate_size": 640, "quantization_config": {"weight_block_size": [128, 128]}},
            r"\(moe_intermediate_size=640 / moe_tp_size=4\) % weight_block_size_n=128 == 0",
        ),
        (("--tp-size", 8, "--ep-size", 8), {"text_config": {"n_routed_experts": 100}}, "num_experts 100 must be divisible by ep_size 8"),
        (("--tp-size", 8), {"num_attention_heads": 12}, "12 is not divisible by 8"),
        (("--tp-size", 8, "--ep-size", 4), {"text_config": {"n_routed_experts": 384, "moe_intermediate_size": 2048}}, ""),
        (("--tp-size", 8, "--ep-size", 4, "--moe-a2a-backend", "deepep"), {"n_routed_experts": 384}, ""),
    ],
)
def test_rules_that_only_a_rank_finds(tmp_path, flags, config, error):
    (tmp_path / "config.json").write_text(json.dumps(config))
    made = layout("--model-path", tmp_path, *flags)
    if not error:
        check_model(made)
        return
    with pytest.raises((AssertionError, ValueError), match=error):
        check_model(made)


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda folder: None, "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '.*/m'"),
        (lambda folder: folder.mkdir(), "does not appear to have a file named config.json"),
        (lambda folder: (folder.mkdir(), (folder / "config.json").write_text("{")), "is not a valid JSON file"),
    ],
)
def test_models_that_are_not_there(tmp_path, make, error):
    make(tmp_path / "m")
    with pytest.raises(OSError, match=error):
        layout("--model-path", tmp_path / "m")


def test_micro_batch_and_limits():
    assert layout("--pp-size", 8, "--max-running-requests", 64).micro_batch == 8
    assert layout("--pp-size", 8, "--max-running-requests", 64, "--pp-max-micro-batch-size", 64).admission == 64
    assert layout("--tp-size", 8, "--attn-dp-size", 8, "--max-running-requests", 64).max_running == 8
    assert layout("--mem-fraction-static", "0.5").max_total_tokens == 0
