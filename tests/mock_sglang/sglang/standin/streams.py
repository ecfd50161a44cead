# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the tokens of one job into the pieces of an answer: chat chunks, completion chunks, native chunks."""

from __future__ import annotations

import json
import time

from sglang.standin.tokens import is_silent, piece

DONE = b"data: [DONE]\n\n"


def event(value) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def chat_usage(job, report_cache: bool) -> dict:
    """Token counts as the chat endpoint gives them."""
    details = {"cached_tokens": job.cached} if report_cache else None
    return {
        "prompt_tokens": job.prompt_tokens,
        "total_tokens": job.prompt_tokens + job.produced,
        "completion_tokens": job.produced,
        "prompt_tokens_details": details,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


class Text:
    """Collects the text of a job; silent tokens hand theirs to the next one."""

    def __init__(self, seed: int, split: bool):
        self.seed = seed
        self.split = split
        self.held = ""
        self.whole = []

    def add(self, number: int) -> str:
        """Text that can be sent after this token, maybe none."""
        text = piece(self.seed, number)
        self.whole.append(text)
        if self.split and is_silent(number):
            self.held += text
            return ""
        text, self.held = self.held + text, ""
        return text

    def rest(self) -> str:
        """What is still held back at the end."""
        text, self.held = self.held, ""
        return text


class Answer:
    """Common part: emits on the stream interval and at the end."""

    def __init__(self, request, job_id: str, settings, options):
        self.request = request
        self.id = job_id
        self.settings = settings
        self.model = options["model"]
        self.stream = options["stream"]
        self.usage_asked = options["include_usage"]
        self.usage_always = options["continuous_usage"]
        self.text = Text(options["seed"], settings.split)
        self.pending = ""
        self.pending_tokens = 0
        self.created = int(time.time())
        self.started = False

    def emit(self, job) -> None:
        """One more token, or the end."""
        self.pending += self.text.add(job.produced)
        self.pending_tokens += 1
        due = job.produced == 1 or self.pending_tokens >= self.settings.stream_interval
        if job.done:
            self.pending += self.text.rest()
        if not self.stream:
            if job.done:
                self.whole(job)
            return
        if not (due or job.done) or self.settings.breaks(self.request, job):
            return
        if not self.started:
            self.started = True
            self.begin(job)
        text, self.pending, self.pending_tokens = self.pending, "", 0
        self.part(job, text)
        if job.done:
            self.finish(job)
            self.request.chunk(DONE)
            self.request.end_stream()


class ChatAnswer(Answer):
    """POST /v1/chat/completions."""

    def _chunk(self, delta: dict, finish, job=None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        value = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model, "choices": [choice]}
        if job is not None and self.usage_always:
            value["usage"] = chat_usage(job, self.settings.report_cache)
        return event(value)

    def begin(self, job) -> None:
        """The role chunk goes out together with the first text."""
        self.request.start_stream()
        self.role = self._chunk({"reasoning_content": None, "role": "assistant", "content": ""}, None)

    def part(self, job, text: str) -> None:
        """Text, unless there is none yet."""
        data, self.role = self.role, b""
        if text:
            data += self._chunk({"reasoning_content": None, "content": text}, None, job)
        if data:
            self.request.chunk(data)

    def finish(self, job) -> None:
        """A chunk without text tells why it ended, one without choices the usage."""
        self.request.chunk(self._chunk({"reasoning_content": None}, job.finish_reason))
        if self.usage_asked:
            self.request.chunk(
                event(
                    {
                        "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
                        "choices": [], "usage": chat_usage(job, self.settings.report_cache),
                    }
                )
            )

    def whole(self, job) -> None:
        """The answer in one piece."""
        message = {"role": "assistant", "content": "".join(self.text.whole), "reasoning_content": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": job.finish_reason, "matched_stop": None}
        self.request.reply(
            200,
            {
                "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model, "choices": [choice],
                "usage": chat_usage(job, self.settings.report_cache), "metadata": _metadata(job),
            },
        )


class CompletionAnswer(Answer):
    """POST /v1/completions."""

    def _chunk(self, text: str, finish, usage) -> bytes:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        return event(
            {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model, "choices": [choice], "usage": usage}
        )

    @staticmethod
    def _counts(job) -> dict:
        usage = chat_usage(job, False)
        return {key: usage[key] for key in ("prompt_tokens", "total_tokens", "completion_tokens", "reasoning_tokens")}

    def begin(self, job) -> None:
        """No chunk of its own."""
        self.request.start_stream()

    def part(self, job, text: str) -> None:
        """Text, also when it is empty; the last one tells why it ended."""
        usage = self._counts(job) if self.usage_always else None
        self.request.chunk(self._chunk(text, job.finish_reason, usage))

    def finish(self, job) -> None:
        """Usage when it was asked for."""
        if self.usage_asked:
            self.request.chunk(
                event(
                    {
                        "id": self.id, "object": "text_completion", "created": self.created, "model": self.model,
                        "choices": [], "usage": self._counts(job),
                    }
                )
            )

    def whole(self, job) -> None:
        """The answer in one piece."""
        choice = {"index": 0, "text": "".join(self.text.whole), "logprobs": None, "finish_reason": job.finish_reason, "matched_stop": None}
        self.request.reply(
            200,
            {
                "id": self.id, "object": "text_completion", "created": self.created, "model": self.model, "choices": [choice],
                "usage": chat_usage(job, self.settings.report_cache), "metadata": _metadata(job),
            },
        )


class NativeAnswer(Answer):
    """POST /generate: every chunk repeats the text so far."""

    def _value(self, job) -> dict:
        text = "".join(self.text.whole)
        shown = text[: len(text) - len(self.text.held)] if self.text.held else text
        meta = {
            "id": self.id, "finish_reason": None, "prompt_tokens": job.prompt_tokens, "weight_version": "default",
            "num_retractions": 0, "storage_prefetch_wait": 0.0, "storage_staging_wait": 0.0,
            "queue_time": job.admitted_at - job.received, "reasoning_tokens": 0, "completion_tokens": job.produced,
            "cached_tokens": job.cached, "cached_tokens_details": {"device": job.cached, "host": 0}, "dp_rank": None,
        }
        if job.done:
            lasted = job.finished_at - job.first_at
            meta.update(
                finish_reason={"type": job.finish_reason, "length": job.produced},
                weight_versions=[{"version": "default", "start": 0, "end": job.produced}],
                e2e_latency=job.finished_at - job.received, first_token_latency=job.first_at - job.received,
                decode_throughput=(job.produced - 1) / lasted if lasted > 0 else 0.0,
            )
        return {"text": shown, "output_ids": [(self.text.seed + n * 7) % 512 for n in range(1, job.produced + 1)], "meta_info": meta}

    def begin(self, job) -> None:
        """No chunk of its own."""
        self.request.start_stream()

    def part(self, job, text: str) -> None:
        """All so far."""
        self.request.chunk(event(self._value(job)))

    def finish(self, job) -> None:
        """Nothing more: the last part said it."""

    def whole(self, job) -> None:
        """The answer in one piece."""
        self.request.reply(200, self._value(job))


def _metadata(job) -> dict:
    return {"weight_version": "default", "weight_versions": [{"version": "default", "start": 0, "end": job.produced}]}
