"""Messages -> what they show and what they ask for. Nothing else reaches the offline model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.backbone.offline.drafts import plain_name
from tasks.backbone.offline.schema import PromptSchema
from tasks.backbone.offline.schema_text import read_schema
from tasks.backbone.protocol import Message

Asked = Literal["sql", "link", "keywords", "conditions", "descriptions"]

_HEADING = re.compile(r"^### +(.+?)\s*$", re.MULTILINE)
_EXAMPLE = re.compile(r"^Question:", re.MULTILINE)
_SQL_IN_REPLY = re.compile(r'"sql"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration of the prompt."""

    question: str
    sql: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that the prompt shows, with what it returned."""

    sql: str
    result: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything of a conversation that the model can use.

    The sections with linked tables, keywords and conditions are passed over: the model wrote them from the same
    question and would learn nothing from them.

    Attributes:
        asked: which reply the last message wants.
        attempts: the queries of the last message, with their results.
        earlier: queries that stand in the turns before, oldest first.
        linked_columns: section "Linked columns", as written there.
        hints: names that the link must keep, as written in its task.
        described_table: table whose columns are to be described, "" when none is.
        described_columns: the columns to be described.
        columns_per_table: how many columns of a table a link may name.
    """

    asked: Asked
    question: str
    evidence: str
    schema: PromptSchema
    examples: tuple[Example, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    earlier: tuple[str, ...] = ()
    linked_columns: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    described_table: str = ""
    described_columns: tuple[str, ...] = ()
    columns_per_table: int = 15


def read_prompt(messages: Sequence[Message]) -> Prompt:
    """Read a conversation. Sections of a later turn replace those of an earlier one; SQL only counts in the last.

    Without any known section the last message as a whole is taken for the question.
    """
    turns = [_sections(message.content) for message in messages if message.role == "user"]
    last = turns[-1] if turns else {}
    sections: dict[str, str] = {}
    for turn in turns:
        sections.update(
            {heading: body for heading, body in turn.items() if not heading.startswith(("sql ", "result "))}
        )
    earlier = [sql for turn in turns[:-1] for attempt in _attempts(turn) for sql in [attempt.sql]]
    for message in messages:
        if message.role == "assistant":
            inside = [_unescaped(found) for found in _SQL_IN_REPLY.findall(message.content)]
            earlier.extend(inside or [message.content.strip()])
    task = sections.get("task", "")
    table = re.search(r"of the table (.+?) in one short sentence", task)
    limit = re.search(r"at most (\d{1,4}) columns", task)
    hints = re.search(r"keep unless clearly wrong: (.+?)\.?$", task, re.MULTILINE)
    return Prompt(
        asked=_asked(last.get("reply", ""), last),
        question=sections.get(
            "question", sections.get("", "") if not any(sections.values()) or not task else ""
        ),
        evidence=sections.get("evidence", ""),
        schema=read_schema(
            sections.get("schema", ""),
            sections.get("sample rows", ""),
            sections.get("foreign keys", ""),
            sections.get("column descriptions", ""),
        ),
        examples=_examples(sections.get("examples", "")),
        attempts=_attempts(last),
        earlier=tuple(earlier),
        linked_columns=_listed(sections.get("linked columns", "")),
        hints=_listed(hints[1]) if hints else (),
        described_table=plain_name(table[1]) if table else "",
        described_columns=tuple(map(plain_name, _listed(sections.get("columns to describe", "")))),
        columns_per_table=int(limit[1]) if limit else 15,
    )


def _sections(text: str) -> dict[str, str]:
    """Split a message at its headings, lower-cased; what stands before the first is the section ""."""
    parts = _HEADING.split(text)
    found = {"": parts[0].strip()}
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        found[heading.lower()] = body.strip()
    return found


def _asked(reply: str, last: dict[str, str]) -> Asked:
    """Return which reply is wanted, from the keys that the section "Reply" names."""
    if '"tables"' in reply:
        return "link"
    if '"sql_keywords"' in reply:
        return "keywords"
    if '"conditions"' in reply:
        return "conditions"
    if '"descriptions"' in reply or "columns to describe" in last:
        return "descriptions"
    return "sql"


def _attempts(sections: dict[str, str]) -> tuple[Attempt, ...]:
    """Collect the numbered queries of one message."""
    numbers = sorted(int(heading[4:]) for heading in sections if re.fullmatch(r"sql [0-9]{1,6}", heading))
    return tuple(
        Attempt(sections[f"sql {number}"], sections.get(f"result of sql {number}", ""))
        for number in dict.fromkeys(numbers)
        if f"sql {number}" in sections
    )


def _examples(text: str) -> tuple[Example, ...]:
    """Read the demonstrations."""
    found = []
    for block in _EXAMPLE.split(text)[1:]:
        question, _, sql = block.partition("\nSQL:")
        question, _, evidence = question.partition("\nEvidence:")
        if question.strip() and sql.strip():
            found.append(Example(question.strip(), sql.strip(), evidence.strip()))
    return tuple(found)


def _listed(text: str) -> tuple[str, ...]:
    """Split a comma-separated list; commas within backticks do not count."""
    return tuple(item.strip() for item in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text) if item.strip())


def _unescaped(text: str) -> str:
    """Undo the JSON escapes that SQL is likely to hold."""
    plain = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), text, flags=re.DOTALL)
