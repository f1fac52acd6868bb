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
from tasks.backbone.protocol import Message, Reply, Request, json_object, request_key
from tasks.backbone.replies.json_text import fenced
from tasks.core.outcome import Call, ToolCall, Usage
from tasks.core.records import ColumnName

VERSION = 9
"""Raise it with every change that can alter a reply: it is part of every stage's cache key."""
NO_TOKENS = Usage(input=0, cached_input=0, output=0, reasoning=0)
"""Usage of every call."""

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
        """Answer one request: as an agent's turn if it has tools, or if its prompt describes actions."""
        started = time.perf_counter()
        is_agent = bool(request.tools) or Heading.ACTIONS in sections_of(request.messages)
        text, tool_calls = act(request) if is_agent else (answer(request), ())
        seconds = time.perf_counter() - started
        key = request_key(self.identity, request)
        call = Call(key, model="offline", usage=NO_TOKENS, cached=False, seconds=seconds, cost_usd=0.0)
        return Reply(text, call, calls=tool_calls)


def answer(request: Request) -> str:
    """Return the reply: a JSON object with the keys that the request names, else the text that a heading asks for.

    If neither is known here, it is a JSON object with the key "sql". A prompt without a schema or a question gets an
    empty reply, never an exception.
    """
    sections = sections_of(request.messages)
    prompt = read_prompt(request.messages)
    keys = [key for key in keys_of(request, sections) if key in JSON_VALUES]
    write_text = next((write for heading, write in FREE_TEXTS.items() if heading in sections), None)
    if write_text and not keys:
        return write_text(prompt)
    reply = {key: JSON_VALUES[key](prompt) for key in keys or ["sql"]}
    return json.dumps(reply, ensure_ascii=False)


def _sql(prompt: Prompt) -> str:
    """Return the query that a prompt asks for.

    If one of several attempts is to be selected, it is the one with the least surprising result, the last of equals.
    """
    some_ran = not all(attempt.failed for attempt in prompt.attempts)
    if prompt.selects and some_ran:
        return min(reversed(prompt.attempts), key=lambda attempt: attempt.surprise).sql.strip()
    if prompt.feedback and prompt.current_sql and not prompt.attempts:
        # The feedback is no database error, which would be an attempt: a new query would be the same as this one.
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
    """Return the columns that the question needs, in the order of the schema; [] if the reader writes no query."""
    reader = Reader(prompt)
    if not reader.query():
        return []
    mentioned = [mention.column for mention in reader.mentions if mention.column]
    tables = {*reader.query_tables, *(mention.table for mention in reader.mentions)}
    key_columns = [column for join in prompt.schema.joins for column in (join.child, join.parent)]
    keys = [column for column in key_columns if column.table in tables]
    needed = {*reader.query_columns, *prompt.linked, *mentioned, *keys}
    return [column for column in prompt.schema.columns if column in needed]


def _keywords(prompt: Prompt) -> list[str]:
    sql = re.sub(r"'(?:[^']++|'')*+'|`(?:[^`]++|``)*+`", "", Reader(prompt).query())
    return [keyword for keyword in _KEYWORDS if keyword in sql]


def _conditions(prompt: Prompt) -> list[str]:
    """Return the phrases of several words behind the first phrase of the question."""
    phrases = [phrase.strip() for phrase in _CLAUSE.split(prompt.question)]
    return [phrase for phrase in dict.fromkeys(phrases[1:]) if " " in phrase]


def _descriptions(prompt: Prompt) -> dict[str, str]:
    """Return a sentence by column name, for the columns that the prompt names for this, else for all of them."""
    samples = {column.column: texts for column, texts in prompt.schema.samples.items()}
    sentences = {}
    for name in prompt.described or samples:
        first_samples = dict.fromkeys(samples.get(name, [])[:3])  # up to three, equal ones once
        values = ", ".join(text[:40] for text in first_samples)
        words = name.replace("_", " ")
        sentences[name] = f"The {words}, such as {values}." if values else f"The {words}."
    return sentences


def _alignment(prompt: Prompt) -> list[dict[str, str | None]]:
    """Return which table or column each token of the question names, None for neither, as DAC's prompt asks."""
    reader = Reader(prompt)
    items: list[dict[str, str | None]]
    items = [{"token": token.text, "schema": None, "type": None} for token in reader.tokens]
    for mention in reader.mentions:
        for item in items[mention.start : mention.end]:
            item["schema"] = str(mention.column) if mention.column else mention.table
            item["type"] = "col" if mention.column else "tbl"
    return items


