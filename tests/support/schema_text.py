"""A schema as text, without the view of a question."""

from typing import Any

from tasks.database.schema import Schema
from tasks.database.schema_text import PromptParts, SchemaView
from tasks.settings.pipeline import PromptSettings, SchemaFormat


def render(schema: Schema, style: SchemaFormat, *, descriptions: bool, **prompt: Any) -> PromptParts:
    """Return a schema as text; `prompt` are settings of the prompt."""
    return SchemaView(
        schema, PromptSettings(schema_format=style, **prompt), descriptions=descriptions
    ).render()
