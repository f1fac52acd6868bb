"""The offline reader behind the interface of every backbone: a request in, the text of a reply out.

In conversations with tools it follows a script: name the tables, read their columns, run the query that the reader
writes, write it again where it fails or returns nothing, and submit it. It answers with tool calls, or with fenced
actions where the prompt describes those.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tasks.backbone.offline.prompt import (
    Attempt,
    Heading,
    Prompt,
    keys_of,
    plain_name,
    read_prompt,
    sections_of,
)
from tasks.backbone.offline.reading import Reader
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.backbone.replies.json_text import fenced
from tasks.core.outcome import Call, ToolCall, Usage
from tasks.core.records import ColumnName

VERSION = 9
"""Raise it with every change that can alter a reply: it is part of every stage's cache key."""
FREE = Usage(input=0, cached_input=0, output=0, reasoning=0)
"""Tokens of every call."""

_KEYWORDS = ("SELECT", "DISTINCT", "COUNT", "SUM", "AVG", "MIN", "MAX", "JOIN", "WHERE", "NOT IN", "LIKE", "GROUP BY",
             "HAVING", "ORDER BY", "DESC", "LIMIT")  # fmt: skip
_CLAUSE = re.compile(
    r"[,;?!]|\s(?=(?:whose|who|that|which|where|with|without|in|from|between|before|after)\s)"
)


class OfflineBackbone:
    """A reader of prompts by simple rules: the same request gets the same reply, without files or network.

    Only the messages and the keys of the reply's JSON schema are read. It has no tokens and costs nothing.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Which model answers: changes with `VERSION` only."""
        return {"kind": "offline", "model": "offline", "version": VERSION}

    async def complete(self, request: Request) -> Reply:
        """Answer one request; it takes milliseconds and never waits."""
        started = time.perf_counter()
        has_actions = Heading.ACTIONS in sections_of(request.messages)
        text, calls = act(request) if request.tools or has_actions else (answer(request), ())
        seconds = time.perf_counter() - started
        key = request_key(self.identity, request)
        call = Call(key, "offline", FREE, cached=False, seconds=seconds, cost_usd=0.0)
        return Reply(text, call, calls=calls)


def answer(request: Request) -> str:
    """Return the reply to a request: a JSON object with the keys that are asked for, or text where that is asked for.

    Without keys or a known heading of a text, the reply has the key "sql". A prompt without a schema or a question gets
    an empty reply of the requested kind, never an exception.
    """
    sections = sections_of(request.messages)
    prompt = read_prompt(request.messages)
    keys = [key for key in keys_of(request, sections) if key in ANSWERED]
    text = next((_TEXTS[heading] for heading in _TEXTS if heading in sections), None)
    if text and not keys:
        return text(prompt)
    return json.dumps({key: ANSWERED[key](prompt) for key in keys or ["sql"]}, ensure_ascii=False)


def _sql(prompt: Prompt) -> str:
    """Return the query that a prompt asks for.

    Of several to select from, it is the last of those with the least odd result. A query with feedback that is no
    failure is repeated: to read the question again would give the same one.
    """
    if prompt.selects and not all(attempt.failed for attempt in prompt.attempts):
        return min(reversed(prompt.attempts), key=lambda attempt: attempt.surprise).sql.strip()
    if prompt.feedback and prompt.current_sql and not prompt.attempts:
        return prompt.current_sql
    return Reader(prompt).query()


def _better(prompt: Prompt) -> int:
    """Return the number, from 1, of the query whose result surprises least, the first of those that tie."""
    surprises = [attempt.surprise for attempt in prompt.attempts]
    return surprises.index(min(surprises)) + 1 if surprises else 1


def _reason(prompt: Prompt) -> str:
    """Return the database's message about the last query as the reason why it fails."""
    message = prompt.attempts[-1].result if prompt.attempts else "There is no query."
    return f"The database says: {message.removeprefix('Error:').strip().rstrip('.')}."


def _named_columns(prompt: Prompt) -> list[ColumnName]:
    """Return the columns of the reader's own query, of earlier links, of the question, and of these tables' keys."""
    reader = Reader(prompt)
    if not reader.query():
        return []
    mentioned = [mention.column for mention in reader.mentions if mention.column]
    tables = {*reader.tables, *(mention.table for mention in reader.mentions)}
    keys = [column for join in prompt.schema.joins for column in (join.child, join.parent)]
    columns = {*reader.columns, *prompt.linked, *mentioned, *(key for key in keys if key.table in tables)}
    return [column for column in prompt.schema.samples if column in columns]


def _keywords(prompt: Prompt) -> list[str]:
    sql = re.sub(r"'(?:[^']++|'')*+'|`(?:[^`]++|``)*+`", "", Reader(prompt).query())
    return [keyword for keyword in _KEYWORDS if keyword in sql]


def _conditions(prompt: Prompt) -> list[str]:
    """Return the phrases of several words behind the first phrase of the question."""
    phrases = [phrase.strip() for phrase in _CLAUSE.split(prompt.question)]
    return [phrase for phrase in dict.fromkeys(phrases[1:]) if " " in phrase]


def _descriptions(prompt: Prompt) -> dict[str, str]:
    """Return a sentence for each column to describe, made of its name and samples."""
    samples = {column.column: texts for column, texts in prompt.schema.samples.items()}
    sentences = {}
    for name in prompt.described or samples:
        values = ", ".join(text[:40] for text in dict.fromkeys(samples.get(name, [])[:3]))
        words = name.replace("_", " ")
        sentences[name] = f"The {words}, such as {values}." if values else f"The {words}."
    return sentences


