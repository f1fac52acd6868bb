"""Demonstrations as DAC's prompts show them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.dac_records import AlignedToken
from tasks.database.schema import Schema
from tasks.database.schema_view import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.settings.pipeline import PromptSettings


@dataclass(frozen=True, slots=True)
class ShownExample:
    """One demonstration as text; "" for what it does not have."""

    question: str
    sql: str
    schema: str  # the tables of its SQL
    alignment: str  # its alignment in the form of a reply
    evidence: str


def shown_examples(
    demonstrations: Iterable[GroundedDemonstration], prompt: PromptSettings
) -> tuple[ShownExample, ...]:
    """Return the demonstrations as text."""
    return tuple(
        ShownExample(
            one.question, one.sql, _schema_text(one.schema, prompt), alignment_list(one.tokens), one.evidence
        )
        for one in demonstrations
    )


def alignment_list(tokens: Iterable[AlignedToken]) -> str:
    """Return an alignment in the form of a reply, on one line.

    >>> alignment_list([AlignedToken("singers", "singer", "", "tbl"), AlignedToken("?")])
    '{"alignment": [{"token": "singers", "schema": "singer", "type": "tbl"}, \
{"token": "?", "schema": null, "type": null}]}'
    """
    listed = [{"token": one.token, "schema": one.schema, "type": one.type} for one in tokens]
    return json.dumps({"alignment": listed}, ensure_ascii=False)


def _schema_text(schema: Schema | None, prompt: PromptSettings) -> str:
    if schema is None:
        return ""
    return SchemaView(schema, prompt.model_copy(update={"sample_rows": 0})).render().schema
