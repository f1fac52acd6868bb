"""The offline model behind the interface of every backbone."""

import time
from collections.abc import Mapping
from typing import Any

from tasks.backbone.offline.answering import answer
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.records import Call, Usage

VERSION = 4
"""Raise it with every change that can alter a reply: it is part of every stage's cache key."""


class OfflineBackbone:
    """A rule-based model: the same request gets the same reply, in any process, without files or network.

    Only the messages and the keys of the reply's JSON schema are read; tokens and money are unknown.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Which model answers: changes with `VERSION` only."""
        return {"kind": "offline", "model": "offline", "version": VERSION}

    async def complete(self, request: Request) -> Reply:
        """Answer one request; it takes milliseconds and never waits."""
        started = time.perf_counter()
        text = answer(request)
        seconds = time.perf_counter() - started
        return Reply(
            text, Call(request_key(self.identity, request), "offline", Usage(), cached=False, seconds=seconds)
        )
