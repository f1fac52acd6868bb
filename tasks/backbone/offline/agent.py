"""The offline reader in conversations with tools, by a script.

The script: name the tables, read their columns, run the query that the reader writes, write it again where it fails or
returns nothing, and submit it. It answers with tool calls, or with fenced actions where the prompt describes those.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tasks.backbone.offline.prompt import Attempt, Heading, Prompt, read_prompt, sections_of
from tasks.backbone.offline.reading import Reader
from tasks.backbone.offline.schema import plain_name
from tasks.backbone.protocol import Message, Request
from tasks.backbone.replies.json_text import fenced
from tasks.core.outcome import ToolCall

MAX_TRIES = 3
"""Queries that are run before one is submitted."""
TABLES_PER_CALL = 2
MAX_TABLES = 16
"""Tables whose columns are read."""
NOTHING = "SELECT 1"
"""What is run where the reader writes no query."""

_RESULT = re.compile(r"^### Result of (\w+)\n(.*?)(?=^### Result of |\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^(`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s(]+) ?\(", re.MULTILINE)
_PART = re.compile(r"^(Sample values|Foreign keys|Column descriptions):$", re.MULTILINE)


def act(request: Request) -> tuple[str, tuple[ToolCall, ...]]:
    """Return text and tool calls of the next turn; fenced actions are in the text."""
    calls = tuple(_next_calls(request.messages))
    if request.tools:
        return "", calls
    return "\n".join(f"```{call.name}\n{_fenced(call)}\n```" for call in calls), ()


def _next_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    done = {call.name: call for call in _executed(messages)}
    last = "call submit now" in _last_words(messages)
    if Heading.SCHEMA in sections_of(messages) or last or "columns" in done:
        yield _query(_prompt(messages), last=last)
    elif "tables" not in done:
        yield _call("tables")
    else:
        tables = [plain_name(name) for name in _TABLE.findall(done["tables"].result or "")][:MAX_TABLES]
        for start in range(0, len(tables), TABLES_PER_CALL):
            yield _call("columns", tables=tables[start : start + TABLES_PER_CALL])


def _query(prompt: Prompt, *, last: bool) -> ToolCall:
    """Return the query to run next, or to submit."""
    tried = {attempt.sql: attempt for attempt in prompt.attempts}
    best = min(reversed(tried.values()), key=lambda attempt: attempt.surprise, default=None)
    sql = (not tried and prompt.current_sql) or Reader(prompt).query() or NOTHING
    if best and (last or best.surprise == 0 or len(tried) >= MAX_TRIES or sql in tried):
        return _call("submit", sql=best.sql)
    return _call("submit" if last else "run_sql", sql=sql)


def _prompt(messages: Sequence[Message]) -> Prompt:
    """Return the question with the database as the opening and the tools show it."""
    done = _executed(messages)
    results = [call.result or "" for call in done if call.name == "columns" and not call.error]
    text = "\n\n".join("### Schema\n" + _PART.sub(r"### \1", result) for result in results)
    opening = [message for message in messages if message.role != "assistant"][:2]
    prompt = read_prompt((*opening, Message("user", text)) if text else opening)
    tried = (Attempt(_sql(call), call.result or "") for call in done if call.name == "run_sql")
    return replace(prompt, attempts=tuple(tried), selects=False)


def _executed(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the tool calls of a conversation with their results, native ones or fenced actions."""
    done = [call for message in messages for call in message.calls]
    for reply, results in pairwise(messages):
        if reply.role == "assistant" and not reply.calls and results.role == "user":
            pairs = zip(fenced(reply.content), _RESULT.findall(results.content), strict=False)
            done += [ToolCall(name, content, result.strip()) for (name, content), (_, result) in pairs]
    return done


def _sql(call: ToolCall) -> str:
    try:
        content = json.loads(call.arguments)
    except ValueError:
        return call.arguments.strip()
    return str(content.get("sql", "")) if isinstance(content, dict) else ""


def _call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def _fenced(call: ToolCall) -> str:
    arguments = json.loads(call.arguments)
    return str(arguments["sql"]) if "sql" in arguments else call.arguments


def _last_words(messages: Sequence[Message]) -> str:
    last = messages[-1]
    return (last.calls[-1].result or "") if last.calls else last.content
