"""The cache key of a stage: one rule for what every argument contributes.

An argument either names its own identity, or is plain data and contributes all of it. Nothing can be
forgotten, and no client object, path or secret can get in: what is neither raises TypeError.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

from pydantic import BaseModel

from tasks.database.schema import Schema
from tasks.records import Question


@singledispatch
def identity(value: Any) -> Any:
    """Return plain JSON that stands for an argument: equal arguments, equal JSON.

    Raises:
        TypeError: for a value whose identity nobody has defined.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): identity(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [identity(inner) for inner in value]
    if isinstance(own := getattr(value, "identity", None), Mapping):
        return identity(own)
    if is_dataclass(value):
        return {field.name: identity(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no identity that could be part of a cache key.")


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


def cache_key(stage: str, version: int, prompts: str, arguments: Mapping[str, Any], attempt: int = 0) -> str:
    """Return the key of one stage's result: sha256 over everything the result depends on.

    Args:
        stage: name of the stage.
        version: raised by whoever changes what the stage's code does.
        prompts: digest of its prompt templates.
        arguments: the stage's arguments by name: settings, question, schema, upstream outputs, backbone.
        attempt: 0, or which re-roll of the question this is.
    """
    content = {
        "stage": stage,
        "version": version,
        "prompts": prompts,
        "attempt": attempt,
        "arguments": {name: identity(value) for name, value in arguments.items()},
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
