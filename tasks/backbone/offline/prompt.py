"""A request as the offline backbone reads it: the sections of its messages, and the keys of the reply.

`Heading` declares every heading that is read; a test compares the headings of each template with it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tasks.backbone.offline.schema import PromptSchema, plain_name, read_schema
from tasks.backbone.protocol import Message, Request
from tasks.core.records import ColumnName
from tasks.database.dialects import SQLITE

Sections = dict[str, str]
"""Bodies of sections by heading in lower case; "" is the text before the first heading."""


class Heading(StrEnum):
    """Headings that are read."""

    SCHEMA = "schema"
    SAMPLES = "sample values"
    FOREIGN_KEYS = "foreign keys"
    DESCRIPTIONS = "column descriptions"
    EVIDENCE = "evidence"
    QUESTION = "question"
    LINKED_COLUMNS = "linked columns"
    LINKED_BEFORE = "linked so far"
    DESCRIBED = "columns to describe"
    CURRENT_SQL = "current sql"
    FEEDBACK = "feedback"
    REPLY = "reply"
    QUERY = "query"
    RESPONSE = "response"
    ACTIONS = "actions"


UNKNOWN_DATABASE = PromptSchema({ColumnName("t", "a"): []})
"""The database of a query that is asked for without one (DAC's skeleton)."""

_KEY = re.compile(r'(?<=")\w+(?=")|(?<=```)sql')
_HEADING = re.compile(r"^### ++(.+)$", re.MULTILINE)
_FAILURE = re.compile(r"Error: |Time-out: |There is no query")
_DIALECT = re.compile(r"\b(PostgreSQL|DuckDB|MySQL)(?: quer|查询)")
_DIALECTS = {"PostgreSQL": "postgres", "DuckDB": "duckdb", "MySQL": "mysql"}
"""By the names that prompts use; all others are read as SQLite."""
_ENGLISH = re.compile(
    r"\A(?>.*?^Database Schema:\n)(?>(?P<schema>.*?)\n\nQuestion:\n)(?P<asked>.*?)\n\nInstructions:\n",
    re.DOTALL | re.MULTILINE,
)
_CHINESE = re.compile(
    r"\A(?>.*?^【数据库schema】\n)(?>(?P<schema>.*?)\n\n(?=【参考信息】\n|【用户问题】\n))"
    r"(?>(?:【参考信息】\n(?P<evidence>.*?)\n\n)?【用户问题】\n)(?P<asked>.*?)\n\n```sql",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that was run, with its result as text."""

    sql: str
    result: str = ""

    @property
    def failed(self) -> bool:
        """Whether the query did not run to its end."""
        return not self.sql.strip() or bool(_FAILURE.match(self.result.strip()))

    @property
    def is_empty(self) -> bool:
        """Whether the query returned no row."""
        return self.result.strip() == "No rows."

    @property
    def surprise(self) -> int:
        """How odd the result is: a failure, no row, only NULL, only 0."""
        if self.failed or self.is_empty:
            return 100 if self.failed else 50
        cells = {cell.strip() for row in self.result.splitlines()[1:] for cell in row.split(" | ")}
        return 20 if cells <= {"NULL", ""} else 10 if cells == {"0"} else 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything of a conversation that is read."""

    question: str
    evidence: str
    schema: PromptSchema
    attempts: tuple[Attempt, ...]  # the queries of all turns, with their results
    selects: bool  # whether the answer is one of the attempts
    linked: tuple[ColumnName, ...]
    described: tuple[str, ...]
    current_sql: str
    feedback: str


def sections_of(messages: Sequence[Message]) -> Sections:
    """Return the sections of a conversation; those of a later message replace those of an earlier one."""
    return {heading: body for message in messages for heading, body in _split(message).items()}


def keys_of(request: Request, sections: Sections) -> list[str]:
    """Return the keys of the reply: those of the JSON schema, else the quoted words of the section "Reply".

    There, a fence of SQL is the key "sql".
    """
    properties: Mapping[str, object] | None = (request.schema or {}).get("properties")
    return [*(properties or _KEY.findall(sections.get(Heading.REPLY, "")))]


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """Read a conversation; without any known section the last message as a whole is the question."""
    sections = sections_of(messages)
    turns = [_attempts(_split(message)) for message in messages]
    feedback = sections.get(Heading.FEEDBACK, "").removeprefix("Running the query fails.").strip()
    if _FAILURE.match(feedback):
        turns.append([Attempt(sections.get(Heading.CURRENT_SQL, ""), feedback)])
    has_reasons = any(heading.startswith("reason ") for heading in sections)
    schema = _schema(messages, sections)
    linked = " , ".join(sections.get(name, "") for name in (Heading.LINKED_COLUMNS, Heading.LINKED_BEFORE))
    whole = "" if any(heading in sections for heading in Heading) else sections.get("", "")
    return Prompt(
        question=sections.get(Heading.QUESTION, whole)[:4000],
        evidence=sections.get(Heading.EVIDENCE, "")[:4000],
        schema=schema,
        attempts=tuple(attempt for attempts in turns for attempt in attempts),
        selects=any(len(attempts) > 1 for attempts in turns) and not has_reasons,
        linked=tuple(schema.named_in(linked)),
        described=tuple(map(plain_name, filter(None, sections.get(Heading.DESCRIBED, "").split(", ")))),
        current_sql=sections.get(Heading.CURRENT_SQL, ""),
        feedback=feedback,
    )


def _schema(messages: Sequence[Message], sections: Sections) -> PromptSchema:
    if Heading.QUESTION in sections and Heading.SCHEMA not in sections:
        return UNKNOWN_DATABASE
    named = next(filter(None, (_DIALECT.search(message.content) for message in messages)), None)
    database = (Heading.SCHEMA, Heading.SAMPLES, Heading.FOREIGN_KEYS, Heading.DESCRIPTIONS)
    texts = (sections.get(heading, "") for heading in database)
    return read_schema(*texts, dialect=_DIALECTS[named[1]] if named else SQLITE)


def _attempts(sections: Sections) -> list[Attempt]:
    """Return the queries of the sections "SQL 1", "SQL 2", ... with those of their results."""
    numbers = sorted(int(name[4:]) for name in sections if re.fullmatch(r"sql [1-9][0-9]{0,5}", name))
    results = {number: sections.get(f"result of sql {number}", "") for number in numbers}
    return [Attempt(sections[f"sql {number}"], result) for number, result in results.items()]


def _split(message: Message) -> Sections:
    """Return the sections of a user's message; the bodies of one heading are joined."""
    if message.role != "user":
        return {}
    first, *parts = _HEADING.split(message.content)
    if not parts and (native := native_sections(first)):
        return native
    sections = {"": first.strip()}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        name = heading.strip().lower()
        sections[name] = f"{sections.get(name, '')}\n{body}".strip()
    return sections


def native_sections(text: str) -> Sections:
    """Return schema, evidence and question of a message in a native layout, by `Heading`; {} of any other.

    The English layouts have the evidence above the question, whose text is the last line.
    """
    if match := _CHINESE.search(text):
        evidence, question = match["evidence"] or "", match["asked"]
    elif match := _ENGLISH.search(text):
        evidence, _, question = match["asked"].rpartition("\n")
    else:
        return {}
    return {"schema": match["schema"], "evidence": evidence, "question": question}
