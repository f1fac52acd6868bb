"""Reply formats: the instruction that requests a reply, and the parser that reads it.

Replies are parsed leniently into their types, with the reason where a reply does not have the requested form.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tasks.backbone.protocol import Message, json_object
from tasks.backbone.replies.json_text import (
    MAX_CHARACTERS,
    Path,
    Reading,
    Value,
    fenced,
    is_sql,
    read_json,
    readings,
    reply_schema,
)
from tasks.backbone.replies.sql_text import is_unfinished, last_sql, read_sql, sql_of_fence
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.core.registry import called, of_type
from tasks.settings.backbone import REPLY_FORMATS, BackboneSettings

T = TypeVar("T", bound=BaseModel)

_NOTHING = frozenset({"", "none", "null", "n/a", "[]"})
_TABLE_KEYS = ("table", "tablename")
_COLUMN_KEYS = ("column", "columnname")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
MAX_NAME_WORDS = 4
"""Pieces of a comma-separated text with more words are taken for one sentence, not for a list."""


def coerce(value: Any, reply_type: type[BaseModel]) -> dict[str, Any]:
    """Return a value, an object or a list, as the keyword arguments of a type, as far as it can be read.

    They are {} if nothing can. A list of one object stands for that object, and another list for the only field of a
    type. An object without a field of the type, but with another object as its only value, stands for that one.
    """
    fields = reply_type.model_fields
    names = {plain_key(name): name for name in fields}
    if isinstance(value, list):
        single = value[0] if len(value) == 1 and isinstance(value[0], dict) else None
        # The only field of a type may take a list of objects, so the object must have that field itself.
        if single is not None and (len(fields) > 1 or _by_plain_key(single).keys() & names.keys()):
            value = single
        else:
            value = {next(iter(fields)): value} if len(fields) == 1 else {}
    items = _by_plain_key(value)
    has_no_field = not items.keys() & names.keys()
    if has_no_field and len(value) == 1:
        inner = next(iter(value.values()))
        items = _by_plain_key(inner) if isinstance(inner, dict) else items
    return {
        name: _coerced(items[key], fields[name].annotation) for key, name in names.items() if key in items
    }


def _by_plain_key(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the items by plain key; of keys that differ in case or punctuation only, one in small letters wins."""
    return {
        plain_key(str(key)): item
        for key, item in sorted(value.items(), key=lambda pair: str(pair[0]).islower())
    }


def plain_key(key: str) -> str:
    """Return a key in small letters, without punctuation."""
    return re.sub(r"[\W_]", "", key).lower()


def _coerced(value: Any, annotation: Any) -> Any:
    """Return a value of a reply as its field's type has it: a list of texts, or one text of several lines."""
    if get_origin(annotation) is list and get_args(annotation) == (str,):
        return _texts(value)
    is_lines = isinstance(value, list) and value and all(isinstance(part, str) for part in value)
    if annotation is str and is_lines:
        return "\n".join(value)
    return value


def _texts(value: Any) -> Any:
    """Return a list of texts; what cannot be one is returned unchanged and refused by the validation."""
    if value is None:
        return []
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, dict):
        # {"table": ["a", "b"]} for ["table.a", "table.b"], as models write columns.
        groups = {str(key): _texts(part) for key, part in value.items()}
        if not all(isinstance(parts, list) for parts in groups.values()):
            return value
        return [f"{key}.{part}" for key, parts in groups.items() for part in parts]
    if not isinstance(value, list):
        return value
    return [text for part in value for text in _text(part)]


def _text(part: Any) -> list[Any]:
    """Return an item of a list as text, in a list, [] for None: of an object `table.column`, its name or first text."""
    if isinstance(part, dict):
        by_key = _by_plain_key(part)
        texts = {key: item for key, item in by_key.items() if isinstance(item, str)}
        table = next((texts[key] for key in _TABLE_KEYS if key in texts), None)
        column = next((texts[key] for key in _COLUMN_KEYS if key in texts), None)
        if table and column:
            return [column if column.startswith(f"{table}.") else f"{table}.{column}"]
        name = by_key.get("name", column or table)
        first_text = next((item for item in part.values() if isinstance(item, str)), None)
        part = first_text if name is None else name
    if isinstance(part, bool | int | float):
        return [str(part)]
    return [] if part is None else [part]


