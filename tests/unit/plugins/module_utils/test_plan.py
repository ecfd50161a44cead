# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strategy becomes a plan: the built-in ones as stated, bases and overrides merged, bad input refused by name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpuops.sglang.plugins.module_utils._plan import build
from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

STRATEGIES = Path(__file__).parents[4] / "roles" / "sglang_server" / "defaults" / "main" / "strategies.yml"
BUILTIN = yaml.safe_load(STRATEGIES.read_text(encoding="utf-8"))["sglang_server_strategies_builtin"]
KIMI = {"text_config": {
    "n_routed_experts": 384, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64, "kv_lora_rank": 512,
}}
TUNED = "--max-running-requests 256 --num-continuous-decode-steps 8 --cuda-graph-backend-decode full"


def plan(name="ep8", strategies=None, **options):
    options = {"slug": "k26", "model_path": "/models/kimi", "port": 30001, "version": "0.5.23", "gpu_count": 8, **options}
    return build(name, strategies or BUILTIN, options)


def mine(flags=None, **more):
    return {"mine": {"flags": flags or {}, **more}}


def flags_line(made):
    """The strategy's own flags on the command line."""
    line = " ".join(made["argv"])
    return line[line.index("--port 30001") + len("--port 30001") : line.index("--nccl-port")].strip()


@pytest.mark.parametrize("name, line", [
    ("tp8", "--tp-size 8"),
    ("pp8", "--tp-size 1 --pp-size 8 --pp-async-batch-depth 8 --pp-max-micro-batch-size 64 --max-running-requests 64"),
    ("ep8", "--tp-size 8 --ep-size 8"),
    ("ep4", "--tp-size 8 --ep-size 4"),
    ("tp8_tuned", f"--tp-size 8 {TUNED}"),
    ("ep8_tuned", f"--tp-size 8 --ep-size 8 {TUNED}"),
])
def test_builtin_strategies(name, line):
    made = plan(name, model_config=KIMI, node={"compute_cap": "9.0"})
    assert flags_line(made) == line
    assert made["argv"][:8] == ["-m", "sglang.launch_server", "--model-path", "/models/kimi", "--host", "127.0.0.1", "--port", "30001"]
    assert made["environment"] == {
        "CUDA_HOME": "/usr/local/cuda-13.0", "NCCL_P2P_LEVEL": "5", "NCCL_ALGO": "Ring", "NCCL_IB_DISABLE": "1", "OMP_NUM_THREADS": "8",
    }
    assert made["unit"] == f"sglang-k26-{name}.service" and made["deployment"] == f"k26-{name}"
    assert made["warnings"] == [] and len(made["summary"]) > 30
    assert {entry["status"] for entry in made["checks"]} == {"ok"}


@pytest.mark.parametrize("compute_cap, backend", [("12.0", "triton"), ("12.1", "triton"), ("9.0", None), ("10.0", None)])
@pytest.mark.parametrize("name", ["tp8_tuned", "ep8_tuned"])
def test_attention_backend_only_where_the_card_asks_for_it(name, compute_cap, backend):
    assert plan(name, node={"compute_cap": compute_cap})["flags"].get("attention-backend") == backend


def test_unknown_card_is_said():
    made = plan("ep8_tuned")
    assert "attention-backend" not in made["flags"]
    assert any(entry["status"] == "not_checked" and "compute capability 12" in entry["detail"] for entry in made["checks"])


def test_bases_are_merged_from_the_root_on_and_overrides_win():
    strategies = {
        "a": {"summary": "the root", "flags": {"tp_size": 8, "chunked-prefill-size": 4096, "trust-remote-code": True}, "environment": {"X": 1, "Y": 2}},
        "b": {"base": "a", "flags": {"tensor-parallel-size": 4, "trust_remote_code": None}, "environment": {"Y": None}},
        "c": {"base": "b", "summary": "the leaf", "flags": {"ep-size": 4}},
    }
    made = plan("c", strategies, overrides={"--ep": 2, "chunked_prefill_size": None}, environment={"X": "z", "N": 0.5})
    assert made["flags"] == {"tp-size": 4, "ep-size": 2}
    assert made["environment"] == {"X": "z", "N": "0.5"}
    assert made["base_chain"] == ["a", "b", "c"] and made["summary"] == "the leaf"


def test_inventory_may_build_on_a_builtin_strategy():
    draft = {"base": "tp8", "flags": {"speculative-algorithm": "DFLASH", "speculative-draft-model-path": "/models/draft", "speculative-num-draft-tokens": 8}}
    made = plan("fast", {**BUILTIN, "fast": draft})
    assert "--speculative-algorithm DFLASH --speculative-draft-model-path /models/draft --speculative-num-draft-tokens 8" in " ".join(made["argv"])


