# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be wrong before a sweep, found with a handful of requests, so that no load is sent in vain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .answer import Answer, message_of
from .control import Control, Trouble
from .prompts import Prompts, Workload, body, salt, text, words_for

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
TRIAL_TOKENS = 24


@dataclass
class Ground:
    """What the checks found out about the server."""

    model: str = ""
    max_model_len: int | None = None
    version: str = ""
    flags: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    usage: bool = True
    tokens_per_chunk: float = 1.0
    template_tokens: int = 0  # the same at the start of every prompt, so always in the prefix cache
    warnings: list[str] = field(default_factory=list)


def served_model(listed: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The model to ask for; refuses one that is not served, since the server itself would take any name."""
    ids = [str(one.get("id")) for one in listed]
    if wanted and wanted not in ids:
        raise Trouble(
            "wrong_model",
            "the server serves %s, not %s" % (", ".join(ids) or "no model", wanted),
            "Point host and port at the right deployment, or correct model.",
        )
    if not ids:
        raise Trouble("wrong_model", "the server lists no model", "Is it still starting?")
    return listed[ids.index(wanted) if wanted else 0]


def check(control: Control, workload: Workload, input_len: int, generator: Any) -> Ground:
    """Look at models, settings and two answers; sets the workload's model, words and way of counting."""
    ground = Ground()
    model = served_model(control.models(), workload.model)
    workload.model = ground.model = str(model["id"])
    ground.max_model_len = model.get("max_model_len")
    info = control.server_info()
    ground.version, ground.flags, ground.start = info["version"], info["flags"], info["start"]
    if not workload.lines:
        _fits(ground, input_len + workload.output_len, input_len, workload.output_len)
    _first_answer(control, workload, ground, generator)
    if not workload.lines:
        _measure_words(control, workload, ground, input_len, generator)
    _whole_request(control, workload)
    return ground


def _fits(ground: Ground, total: int, input_len: int, output_len: int) -> None:
    if ground.max_model_len and total > ground.max_model_len:
        raise Trouble(
            "context_too_long",
            "input_len %d + output_len %d = %d tokens, and the server's context is %d" % (input_len, output_len, total, ground.max_model_len),
            "Ask for shorter prompts or answers, or start the server with a longer context.",
        )


def refusal(status: int, content_type: str, raw: bytes, path: str) -> Trouble:
    """What a status other than 200 means for the sweep."""
    told = message_of(raw)
    if status in (401, 403):
        return Trouble("auth", "%s refuses the API key (HTTP %d)" % (path, status), "Set api_key to the key the server was started with.")
    if "json" not in content_type and status not in (500, 503):
        return Trouble(
            "not_our_server",
            "%s says HTTP %d, %s, %r" % (path, status, content_type or "no content type", raw[:80].decode("utf-8", "replace")),
            "Does another program own this port?",
        )
    if "context length" in told or "longer than the model" in told or "Requested token count" in told:
        return Trouble(
            "context_too_long",
            "%s refuses the request: %s" % (path, told),
            "Ask for shorter prompts or answers, or start the server with a longer context.",
        )
    return Trouble(
        "client_setup",
        "%s refuses the sweep's request with HTTP %d: %s" % (path, status, told),
        "Compare extra_body, endpoint and prompts with what this server takes.",
    )


def _first_answer(control: Control, workload: Workload, ground: Ground, generator: Any) -> None:
    """One short stream: does it end as it should, does it say its usage, how many tokens has a chunk?"""
    path = PATHS[workload.endpoint]
    workload.continuous_usage = True
    asked = min(TRIAL_TOKENS, workload.output_len)
    prompt = workload.lines[0]["prompt"] if workload.lines else salt(workload.nonce, "trial") + " " + text(6, generator)
    response = control.call("POST", path, body(workload, prompt, asked), timeout=120.0, stream=True)
    raw = response.content
    if response.status_code != 200:
        raise refusal(response.status_code, response.headers.get("Content-Type", ""), raw, path)
    answer = Answer(0.0, 0.0, asked)
    answer.ended = True
    answer.at, answer.data = [0.0], [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw]
    answer.close()
    if answer.error:
        kind = response.headers.get("Content-Type", "")
        raise Trouble(
            "not_our_server" if "event-stream" not in kind else "client_setup",
            "a trial request ended as %s: %s" % (answer.error, answer.detail or raw[:80].decode("utf-8", "replace")),
        )
    ground.usage = bool(answer.tokens)
    ground.tokens_per_chunk = answer.tokens_or_chunks() / len(answer.times)
    # Usage in every chunk makes the stream longer, so it is only asked for where chunks and tokens differ.
    workload.continuous_usage = ground.usage and ground.tokens_per_chunk > 1.02 and len(answer.counts) == len(answer.times)
    if not ground.usage:
        ground.warnings.append("the server sends no usage, so chunks are counted instead of tokens")


def _measure_words(control: Control, workload: Workload, ground: Ground, input_len: int, generator: Any) -> None:
    path = PATHS[workload.endpoint]

    def measure(words: int) -> int:
        prompt = salt(workload.nonce, "length", words) + " " + text(words - 10, generator)
        response = control.call("POST", path, body(workload, prompt, 1, stream=False), timeout=120.0)
        if response.status_code != 200:
            raise refusal(response.status_code, response.headers.get("Content-Type", ""), response.content, path)
        return int((response.json().get("usage") or {}).get("prompt_tokens") or 0)

    if not ground.usage:
        workload.words = input_len
        return
    workload.words, ground.template_tokens = words_for(input_len, measure, ground.max_model_len)


def _whole_request(control: Control, workload: Workload) -> None:
    """The first request of the sweep as it will be sent, given up once it is taken."""
    path = PATHS[workload.endpoint]
    raw, _asked = Prompts(workload, "whole").request(0)
    response = control.session.post(
        control.base + path,
        data=raw.split(b"\r\n\r\n", 1)[1],
        headers=dict(control.headers(), **{"Content-Type": "application/json"}),
        stream=True,
        timeout=(5.0, 600.0),
        allow_redirects=False,
    )
    with response:
        if response.status_code != 200:
            raise refusal(response.status_code, response.headers.get("Content-Type", ""), response.content[:4096], path)
        for line in response.iter_lines():
            if b'"error"' in line[:20]:
                raise refusal(400, "application/json", line[5:].strip(), path)
            if line:
                return
