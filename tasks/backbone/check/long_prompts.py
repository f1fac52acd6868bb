"""The context length of an endpoint that does not state it, read from its refusal of a long prompt."""

import asyncio
import re
from collections.abc import Callable

from tasks.backbone.check.requests import ProbeRequests

SQL_TEXT = "SELECT name FROM customer; " * 100
TEXT_TOKENS = 700
"""Tokens of the text, about."""
LONG_PROMPTS = (9_100, 56_000)
"""Tokens of the prompts: more than the context of a small model, and than that of most servers that do not state it."""
LONG_PROMPT_S = 30.0
"""Time limit of a long prompt. Many servers read a prompt to its end even if the client has stopped waiting."""
_LENGTH = re.compile(
    r"(?:context (?:length|window|size)|maximum|limit|n_ctx)\D{0,30}?(\d{3,7})|(\d{3,7})[- ]tokens? context",
    re.I,
)


async def refused_length(requests: ProbeRequests, step: Callable[[str], None]) -> int | None:
    """Send longer and longer prompts, until one is refused or the next would exceed the time limit.

    Returns:
        The context length that the refusal names; None if no prompt was refused, or if the refusal names none.
    """
    for tokens in LONG_PROMPTS:
        step(f"a prompt of {tokens:,} tokens")
        try:
            async with asyncio.timeout(LONG_PROMPT_S):
                sent = await requests.ask(SQL_TEXT * (tokens // TEXT_TOKENS))
        except TimeoutError:
            return None
        if sent.refusal:
            return _length_in(sent.why)
        if sent.seconds * LONG_PROMPTS[-1] / tokens > LONG_PROMPT_S:
            return None
    return None


def _length_in(message: str) -> int | None:
    """Return the context length that a refusal names.

    >>> _length_in("HTTP 400: This model's maximum context length is 4096 tokens, you requested 56010 tokens")
    4096
    """
    found = _LENGTH.search(message)
    return int(found[1] or found[2]) if found else None
