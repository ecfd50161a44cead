# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of an OpenAI-like stream that behaves, or misbehaves, as each request asks it to."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def event(text=None, finish=None, usage=None, **more):
    """One SSE event with SGLang's fields."""
    delta = {"role": "assistant", "content": text} if text is not None else {"content": None}
    choices = (
        [] if usage is not None and text is None and finish is None else [{"index": 0, "delta": delta, "finish_reason": finish, "matched_stop": None}]
    )
    return ("data: " + json.dumps(dict({"id": "x", "object": "chat.completion.chunk", "choices": choices, "usage": usage}, **more)) + "\n\n").encode()


class Handler(BaseHTTPRequestHandler):
    """``server.say(body, number)`` gives (status, pieces); a piece is bytes, a pause in seconds, or an exception to cut the connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_args):
        """Stay quiet."""

    def do_GET(self):
        status, kind, text = self.server.pages.get(self.path.partition("?")[0], (404, "application/json", '{"detail":"Not Found"}'))
        self._whole(status, kind, text)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.headers_seen.append(dict(self.headers))
        if self.path in self.server.pages:
            self._whole(*self.server.pages[self.path])
            return
        asked = json.loads(body)
        with self.server.lock:
            self.server.count += 1
            number = self.server.count
            self.server.bodies.append(asked)
        status, pieces = self.server.say(asked, number)
        if status != 200 or not asked.get("stream"):
            self._whole(status, "application/json", pieces)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if piece is None:
                self.close_connection = True
                return
            if isinstance(piece, float):
                time.sleep(piece)
                continue
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, status, kind, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Runs beside the test; ``say`` may be replaced at any time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, say=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.say = say or good
        self.lock = threading.Lock()
        self.count = 0
        self.bodies = []
        self.headers_seen = []
        self.pages = {
            "/v1/models": (200, "application/json", json.dumps({"object": "list", "data": [{"id": "demo", "max_model_len": 4096}]})),
            "/flush_cache": (200, "text/plain", ""),
        }
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that leaves is no news."""

    @property
    def port(self):
        return self.server_address[1]


def usage_of(asked, tokens):
    """The server's own count: one token a word of the prompt, and three for the template."""
    prompt = asked.get("prompt") or asked["messages"][0]["content"]
    words = len(prompt.split()) + 3
    return {"prompt_tokens": words, "completion_tokens": tokens, "total_tokens": words + tokens, "prompt_tokens_details": None}


def stream(asked, tokens, gap=0.0, per_chunk=1, usage=True):
    """A whole good stream."""
    yield event("")
    for sent in range(0, tokens, per_chunk):
        if gap and sent:
            yield gap * per_chunk
        yield event("ab " * min(per_chunk, tokens - sent))
    yield event(finish="length")
    if usage and asked.get("stream_options", {}).get("include_usage"):
        yield event(usage=usage_of(asked, tokens))
    yield b"data: [DONE]\n\n"


def good(asked, _number, gap=0.002):
    """Always what was asked for."""
    if not asked.get("stream"):
        return 200, json.dumps({"choices": [], "usage": usage_of(asked, 1)})
    return 200, stream(asked, asked["max_tokens"], gap)
