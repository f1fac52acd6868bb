"""Coercion of what a model wrote into the keyword arguments of a reply type."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

_NOTHING = frozenset({"", "none", "null", "n/a", "[]"})
_TABLE_KEYS = ("table", "tablename")
_COLUMN_KEYS = ("column", "columnname")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
LONGEST_NAME_WORDS = 4
"""Pieces of a comma-separated text with more words are taken for one sentence, not for a list."""


def coerce(value: Any, reply_type: type[BaseModel]) -> dict[str, Any]:
    """Return a value as the keyword arguments of a type, as far as it can be read."""
    fields = reply_type.model_fields
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], dict) and (len(fields) > 1 or _has_key(value[0], fields)):
            value = value[0]
        else:
            value = {next(iter(fields)): value} if len(fields) == 1 else {}
    given = _by_plain_key(value)
    plain = {plain_key(name): name for name in fields}
    if not given.keys() & plain.keys() and len(value) == 1:
        inner = next(iter(value.values()))
        given = _by_plain_key(inner) if isinstance(inner, dict) else given
    return {
        name: _coerced(given[key], fields[name].annotation) for key, name in plain.items() if key in given
    }


def _has_key(value: Mapping[Any, Any], names: Iterable[str]) -> bool:
    return not _by_plain_key(value).keys().isdisjoint(map(plain_key, names))


def _by_plain_key(value: Mapping[Any, Any]) -> dict[str, Any]:
    # Of keys that differ only in case or punctuation, one in the fields' own style wins.
    return {
        plain_key(str(key)): item
        for key, item in sorted(value.items(), key=lambda pair: str(pair[0]).islower())
    }


def plain_key(key: str) -> str:
    """Return a key in small letters, without punctuation."""
    return re.sub(r"[\W_]", "", key).lower()


def _coerced(value: Any, annotation: Any) -> Any:
    if get_origin(annotation) is list and get_args(annotation) == (str,):
        return _texts(value)
    if (
        annotation is str
        and isinstance(value, list)
        and value
        and all(isinstance(part, str) for part in value)
    ):
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
    if isinstance(part, dict):
        given = _by_plain_key(part)
        table, column = (_first_text(given, keys) for keys in (_TABLE_KEYS, _COLUMN_KEYS))
        if table and column:
            return [column if column.startswith(f"{table}.") else f"{table}.{column}"]
        name = given.get("name", column or table)
        return [name] if name is not None else [item for item in part.values() if isinstance(item, str)][:1]
    if isinstance(part, bool | int | float):
        return [str(part)]
    return [] if part is None else [part]


def _first_text(given: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), None)


def _split(text: str) -> list[str]:
    """Split a text that stands for a list: at line breaks, else at commas outside of quotes and brackets."""
    if text.strip().lower() in _NOTHING:
        return []
    lines = [_BULLET.sub("", line).strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return [line.rstrip(",;") for line in lines]
    pieces = [
        piece.strip()
        for piece in re.findall(r"(?:[^,;`\"'(\[]|`[^`]*`|\"[^\"]*\"|'[^']*'|\([^()]*\)|[`\"'(\[])+", text)
    ]
    pieces = [piece for piece in pieces if piece]
    if all(len(piece.split()) <= LONGEST_NAME_WORDS for piece in pieces):
        return pieces
    return [text.strip()]
