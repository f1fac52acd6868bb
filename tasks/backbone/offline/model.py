"""The offline model behind the interface of every backbone: a request in, the text of a reply out."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tasks.backbone.offline.agent import act
from tasks.backbone.offline.prompt.reading import Prompt, read_prompt
from tasks.backbone.offline.prompt.sections import Task, task_of
from tasks.backbone.offline.replies import (
    align,
    compare,
    conditions_of,
    correct,
    correct_by_feedback,
    describe,
    keywords_of,
    link_of,
    reason,
    select,
)
from tasks.backbone.offline.writing import write_sql
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.core.outcome import Call, Usage

VERSION = 6
"""Raise it with every change that can alter a reply: it is part of every stage's cache key."""
NOTHING = Usage(input=0, cached_input=0, output=0, reasoning=0)
"""Tokens of every call: the rules have none."""

_QUERIES: Mapping[Task, Callable[[Prompt], str]] = {
    Task.QUERY: write_sql,
    Task.SELECTION: select,
    Task.CORRECTION: correct,
    Task.FEEDBACK: correct_by_feedback,
    Task.SKELETON: lambda prompt: "SELECT a FROM b" if prompt.question else "",
}
_TEXTS: Mapping[Task, Callable[[Prompt], str]] = {
    Task.CONTINUATION: lambda prompt: write_sql(prompt).removeprefix("SELECT").strip(),
    Task.ELIMINATION: select,
    Task.REFLECTION: reason,
}


def _keywords(prompt: Prompt) -> dict[str, list[str]]:
    return {"sql_keywords": keywords_of(prompt)}


def _conditions(prompt: Prompt) -> dict[str, list[str]]:
    return {"conditions": conditions_of(prompt.question)}


_OBJECTS: Mapping[Task, Callable[[Prompt], Mapping[str, object]]] = {
    Task.LINK: link_of,
    Task.KEYWORDS: _keywords,
    Task.CONDITIONS: _conditions,
    Task.AUGMENTATION: lambda prompt: link_of(prompt) | _keywords(prompt) | _conditions(prompt),
    Task.DESCRIPTIONS: lambda prompt: {"descriptions": describe(prompt)},
    Task.ALIGNMENT: lambda prompt: {"alignment": align(prompt)},
    Task.COMPARISON: lambda prompt: {"better": compare(prompt)},
}


class OfflineBackbone:
    """A rule-based model: the same request gets the same reply, in any process, without files or network.

    Only the messages and the keys of the reply's JSON schema are read. It has no tokens and costs nothing.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Which model answers: changes with `VERSION` only."""
        return {"kind": "offline", "model": "offline", "version": VERSION}

    async def complete(self, request: Request) -> Reply:
        """Answer one request; it takes milliseconds and never waits."""
        started = time.perf_counter()
        text, calls = act(request) if task_of(request) == Task.TURN else (answer(request), ())
        key, seconds = request_key(self.identity, request), time.perf_counter() - started
        call = Call(key, "offline", NOTHING, cached=False, seconds=seconds, cost_usd=0.0)
        return Reply(text, call, calls=calls)


def answer(request: Request) -> str:
    """Return the reply to a request: a JSON object as text, or plain text where that is asked for.

    A prompt without a schema or a question gets an empty answer of the kind asked for, never an exception.
    """
    task, prompt = task_of(request), read_prompt(request.messages)
    if task in _TEXTS:
        return _TEXTS[task](prompt)
    content = _OBJECTS[task](prompt) if task in _OBJECTS else {"sql": _QUERIES[task](prompt)}
    return json.dumps(content, ensure_ascii=False)