@pytest.mark.parametrize("name, strategies, said", [
    ("tp16", None, "unknown strategy 'tp16': known are ep4, ep8, ep8_tuned, pp8, tp8, tp8_tuned"),
    ("", None, "no strategy is named"),
    (None, None, "no strategy is named"),
    ("a", {"a": {"base": "nope"}}, r"unknown strategy 'nope' \(the base of a\): known are a"),
    ("a", {"a": {"base": "b"}, "b": {"base": "c"}, "c": {"base": "b"}}, "builds on itself: a -> b -> c -> b"),
    ("a", {"a": {"base": "a"}}, "builds on itself: a -> a"),
    ("a", {"a": "--tp-size 8"}, "must be a mapping"),
    ("a", {"a": {"tp_size": 8}}, "has 'tp_size': known are summary, base, flags"),
    ("a", {"a": {"flags": ["--tp-size"]}}, "flags of strategy a must be a mapping"),
    ("A-b", {"A-b": {}}, "lower case letters"),
    ("mine", mine({"tp": 8}), "has no --tp: did you mean --tp-size"),
    ("mine", mine({"enable-ep-moe": True}), "--enable-ep-moe was removed in 0.5.6: use --ep-size"),
    ("mine", mine({"chat-template": "a\nb"}), "the value of --chat-template holds a newline"),
    ("mine", mine({"api_key": "k-secret"}), "--api-key in strategy mine would be readable by everyone"),
    ("mine", mine({"port": 30005}), "--port is 30005 in the flags and 30001 by sglang_server_port"),
    ("mine", mine({"config": "/x.yaml"}), "--config is taken"),
    ("mine", mine(environment={"HF_TOKEN": "hf_secret"}), "HF_TOKEN in strategy mine would be readable by everyone"),
    ("mine", mine(environment={"A B": "x"}), "'A B' in strategy mine is no name"),
    ("mine", mine(environment={"A": "x\ny"}), "'A' in strategy mine holds a newline"),
    ("mine", mine(environment={"A": True}), "must be text or a number"),
])
def test_bad_strategies_are_refused(name, strategies, said):
    with pytest.raises(Refusal, match=f"^bad_flags: .*{said}") as refusal:
        plan(name, strategies)
    assert "secret" not in str(refusal.value).replace("secret_environment", "")


