# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ladder of requests that proves a server ready: model list, readiness, one generated token; and what bad answers mean."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Callable

from ansible_collections.gpuops.sglang.plugins.module_utils._observation import Answer, Probe

QUICK_PACE = 0.25  # seconds between looks at /ready while the server warms up
QUICK_FOR = 60.0  # that long, then wait_sleep
FLAG_TIMEOUT = 5.0  # /ready and /v1/models answer at once or not at all
# A bad answer counts when it was given so often over so many seconds, while the server said that it was ready.
PERSISTENT = {
    "auth": (2, 1.0),
    "wrong_model": (2, 1.0),
    "not_our_server": (3, 6.0),
    "refused_token": (3, 5.0),
    "broken_token": (3, 10.0),
    "silent_token": (3, 60.0),
}
_PATIENCE = 1.8
_SHOWN = 80


def describe_answer(answer: Answer) -> str:
    """One short phrase for a person: "200 application/json", "no answer in 25 s", "refused"."""
    if answer.kind == "status":
        kind = (answer.content_type or "").partition(";")[0]
        return f"{answer.status} {kind}".strip()
    if answer.kind == "timeout":
        return f"no answer in {answer.elapsed:.0f} s"
    return f"{answer.kind} {answer.detail}".strip()[:160]


def model_ids(body: str) -> list[str] | None:
    """The ids in a model list; None when the body is not one."""
    try:
        listed = json.loads(body)["data"]
        return [str(item["id"]) for item in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Ladder:
    """Which request comes next and what the answers have shown; all state is plain, so that it can be kept as JSON."""

    def __init__(self, model: str, follower: bool, generate: bool, probe_timeout: float, pace: float, ready_query: str = ""):
        self.model = model
        self.follower = follower
        self.generate = generate
        self.probe_timeout = probe_timeout
        self.pace = pace
        self.ready_query = ready_query
        self.reset()

    def reset(self) -> None:
        """Forget everything: another process answers now."""
        self.step = "models"
        self.in_flight = ""
        self.asked_at = 0.0
        self.next_at = 0.0
        self.since: float | None = None
        self.has_ready: bool | None = None
        self.models_good = self.follower
        self.models_bad: dict[str, Any] = {}  # the last bad model list, until the server says that it is ready
        self.listed_when_ready = self.follower  # the model list was looked at again once the server said that it is ready
        self.ready_seen = False
        self.was_ready = False  # once at least, the server said so
        self.done_at: float | None = None
        self.token_path = "/v1/completions"
        self.found: list[str] = []
        self.seen: dict[str, dict[str, Any]] = {}  # path -> text, count, since: the last answer
        self.bad: dict[str, dict[str, Any]] = {}  # what a bad answer means -> count, since, text, status

    # -- asking

    def next_probe(self, now: float) -> Probe | None:
        if self.in_flight or self.done_at is not None or now < self.next_at:
            return None
        if self.since is None:
            self.since = now
        if self.step == "models" and self.models_good:
            self.step = "ready"
        probe = self._probe()
        self.in_flight, self.asked_at = probe.path, now
        return probe

    def _probe(self) -> Probe:
        quick = min(FLAG_TIMEOUT, self.probe_timeout)
        if self.step == "models":
            return Probe("/v1/models", timeout=quick)
        if self.step == "ready":
            if self.follower or self.has_ready is False:
                return Probe("/health", timeout=self.probe_timeout)
            return Probe("/ready", timeout=quick)
        body: dict[str, Any] = {"model": self.model or (self.found[0] if self.found else "default"), "max_tokens": 1, "temperature": 0}
        if self.token_path == "/v1/completions":
            body["prompt"] = "Hello"
        else:
            body["messages"] = [{"role": "user", "content": "Hello"}]
        # Every other request has more patience: a server under load may take longer than the limit and yet be alive.
        patience = _PATIENCE if self.bad.get("silent_token", {}).get("count", 0) % 2 else 1.0
        return Probe(self.token_path, "POST", body, max(self.probe_timeout, FLAG_TIMEOUT) * patience)

    def hurry(self, now: float) -> None:
        """Something has just told that the server may be ready: ask now."""
        self.next_at = min(self.next_at, now)

    # -- hearing

    def on_answer(self, now: float, probe: Probe, answer: Answer, query: Callable[[str, Any], Any] | None = None) -> bool:
        """Take an answer; True when it differs from the last one for that path."""
        self.in_flight = ""
        changed = self._note(now, probe.path, answer)
        if probe.path == "/v1/models":
            self._models(now, answer, query)
        elif probe.path in ("/ready", "/health"):
            self._ready(now, probe.path, answer)
        else:
            self._token(now, answer)
        return changed

    def hear_foreigner(self, answer: Answer) -> list[str] | None:
        """The models of a process that is not the unit's; its answer says nothing about ours."""
        self.in_flight = ""
        return model_ids(answer.body) if answer.kind == "status" and answer.status == 200 else None

    def _note(self, now: float, path: str, answer: Answer) -> bool:
        text = describe_answer(answer)
        if path == "/v1/models" and answer.status == 200 and model_ids(answer.body) == []:
            text = f"200 (an empty list{', %s is expected' % self.model if self.model else ''})"
        last = self.seen.get(path)
        if last and last["text"] == text:
            last["count"] += 1
            return False
        self.seen[path] = {"text": text, "count": 1, "since": now}
        return True

    def _later(self, now: float) -> None:
        """Start over after a pause; short while only the flag is awaited."""
        quick = self.models_good and not self.bad and self.has_ready is not False and not self.follower and now - (self.since or now) < QUICK_FOR
        self.next_at = now + (min(QUICK_PACE, self.pace) if quick else self.pace)
        self.step = "models"

    def _models(self, now: float, answer: Answer, query: Callable[[str, Any], Any] | None) -> None:
        bad = self._judge_models(answer, query)
        if not bad:
            self.models_good, self.models_bad = True, {}
            for name in ("auth", "wrong_model", "not_our_server"):
                self.bad.pop(name, None)
            if self.ready_seen and self.listed_when_ready:
                self._proceed(now)
                return
        elif (self.ready_seen or answer.kind == "tls") and bad != "later":
            self._count(now, bad, "/v1/models", answer)
        elif bad != "later":
            self.models_bad = {"meaning": bad, "answer": {**asdict(answer), "body": answer.body[:400]}}
        elif bad == "later":
            self.bad.clear()
        self.step = "ready"

    def _judge_models(self, answer: Answer, query: Callable[[str, Any], Any] | None) -> str:
        """What is wrong with the model list: a cause, "later" when it may still come, or nothing."""
        if answer.kind == "tls":
            return "not_our_server"
        if answer.kind != "status" or answer.status >= 500 or answer.status == 429:
            return "later"
        if answer.status in (401, 403):
            return "auth"
        ids = model_ids(answer.body)
        if answer.status != 200 or ids is None:
            return "not_our_server"
        self.found = ids
        if not ids:
            return "later"
        if self.model and self.model not in ids:
            return "wrong_model"
        if self.ready_query and query is not None and not query(self.ready_query, json.loads(answer.body)):
            return "later"
        return ""

    def _ready(self, now: float, path: str, answer: Answer) -> None:
        status = answer.status if answer.kind == "status" else 0
        if path == "/ready" and (status in (401, 403, 404, 405) or 300 <= status < 400):
            self.has_ready = False  # an older version, which knows only /health
            self.step = "ready"
            return
        if path == "/ready" and status:
            self.has_ready = True
        if status == 200 or path == "/health" and status in (404, 405):
            self.ready_seen = self.was_ready = True
            if self.models_bad:
                self._count(now, self.models_bad["meaning"], "/v1/models", Answer(**self.models_bad["answer"]))
                self.models_bad = {}
            if self.models_good and not self.listed_when_ready:
                self.listed_when_ready, self.models_good, self.step = True, False, "models"
            elif self.models_good:
                self._proceed(now)
            else:
                self._later(now)
            return
        if path == "/health" and status in (401, 403):
            self._count(now, "auth", path, answer)
        elif path == "/health" and 300 <= status < 500 and status != 429:
            self._count(now, "not_our_server", path, answer)  # SGLang never sends its callers elsewhere
        self.ready_seen = False
        self._later(now)

    def _proceed(self, now: float) -> None:
        if self.follower or not self.generate:
            self.done_at = now
        else:
            self.step = "token"

    def _token(self, now: float, answer: Answer) -> None:
        status = answer.status if answer.kind == "status" else 0
        if status == 200 and _has_choice(answer.body):
            self.done_at = now
            self.bad.clear()
            return
        if status in (401, 403):
            self._count(now, "auth", self.token_path, answer)
        elif 400 <= status < 500 and status != 429:
            if self.token_path == "/v1/completions":
                self.token_path = "/v1/chat/completions"
                return
            self._count(now, "refused_token", self.token_path, answer)
        elif status >= 500 and status != 503 or status == 200:
            self._count(now, "broken_token", self.token_path, answer)
        elif answer.kind == "timeout":
            self._count(now, "silent_token", self.token_path, answer)
        self._later(now)

    def _count(self, now: float, meaning: str, path: str, answer: Answer) -> None:
        for other in [name for name in self.bad if name != meaning]:
            del self.bad[other]
        if meaning == "wrong_model" and self.bad.get(meaning, {}).get("body", answer.body[:400]) != answer.body[:400]:
            del self.bad[meaning]  # a list that still changes may come to hold ours
        item = self.bad.setdefault(meaning, {"count": 0, "since": now, "text": "", "status": 0, "last": now})
        item["body"] = answer.body[:400]
        item["count"] += 1
        item["last"] = now
        item["status"] = answer.status
        body = " ".join(answer.body[:400].split())[:_SHOWN]
        item["text"] = f"{path}: {describe_answer(answer)}" + (f" {body}" if body else "")

    # -- judging

    def persistent(self, now: float) -> str:
        """What has been wrong long enough to be final."""
        for meaning, item in self.bad.items():
            times, seconds = PERSISTENT[meaning]
            if item["count"] >= times and item["last"] - item["since"] >= seconds:
                return meaning
        return ""

    def summary(self) -> str:
        """What was seen last, for a person: "model list 200, health did not answer"."""
        names = {"/v1/models": "model list", "/ready": "/ready", "/health": "health"}
        names.update(dict.fromkeys(("/v1/completions", "/v1/chat/completions"), "one-token request"))
        parts = []
        for path, name in names.items():
            item = self.seen.get(path)
            if not item or path == "/ready" and self.has_ready is False:
                continue
            text = "did not answer" if item["text"].startswith("no answer") else item["text"]
            parts.append(f"{name} {text if 'empty' in text or 'answer' in text else text.partition(' ')[0]}")
        if self.in_flight in names and self.in_flight not in self.seen:
            parts.append(f"{names[self.in_flight]} did not answer")
        return ", ".join(parts)

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.in_flight = ""


def _has_choice(body: str) -> bool:
    try:
        return bool(json.loads(body)["choices"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
