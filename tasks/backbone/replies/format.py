"""Reply formats: how a model is asked to answer, and how its replies are read."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from tasks.backbone.replies.json_schema import reply_schema
from tasks.backbone.replies.reading import Reading, read_reply

T = TypeVar("T", bound=BaseModel)


class ReplyFormat:
    """One JSON object and nothing else, as the prompts ask for it; the base of all reply formats.

    Prompts and stages know this format only. Another one is a subclass that overrides what differs: the instruction
    in the prompt, earlier replies in a conversation, the schema that the endpoint enforces, the reading of replies.
    An instance has no state.

    Attributes:
        version: raise it when the format sends or reads something else than before: stage results of another version
            are not reused.
        reasons: whether a reply holds the model's reasoning beside its answer, which the estimate of a sweep adds.
    """

    version = 1
    reasons = False

    def schema(self, reply_type: type[BaseModel]) -> Mapping[str, Any] | None:
        """Return the JSON schema that the endpoint is to enforce; None for free text."""
        return reply_schema(reply_type)

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        """Return how to answer.

        Args:
            written: how the prompt says it, for one JSON object; "" where it has no section "Reply".
            reply_type: type of the reply's object.
        """
        return written

    def earlier_reply(self, content: str, reply_type: type[BaseModel]) -> str:
        """Return an earlier reply of the conversation, given as one JSON object of a type."""
        return content

    def read(self, text: str, reply_type: type[T]) -> Reading[T]:
        """Read a reply, thoughts included, as an object of its type; never raises."""
        return read_reply(text, reply_type)


def is_sql(reply_type: type[BaseModel]) -> bool:
    """Return whether a reply is one query and nothing else."""
    return set(reply_type.model_fields) == {"sql"}