def _split(text: str) -> list[str]:
    """Split a text that stands for a list of names: at line breaks, else at commas outside of quotes and brackets.

    If a piece has too many words for a name, the text is a sentence and stays whole.
    """
    if text.strip().lower() in _NOTHING:
        return []
    lines = [_BULLET.sub("", line).strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return [line.rstrip(",;") for line in lines]
    parts = re.findall(r"(?:[^,;`\"'(\[]|`[^`]*`|\"[^\"]*\"|'[^']*'|\([^()]*\)|[`\"'(\[])+", text)
    pieces = [part.strip() for part in parts if part.strip()]
    if all(len(piece.split()) <= MAX_NAME_WORDS for piece in pieces):
        return pieces
    return [text.strip()]


_NO_FENCE = "no fenced block"


def read_reply(text: str, reply_type: type[T]) -> Reading[T | None]:
    """Parse a reply as an object of a type.

    1. Thoughts before the answer are left out (`split_thoughts`).
    2. The answer as a whole is read as JSON; otherwise its code fences, then what is between brackets in the text, then
       the same with repairs.
    3. An object has fields of the type. Keys are matched without regard to case and punctuation; a text stands for a
       list of names or of one; a bare list stands for an object with one list field. An object within another one
       counts if it is the only one there that fits.
    4. Of several objects that fit, the last one counts, and the reason says how many there are.
    5. Where there is no JSON, a type whose only field is `sql` takes plain SQL, and one with a class method `from_text`
       reads the text. SQL is never cut out of the source of JSON.

    >>> class Tables(BaseModel):
    ...     tables: list[str]
    >>> read_reply('{"Tables": "a, b"}', Tables).value
    Tables(tables=['a', 'b'])
    >>> read_reply("I cannot tell.", Tables)
    Reading(value=None, path='failed', reason='no JSON object')
    """
    return (
        _fitting(readings(text), reply_type)
        or _as_query(read_sql(text), text, reply_type)
        or _from_text(text, reply_type)
        or _unreadable(text)
    )


def _fitting(parsed: Iterable[Reading[Value]], reply_type: type[T]) -> Reading[T] | None:
    """Return the last value that fits the type, of those that were read in the most reliable way; None if none fits.

    The first fit decides on that way: on its path, and on whether it was read from an object or from a list.
    """
    fits: list[tuple[tuple[str, bool], T]] = []  # each with its path, and whether it was read from a list
    for reading in parsed:
        if reading.value is None or _is_bracketed(reading, reply_type):
            continue
        value = _validated(reading.value, reply_type)
        if value is None:
            inner = list(_inner(reading.value, reply_type))
            value = inner[0] if len(inner) == 1 else None
        sql = getattr(value, "sql", None)
        is_cut_off = reading.path == "repaired" and isinstance(sql, str) and is_unfinished(sql)
        if value is not None and not is_cut_off:
            fits.append(((reading.path, isinstance(reading.value, list)), value))
    if not fits:
        return None
    first_way = fits[0][0]
    values = [value for way, value in fits if way == first_way]
    distinct = sum(value not in values[:index] for index, value in enumerate(values))
    reason = f"{distinct} objects fit, the last one was read" if distinct > 1 else ""
    path = first_way[0]
    return Reading(values[-1], path, "broken JSON, repaired" if path == "repaired" else reason)


def _validated(value: Value, reply_type: type[T]) -> T | None:
    """Return a value as an object of a type; None if it has no field of the type, or one that does not fit."""
    fields = coerce(value, reply_type)
    if not fields:
        return None
    try:
        return reply_type.model_validate(fields)
    except ValidationError:
        return None


def _inner(value: Value, reply_type: type[T]) -> Iterator[T]:
    """Yield the objects within a value that fit the type."""
    for part in value.values() if isinstance(value, dict) else value:
        fit = _validated(part, reply_type) if isinstance(part, dict) else None
        if fit is not None:
            yield fit
        elif isinstance(part, dict | list):
            yield from _inner(part, reply_type)


def _is_bracketed(parsed: Reading[Value], reply_type: type[T]) -> bool:
    """Whether a list of texts is what a query has in brackets: a quoted name, or a part of a string."""
    if not isinstance(parsed.value, list) or not is_sql(reply_type):
        return False
    return parsed.path in ("text", "repaired") and not any(isinstance(part, dict) for part in parsed.value)


def _as_query(sql: str | None, text: str, reply_type: type[T]) -> Reading[T] | None:
    if sql is None or not is_sql(reply_type):
        return None
    path: Path = "fenced" if fenced(text) else "text"
    return Reading(reply_type.model_validate({"sql": sql}), path, "SQL without JSON")


def _from_text(text: str, reply_type: type[T]) -> Reading[T] | None:
    from_text = getattr(reply_type, "from_text", None)
    value = from_text(text) if from_text else None
    return None if value is None else Reading(value, "repaired", "no object of the requested form")


def _unreadable(text: str, reason: str = "") -> Reading[None]:
    if not text.strip():
        reason = "empty"
    elif not without_thoughts(text).strip():
        reason = "thoughts without an answer"
    elif not reason:
        reason = "no JSON object" if read_json(text).value is None else "JSON without the requested fields"
    return Reading(None, "failed", reason)


def _without_reasoning(parsed: Reading[Value]) -> Value:
    if not isinstance(parsed.value, dict):
        return parsed.value
    return {name: value for name, value in parsed.value.items() if plain_key(str(name)) != KEY}


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

    def read(self, text: str, reply_type: type[T]) -> Reading[T | None]:
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

    def read(self, text: str, reply_type: type[T]) -> Reading[T | None]:
        """Parse a reply whose object begins with a reasoning: as `read_reply`, but the reasoning is never the answer.

        An object that ends with its reasoning, as one that is cut off does, is unreadable; an answer behind such an
        object is read. Without an object, the last query of the text is taken for a type whose only field is `sql`.
        """
        parsed = list(readings(text))
        answers = [replace(reading, value=_without_reasoning(reading)) for reading in parsed]
        fitting = _fitting((reading for reading in answers if reading.value), reply_type)
        if fitting is not None:
            return fitting
        only_reasoning = [
            before for before, after in zip(parsed, answers, strict=True) if before.value and not after.value
        ]
        if not only_reasoning:
            answer = without_thoughts(text)
            query = _as_query(last_sql(answer), answer, reply_type)
            return query or _from_text(text, reply_type) or _unreadable(text)
        behind_object = text.rpartition("}")[2].strip(" \n`")
        if behind_object and only_reasoning[0].path != "repaired":
            return replace(read_reply(behind_object, reply_type), reason="the answer is behind the object")
        return Reading(None, "failed", "reasoning without an answer")


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

    def read(self, text: str, reply_type: type[T]) -> Reading[T | None]:
        """Parse a reply that ends in a fenced block: the last one that can be read as the type.

        A type whose only field is `sql` takes SQL, or an object, in the fence; any other type an object. Without such a
        fence, the last object in the text is taken, or the last query.
        """
        answer = without_thoughts(text)[-MAX_CHARACTERS:].strip()
        # A fence within JSON is source of it, in which a line break is an escape.
        fences = [] if json_object(answer) is not None else fenced(answer)
        for language, content in reversed(fences):
            # What is plainly SQL is not searched for objects.
            objects = readings(content) if re.match(r"\s*[\[{]", content) else ()
            fitting = _fitting(objects, reply_type)
            if fitting is not None:
                return fitting if fitting.path == "repaired" else replace(fitting, path="fenced")
            query = _as_query(sql_of_fence(language, content), answer, reply_type)
            if query is not None:
                return Reading(query.value, "fenced")
        fitting = _fitting(readings(answer), reply_type)
        if fitting is None:
            query = _as_query(last_sql(answer), answer, reply_type)
            fitting = query or _from_text(answer, reply_type)
        return replace(fitting, reason=_NO_FENCE) if fitting else _unreadable(text, _NO_FENCE)


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
    """Return a conversation that is written for replies of one JSON object as one for another reply format.

    The text of each section "Reply" is the format's; a prompt without that section gets one, if the format has
    something to say. Earlier replies of the model are in the format too.
    """
    origin = f"{type(reply_format).__name__} returned"

    def formatted(message: Message, *, is_last: bool) -> Message:
        if message.role == "assistant":
            content = of_type(str, called(reply_format.earlier_reply, message.content, reply_type), origin)
            return replace(message, content=content)
        before, heading, written = message.content.rpartition(f"\n{HEADING}\n")
        asks_for_reply = bool(heading) or is_last
        if message.role == "system" or not asks_for_reply:
            return message
        if not heading:
            before = f"{message.content.rstrip()}\n"
            written = ""
        instruction = of_type(str, called(reply_format.instruction, written.strip(), reply_type), origin)
        if instruction == written.strip():
            return message
        return replace(message, content=f"{before}\n{HEADING}\n{instruction}\n")

    *earlier, last = messages
    return (*(formatted(message, is_last=False) for message in earlier), formatted(last, is_last=True))
