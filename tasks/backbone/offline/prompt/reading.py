"""Reads the messages of a request into what they show. Nothing else reaches the offline model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.prompt.schema_text import plain_name, read_schema
from tasks.backbone.offline.prompt.sections import Heading, numbered, turns_of
from tasks.backbone.protocol import Message
from tasks.core.records import ColumnName
from tasks.database.dialects import SQLITE

_EXAMPLE = re.compile(
    r"^Question: (?>(?P<question>.{0,2000}?)(?=\nEvidence: |\nSQL:\s))"
    r"(?>(?:\nEvidence: .{0,2000}?)?\nSQL:\s)(?:```sql\n)?(?P<sql>.*?)"
    r"(?=\n```|\n\n(?:Question|Schema):|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SQL_IN_REPLY = re.compile(r'"sql"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_FENCE = re.compile(r"^```.*\n?", re.MULTILINE)
_LIST_ITEM = re.compile(r"(?:`(?:[^`]|``)*`|[^,`\s])(?:`(?:[^`]|``)*`|[^,`])*")
_DIALECT = re.compile(r"\b(PostgreSQL|DuckDB|MySQL)(?: quer|查询)")
_DIALECTS = {"PostgreSQL": "postgres", "DuckDB": "duckdb", "MySQL": "mysql"}
"""By the names that prompts give; all others are read as SQLite."""


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration of the prompt."""

    question: str
    sql: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that the prompt shows, with its result as text."""

    sql: str
    result: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything of a conversation that the model can use."""

    question: str
    evidence: str
    schema: PromptSchema
    task: str  # section "Task", for the number in it
    examples: tuple[Example, ...]
    attempts: tuple[Attempt, ...]  # the queries of the last message, with their results
    earlier: tuple[str, ...]  # queries of the turns before, oldest first
    linked_columns: frozenset[ColumnName]
    linked_before: tuple[ColumnName, ...]  # columns that an earlier round of linking named
    described_columns: tuple[str, ...]
    current_sql: str
    feedback: str

    @property
    def readable(self) -> bool:
        """Whether there are a question and a schema to write a query for."""
        return bool(self.question.strip() and self.schema.tables)


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """Read a conversation; sections of a later turn replace those of an earlier one.

    Without any known section the last message as a whole is the question.
    """
    turns = turns_of(messages)
    sections = {heading: body for turn in turns for heading, body in turn.items()}
    whole = "" if any(heading in sections for heading in Heading) else sections.get("", "")
    earlier = [attempt.sql for turn in turns[:-1] for attempt in _attempts(turn)]
    for message in messages:
        if message.role == "assistant":
            inside = _SQL_IN_REPLY.findall(message.content)
            earlier.extend(
                re.sub(r"\\(.)", r"\1", sql, flags=re.DOTALL)
                for sql in inside or [_FENCE.sub("", message.content)]
            )
    database = (Heading.SCHEMA, Heading.SAMPLES, Heading.FOREIGN_KEYS)
    named = next(filter(None, (_DIALECT.search(message.content) for message in messages)), None)
    dialect = _DIALECTS[named[1]] if named else SQLITE
    schema = read_schema(*(sections.get(heading, "") for heading in database), dialect=dialect)
    examples = _EXAMPLE.finditer(sections.get(Heading.EXAMPLES, ""))
    return Prompt(
        question=sections.get(Heading.QUESTION, whole),
        evidence=sections.get(Heading.EVIDENCE, ""),
        schema=schema,
        task=sections.get(Heading.TASK, ""),
        examples=tuple(Example(found["question"], " ".join(found["sql"].split())) for found in examples),
        attempts=_attempts(turns[-1]),
        earlier=tuple(earlier),
        linked_columns=frozenset(schema.columns_in(sections.get(Heading.LINKED_COLUMNS, ""))),
        linked_before=tuple(schema.columns_in(sections.get(Heading.LINKED_BEFORE, ""))),
        described_columns=tuple(map(plain_name, _LIST_ITEM.findall(sections.get(Heading.DESCRIBED, "")))),
        current_sql=sections.get(Heading.CURRENT_SQL, ""),
        feedback=sections.get(Heading.FEEDBACK, ""),
    )


def _attempts(sections: Mapping[str, str]) -> tuple[Attempt, ...]:
    results = numbered(sections, "result of sql")
    tried = sorted(numbered(sections, "sql").items())
    return tuple(Attempt(sql, results.get(number, "")) for number, sql in tried)
