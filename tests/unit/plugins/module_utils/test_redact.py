# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets are masked in every shape they are written in, and ordinary words are left alone."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from ansible_collections.gpuops.sglang.plugins.module_utils._redact import MASK, Redactor

SECRET = "k-5ecret\"'$-1"


@pytest.mark.parametrize(
    "text",
    [
        "server_args={{'model_path': '/m', 'api_key': '{0}', 'host': '0.0.0.0'}}",
        "server_args=ServerArgs(model_path='/m', admin_api_key='{0}', port=1)",
        "python -m sglang.launch_server --api-key {0} --port 1",
        "python -m sglang.launch_server --admin-api-key={0}",
        "['--api-key', '{0}']",
        "HTTPError: 401 Authorization: Bearer {0}",
        "ssl_keyfile_password='{0}'",
        '"{{\\"api_key\\": \\"{0}\\"}}"',
        "export HF_TOKEN={0}",
        "http_proxy=http://user:{0}@proxy.example:3128/",
        "api_key: {0}",
    ],
)
@pytest.mark.parametrize("value", ["other-secret-7", "abc.DEF_123~x"])
def test_what_looks_like_a_secret_is_masked_though_nobody_named_it(text, value):
    cleaned = Redactor().clean(text.format(value))
    assert value not in cleaned and MASK in cleaned


def test_hub_tokens_are_masked_and_names_with_the_same_start_are_not():
    cleaned = Redactor().clean("token hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 by hf_hub_download of hf_config")
    assert "hf_AbC" not in cleaned and "hf_hub_download of hf_config" in cleaned


@pytest.mark.parametrize("written", [SECRET, json.dumps(SECRET), quote(SECRET, safe=""), repr(SECRET), f"prefix{SECRET}suffix"])
def test_a_given_secret_is_masked_in_every_spelling(written):
    cleaned = Redactor([SECRET]).clean(f"something {written} else")
    assert "5ecret" not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "Prefill batch, #new-token: 6, #cached-token: 0, token usage: 0.00",
        "server_args={'api_key': None, 'tokenizer_path': '/m', 'watermark_key': '<redacted>'}",
        "the api key is missing",
        "max_total_num_tokens=383872",
        "KeyError: 'model.layers.0'",
        "https://huggingface.co/org/model/resolve/main/config.json",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert Redactor([""]).clean(text) == text


def test_nested_values_are_masked():
    told = Redactor(["s3cr3t"]).clean_all({"a": ["x s3cr3t", {"b": "s3cr3t"}], "n": 3, "none": None})
    assert told == {"a": [f"x {MASK}", {"b": MASK}], "n": 3, "none": None}