JSON_VALUES: Mapping[str, Callable[[Prompt], object]] = {
    "sql": _sql,
    "better": _better,
    "tables": lambda prompt: list(dict.fromkeys(column.table for column in _named_columns(prompt))),
    "columns": lambda prompt: [str(column) for column in _named_columns(prompt)],
    "sql_keywords": _keywords,
    "conditions": _conditions,
    "descriptions": _descriptions,
    "alignment": _alignment,
}
"""What writes the value of each key of a JSON object."""
FREE_TEXTS: Mapping[Heading, Callable[[Prompt], str]] = {
    Heading.QUERY: lambda prompt: _sql(prompt).removeprefix("SELECT").strip(),
    Heading.RESPONSE: lambda prompt: _sql(replace(prompt, selects=True)),
    Heading.REPLY: _reason,
}
"""What writes free text, by the heading in the prompt that asks for it."""

MAX_TRIES = 3
"""Queries that are run before one is submitted."""
TABLES_PER_CALL = 2
MAX_TABLES = 16
"""Tables whose columns are read."""
NO_QUERY = "SELECT 1"
"""What is run where the reader writes no query."""

_RESULT = re.compile(r"^### Result of (\w+)\n(.*?)(?=^### Result of |\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^(`(?:[^`]++|``)++`|\"(?:[^\"]++|\"\")++\"|[^\s(]+) ?\(", re.MULTILINE)
_PART = re.compile(r"^(Sample values|Foreign keys|Column descriptions):$", re.MULTILINE)


def act(request: Request) -> tuple[str, tuple[ToolCall, ...]]:
    """Return text and tool calls of an agent's next turn; without tools in the request, the text has fenced actions."""
    calls = tuple(_next_calls(request.messages))
    if request.tools:
        return "", calls
    actions = []
    for call in calls:
        arguments = json.loads(call.arguments)
        content = arguments.get("sql", call.arguments)  # a query is written bare, other arguments as JSON
        actions.append(f"```{call.name}\n{content}\n```")
    return "\n".join(actions), ()


def _next_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield an agent's next tool calls: list the tables, read their columns, then try a SQL or submit it."""
    executed = {call.name: call for call in _executed_calls(messages)}  # the last call of each tool
    last_message = messages[-1]
    last_text = (last_message.calls[-1].result or "") if last_message.calls else last_message.content
    must_submit = "call submit now" in last_text  # the agent's prompt says so at the last turn
    knows_schema = Heading.SCHEMA in sections_of(messages) or "columns" in executed
    if knows_schema or must_submit:
        yield _run_or_submit(_prompt_of_agent(messages), must_submit=must_submit)
    elif "tables" not in executed:
        yield _tool_call("tables")
    else:
        listing = executed["tables"].result or ""
        tables = [plain_name(name) for name in _TABLE.findall(listing)][:MAX_TABLES]
        for start in range(0, len(tables), TABLES_PER_CALL):
            yield _tool_call("columns", tables=tables[start : start + TABLES_PER_CALL])


def _run_or_submit(prompt: Prompt, *, must_submit: bool) -> ToolCall:
    """Return the query to run next, or to submit."""
    tried = {attempt.sql: attempt for attempt in prompt.attempts}
    best = min(reversed(tried.values()), key=lambda attempt: attempt.surprise, default=None)
    sql = (not tried and prompt.current_sql) or Reader(prompt).query() or NO_QUERY
    if best and (must_submit or best.surprise == 0 or len(tried) >= MAX_TRIES or sql in tried):
        return _tool_call("submit", sql=best.sql)
    return _tool_call("submit" if must_submit else "run_sql", sql=sql)


def _prompt_of_agent(messages: Sequence[Message]) -> Prompt:
    """Return an agent's conversation as one prompt: the question, the schema so far, and the queries that were run."""
    executed = _executed_calls(messages)
    described = [call.result or "" for call in executed if call.name == "columns" and not call.error]
    # written as the schema sections of a prompt, which `read_prompt` reads
    schema = "\n\n".join("### Schema\n" + _PART.sub(r"### \1", result) for result in described)
    # the instructions and the question
    opening = [message for message in messages if message.role != "assistant"][:2]
    prompt = read_prompt((*opening, Message("user", schema)) if schema else opening)
    queries = [call for call in executed if call.name == "run_sql"]
    attempts = tuple(Attempt(_sql_of_call(call), call.result or "") for call in queries)
    return replace(prompt, attempts=attempts, selects=False)


def _executed_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the tool calls of a conversation with their results, native ones or fenced actions."""
    done = [call for message in messages for call in message.calls]
    for reply, results in pairwise(messages):
        if reply.role == "assistant" and not reply.calls and results.role == "user":
            pairs = zip(fenced(reply.content), _RESULT.findall(results.content), strict=False)
            done += [ToolCall(name, content, result.strip()) for (name, content), (_, result) in pairs]
    return done


def _sql_of_call(call: ToolCall) -> str:
    content = json_object(call.arguments)
    return call.arguments.strip() if content is None else str(content.get("sql", ""))


def _tool_call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))