def _alignment(prompt: Prompt) -> list[dict[str, str | None]]:
    """Return which table or column each token of the question names."""
    reader = Reader(prompt)
    names: dict[int, tuple[str, str]] = {}
    for mention in reader.mentions:
        name = (str(mention.column), "col") if mention.column else (mention.table, "tbl")
        names |= dict.fromkeys(range(mention.start, mention.end), name)
    pairs = ((token, *names.get(index, (None, None))) for index, token in enumerate(reader.tokens))
    return [{"token": token.text, "schema": schema, "type": kind} for token, schema, kind in pairs]


ANSWERED: Mapping[str, Callable[[Prompt], object]] = {
    "sql": _sql,
    "better": _better,
    "tables": lambda prompt: list(dict.fromkeys(column.table for column in _named_columns(prompt))),
    "columns": lambda prompt: [str(column) for column in _named_columns(prompt)],
    "sql_keywords": _keywords,
    "conditions": _conditions,
    "descriptions": _descriptions,
    "alignment": _alignment,
}
"""Values of a JSON object by key."""
_TEXTS: Mapping[Heading, Callable[[Prompt], str]] = {
    Heading.QUERY: lambda prompt: _sql(prompt).removeprefix("SELECT").strip(),
    Heading.RESPONSE: lambda prompt: _sql(replace(prompt, selects=True)),
    Heading.REPLY: _reason,
}
"""Free text by the heading that it is written under."""


MAX_TRIES = 3
"""Queries that are run before one is submitted."""
TABLES_PER_CALL = 2
MAX_TABLES = 16
"""Tables whose columns are read."""
NOTHING = "SELECT 1"
"""What is run where the reader writes no query."""

_RESULT = re.compile(r"^### Result of (\w+)\n(.*?)(?=^### Result of |\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^(`(?:[^`]++|``)++`|\"(?:[^\"]++|\"\")++\"|[^\s(]+) ?\(", re.MULTILINE)
_PART = re.compile(r"^(Sample values|Foreign keys|Column descriptions):$", re.MULTILINE)


def act(request: Request) -> tuple[str, tuple[ToolCall, ...]]:
    """Return text and tool calls of the next turn; fenced actions are in the text."""
    calls = tuple(_next_calls(request.messages))
    if request.tools:
        return "", calls
    actions = []
    for call in calls:
        arguments = json.loads(call.arguments)
        actions.append(f"```{call.name}\n{arguments.get('sql', call.arguments)}\n```")
    return "\n".join(actions), ()


def _next_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield an agent's next tool calls: list the tables, read their columns, then try a SQL or submit it."""
    done = {call.name: call for call in _executed(messages)}
    last_message = messages[-1]
    last_text = (last_message.calls[-1].result or "") if last_message.calls else last_message.content
    must_submit = "call submit now" in last_text  # the agent's prompt says so at the last turn
    if Heading.SCHEMA in sections_of(messages) or must_submit or "columns" in done:
        yield _query(_prompt(messages), must_submit=must_submit)
    elif "tables" not in done:
        yield _call("tables")
    else:
        tables = [plain_name(name) for name in _TABLE.findall(done["tables"].result or "")][:MAX_TABLES]
        for start in range(0, len(tables), TABLES_PER_CALL):
            yield _call("columns", tables=tables[start : start + TABLES_PER_CALL])


def _query(prompt: Prompt, *, must_submit: bool) -> ToolCall:
    """Return the query to run next, or to submit."""
    tried = {attempt.sql: attempt for attempt in prompt.attempts}
    best = min(reversed(tried.values()), key=lambda attempt: attempt.surprise, default=None)
    sql = (not tried and prompt.current_sql) or Reader(prompt).query() or NOTHING
    if best and (must_submit or best.surprise == 0 or len(tried) >= MAX_TRIES or sql in tried):
        return _call("submit", sql=best.sql)
    return _call("submit" if must_submit else "run_sql", sql=sql)


def _prompt(messages: Sequence[Message]) -> Prompt:
    """Return the question with the database as the opening and the tools show it.

    The queries that were run are its attempts.
    """
    done = _executed(messages)
    described = [call.result or "" for call in done if call.name == "columns" and not call.error]
    # as the schema's sections of a prompt, which `read_prompt` reads
    schema = "\n\n".join("### Schema\n" + _PART.sub(r"### \1", result) for result in described)
    opening = [message for message in messages if message.role != "assistant"][:2]
    prompt = read_prompt((*opening, Message("user", schema)) if schema else opening)
    tried = (Attempt(_sql_of_call(call), call.result or "") for call in done if call.name == "run_sql")
    return replace(prompt, attempts=tuple(tried), selects=False)


def _executed(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the tool calls of a conversation with their results, native ones or fenced actions."""
    done = [call for message in messages for call in message.calls]
    for reply, results in pairwise(messages):
        if reply.role == "assistant" and not reply.calls and results.role == "user":
            pairs = zip(fenced(reply.content), _RESULT.findall(results.content), strict=False)
            done += [ToolCall(name, content, result.strip()) for (name, content), (_, result) in pairs]
    return done


def _sql_of_call(call: ToolCall) -> str:
    try:
        content = json.loads(call.arguments)
    except ValueError:
        return call.arguments.strip()
    return str(content.get("sql", "")) if isinstance(content, dict) else ""


def _call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))
