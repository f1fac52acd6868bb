"""Training pairs as tokens, the chat template that is trained and served, and the check for the optional libraries."""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tasks.core.errors import ConfigurationError
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


MESSAGES = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""Writes the messages and nothing else: the prompt is in the instruction / input / response layout already."""
BEGIN = "{{ bos_token }}"
CLOCK = "strftime_now"


def set_chat_template(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Give a tokenizer without a chat template the identity template.

    Endpoints refuse chat requests to a model without a template, as base models are. The identity template writes the
    message as it is, after the token that begins a text where the tokenizer puts one there. A template that writes the
    date is replaced as well: a prompt of another day would differ from what was trained.
    """
    template = getattr(tokenizer, "chat_template", None)
    if not template or CLOCK in str(template):
        tokenizer.chat_template = identity_template(tokenizer)


def identity_template(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the template that writes a message as it is."""
    first = tokenizer("x", add_special_tokens=True)["input_ids"][:1]
    begins = tokenizer.bos_token_id is not None and list(first) == [tokenizer.bos_token_id]
    return f"{BEGIN}{MESSAGES}" if begins else MESSAGES


def render_prompt(text: str, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return what a model reads of a request with one message, as an endpoint renders it."""
    return str(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
    )


NEEDED = ("torch", "transformers", "peft", "accelerate")


def require_libraries() -> None:
    """Check that the libraries are installed, and silence their progress bars and logs.

    Raises:
        ConfigurationError: one is missing; the message has the command that installs it.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f'Fine-tuning needs {", ".join(missing)}. Install them: pip install "crosscheck-sql[finetune]"'
        )
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for name in ("transformers", "peft", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)
