"""Pairs as tokens: the prompt as an endpoint would hand it to the model, the response, and what the loss is on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.finetuning.chat_template import render_prompt
from tasks.finetuning.pairs import TrainingPair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""Label of a token that the loss is not on."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Pairs as tokens."""

    # per pair `input_ids`, `attention_mask` and `labels`, lists of one length
    examples: list[dict[str, list[int]]]
    too_long: int  # how many pairs were left out because they have more tokens than allowed


def encode(pairs: Iterable[TrainingPair], tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> Encoded:
    """Encode pairs; the labels of the prompt are `IGNORED`, so that the loss is on the response only."""
    examples, too_long = [], 0
    for pair in pairs:
        prompt = encode_prompt(pair.prompt.text, tokenizer)
        response = encode_response(pair.response, tokenizer)
        if len(prompt) + len(response) > max_tokens:
            too_long += 1
            continue
        ids = [*prompt, *response]
        labels = [IGNORED] * len(prompt) + response
        examples.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    return Encoded(examples, too_long)


def encode_prompt(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Return the tokens of a prompt up to where the response begins, as an endpoint makes them.

    Endpoints render the chat template, which writes every special token itself, and add none.
    """
    return _ids(tokenizer, render_prompt(text, tokenizer))


def encode_response(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Return the tokens of a response, with the one that ends it."""
    end = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    return [*_ids(tokenizer, text), *end]


def _ids(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    encoded: Any = tokenizer(text, add_special_tokens=False)
    return [int(token) for token in encoded["input_ids"]]
