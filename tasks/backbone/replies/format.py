"""Reply formats: how a model is asked to answer, and how its replies are read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from tasks.backbone.protocol import Message
from tasks.backbone.replies.json_text import Reading, is_sql, reply_schema
from tasks.backbone.replies.reading import read_answer, read_fenced, read_reply
from tasks.settings.backbone import REPLY_FORMATS, BackboneSettings

T = TypeVar("T", bound=BaseModel)


@REPLY_FORMATS.register("json")
class ReplyFormat:
    """One JSON object and nothing else, as the prompts ask for it; the base of all reply formats.

    Prompts and stages know this format only. Another one is a subclass that overrides what differs: the instruction
    in the prompt, earlier replies in a conversation, the schema that the endpoint enforces, the reading of replies.
    An instance has no state.
    """

    # to be raised when the format sends or reads something else than before: stage results of another are not reused
    version = 2
    reasons = False  # whether a reply holds the model's reasoning beside its answer, which an estimate adds

    def schema(self, reply_type: type[BaseModel]) -> Mapping[str, Any] | None:
        """Return the JSON schema that the endpoint is to enforce; None for free text."""
        return reply_schema(reply_type)

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        """Return how to answer; `written` says it for one JSON object, "" where the prompt has no section "Reply"."""
        return written

    def earlier_reply(self, content: str, reply_type: type[BaseModel]) -> str:
        """Return an earlier reply of the conversation, given as one JSON object of a type."""
        return content

    def read(self, text: str, reply_type: type[T]) -> Reading[T]:
        """Read a reply, thoughts included, as an object of its type; never raises."""
        return read_reply(text, reply_type)


KEY = "reasoning"
_INSTRUCTION = (
    f'The first key of that object is "{KEY}": a string in which you think the task through, step by step. '
    "The answer follows from it."
)
_SQL = (
    "Think the task through first, step by step, in free text. End with "
    "the complete query in one fenced block that begins with ```sql, and write nothing after it."
)
_OBJECT = (
    "Think the task through first, step by step, in free text. End with the JSON object in one fenced block that "
    "begins with ```json, and write nothing after it."
)


@REPLY_FORMATS.register("json_with_reasoning")
class JsonWithReasoning(ReplyFormat):
    """One JSON object with a key `reasoning` before the answer: a model writes it before it decides."""

    reasons = True

    def schema(self, reply_type: type[BaseModel]) -> Mapping[str, Any]:
        """Return the schema of the reply type with `reasoning` as its first key."""
        schema = reply_schema(reply_type)
        properties = {KEY: {"type": "string"}, **schema["properties"]}
        return {**schema, "properties": properties, "required": list(properties)}

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        """Return the prompt's instruction, and the key to begin with."""
        return f"{written}\n{_INSTRUCTION}".lstrip()

    def read(self, text: str, reply_type: type[T]) -> Reading[T]:
        """Read the object; a query within the reasoning is not taken for the answer."""
        return read_answer(text, reply_type, reasoning=KEY)


@REPLY_FORMATS.register("fenced")
class Fenced(ReplyFormat):
    """Free text that ends in one fenced block: SQL where a query is asked for, else a JSON object.

    It is the format that open models for Text-to-SQL are trained in (OmniSQL, Arctic-Text2SQL-R1, XiYanSQL-QwenCoder).
    Of several fences the last one that can be read is the answer.
    """

    reasons = True

    def schema(self, reply_type: type[BaseModel]) -> None:
        """Return None: free text has no schema."""
        return

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        """Return the request for a query, or the prompt's own description of the object, in a fence at the end."""
        return _SQL if is_sql(reply_type) else f"{written}\n{_OBJECT}".lstrip()

    def earlier_reply(self, content: str, reply_type: type[BaseModel]) -> str:
        """Return the earlier reply's query, or its object, in a fence."""
        if not is_sql(reply_type):
            return f"```json\n{content}\n```"
        try:
            return f"```sql\n{json.loads(content)['sql']}\n```"
        except (ValueError, LookupError, TypeError):
            return content

    def read(self, text: str, reply_type: type[T]) -> Reading[T]:
        """Read the last fence; without one, an object or a query in the text, the last one first."""
        return read_fenced(text, reply_type)


JSON = "json"
"""The format that prompts are written in."""

HEADING = "### Reply"
"""Heading of the section, the last one of a prompt, that says how to answer."""


@dataclass(frozen=True, slots=True)
class ReplyFormats:
    """Names of the reply formats of a backbone."""

    default: str = JSON  # the format of every stage that is not named
    by_stage: Mapping[str, str] = field(default_factory=dict)  # other formats, by the stage's name

    @classmethod
    def of(cls, settings: BackboneSettings) -> "ReplyFormats":
        """Return the formats that a backbone's settings name."""
        return cls(settings.reply, settings.reply_by_stage)

    def name(self, label: str | None) -> str:
        """Return the format's name for a stage, given its label ("self_correction 2"); None for no stage."""
        return self.by_stage.get((label or "").partition(" ")[0], self.default)

    def format(self, label: str | None) -> ReplyFormat:
        """Return the format for a stage, given its label; None for no stage."""
        reply_format: type[ReplyFormat] = REPLY_FORMATS.get(self.name(label))
        return reply_format()

    def identity(self, label: str | None) -> Mapping[str, Any]:
        """Return what a stage's cache key holds of its format: nothing for JSON, as before there were others."""
        name = self.name(label)
        return {} if name == JSON else {"reply": [name, self.format(label).version]}


def translated(
    messages: Sequence[Message], reply_format: ReplyFormat, reply_type: type[BaseModel]
) -> tuple[Message, ...]:
    """Return a conversation as a model that answers in a format is to see it.

    The text of each section "Reply" is the format's; a prompt without that section gets one, if the format has
    something to say. Earlier replies of the model are in the format too.
    """

    def formatted(message: Message, *, last: bool) -> Message:
        if message.role == "assistant":
            return replace(message, content=reply_format.earlier_reply(message.content, reply_type))
        before, heading, written = message.content.rpartition(f"\n{HEADING}\n")
        if message.role == "system" or not (heading or last):
            return message
        if not heading:
            before, written = f"{message.content.rstrip()}\n", ""
        instruction = reply_format.instruction(written.strip(), reply_type)
        if instruction == written.strip():
            return message
        return replace(message, content=f"{before}\n{HEADING}\n{instruction}\n")

    return tuple(
        formatted(message, last=position == len(messages)) for position, message in enumerate(messages, 1)
    )
