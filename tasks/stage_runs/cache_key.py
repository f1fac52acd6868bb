"""The cache key of a stage: one rule for what every argument contributes.

An argument either has an identity of its own, or is plain data and contributes all of it. Nothing can be
forgotten, and no client object, path or secret can get in: anything else raises TypeError.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

from pydantic import BaseModel

from tasks.core.records import Question
from tasks.database.schema import Schema

_PLAIN = frozenset((type(None), str, int, float, bool))


@singledispatch
def identity(value: Any) -> Any:
    """Return plain JSON that identifies an argument: equal arguments, equal JSON.

    Raises:
        TypeError: for a value whose identity is not defined.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _within(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_within(inner) for inner in value]
    if isinstance(own := getattr(value, "identity", None), Mapping):
        return identity(own)
    if is_dataclass(value):
        # What makes no difference between two values makes none between their keys.
        return {field.name: _within(getattr(value, field.name)) for field in fields(value) if field.compare}
    raise TypeError(f"a {type(value).__name__} has no identity that could be part of a cache key")


def _within(value: Any) -> Any:
    """Return the identity of a part of a value: plain data, which most parts are, without a dispatch."""
    return value if type(value) in _PLAIN else identity(value)


@identity.register
def _(value: Schema) -> Any:
    return value.digest


@identity.register
def _(value: Question) -> Any:
    # Not the id: the same question of another split, asked of the same schema, has the same answer.
    return [value.text, value.evidence]


@identity.register
def _(value: BaseModel) -> Any:
    return value.model_dump(mode="json")


FORMAT = 2
"""Number of the form of persisted results; a result of another form is not restored."""


def cache_key(stage: str, code: str, prompts: str, arguments: Mapping[str, Any], attempt: int = 0) -> str:
    """Return the key of one stage's result: sha256 over everything the result depends on.

    Args:
        stage: name of the stage.
        code: digest of the stage's code.
        prompts: digest of its prompt templates.
        arguments: the stage's arguments by name: settings, question, schema, upstream outputs, backbone.
        attempt: 0, or which re-roll of the question this is.

    Raises:
        TypeError: an argument has no identity; the message explains how to add one.
    """
    content = {
        "format": FORMAT,
        "stage": stage,
        "code": code,
        "prompts": prompts,
        "attempt": attempt,
        "arguments": {name: _argument(stage, name, value) for name, value in arguments.items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _argument(stage: str, name: str, value: Any) -> Any:
    try:
        return identity(value)
    except TypeError as error:
        raise TypeError(
            f'The stage "{stage}" cannot be cached: in its argument "{name}", {error}. Do one of these:\n'
            "1. pass plain data: None, text, numbers, booleans, tuples, lists and mappings of such, or a dataclass or "
            "pydantic model of such;\n"
            "2. give the class a property `identity` that returns a mapping of plain data: everything of it that the "
            "stage's result depends on;\n"
            "3. for a class that is not yours, register a function that returns such data: "
            "`@tasks.stage_runs.cache_key.identity.register`."
        ) from error
