"""The sections of a prompt, and the task that it sets.

`Heading` declares every heading that is read; a test compares the headings of each template with those declared here.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from tasks.backbone.protocol import Message, Request

Sections = dict[str, str]
"""Bodies of sections by heading in lower case; "" is the text before the first heading."""


class Heading(StrEnum):
    """Headings that are read."""

    EXAMPLES = "examples"
    TASK = "task"
    SCHEMA = "schema"
    SAMPLES = "sample values"
    FOREIGN_KEYS = "foreign keys"
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


class Task(StrEnum):
    """Kinds of replies that a prompt asks for."""

    QUERY = "query"
    CONTINUATION = "the rest of a query behind SELECT"
    SELECTION = "one of several queries"
    COMPARISON = "the number of the better of two queries"
    CORRECTION = "a query that has not been tried"
    REFLECTION = "why a query fails"
    ELIMINATION = "a query, unchanged if it runs"
    FEEDBACK = "a query corrected by feedback"
    SKELETON = "a query without a schema"
    LINK = "tables and columns"
    AUGMENTATION = "tables, columns, SQL keywords and conditions"
    KEYWORDS = "SQL keywords"
    CONDITIONS = "conditions of the question"
    DESCRIPTIONS = "column descriptions"
    ALIGNMENT = "what each word refers to"
    TURN = "tool calls"


_REPLY_KEYS = {
    "sql": Task.QUERY, "tables": Task.LINK, "columns": Task.LINK, "sql_keywords": Task.KEYWORDS,
    "conditions": Task.CONDITIONS, "descriptions": Task.DESCRIPTIONS, "alignment": Task.ALIGNMENT,
    "better": Task.COMPARISON,
}  # fmt: skip
_FREE_TEXT = {
    Heading.QUERY: Task.CONTINUATION,
    Heading.RESPONSE: Task.ELIMINATION,
    Heading.REPLY: Task.REFLECTION,
}
_NAMED = re.compile(r'(?<=")\w+(?=")|(?<=```)sql')
_HEADING = re.compile(r"^### ++(.+)$", re.MULTILINE)


def turns_of(messages: Sequence[Message]) -> list[Sections]:
    """Return the sections of each message of the user."""
    return [_split(message.content) for message in messages if message.role == "user"] or [{}]


def numbered(sections: Mapping[str, str], heading: str) -> dict[int, str]:
    """Return the bodies of the sections "heading 1", "heading 2", ... by number."""
    found = {name: re.fullmatch(rf"{heading} ([0-9]{{1,6}})", name) for name in sections}
    return {int(match[1]): sections[name] for name, match in found.items() if match}


def task_of(request: Request) -> Task:
    """Return the task of a request by the keys of its JSON schema, else by its section "Reply".

    In that section, keys are quoted words; a fenced block of SQL is a query.
    """
    turns = turns_of(request.messages)
    if request.tools or Heading.ACTIONS in turns[0]:
        return Task.TURN
    last, tried = turns[-1], numbered(turns[-1], "sql")
    named = (request.schema or {}).get("properties") or _NAMED.findall(last.get(Heading.REPLY, ""))
    keys = [key for key in named if key in _REPLY_KEYS]
    if not keys and (heading := next((one for one in _FREE_TEXT if one in last), None)):
        return _FREE_TEXT[heading]
    if {"tables", "sql_keywords"} <= {*keys}:
        return Task.AUGMENTATION
    task = _REPLY_KEYS[keys[0]] if keys else Task.QUERY
    if task != Task.QUERY:
        return task
    if Heading.FEEDBACK in last:
        return Task.FEEDBACK
    if len(tried) > 1 and not numbered(last, "reason"):
        return Task.SELECTION
    if tried or len(turns) > 1:
        return Task.CORRECTION
    without_schema = Heading.QUESTION in last and Heading.SCHEMA not in last
    return Task.SKELETON if keys and without_schema else Task.QUERY


def _split(text: str) -> Sections:
    parts = _HEADING.split(text)
    if len(parts) == 1 and (found := native_sections(text)):
        return found
    bodies = {
        heading.strip().lower(): body.strip() for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {"": parts[0].strip()} | bodies


_ENGLISH = re.compile(
    r"\A(?>.*?^Database Schema:\n)(?>(?P<schema>.*?)\n\nQuestion:\n)(?P<asked>.*?)\n\nInstructions:\n",
    re.DOTALL | re.MULTILINE,
)
_CHINESE = re.compile(
    r"\A(?>.*?^【数据库schema】\n)(?>(?P<schema>.*?)\n\n(?=【参考信息】\n|【用户问题】\n))"
    r"(?>(?:【参考信息】\n(?P<evidence>.*?)\n\n)?【用户问题】\n)(?P<asked>.*?)\n\n```sql",
    re.DOTALL | re.MULTILINE,
)
_EXAMPLE = re.compile(r"((?:^|, |-- ))example: \[", re.MULTILINE)


def native_sections(text: str) -> dict[str, str]:
    """Return schema, evidence and question of a message in one of the layouts, by `Heading`; {} of any other.

    The English layouts have the evidence above the question, whose text is the last line.
    """
    if found := _CHINESE.search(text):
        evidence, question = found["evidence"] or "", found["asked"]
    elif found := _ENGLISH.search(text):
        evidence, _, question = found["asked"].rpartition("\n")
    else:
        return {}
    schema = _EXAMPLE.sub(r"\1Examples: [", found["schema"])
    return {"schema": schema, "evidence": evidence, "question": question}
