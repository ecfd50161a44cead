# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers are counted as what they are, however their bytes are cut."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.sglang.plugins.module_utils._load.answer import Answer, message_of

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}}


def data(body):
    return b"data: " + (body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()) + b"\n\n"


def text(word, finish=None, **more):
    return data(dict({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": finish}]}, **more))


END = data({"choices": [{"index": 0, "delta": {"content": None}, "finish_reason": "length"}]})
COUNT = data({"choices": [], "usage": USAGE})
DONE = data(b"[DONE]")
ERROR = data({"error": {"message": "engine aborted", "code": 500}})


def chunked(events):
    return b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in events) + b"0\r\n\r\n"


def read(raw, size=None, ended=True):
    answer = Answer(0.0, 0.0, 3)
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)] if size else [raw]
    for number, piece in enumerate(pieces):
        answer.at.append(float(number))
        answer.data.append(piece)
        if number % 7 == 3:
            answer.digest()
    answer.ended = ended
    answer.close()
    return answer


GOOD = [text(""), text("a"), text("b"), text('"'), END, COUNT, DONE]


@pytest.mark.parametrize("size", [1, 2, 5, 16, 100, 4096, None])
def test_a_good_answer_reads_the_same_in_pieces_of_any_size(size):
    answer = read(HEAD + chunked(GOOD), size)
    assert answer.error == ""
    assert (answer.tokens, answer.prompt_tokens, answer.cached_tokens, answer.finish) == (3, 9, 4, "length")
    assert len(answer.times) == 3


@pytest.mark.parametrize("framing", ["split events", "joined events", "to close", "carriage returns"])
def test_how_the_body_is_framed_does_not_matter(framing):
    whole = b"".join(GOOD)
    if framing == "split events":
        raw = HEAD + chunked([whole[at : at + 37] for at in range(0, len(whole), 37)])
    elif framing == "joined events":
        raw = HEAD + chunked([whole])
    elif framing == "to close":
        raw = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + whole
    else:
        raw = HEAD + chunked([one.replace(b"\n", b"\r\n") for one in GOOD])
    answer = read(raw, 50)
    assert (answer.error, len(answer.times), answer.tokens) == ("", 3, 3)


def test_an_event_has_the_time_of_the_read_that_brought_its_end():
    raw = HEAD + chunked(GOOD)
    cut = raw.index(b'"b"')
    answer = Answer(0.0, 0.0, 3)
    answer.at, answer.data = [1.0, 2.0], [raw[:cut], raw[cut:]]
    answer.ended = True
    answer.close()
    assert answer.times == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("field", ["content", "reasoning_content", "text"])
def test_every_field_that_carries_text_counts(field):
    events = [data({"choices": [{"delta": {field: "x"}, "finish_reason": None}]}), END, COUNT, DONE]
    assert len(read(HEAD + chunked(events)).times) == 1


def test_the_last_text_may_come_with_the_finish_reason():
    answer = read(HEAD + chunked([text("a"), text("b", finish="stop"), COUNT, DONE]))
    assert (answer.error, answer.finish, len(answer.times)) == ("", "stop", 2)


def test_usage_in_every_chunk_gives_counts():
    usages = [{"completion_tokens": number, "prompt_tokens": 9} for number in (2, 3)]
    answer = read(HEAD + chunked([text(""), text("ab", usage=usages[0]), text("c", usage=usages[1]), END, COUNT, DONE]))
    assert answer.counts == [2, 3]


@pytest.mark.parametrize(
    "events,ended,kind",
    [
        ([text("a"), ERROR, DONE], True, "sse_error"),
        ([text("a"), data(b"{oops"), DONE], True, "sse_error"),
        ([END, COUNT, DONE], True, "empty"),
        ([text("a"), END], True, "unfinished"),
        ([text("a"), DONE], True, "unfinished"),
        ([text("a"), text("b")], False, "cut"),
        ([text("a"), data({"choices": [{"delta": {}, "finish_reason": "abort"}]}), DONE], True, "sse_error"),
    ],
)
def test_what_is_no_success_is_named(events, ended, kind):
    answer = read(HEAD + chunked(events), ended=ended)
    assert answer.error == kind


def test_the_servers_words_are_kept():
    assert read(HEAD + chunked([text("a"), ERROR, DONE])).detail == "engine aborted"
    body = b'{"object":"error","message":"too long","code":400}'
    answer = read(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    assert (answer.error, answer.detail) == ("http_400", "too long")


@pytest.mark.parametrize(
    "body,words",
    [
        (b'{"error":{"message":"a"}}', "a"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"<html>", "<html>"),
        (b"", ""),
    ],
)
def test_messages_of_error_bodies(body, words):
    assert message_of(body) == words


def test_a_foreign_protocol_is_not_http():
    assert read(b"SSH-2.0-OpenSSH_9.2\r\n").error == "not_http"
