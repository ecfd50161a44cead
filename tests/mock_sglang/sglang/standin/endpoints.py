# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints that tell something: readiness, health, models, server facts, loads, control."""

from __future__ import annotations

import datetime
import hmac
import json
import time
import uuid

from sglang.standin import log, metrics
from sglang.standin.engine import Job
from sglang.standin.generation import PATHS, Generation

STARTING, UP, UNHEALTHY = "Starting", "Up", "UnHealthy"
OPEN_PATHS = ("/health", "/ready", "/metrics")
CONTROL_PATHS = ("/flush_cache", "/abort_request", "/pause_generation", "/continue_generation", "/set_internal_state", "/freeze_gc")
HTML = b"<!DOCTYPE html>\n<html><head><title>Welcome to nginx!</title></head><body><h1>It works</h1></body></html>\n"
NOT_FOUND, NOT_ALLOWED = {"detail": "Not Found"}, {"detail": "Method Not Allowed"}
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation "
    "will not be performed.)\n"
)
OTHER_MODEL = "somebody-elses-model"


def bearer_fits(header: str, key: str) -> bool:
    """Does the Authorization header carry this key?"""
    return hmac.compare_digest(header.encode("utf-8", "replace"), ("Bearer " + key).encode("utf-8", "replace"))


