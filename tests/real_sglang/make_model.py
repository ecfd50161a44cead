# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a two-layer Llama with random weights, a byte-level tokenizer and a chat template: make_model.py DIRECTORY."""

from __future__ import annotations

import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TURN = "<|turn|>"
END = "<|end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}" + TURN + "{{ message['role'] }}: {{ message['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}" + TURN + "assistant: {% endif %}"
)
SENTENCES = [
    "One node, eight cards, and a model that is spread over them.",
    "The first answer comes when the weights are loaded and the graphs are captured.",
    "Ask for a token, wait for a token, count the token.",
]


def write_tokenizer(directory: pathlib.Path) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of about 400 words on a few sentences and save it with its chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|pad|>", TURN, END], initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(SENTENCES * 10, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<|pad|>", bos_token=TURN, eos_token=END, model_max_length=4096)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(directory)
    return tokenizer


def write_model(directory: pathlib.Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Draw the weights from a fixed seed and save them as safetensors."""
    torch.manual_seed(20)
    config = LlamaConfig(
        vocab_size=448,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory, safe_serialization=True)
    written = directory / "config.json"
    # Readers older than transformers 5 look for the dtype under its former name.
    settings = json.loads(written.read_text())
    written.write_text(json.dumps({**settings, "torch_dtype": "bfloat16"}, indent=2))
    # Weights are written for their owner alone; the service runs as another user.
    for path in directory.iterdir():
        path.chmod(0o644)


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    write_model(directory, write_tokenizer(directory))


if __name__ == "__main__":
    main()
