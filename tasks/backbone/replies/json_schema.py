"""JSON schemas of reply types, in the form that structured outputs demand."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

_NAMED = ("properties", "$defs")
_NESTED = ("items", "additionalProperties")
_LISTED = ("anyOf", "allOf", "oneOf", "prefixItems")
_DROPPED = frozenset({"title", "default"})


@lru_cache(maxsize=64)
def reply_schema(reply_type: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply type: every field required, no further ones, no titles or defaults.

    Structured outputs (OpenAI's `strict: true`) take only such objects. An open map (`dict[str, str]`) stays
    open, and makes the schema one that cannot be strict. The result is shared: do not change it.
    """
    schema = _tidy(reply_type.model_json_schema())
    assert isinstance(schema, dict)
    return schema


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
    named = (part for key in _NAMED for part in schema.get(key, {}).values())
    others = (schema[key] for key in (*_NESTED, *_LISTED) if key in schema)
    return all(is_strict(part) for part in (*named, *others))


def _tidy(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: value for key, value in schema.items() if key not in _DROPPED}
    for key in _NAMED:
        if key in tidy:
            tidy[key] = {name: _tidy(part) for name, part in tidy[key].items()}
    for key in (*_NESTED, *_LISTED):
        if key in tidy:
            tidy[key] = _tidy(tidy[key])
    if "properties" in tidy:
        tidy["additionalProperties"] = False
        tidy["required"] = list(tidy["properties"])
    return tidy
