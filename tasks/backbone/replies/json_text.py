"""JSON schemas of reply types, and extraction of JSON from replies: unchanged, fenced, within prose, or repaired."""

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from tasks.backbone.replies.thoughts import without_thoughts

Path = Literal["json", "fenced", "text", "repaired", "failed"]
Value = dict[str, Any] | list[Any]
T_co = TypeVar("T_co", covariant=True)

MAX_CHARACTERS = 200_000
"""Characters of a reply that are looked at: repairing is not linear, and no reply of ours is that long."""
MAX_DEPTH = 50
"""Brackets within brackets, beyond which text is taken for garbage."""

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_QUERY = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
_KEY = re.compile(r"\{\s*['\"][^'\"\n]{0,80}['\"]\s*:")
"""The beginning of an object: its first key."""
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Reading(Generic[T_co]):
    """What was read in a reply."""

    # an object, a list, or the type that the stage requests; None, or the stage's fallback, for an unreadable reply
    value: T_co
    # how: "json" the text is JSON; "fenced" it is in a code fence; "text" it is within prose; "repaired" it was
    # broken; "failed" there is none
    path: str
    reason: str = ""  # why the reply does not have the requested form; "" where it has


def read_json(text: str) -> Reading[Value | None]:
    """Read the first object or list in a reply: strict JSON, then fences, then prose, then with repairs.

    >>> read_json('Sure! {"sql": "SELECT 1"}')
    Reading(value={'sql': 'SELECT 1'}, path='text', reason='')
    >>> read_json("{'tables': ['a', 'b',]}")
    Reading(value={'tables': ['a', 'b']}, path='repaired', reason='')
    """
    return next(iter(readings(text)), Reading(None, "failed"))


def readings(text: str) -> Iterator[Reading[Value]]:
    """Yield every object or list in a reply, the most reliable reading first."""
    text = without_thoughts(text)[:MAX_CHARACTERS].strip()
    if (value := _loaded(text)) is not None:
        yield Reading(value, "json")
        return
    fences = [content.strip() for _, content in fenced(text)]
    for content in fences:
        if (value := _loaded(content)) is not None:
            yield Reading(value, "fenced")
    spans = sorted(_spans(text), key=lambda span: span[0] != "{")  # objects before lists
    for span in spans:
        if (value := _loaded(span)) is not None:
            yield Reading(value, "text")
    begun = [content for content in fences if content.startswith(("{", "["))]
    for broken in (*begun, *spans):
        # Line breaks within strings, then Python's own notation, which json_repair reads less faithfully.
        if value := _loaded(broken, strict=False) or _python_literal(broken) or _repaired(broken):
            yield Reading(value, "repaired")


def without_objects(text: str) -> str:
    """Return a text without the JSON objects, whole or broken, that precede its first query.

    >>> without_objects('{"answer": "SELECT 1"} SELECT {"a": 2}')
    ' SELECT {"a": 2}'
    """
    rest = text
    for span in _spans(text):
        start = rest.find(span)
        if _QUERY.search(rest, 0, start):
            break
        if span.startswith("{") and (_loaded(span) is not None or _KEY.match(span)):
            rest = rest[:start] + rest[start + len(span) :]
    return rest


def fenced(text: str) -> list[tuple[str, str]]:
    """Return language and content of every code fence; a last one that is never closed counts too."""
    return [(language.lower(), content) for language, content in _FENCE.findall(text)]


def _loaded(text: str, *, strict: bool = True) -> Value | None:
    try:
        value = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _spans(text: str) -> Iterator[str]:
    """Yield the texts between matching brackets, outermost only; last the one whose bracket is never closed."""
    closers: list[str] = []
    start = -1
    quoted = escaped = False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = bool(closers)  # outside of brackets quotes are prose
        elif character in _CLOSING:
            start = start if closers else position
            closers.append(_CLOSING[character])
            if len(closers) > MAX_DEPTH:
                return
        elif closers and character == closers[-1]:
            closers.pop()
            if not closers:
                yield text[start : position + 1]
    if closers and text[start] == "[":
        yield from _spans(text[start + 1 :])  # an open [ may be a bracket in prose, with an object behind it
    if closers:
        yield text[start:]


def _python_literal(text: str) -> Value | None:
    """Read a dict or list in Python's notation; None where the text is neither."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _open_brackets(text: str) -> int:
    """Return how many brackets are open at most, those in quotes too: of many, json_repair tries every combination."""
    depth = 0
    max_depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        max_depth = max(max_depth, depth)
    return max_depth


def _repaired(text: str) -> Value | None:
    """Read text that is nearly JSON; None where nothing can be made of it."""
    import json_repair

    has_no_key = text.startswith("{") and ":" not in text
    if has_no_key or _open_brackets(text) > MAX_DEPTH:
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and text.startswith("{"):
        # Several objects, or an object and a rest: the first is what was asked for.
        value = next((part for part in value if isinstance(part, dict)), None)
    return value if isinstance(value, dict | list) else None


_SCHEMAS_BY_NAME = ("properties", "$defs")
_ONE_SCHEMA = ("items", "additionalProperties")
_SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_DROPPED = frozenset({"title", "default"})


@lru_cache(maxsize=64)
def reply_schema(reply_type: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply type: every field required, no further ones, no titles or defaults.

    Structured outputs (OpenAI's `strict: true`) take only such objects. An open map (`dict[str, str]`) stays
    open, and makes the schema one that cannot be strict. The result is shared: do not change it.
    """
    schema: dict[str, Any] = _tidy(reply_type.model_json_schema())
    return schema


def is_sql(reply_type: type[BaseModel]) -> bool:
    """Return whether a reply is one query and nothing else."""
    return set(reply_type.model_fields) == {"sql"}


def is_strict(schema: Any) -> bool:
    """Whether every object in the schema names all its keys, so that `strict: true` may be asked for."""
    if isinstance(schema, list):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(schema.get("properties", {})):
            return False
    by_name = [part for key in _SCHEMAS_BY_NAME for part in schema.get(key, {}).values()]
    others = [schema[key] for key in (*_ONE_SCHEMA, *_SCHEMA_LISTS) if key in schema]
    return all(map(is_strict, by_name + others))


def _tidy(schema: Any) -> Any:
    """Return a JSON schema without titles and defaults, in which every property is required and no other allowed."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: value for key, value in schema.items() if key not in _DROPPED}
    for key in _SCHEMAS_BY_NAME:
        if key in tidy:
            tidy[key] = {name: _tidy(part) for name, part in tidy[key].items()}
    for key in (*_ONE_SCHEMA, *_SCHEMA_LISTS):
        if key in tidy:
            tidy[key] = _tidy(tidy[key])
    if "properties" in tidy:
        tidy["additionalProperties"] = False
        tidy["required"] = list(tidy["properties"])
    return tidy
