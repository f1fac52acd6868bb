"""The reply formats of a backbone, and the translation of a conversation into one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from tasks.backbone.protocol import Message
from tasks.backbone.replies.format import ReplyFormat
from tasks.settings.backbone import REPLY_FORMATS, BackboneSettings

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
        """Return the format for a stage, given its label; None for no stage.

        Raises:
            ConfigurationError: there is none of that name.
        """
        found: type[ReplyFormat] = REPLY_FORMATS.get(self.name(label))
        return found()

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

    return tuple(formatted(message, last=place == len(messages)) for place, message in enumerate(messages, 1))
