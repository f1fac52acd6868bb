"""The chat template of an eliminator: part of what is trained, and saved with it, so that servers use the same."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
