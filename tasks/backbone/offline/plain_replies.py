"""Replies that are plain text: the rest of a query, why a query fails, and a query judged by what it returned."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from tasks.backbone.offline.correcting import correct
from tasks.backbone.offline.reading import Attempt, Prompt
from tasks.backbone.offline.writing import write_sql
from tasks.backbone.protocol import Message

_UNKNOWN = re.compile(r"no such (column|table): (.+)", re.IGNORECASE)
_FAILED = ("Error:", "Time-out:")


def plain_reply(messages: Sequence[Message], prompt: Prompt) -> str | None:
    """Return the reply where the last message wants plain text, None where it wants a JSON object."""
    last = messages[-1].content.rstrip() if messages else ""
    if last.endswith("\nSELECT"):
        return re.sub(r"^\s*SELECT\s+", "", _in_one_line(write_sql(prompt)))
    if not prompt.attempts:
        return None
    if re.search(r"^### Reply\n.*without a query", last, re.MULTILINE):
        return reason(prompt.attempts[-1], prompt)
    if last.endswith("### Response\nQuery:"):
        first = prompt.attempts[0]
        return _in_one_line(correct(prompt)) if first.result.startswith(_FAILED) else first.sql
    return None


def shows_reasons(messages: Sequence[Message]) -> bool:
    """Whether the queries of the last message all failed, for reasons it gives: then none of them is to be chosen."""
    return bool(messages) and re.search(r"^### Reason \d+$", messages[-1].content, re.MULTILINE) is not None


def reason(attempt: Attempt, prompt: Prompt) -> str:
    """Return why a query fails, as far as the database's message says it."""
    message = attempt.result.removeprefix("Error:").strip().rstrip(".")
    if message == "There is no query":
        return "There is no query to run."
    if attempt.result.startswith("Time-out:"):
        return "The query takes too long: it joins or repeats more rows than the question needs."
    if found := _UNKNOWN.match(message):
        name = found[2].rpartition(".")[2].strip("`\"'[] ")
        known = (
            [table.name for table in prompt.schema.tables]
            if found[1].lower() == "table"
            else [column.name.column for column in prompt.schema.columns]
        )
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        return f"The schema has no {found[1].lower()} {name}" + (f"; it has {near[0]}." if near else ".")
    return f"The database says: {message}."


def _in_one_line(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip()
