"""Reply format "json_with_reasoning": one JSON object whose first key holds the reasoning."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from tasks.backbone.replies.format import ReplyFormat
from tasks.backbone.replies.json_schema import reply_schema
from tasks.backbone.replies.reading import Reading, read_answer
from tasks.settings.backbone import REPLY_FORMATS

T = TypeVar("T", bound=BaseModel)

KEY = "reasoning"
_INSTRUCTION = (
    f'The first key of that object is "{KEY}": a string in which you think the task through, step by step. '
    "The answer follows from it."
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
