"""The alignment list as backbones write it: one line or many, JSON or Python, objects, pairs or loose lines."""

import re
from typing import Any

from pydantic import Field, model_validator

from tasks.backbone.replies.json_text import read_json
from tasks.stages.replies import StageReply

_OBJECT = re.compile(r"\{[^{}]*\}")
_NOTHING = frozenset({"", "none", "null", "nil", "n/a", "-"})
_TYPES = {"tbl": "tbl", "table": "tbl", "col": "col", "column": "col", "val": "val", "value": "val"}
_TOKEN_KEYS = ("token", "word", "text", "span")
_SCHEMA_KEYS = ("schema", "entity", "schema_entity", "column", "link", "name")
_TYPE_KEYS = ("type", "kind", "entity_type")


class AlignedItem(StageReply):
    """What one token is aligned to, as the backbone spells it; None for nothing."""

    token: str
    entity: str | None = Field(None, alias="schema")
    type: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _leniently(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and 1 <= len(value) <= 3:
            value = dict(zip(("token", "schema", "type"), value, strict=False))
        if isinstance(value, str):
            value = {"token": value}
        if not isinstance(value, dict):
            return value
        given = {str(key).strip().lower(): item for key, item in value.items()}
        entity = _text(_first(given, _SCHEMA_KEYS))
        table = _text(given.get("table"))
        if table and (not entity or "." not in entity):
            entity = f"{table}.{entity}" if entity else table
        token = _first(given, _TOKEN_KEYS)
        kind = _text(_first(given, _TYPE_KEYS))
        return {
            "token": token if token is None else str(token),
            "schema": entity,
            "type": _TYPES.get(kind.lower()) if kind else None,
        }


class AlignmentReply(StageReply):
    """The alignment of a whole question; items that are none are left out."""

    alignment: list[AlignedItem]

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        items = value.get("alignment") if isinstance(value, dict) else None
        if isinstance(items, dict):  # {"singers": "singer"}, or {"singers": {"schema": ..., "type": ...}}
            items = [
                {"token": key, **item} if isinstance(item, dict) else {"token": key, "schema": item}
                for key, item in items.items()
            ]
        if not isinstance(items, list):
            return value
        kept = [item for item in items if _is_item(item)]
        if items and not kept:
            raise ValueError('an alignment is a list of objects with the key "token"')
        return {"alignment": kept}

    @classmethod
    def from_text(cls, text: str) -> "AlignmentReply | None":
        """Read objects that are written one per line, without a list around them, or in a list under another name."""
        found = read_json(text).value
        if isinstance(found, dict):
            inner = next((item for item in found.values() if isinstance(item, list)), None)
            items = inner if inner and all(_is_item(item) for item in inner) else None
            if items:
                return cls.model_validate({"alignment": items})
        items = [read_json(match).value for match in _OBJECT.findall(text)]
        items = [item for item in items if isinstance(item, dict) and _is_item(item)]
        return cls.model_validate({"alignment": items}) if items else None


def _is_item(item: Any) -> bool:
    if isinstance(item, dict):
        given = {str(key).strip().lower(): value for key, value in item.items()}
        return isinstance(_first(given, _TOKEN_KEYS), str | int | float)
    return isinstance(item, list | tuple) and 1 < len(item) <= 3 and isinstance(item[0], str)


def _first(given: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((given[key] for key in keys if given.get(key) is not None), None)


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    text = "" if value is None else str(value).strip()
    return None if text.lower() in _NOTHING else text
