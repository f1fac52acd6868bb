"""The opening messages of a prompt that shows a schema, and results as a prompt shows them.

A schema that exceeds the model's context is pruned by the words of the question, without a model call. That is of no
paper: the papers' databases have at most 200 columns, which fit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.backbone.protocol import Message
from tasks.core.records import ColumnName, Execution, Link, Question
from tasks.database.schema import Schema
from tasks.database.schema_text import BREAKS, MAX_VALUE_CHARACTERS, SchemaView
from tasks.retrieval.demonstrations import nearest_by_words
from tasks.settings.backbone import BackboneSettings
from tasks.stages import prompts
from tasks.stages.links import join_keys, make_link
from tasks.stages.stage import stage

_TASK = "### Task\n"


def schema_messages(template: str, /, view: SchemaView, **variables: Any) -> tuple[Message, ...]:
    """Render a template with a schema, as the prompt settings of the view say.

    With `prompt.task` "last", every prompt about a schema begins with the same system message and the schema; what the
    template's own system message says begins its section "Task". Providers then serve the schema from their prefix
    caches to every stage that shows it.

    The message notes how much of it other questions about the database have in common.
    """
    parts, dialect = view.render(), view.dialect_name
    opening = prompts.messages(
        template,
        dialect=dialect,
        parts=parts,
        rules=view.prompt.rules,
        demonstrations_first=view.prompt.demonstrations_first,
        **variables,
    )
    last = view.prompt.task == "last"
    if not (last or (view.common and not view.prompt.demonstrations_first)):
        return opening
    system, user = opening
    database = prompts.section("database", parts).strip()
    before, schema, after = user.content.partition(database)
    if not schema:  # a template of the user's own that shows no schema
        return opening
    if not last:
        return system, replace(user, shared=len(before) + len(database))
    rest = "\n\n".join(filter(None, (before.strip("\n"), after.strip("\n"))))
    task = rest.replace(_TASK, f"{_TASK}{system.content.strip()} ", 1)
    return (
        replace(system, content=prompts.section("any_task", dialect).strip() + "\n"),
        replace(user, content=f"{database}\n\n{task}\n", shared=len(database) if view.common else 0),
    )


BYTES_PER_TOKEN = 2.5
"""Bytes of a schema's text per token, estimated low: tokenizers make 3 to 4 of names and less of numbers."""
SCHEMA_SHARE = 0.6
"""Share of the prompt that a schema may fill; the rest is for instructions, demonstrations and results."""
REPLY_SHARE = 0.25
"""Share of the context that is kept for the reply where no limit of output tokens is set."""
WIDE_SCHEMA = 1_000
"""Columns beyond which a schema is pruned also where the model's context is unknown."""
WIDE_SCHEMA_ROOM = 100_000
"""Bytes of text that such a schema may have in a prompt: 25,000 to 40,000 tokens."""

_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def schema_room(context_tokens: int, reply_tokens: int | None) -> int:
    """Return how many bytes of text a schema may have in a prompt; `context_tokens` are for prompt and reply together.

    >>> schema_room(8192, 2048)
    9216
    """
    reply = reply_tokens if reply_tokens is not None else int(REPLY_SHARE * context_tokens)
    return int(max(context_tokens - reply, 0) * SCHEMA_SHARE * BYTES_PER_TOKEN)


def room_for(schema: Schema, backbone: BackboneSettings) -> int | None:
    """Return how many bytes of text a schema may have in a backbone's prompt; None: any number."""
    if backbone.context_tokens:
        return schema_room(backbone.context_tokens, backbone.reply_tokens)
    return WIDE_SCHEMA_ROOM if len(schema.column_names) > WIDE_SCHEMA else None


def text_size(view: SchemaView) -> int:
    """Return the bytes of the parts of a prompt that show a schema."""
    parts = view.render()
    texts = (parts.schema, parts.samples, parts.foreign_keys, parts.descriptions)
    return sum(len(text.encode()) for text in texts)


@stage()
async def schema_pruning(question: Question, view: SchemaView, room: int) -> Link:
    """Choose the columns that are shown: those nearest to the question, with the keys of their tables, that fit.

    Columns are ranked by BM25 of their names and descriptions; those that share no word with the question come last,
    in the order of the schema. `room` is in bytes of text (`schema_room`).
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
    """Return all columns, those whose words are most similar to the question's first."""
    texts = [
        " ".join((_words(table.name), _words(column.name), column.description, column.value_description))
        for table in schema.tables
        for column in table.columns
    ]
    names = schema.column_names
    (order,) = nearest_by_words(texts, [f"{question.text} {question.evidence}"], len(names))
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
    return {*columns, *primary, *join_keys(schema, tables)}


EMPTY = "No rows."
"""How a result without rows is shown."""
MAX_ERROR = 500
"""Characters of an error that are shown; SQLite quotes what it cannot read, up to the whole statement."""


@dataclass(frozen=True, slots=True)
class ExecutedSql:
    """A SQL and what it returned, as a prompt shows them; the SQL is "" where a reply held none."""

    sql: str
    result: str


def show_result(execution: Execution | None, rows: int, *, counts: bool = False) -> str:
    """Return the first rows of a result as text, or the error, or the time-out (RSL-SQL, section 3.3).

    The text depends on the SQL and the database only, never on how long anything took: it goes into a prompt, and
    for a prompt that varies the reply cache holds no reply. With `counts` it says how many rows there are (acl).
    """
    if execution is None:
        return "There is no query."
    if execution.status == "timeout":
        return "Time-out: the query took too long and was stopped."
    if not execution.ok:
        return f"Error: {_line(execution.error, MAX_ERROR)}"
    if not execution.row_count:
        return EMPTY
    first_rows = execution.rows[:rows]
    lines = [" | ".join(map(_cell, row)) for row in (execution.columns, *first_rows)]
    if counts:
        total = f"{execution.row_count} row{'s' if execution.row_count > 1 else ''}"
        part = f", first {len(first_rows)} shown" if execution.row_count > len(first_rows) else ""
        lines.append(f"({total}{part})")
    return "\n".join(lines)


def outcome_of(execution: Execution | None) -> str:
    """Return "ok", "empty", "error", "timeout", "too_large", or "no_answer" when there was no SQL."""
    if execution is None:
        return "no_answer"
    return "empty" if execution.empty else execution.status


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return _line(str(value), MAX_VALUE_CHARACTERS)


def _line(text: str, longest: int) -> str:
    text = BREAKS.sub(" ", text)
    return text if len(text) <= longest else f"{text[:longest]}..."
