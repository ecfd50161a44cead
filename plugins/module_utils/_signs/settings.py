# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of settings that do not fit: sizes, flags and the rules of the arguments."""

from __future__ import annotations

from ansible_collections.gpuops.sglang.plugins.module_utils._signs.signature import sign

_PARTITION_HINT = "Correct SGLANG_PP_LAYER_PARTITION: one number per pipeline stage (pp_size of them), which add up to the model's layers; or leave it unset."

SIZES = (
    sign(
        "bad_sizes",
        ("tensor parallel size", "quantized weight shape"),
        r"not aligned with the quantized weight shape|too large tensor parallel size",
    ),
    sign(
        "bad_flags",
        " error: ",
        r"(?:^|[\s/])(?:sglang(?: serve|\.[\w.]+)?|launch_server(?:\.py)?|server_args(?:\.py)?|__main__\.py|python[\d.]*): error: (?P<flag>.+)",
        proof=True,
    ),
    sign(
        "bad_flags",
        "error: ",
        r"^\S[^:]{0,80}: error: (?P<flag>(?:unrecognized arguments|ambiguous option|argument -|the following arguments are required|"
        r"one of the arguments|invalid choice|expected ).*)",
    ),
    sign("bad_flags", "[-h]", r"^usage: ", "weak"),
    sign(
        "bad_flags",
        "divisible",
        r"(?:page_size|chunked[_-]prefill[_-]size|block_size|draft).{0,80}divisible|divisible.{0,60}(?:page_size|chunked[_-]prefill)",
    ),
    sign("bad_sizes", "divisible", r"(?:must|should|has to|needs to|is not|are not|not|cannot) ?(?:be )?(?:evenly )?divisible"),
    sign(
        "bad_sizes",
        ("please make sure", "== 0", "divid"),
        r"please make sure .{0,200}%|\w+(?:_size|_heads|experts)\w*(?:=\d+)?\)? ?% ?\w+(?:=\d+)? ?(?:==|!=) ?0|(?:heads|experts"
        r"|layers) .{0,60}cannot be divided",
    ),
    sign(
        "bad_sizes",
        "partition",
        r"partitions?\b.{0,80}(?:does not|do not|doesn't|don't|must|should) (?:match|equal|sum|add)|invalid partition string"
        r"|SGLANG_PP_LAYER_PARTITION.{0,80}(?:must|should|invalid|match)",
        hint=_PARTITION_HINT,
    ),
    sign(
        "bad_sizes",
        "assert",
        r"AssertionError: assert .{0,120}(?:head|expert|layer|_size|hidden|vocab|width|partition)\w*(?:\(\))? ?% ?.{1,80}== ?0",
    ),
    sign("bad_sizes", ("--tp", "--ep"), r"by setting arguments .--tp. and .--ep."),
    sign(
        "bad_sizes",
        ("_size", "experts", "layers", "pipeline"),
        r"(?:(?:tp|ep|pp|dp|attn_dp|moe_dp|moe_tp|world|tensor_parallel|expert_parallel|pipeline_parallel|data_parallel)[_ ]size\b.{0,80}"
        r"(?:must be|should be|cannot be|exceeds?|larger than|greater than|less than or equal|does not (?:match|equal|divide))"
        r"|number of (?:experts|layers|attention heads).{0,80}(?:must|less than|smaller than|not enough)"
        r"|(?:tensor|expert|pipeline) parallel(?:ism)? size.{0,80}(?:must|exceed|larger|greater|divid))",
    ),
)

RULES = (
    sign(
        "bad_flags",
        (
            "context_length",
            "chat template",
            "draft model",
            "is not compatible",
            "incompatible",
            "not supported",
            "multi-node",
            "cannot be used",
            "only one of",
            "not allowed",
            "mutually exclusive",
            "unsupported config",
            "is required",
            "requires",
            "must be one of",
        ),
        r"^(?:\S+\.)?(?:AssertionError|ValueError|RuntimeError|NotImplementedError|KeyError): (?P<flag>.{0,400}(?:"
        r"context_length .{0,80}greater than|chat template \S+ is not|is not compatible with|incompatible with|multi-node .{0,60}not supported"
        r"|cannot be (?:used|combined|enabled)|mutually exclusive|unsupported config option|requires? --\w"
        r"|must be (?:one of|used with|set|enabled|disabled)"
        r"|not supported (?:with|when|for|together)).{0,200})",
    ),
    sign(
        "bad_flags",
        "--",
        r"^(?:[\w.]+(?:Error|Exception)|Exception|SystemExit): (?P<flag>"
        r".{0,200}--[a-z][\w-]* (?:is|are|was|were) (?:required|mandatory|missing|not given)\b.{0,160}"
        r"|.{0,80}(?:missing|required) (?:argument|option|flag|parameter)s?\b.{0,40}--[a-z].{0,160})",
    ),
)
