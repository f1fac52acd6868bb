"""What the answers of all protocols have in common: the reply, its tokens, and what is wrong with a body."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tasks.core.outcome import STANDARD, Usage
from tasks.core.trajectory import ToolCall
from tasks.core.wording import storable
from tasks.settings.backbone import MOST_TOKENS


class GarbledAnswerError(ValueError):
    """Invalid response body: truncated, not JSON, or without a reply."""


class RefusedInBodyError(ValueError):
    """Response with status 200 whose body is an `error` object, or whose reply was interrupted.

    Attributes:
        status: the status that the object names, else the given one.
        body: a body with this object alone.
    """

    def __init__(self, error: Any, body: str, status: int = 502) -> None:
        code = error.get("code") if isinstance(error, dict) else None
        self.status = code if isinstance(code, int) and 400 <= code < 600 else status
        self.body = body
        super().__init__(self.status)


STANDARD_NAMES = ("default", "on_demand", "standard")
"""Names of the standard tier in an answer: of OpenAI, of Groq, of Anthropic."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A further reply in an answer: as the fields of `Answer`."""

    text: str
    truncated: bool
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Content of an answer.

    Attributes:
        text: the reply, or the model's refusal; "" when it has neither. Thoughts that the endpoint gives in a place of
            their own precede it, between <think> tags. Storable everywhere, see `storable`.
        model: name of the model in the response, "" if missing. Storable as well.
        usage: token counts; None for a missing or implausible one.
        truncated: True when the model stopped at its token limit.
        cost_usd: cost that the endpoint reports, as gateways do; None without one.
        further: the replies behind the first one, where several were requested.
        calls: tools that the model calls, without results.
        tier: service tier in which it was answered; None if the endpoint does not report it.
    """

    text: str
    model: str
    usage: Usage
    truncated: bool
    cost_usd: float | None = None
    further: tuple[Choice, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    tier: str | None = None

    @property
    def arguments(self) -> str:
        """Arguments of the first tool that the model calls, as JSON; "" if it calls none."""
        return self.calls[0].arguments if self.calls else ""

    def split(self, count: int) -> "list[Answer]":
        """Return an answer with one reply for each of the replies, of which at most `count` were requested.

        The input counts for the first one, and output and a reported cost are divided: the sum is what was paid.
        """
        found = [Choice(self.text, self.truncated, self.calls), *self.further][:count]
        return [
            replace(
                self,
                text=each.text,
                truncated=each.truncated,
                calls=each.calls,
                further=(),
                usage=_share(self.usage, place, len(found)),
                cost_usd=None if self.cost_usd is None else self.cost_usd / len(found),
            )
            for place, each in enumerate(found)
        ]


def _share(usage: Usage, place: int, count: int) -> Usage:
    """Return the part of the tokens that one of several replies counts, by its place from 0.

    >>> shares = [_share(Usage(input=90, output=11), place, 2) for place in (0, 1)]
    >>> [(each.input, each.output) for each in shares]
    [(90, 6), (0, 5)]
    """

    def once(tokens: int | None) -> int | None:
        return tokens if place == 0 or tokens is None else 0

    def divided(tokens: int | None) -> int | None:
        return None if tokens is None else tokens // count + (place < tokens % count)

    return Usage(
        input=once(usage.input),
        cached_input=once(usage.cached_input),
        output=divided(usage.output),
        reasoning=divided(usage.reasoning),
        cache_write=once(usage.cache_write),
    )


def tier_of(content: Mapping[str, Any]) -> str | None:
    """Return the service tier that an answer reports; None if it reports none.

    >>> tier_of({"service_tier": "default"}), tier_of({"service_tier": "flex"}), tier_of({"service_tier": None})
    ('standard', 'flex', None)
    """
    name = content.get("service_tier")
    if not isinstance(name, str) or not name or name == "auto":
        return None
    return STANDARD if name in STANDARD_NAMES else storable(name)


def object_in(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Raises:
        GarbledAnswerError: the text is not JSON, or no object.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        start = " ".join(text[:80].split())
        raise GarbledAnswerError(f'the answer is cut off or no JSON; it starts with "{start}"') from None
    if not isinstance(content, dict):
        raise GarbledAnswerError(f"the answer is a JSON {type(content).__name__}, not a {what}")
    return content


def tool_call(name: Any, arguments: Any, id: Any) -> ToolCall:
    """Return a call of a tool as a model wrote it; arguments that are no text become JSON.

    >>> tool_call("run_sql", {"sql": "SELECT 1"}, None)
    ToolCall(name='run_sql', arguments='{"sql": "SELECT 1"}', result=None, error='', sql=None, id='')
    """
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(_text(name), storable(written), id=_text(id))


def arguments_object(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call as the object that protocols demand, also where the model wrote none.

    >>> arguments_object('{"sql": "SELECT 1"}'), arguments_object("SELECT 1")
    ({'sql': 'SELECT 1'}, {'malformed': 'SELECT 1'})
    """
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"malformed": arguments}


@lru_cache(maxsize=4096)
def arguments_text(arguments: str) -> str:
    """Return the same as JSON; a conversation sends the arguments of its calls in every turn."""
    found = arguments_object(arguments)
    return json.dumps(found, ensure_ascii=False) if "malformed" in found else arguments


def tool_name(name: str) -> str:
    """Return the name of a tool that the model invented, or not, in the letters that protocols take back.

    >>> tool_name("functions.run_sql"), tool_name("")
    ('functions_run_sql', 'unknown')
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def _text(value: Any) -> str:
    return storable(value) if isinstance(value, str) else ""


def part(container: Any, name: str) -> Mapping[str, Any]:
    """Return an object inside of another one; {} if it is missing or no object."""
    found = container.get(name) if isinstance(container, dict) else None
    return found if isinstance(found, dict) else {}


def parts(container: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list inside of an object; [] if it is missing or no list."""
    found = container.get(name) if isinstance(container, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def texts(blocks: Iterable[Mapping[str, Any]], kind: str, name: str = "text") -> str:
    """Return the joined texts of the blocks of a type.

    >>> texts([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "text")
    'ab'
    """
    found = (block.get(name) for block in blocks if block.get("type") == kind)
    return "".join(each for each in found if isinstance(each, str))


def count(container: Any, name: str) -> int | None:
    """Return a number of tokens; None if it is missing or implausible."""
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
        return None
    return value
