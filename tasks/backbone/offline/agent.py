"""A scripted agent: the offline model in conversations with tools. It is a floor that every model must beat.

The script: name the tables and search for the values that the question quotes, read the columns, run the query that
the rules write, and submit it; where it fails or returns nothing, run its simpler forms before. It reads the messages
alone, as a model does, and answers with tool calls, or with fenced actions where the prompt describes those.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tasks.backbone.offline.prompt.english import stems
from tasks.backbone.offline.prompt.reading import Attempt, Prompt, read_prompt
from tasks.backbone.offline.prompt.sections import Heading, turns_of
from tasks.backbone.offline.replies import correct, failed, same_sql, select
from tasks.backbone.offline.writing import write_sql
from tasks.backbone.protocol import Message, Request
from tasks.backbone.replies.json_text import fenced
from tasks.core.trajectory import ToolCall

MOST_TRIES = 3
"""Queries that are run before one is submitted."""
MOST_SEARCHES = 3
"""Values of the question that are searched for."""
TABLES_PER_CALL = 2
MOST_TABLES = 16
"""Tables whose columns are read: those that the question names first."""

_RESULT = re.compile(r"^### Result of (\w+)\n(.*?)(?=^### Result of |\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^(`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s(]+) ?\(", re.MULTILINE)
_FOUND = re.compile(r"^(.{1,99}?)\.([^.:\n]{1,99}|`.{1,99}?`|\".{1,99}?\"): (.+)$", re.MULTILINE)
_VALUE = re.compile(r"\"([^\"]{2,60})\"|'([^']{2,60})'|(?<=\w )((?:[A-Z][\w'-]+ ?){1,4})")
_PART = re.compile(r"\n\n(?=(?:Sample values|Foreign keys|Column descriptions):\n)")


def act(request: Request) -> tuple[str, tuple[ToolCall, ...]]:
    """Return text and tool calls of the next turn; fenced actions are in the text."""
    calls = tuple(_Script(request.messages).calls())
    if request.tools:
        return "", calls
    return "\n".join(f"```{call.name}\n{_written(call)}\n```" for call in calls), ()


@dataclass(frozen=True, slots=True)
class _Script:
    """The conversation so far."""

    messages: Sequence[Message]

    def calls(self) -> Iterator[ToolCall]:
        """Yield the next calls."""
        done, opening = _executed(self.messages), turns_of(self.messages)[0]
        names = [call.name for call in done]
        prompt = self.prompt(done)
        last = "call submit now" in _last_words(self.messages)
        if Heading.SCHEMA not in opening and not last:
            if "tables" not in names:
                yield _call("tables")
                for value in _values(f"{prompt.question} {prompt.evidence}"):
                    yield _call("search_values", text=value)
                return
            if "columns" not in names:
                wanted = _tables(done, f"{prompt.question} {prompt.evidence}")
                for start in range(0, len(wanted), TABLES_PER_CALL):
                    yield _call("columns", tables=wanted[start : start + TABLES_PER_CALL])
                return
        tried = [Attempt(call.sql or "", call.result or "") for call in done if call.name == "run_sql"]
        yield self.query(replace(prompt, attempts=tuple(tried), earlier=()), last=last)

    def query(self, prompt: Prompt, *, last: bool) -> ToolCall:
        """Return the query to run next, or to submit."""
        tried = prompt.attempts
        if not tried:
            return _call(
                "submit" if last else "run_sql", sql=prompt.current_sql or write_sql(prompt) or NOTHING
            )
        if last or len(tried) >= MOST_TRIES or _returned_rows(tried[-1]):
            return _call("submit", sql=select(prompt) or tried[-1].sql)
        further = correct(prompt)
        if any(same_sql(further, attempt.sql) for attempt in tried):
            return _call("submit", sql=select(prompt) or tried[-1].sql)
        return _call("run_sql", sql=further)

    def prompt(self, done: Sequence[ToolCall]) -> Prompt:
        """Return the question with the schema as the opening and the tools have shown it, in sections of a prompt."""
        shown: dict[str, list[str]] = {Heading.SCHEMA: [], Heading.FOREIGN_KEYS: [], Heading.SAMPLES: []}
        for call in done:
            if call.name == "columns" and not call.error:
                schema, *parts = _PART.split((call.result or "").strip())
                shown[Heading.SCHEMA].append(schema)
                for part in parts:
                    heading, _, body = part.partition(":\n")
                    shown.setdefault(heading.lower(), []).append(body)
            elif call.name == "search_values":
                lines = (
                    f"# {table}({column}: {values})"
                    for table, column, values in _FOUND.findall(call.result or "")
                )
                shown[Heading.SAMPLES].extend(lines)
        sections = [f"### {heading}\n" + "\n".join(bodies) for heading, bodies in shown.items() if bodies]
        opening = [message for message in self.messages if message.role != "assistant"][:2]
        return (
            read_prompt((*opening, Message("user", "\n\n".join(sections))))
            if sections
            else read_prompt(opening)
        )


NOTHING = "SELECT 1"
"""What is run where the rules write no query."""


def _executed(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the tool calls of a conversation with their results, native ones or fenced actions."""
    done = [call for message in messages for call in message.calls]
    for said, answered in pairwise(messages):
        if said.role == "assistant" and not said.calls and answered.role == "user":
            actions, results = fenced(said.content), _RESULT.findall(answered.content)
            for (name, content), (_, result) in zip(actions, results, strict=False):
                done.append(ToolCall(name, content, result.strip()))
    return [replace(call, sql=_sql(call)) for call in done]


def _sql(call: ToolCall) -> str | None:
    if call.name not in ("run_sql", "submit"):
        return None
    try:
        content = json.loads(call.arguments)
    except ValueError:
        return call.arguments.strip()
    return str(content.get("sql", "")) if isinstance(content, dict) else ""


def _call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def _written(call: ToolCall) -> str:
    arguments = json.loads(call.arguments)
    return str(arguments["sql"]) if "sql" in arguments else call.arguments


def _values(question: str) -> list[str]:
    """Return what the question quotes or writes with a capital letter within a sentence."""
    found = (next(filter(None, groups)).strip() for groups in _VALUE.findall(question))
    return list(dict.fromkeys(found))[:MOST_SEARCHES]


def _tables(done: Sequence[ToolCall], question: str) -> list[str]:
    """Return the tables that `tables` has named, those that share most words with the question first."""
    named = next(call.result or "" for call in done if call.name == "tables")
    asked = set(stems(question))
    lines = {match[1].strip('`"'): line for line in named.splitlines() if (match := _TABLE.match(line))}
    ranked = sorted(lines, key=lambda name: -len(asked & set(stems(re.sub(r"[_(),]", " ", lines[name])))))
    return ranked[:MOST_TABLES]


def _returned_rows(attempt: Attempt) -> bool:
    return not failed(attempt) and not attempt.result.startswith("No rows")


def _last_words(messages: Sequence[Message]) -> str:
    last = messages[-1]
    return (last.calls[-1].result or "") if last.calls else last.content