class Endpoints:
    """Routes requests of one server."""

    def __init__(self, server):
        self.server = server
        self.layout, self.engine, self.loop = server.layout, server.engine, server.loop
        self.knobs, self.faults = server.knobs, server.faults
        self.release = self.knobs.release()
        self.generation = Generation(self.layout, self.engine, self.knobs)
        self.paused = False
        self.slow_answers = int(self.knobs.number("FAULT_TIMES", -1))  # -1: all of them
        self.get = {
            "/": lambda request: request.reply(200, "SGLang is running"),
            "/health": self._health, "/health_generate": self._health, "/ping": self._ping,
            "/v1/models": self._models, "/model_info": self._model_info, "/get_model_info": self._model_info,
            "/server_info": self._server_info, "/get_server_info": self._server_info, "/v1/loads": self._loads,
            "/flush_cache": self._flush,
        }
        self.post = {path: self.generation.handle for path in (*PATHS, "/generate")}
        self.post.update(
            {
                "/flush_cache": self._flush, "/abort_request": self._abort, "/freeze_gc": self._empty,
                "/pause_generation": self._pause, "/continue_generation": self._continue,
                "/set_internal_state": self._set_state,
            }
        )
        if self.release >= (0, 5, 20):
            self.get["/ready"] = self._ready
        if self.release <= (0, 5, 20):
            self.get["/get_load"] = self._old_load
        if self.layout.args.enable_metrics:
            self.get["/metrics"] = lambda request: request.reply(200, metrics.render(server).encode(), metrics.TYPE)

    def handle(self, request) -> None:
        """Answer one request."""
        if self.faults.is_("not_our_server"):
            request.reply(200, HTML, "text/html; charset=utf-8")
            return
        status = self._refusal(request)
        if status:
            request.reply(status, {"error": "Unauthorized" if status == 401 else "Forbidden"})
            return
        table = {"GET": self.get, "HEAD": self.get, "POST": self.post}.get(request.method, {})
        route = table.get(request.path)
        if route:
            route(request)
        elif request.path in self.get or request.path in self.post:
            request.reply(405, NOT_ALLOWED)
        else:
            request.reply(404, NOT_FOUND)

    def _refusal(self, request) -> int:
        args = self.layout.args
        if request.method == "OPTIONS" or request.path.startswith(OPEN_PATHS):
            return 0
        key = args.api_key
        if args.admin_api_key and request.path in CONTROL_PATHS:
            key = args.admin_api_key
        if key and not bearer_fits(request.headers.get("authorization", ""), key):
            return 401
        return 0

    @staticmethod
    def _empty(request) -> None:
        request.reply(200)

    def _ready(self, request) -> None:
        server = self.server
        request.reply(200 if server.status == UP and not server.stopping and not self.paused else 503)

    def _ping(self, request) -> None:
        if self.release < (0, 5, 23):
            request.reply(200)
            return
        request.reply(200 if self.server.status == UP and not self.server.stopping else 503)

    def _health(self, request) -> None:
        server = self.server
        if server.stopping:
            log.line("Health check request received during shutdown. Returning 503.")
            request.reply(503)
            return
        if server.status == STARTING:
            request.reply(503)
            return
        if not self.knobs.sglang_flag("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", True) and request.path == "/health":
            request.reply(200)
            return
        patience = self.knobs.sglang_number("SGLANG_HEALTH_CHECK_TIMEOUT", 20)
        if self.faults.is_("slow_health") and self.slow_answers:
            self.slow_answers -= 1
            self.loop.after(patience * self.knobs.number("TIME_SCALE", 1.0), lambda: self._unhealthy(request, time.time() - patience))
            return
        job = Job("HEALTH_CHECK_" + uuid.uuid4().hex, "", 1, 1, lambda job: None)
        job.log_metrics = False
        self.engine.submit(job)
        begin = time.time()
        self.loop.after(1.0, lambda: self._look_again(request, job, begin, patience))

    def _look_again(self, request, job, begin: float, patience: float) -> None:
        if request.connection.closed:
            self.engine.abort(job)
        elif self.engine.last_output > begin:
            self.engine.abort(job)
            if self.server.status == UNHEALTHY:
                self.server.status = UP
            request.reply(200)
        elif time.time() < begin + patience:
            self.loop.after(1.0, lambda: self._look_again(request, job, begin, patience))
        else:
            self.engine.abort(job)
            self._unhealthy(request, begin)

    def _unhealthy(self, request, begin: float) -> None:
        clock = [time.strftime("%H:%M:%S", time.localtime(moment)) for moment in (begin, self.engine.last_output)]
        log.line(
            "Health check failed. Server couldn't get a response from detokenizer for last %d seconds. tic start time: %s. "
            "last_heartbeat time: %s" % (self.knobs.sglang_number("SGLANG_HEALTH_CHECK_TIMEOUT", 20), *clock)
        )
        self.server.status = UNHEALTHY
        request.reply(503)

    def _models(self, request) -> None:
        name = OTHER_MODEL if self.faults.is_("wrong_model") else self.layout.model_name
        card = {
            "id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": name, "parent": None,
            "max_model_len": self.layout.context_len,
        }
        request.reply(200, {"object": "list", "data": [card]})

    def _model_info(self, request) -> None:
        args, config = self.layout.args, self.layout.config
        if request.path == "/get_model_info":
            log.line(
                "Endpoint '/get_model_info' is deprecated and will be removed in a future version. Please use '/model_info' instead."
            )
        request.reply(
            200,
            {
                "model_path": args.model_path, "served_model_name": self.layout.model_name,
                "tokenizer_path": args.tokenizer_path or args.model_path, "is_generation": True,
                "preferred_sampling_params": None, "weight_version": "default", "load_format": args.load_format,
                "reasoning_parser": args.reasoning_parser, "tool_call_parser": args.tool_call_parser,
                "disaggregation_mode": args.disaggregation_mode, "has_image_understanding": False,
                "has_audio_understanding": False, "model_type": config.get("model_type", "deepseek_v3"),
                "architectures": self.layout.architectures, "embedding": {"enabled": False},
            },
        )

    def _server_info(self, request) -> None:
        request.reply(200, self.server.facts())

    def _loads(self, request) -> None:
        engine, layout = self.engine, self.layout
        used = engine.used_tokens
        load = {
            "timestamp": time.time(), "dp_rank": 0, "num_running_reqs": engine.running_count,
            "num_waiting_reqs": len(engine.waiting),
            "num_waiting_uncached_tokens": sum(job.prompt_tokens for job in engine.waiting), "num_used_tokens": used,
            "num_total_tokens": used + sum(job.prompt_tokens for job in engine.waiting), "num_active_tokens": used,
            "num_prealloc_ready_tokens": 0, "max_total_num_tokens": layout.max_total_tokens,
            "max_running_requests": layout.max_running, "token_usage": round(engine.token_usage(), 4),
            "gen_throughput": round(engine.throughput, 2), "cache_hit_rate": self.server.cache_hit_rate(),
            "utilization": engine.running_count / layout.max_running,
            "total_prefill_uncached_tokens": engine.totals["uncached"], "total_prefill_busy_us": 0, "decode_moments": [],
            "memory": {
                "weight_gb": round(layout.weight_gb, 3), "kv_cache_gb": round(layout.kv_gb, 3),
                "graph_gb": 1.445 if layout.graphs else 0.0, "token_capacity": layout.max_total_tokens,
            },
            "disaggregation": {"mode": layout.args.disaggregation_mode},
            "queues": {"waiting": len(engine.waiting), "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
        }
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        request.reply(
            200,
            {
                "timestamp": now, "version": ".".join(str(part) for part in self.release),
                "accelerator": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "num_accelerators": len(layout.ranks), "loads": [load],
            },
        )

    def _old_load(self, request) -> None:
        engine = self.engine
        waiting = len(engine.waiting)
        request.reply(
            200,
            [{"dp_rank": 0, "num_reqs": engine.running_count + waiting, "num_waiting_reqs": waiting, "num_tokens": engine.used_tokens}],
        )

    def _flush(self, request) -> None:
        done = self.engine.flush()
        text = FLUSHED if done else "Flush cache failed.\n"
        request.reply(200 if done else 400, text.encode(), "text/plain")

    def _abort(self, request) -> None:
        body = _json(request)
        self.generation.abort(str(body.get("rid", "")), bool(body.get("abort_all")))
        request.reply(200)

    def _pause(self, request) -> None:
        self.paused = True
        request.reply(200, {"message": "Generation paused successfully.", "status": "ok"})

    def _continue(self, request) -> None:
        self.paused = False
        request.reply(200, {"message": "Generation continued successfully.", "status": "ok"})

    def _set_state(self, request) -> None:
        wanted = _json(request).get("server_args", {}).get("pp_max_micro_batch_size")
        if wanted and self.layout.pp > 1:
            self.layout.micro_batch = min(int(wanted), max(self.layout.max_running // self.layout.pp, 1))
            self.layout.admission = min(self.layout.max_running, self.layout.micro_batch)
        request.reply(200, {"updated": True, "server_args": {"pp_max_micro_batch_size": self.layout.micro_batch}})


def _json(request) -> dict:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
