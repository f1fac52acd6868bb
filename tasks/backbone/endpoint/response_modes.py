"""Response modes: how a request's body constrains the format of the reply, besides the prompt.

A response mode is a function of the reply's JSON schema that returns further fields of the body.
"""

from collections.abc import Mapping
from typing import Any

from tasks.backbone.replies.json_schema import is_strict
from tasks.settings.backbone import RESPONSE_MODES


@RESPONSE_MODES.register("json_schema")
def json_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Request an object of the schema (structured outputs); strict if the schema allows it."""
    named = {"name": "reply", "schema": dict(schema), "strict": is_strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


@RESPONSE_MODES.register("json_object")
def json_object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Request any JSON object."""
    return {"response_format": {"type": "json_object"}}


@RESPONSE_MODES.register("text")
def text(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add no constraint."""
    return {}
