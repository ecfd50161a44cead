# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints that generate: read the body, refuse what the real server refuses, hand a job to the engine."""

from __future__ import annotations

import json
import uuid
import zlib

from sglang.standin.engine import Job
from sglang.standin.faults import SITE
from sglang.standin.streams import ChatAnswer, CompletionAnswer, NativeAnswer, event

TEMPLATE_HEAD, TEMPLATE_TURN = "<|begin|>", "<|%s|>%s<|end|>\n"
NATURAL_END = 128  # tokens after which an answer ends by itself when no limit was given
PATHS = {
    "/v1/chat/completions": (1870, "openai_v1_chat_completions"),
    "/v1/completions": (1840, "openai_v1_completions"),
}


def error(message: str, kind: str = "BadRequestError", code: int = 400) -> dict:
    """An error body in the way of OpenAI."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


class RequestBreaker:
    """Breaks every Nth stream or answer as told: what a client must not count as success."""

    def __init__(self, setting: str):
        kind, _sep, every = setting.partition(":")
        self.kind = kind
        self.every = max(int(every or 1), 1)
        self.seen = 0

    def strikes(self) -> bool:
        """Is it this request's turn?"""
        if not self.kind:
            return False
        self.seen += 1
        return self.seen % self.every == 0


class Settings:
    """What shapes answers, from flags and knobs."""

    def __init__(self, layout, knobs):
        args = layout.args
        self.stream_interval = max(args.stream_interval, 1)
        self.report_cache = args.enable_cache_report
        self.usage_by_default = args.stream_response_default_include_usage
        self.split = knobs.flag("SPLIT", True)
        self.short_output = int(knobs.number("SHORT_OUTPUT", 0))
        self.natural_end = int(knobs.number("EOS_AFTER", 0))
        self.breaker = RequestBreaker(knobs.text("REQUEST_FAULT"))

    def breaks(self, request, job) -> bool:
        """Break a stream in its middle when its turn has come; True when nothing more is to be sent."""
        kind = request.doomed
        if not kind or job.produced < max(job.max_new // 2, 1):
            return False
        if request.connection.closed or kind == "broken":
            return True
        request.doomed = "broken"
        if kind == "cut":
            request.cut()
        elif kind == "sse_error":
            request.chunk(event({"error": error("Internal error in the middle of a stream", "InternalServerError", 500)}))
            request.on_close()
            request.end_stream()
        return True


class Generation:
    """Handlers of the three generating endpoints."""

    def __init__(self, layout, engine, knobs):
        self.layout, self.engine = layout, engine
        self.settings = Settings(layout, knobs)
        self.jobs = {}

    def handle(self, request) -> None:
        """One POST."""
        if self._refused_by_knob(request):
            return
        try:
            body = json.loads(request.body)
            if not isinstance(body, dict):
                raise ValueError
        except ValueError:
            request.reply(400, self._invalid(request, "json_invalid", "JSON decode error", ("body", 1), {}))
            return
        if request.path == "/generate":
            self._native(request, body)
        elif request.path == "/v1/chat/completions":
            self._chat(request, body)
        else:
            self._completion(request, body)

    def _refused_by_knob(self, request) -> bool:
        breaker = self.settings.breaker
        if not breaker.strikes():
            return False
        if breaker.kind in ("429", "500", "503"):
            code = int(breaker.kind)
            request.reply(code, error("The request queue is full." if code != 500 else "Internal error", "error", code))
        elif breaker.kind == "empty":
            request.start_stream()
            request.end_stream()
        elif breaker.kind != "hang":
            request.doomed = breaker.kind
            return False
        return True

    def _invalid(self, request, kind: str, message: str, where, given) -> dict:
        """The validation error of the web framework, as the real server words it."""
        fault = {"type": kind, "loc": where, "msg": message, "input": given}
        if kind == "json_invalid":
            fault["ctx"] = {"error": "unexpected character, expected a string key"}
        line, function = PATHS.get(request.path, (900, "generate_request"))
        text = "1 validation error:\n  %s\n\n  File \"%s/srt/entrypoints/http_server.py\", line %d, in %s\n    POST %s [%s]"
        return error(text % (fault, SITE, line, function, request.path, fault), "Bad Request")

    def _chat(self, request, body: dict) -> None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            given = {**body, "tool_choice": "none"}
            request.reply(400, self._invalid(request, "missing", "Field required", ("body", "messages"), given))
            return
        prompt = TEMPLATE_HEAD + "".join(TEMPLATE_TURN % (m.get("role", "user"), _content(m.get("content"))) for m in messages)
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        self._start(request, body, ChatAnswer, prompt + "<|assistant|>", limit, bool(body.get("ignore_eos")))

    def _completion(self, request, body: dict) -> None:
        prompt = body.get("prompt")
        if prompt is None:
            request.reply(400, self._invalid(request, "missing", "Field required", ("body", "prompt"), body))
            return
        limit = body.get("max_tokens") or 16
        self._start(request, body, CompletionAnswer, _prompt(prompt), limit, bool(body.get("ignore_eos")))

    def _native(self, request, body: dict) -> None:
        params = body.get("sampling_params") or {}
        prompt = body.get("text") if body.get("text") is not None else body.get("input_ids")
        if prompt is None:
            request.reply(400, {"error": {"message": "Either text, input_ids or input_embeds should be provided."}})
            return
        limit = params.get("max_new_tokens") or NATURAL_END
        self._start(request, body, NativeAnswer, _prompt(prompt), limit, bool(params.get("ignore_eos")))

    def _start(self, request, body: dict, kind, prompt: str, limit, ignore_eos: bool) -> None:
        tokens = self.engine.prompt_tokens(prompt)
        refusal = self._too_long(tokens, limit)
        if refusal:
            request.reply(400, error(refusal))
            return
        queued = self.layout.args.max_queued_requests
        if queued is not None and len(self.engine.waiting) >= queued:
            request.reply(503, error("The request queue is full.", "service_unavailable", 503))
            return
        usage = body.get("stream_options") or {}
        options = {
            "model": body.get("model", "default"),
            "stream": bool(body.get("stream")),
            "include_usage": bool(usage.get("include_usage")) or self.settings.usage_by_default,
            "continuous_usage": bool(usage.get("continuous_usage_stats")),
            "seed": zlib.crc32(prompt.encode("utf-8", "replace")) % 97,
        }
        rid = str(body.get("rid") or uuid.uuid4().hex)
        answer = kind(request, rid, self.settings, options)
        job = Job(rid, prompt, tokens, self._length(tokens, limit, ignore_eos), self._emitter(answer))
        job.streaming = options["stream"]
        if limit and job.max_new < int(limit) and not ignore_eos and self.settings.natural_end:
            job.end_word = "stop"
        self.jobs[rid] = job
        request.on_close = lambda: self._left(job)
        self.engine.submit(job)

    def _emitter(self, answer):
        def emit(job):
            if job.done:
                self.jobs.pop(job.rid, None)
            answer.emit(job)

        return emit

    def _left(self, job) -> None:
        self.jobs.pop(job.rid, None)
        self.engine.abort(job)

    def _too_long(self, tokens: int, limit) -> str:
        room = self.layout.context_len
        if tokens >= room:
            return "The input (%d tokens) is longer than the model's context length (%d tokens)." % (tokens, room)
        if limit and tokens + int(limit) > room:
            return (
                "Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d "
                "tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens "
                "in the input messages or the completion to fit within the limit." % (room, tokens + int(limit), tokens, int(limit))
            )
        return ""

    def _length(self, tokens: int, limit, ignore_eos: bool) -> int:
        wanted = int(limit) if limit else min(NATURAL_END, self.layout.context_len - tokens)
        if self.settings.natural_end and not ignore_eos:
            wanted = min(wanted, self.settings.natural_end)
        if self.settings.short_output:
            wanted = min(wanted, self.settings.short_output)
        return max(wanted, 1)

    def abort(self, rid: str, everything: bool) -> None:
        """Stop one request or all; their clients get what was made so far."""
        for job in list(self.jobs.values()):
            if everything or job.rid == rid:
                self.engine.abort(job)
                job.finished_at = self.engine.loop.now()
                job.first_at = job.first_at or job.finished_at
                self.jobs.pop(job.rid, None)
                job.emit(job)


def _content(content) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _prompt(value) -> str:
    if isinstance(value, list):
        if value and all(isinstance(item, int) for item in value):
            return "".join("%04x" % (item & 0xFFFF) for item in value)  # four bytes a token
        return " ".join(str(item) for item in value)
    return str(value)
