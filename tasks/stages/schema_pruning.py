"""Pruning of a schema that exceeds the model's context, by the words of the question. No model call.

Not of a paper: the papers' databases have at most 200 columns, which fit.
"""

import re
from collections.abc import Sequence
from itertools import chain

from tasks.core.records import ColumnName, Link, Question
from tasks.database.schema import Schema
from tasks.database.schema_view import SchemaView
from tasks.retrieval.ranking import Bm25Ranker
from tasks.stage_runs.stage import stage
from tasks.stages.links import make_link

BYTES_PER_TOKEN = 2.5
"""Bytes of a schema's text per token, estimated low: tokenizers make 3 to 4 of names and less of numbers."""
SCHEMA_SHARE = 0.6
"""Share of the prompt that a schema may fill; the rest is for instructions, demonstrations and results."""
REPLY_SHARE = 0.25
"""Share of the context that is kept for the reply where no limit of output tokens is set."""

_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def schema_room(context_tokens: int, reply_tokens: int | None) -> int:
    """Return how many bytes of text a schema may have in a prompt.

    Args:
        context_tokens: tokens of the model's context, for prompt and reply together.
        reply_tokens: limit of the reply's tokens; None: unknown.

    >>> schema_room(8192, 2048)
    9216
    """
    reply = reply_tokens if reply_tokens is not None else int(REPLY_SHARE * context_tokens)
    return int(max(context_tokens - reply, 0) * SCHEMA_SHARE * BYTES_PER_TOKEN)


def text_size(view: SchemaView) -> int:
    """Return the bytes of the parts of a prompt that show a schema."""
    parts = view.render()
    texts = (parts.schema, parts.samples, parts.foreign_keys, parts.descriptions)
    return sum(len(text.encode()) for text in texts)


@stage()
async def schema_pruning(question: Question, view: SchemaView, room: int) -> Link:
    """Choose the columns that are shown: those nearest to the question, with the keys of their tables, that fit.

    Columns are ranked by BM25 of their names and descriptions; those that share no word with the question come last,
    in the order of the schema.

    Args:
        question: the question and its evidence.
        view: the full schema as the prompts would show it.
        room: bytes of text that it may have (`schema_room`).
    """
    ranked = _ranked(question, view.schema)
    count, size = len(ranked), text_size(view)
    chosen = make_link(view.schema, ranked)
    while size > room and count > 1:
        count = min(int(count * room / size), count - 1) or 1
        chosen = make_link(view.schema, _with_keys(view.schema, ranked[:count]))
        size = text_size(view.reduced_to(chosen))
    return chosen


def _ranked(question: Question, schema: Schema) -> list[ColumnName]:
    texts = [
        " ".join((_words(table.name), _words(column.name), column.description, column.value_description))
        for table in schema.tables
        for column in table.columns
    ]
    names = schema.column_names
    (order,) = Bm25Ranker(texts).rank([f"{question.text} {question.evidence}"], len(names))
    first = dict.fromkeys(names[position] for position in order)
    return list(first | dict.fromkeys(names))


def _words(name: str) -> str:
    """Return the words of an identifier.

    >>> _words("order_itemPrice")
    'order item Price'
    """
    return _WORD_ENDS.sub(" ", name)


def _with_keys(schema: Schema, columns: Sequence[ColumnName]) -> set[ColumnName]:
    """Add the primary and foreign keys of the columns' tables, without which they cannot be joined."""
    tables = {column.table for column in columns}
    primary = (ColumnName(t.name, key) for t in schema.tables if t.name in tables for key in t.primary_key)
    joins = (key for key in schema.foreign_keys if {key.table, key.parent} <= tables)
    foreign = (
        ColumnName(table, column)
        for key in joins
        for table, names in ((key.table, key.columns), (key.parent, key.parent_columns))
        for column in names
    )
    return set(chain(columns, primary, foreign))
