"""The built-in reply formats: "json", "json_with_reasoning" and "fenced"."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from tasks.backbone.replies.format import ReplyFormat, is_sql
from tasks.backbone.replies.json_schema import reply_schema
from tasks.backbone.replies.reading import Reading, read_answer, read_fenced
from tasks.settings.backbone import REPLY_FORMATS

T = TypeVar("T", bound=BaseModel)

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

REPLY_FORMATS.register("json")(ReplyFormat)


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