@pytest.mark.parametrize("options, said", [
    ({"model_path": ""}, "bad_flags: model_path .* is not set"),
    ({"slug": "K 26"}, "bad_flags: slug 'K 26'"),
    ({"version": ""}, "bad_flags: version is not set"),
    ({"port": 0}, "bad_flags: port must be between 1 and 65535"),
    ({"port": 65536}, "bad_flags: port must be between 1 and 65535"),
    ({"gpu_count": 4}, "bad_sizes: .* there are 4; sizes that would do: tp 4 with ep 4"),
    ({"gpus": [0, 8]}, "bad_sizes: GPU 8 is named, but the node has 8: 0 to 7"),
    ({"gpus": [0, 0]}, "bad_flags: gpus names one twice"),
    ({"gpus": ["first"]}, "bad_flags: 'first' is no GPU"),
    ({"gpus": {}, "gpu_count": None, "overrides": {"ep-size": 3}}, "bad_sizes: tp 8 % ep 3 = 2"),
    ({"gpus": [0, 1]}, "bad_sizes: .* there are 2"),
    ({"served_model_name": "a:b"}, "bad_flags: .*colon"),
    ({"nnodes": 2}, "bad_flags: nnodes 2 needs dist_init_addr"),
    ({"nnodes": 2, "node_rank": 2, "dist_init_addr": "n1"}, "bad_sizes: node_rank 2 of nnodes 2"),
    ({"extra": ["a\nb"]}, "bad_flags: a word of extra holds a newline"),
    ({"others": [{"unit": "sglang-x-tp2.service", "port": 30005}]}, "bad_flags: sglang-k26-ep8.service .* and sglang-x-tp2.service .* overlap"),
    ({"gpus": [0, 1, 2, 3, 4, 5, 6, 7], "environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "bad_flags: CUDA_VISIBLE_DEVICES is in the environment"),
])
def test_bad_settings_are_refused(options, said):
    with pytest.raises(Refusal, match=f"^{said}"):
        plan(**options)


def test_named_gpus_go_into_the_environment():
    made = plan("mine", mine({"tp-size": 4}), gpus=[4, 5, 6, 7])
    assert made["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    assert made["gpus"] == ["4", "5", "6", "7"] and made["gpu_count"] == 4
    assert plan("mine", mine({"tp-size": 2}, gpus=["GPU-0a", "GPU-0b"]))["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-0a,GPU-0b"
    assert "CUDA_VISIBLE_DEVICES" not in plan()["environment"]


def test_idle_gpus_are_said():
    assert plan("mine", mine({"tp-size": 4}))["warnings"] == ["4 of 8 GPUs stay idle under tp 4, pp 1, dp 1"]


def test_starving_pipeline_is_warned_about():
    made = plan("pp8", overrides={"pp-max-micro-batch-size": None})
    assert any("max(64 // 8, 1) = 8" in warning and "starves" in warning for warning in made["warnings"])


def test_a_server_on_the_cpu_needs_no_gpu():
    made = plan("mine", mine({"device": "cpu", "attention-backend": "torch_native"}), gpu_count=0)
    assert made["gpu_count"] == 0 and made["device"] == "cpu"


def test_several_nodes():
    made = plan("mine", mine({"tp-size": 16}), nnodes=2, node_rank=1, dist_init_addr="10.0.0.1")
    assert "--nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:30003 --nccl-port 30002" in " ".join(made["argv"])
    assert made["sizes"]["world_size"] == 16 and made["gpu_count"] == 8


def test_attention_groups_get_a_rendezvous_of_their_own():
    made = plan("mine", mine({"tp-size": 8, "attn-dp-size": 8}))
    assert "--dist-init-addr 127.0.0.1:30003 --nccl-port 30002" in " ".join(made["argv"])


def test_replicas_choose_their_own_nccl_ports():
    made = plan("mine", mine({"tp-size": 4, "dp-size": 2}))
    assert "--nccl-port" not in made["argv"] and made["ports"]["nccl"] is None


def test_keys_come_from_a_credential():
    made = plan(has_secrets=True)
    assert made["argv"][-2:] == ["--config", "/run/credentials/sglang-k26-ep8.service/sglang.yaml"]
    assert made["exec_lines"][-1] == "--config ${CREDENTIALS_DIRECTORY}/sglang.yaml"


def test_one_flag_a_line_and_awkward_values_quoted():
    made = plan(overrides={"chat-template": "/t/$A %i.jinja"}, environment={"A": "$x %y"})
    assert made["exec_lines"][:3] == ["-m sglang.launch_server", "--model-path /models/kimi", "--host 127.0.0.1"]
    assert '--chat-template "/t/$$A %%i.jinja"' in made["exec_lines"]
    assert '"A=$x %%y"' in made["environment_lines"]
    assert "/t/$A %i.jinja" in made["argv"] and made["environment"]["A"] == "$x %y"


def test_version_out_of_the_table_is_said_not_guessed():
    made = plan("mine", mine({"brand-new": "x"}), version="0.9.1")
    assert ["--brand-new", "x"] == made["argv"][-4:-2]
    assert any(entry["name"] == "flags" and entry["status"] == "not_checked" for entry in made["checks"])


def test_digest_follows_command_line_and_environment():
    digests = {plan()["digest"], plan(overrides={"mem-fraction-static": 0.8})["digest"], plan(environment={"A": "1"})["digest"]}
    assert len(digests) == 3 and plan()["digest"] == plan()["digest"]


def test_plan_is_plain_data():
    json.dumps(plan("ep8_tuned", node={"compute_cap": "12.0"}, model_config=KIMI, has_secrets=True))


ODD = [
    None, True, False, 0, -1, 8, 3.5, "8", "", "a b", "x\ny", [], [0], ["a"], {}, {"a": 1}, {"tp-size": {}}, "all", "GPU-1", 10**30, [None], float("nan"),
    {"unit": "u"}, [{"unit": "u", "port": 5}], [{"x": 1}], "é", "12.0", [1, 2], {"compute_cap": "x"}, {"ip_local_port_range": [1, "x"]},
]
OPTIONS = (
    "overrides", "environment", "slug", "model_path", "served_model_name", "host", "port", "gpus", "gpu_count", "nnodes", "node_rank", "dist_init_addr",
    "version", "node", "model_config", "has_secrets", "root", "home", "cache", "others", "extra",
)
FLAGS = (
    "tp-size", "pp-size", "dp-size", "ep-size", "attn-dp-size", "moe-a2a-backend", "speculative-algorithm", "nccl-port", "dist-init-addr", "nnodes",
    "node-rank", "port", "host", "device", "max-running-requests", "pp-max-micro-batch-size", "tokenizer-worker-num", "enable-dp-attention", "model-path",
)


@pytest.mark.parametrize("seed", range(20))
def test_odd_input_is_planned_or_refused_never_stumbled_over(seed):
    dice = random.Random(seed)
    for _round in range(100):
        options = {dice.choice(OPTIONS): dice.choice(ODD) for _change in range(dice.randint(0, 3))}
        strategy = {"flags": {dice.choice(FLAGS): dice.choice(ODD) for _flag in range(dice.randint(0, 4))}}
        if dice.random() < 0.2:
            strategy[dice.choice(("base", "flags", "environment", "gpus", "flags_by_compute_cap", "summary"))] = dice.choice(ODD)
        try:
            plan("mine" if dice.random() < 0.95 else dice.choice(ODD), {"mine": strategy} if dice.random() < 0.95 else dice.choice(ODD), **options)
        except Refusal as refusal:
            assert str(refusal).startswith(("bad_flags: ", "bad_sizes: "))
