"""The conversation of an agent with its tools about one question."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from tasks.backbone.protocol import Message
from tasks.core.trajectory import ToolCall, Turn
from tasks.stages.shown_results import EMPTY


@dataclass(frozen=True)
class Conversation:
    """Messages that open a conversation, and the turns since.

    In the cache key of a turn it stands for its digest, which is made of the digest before the last turn and of that
    turn. So a key costs the same in every turn, and what is stored for a turn is that turn alone.
    """

    opening: tuple[Message, ...]
    turns: tuple[Turn, ...]
    digest: str  # sha256 of everything so far
    sql: str | None = (
        None  # the answer while no turn has any, such as a preliminary SQL that the opening shows
    )

    @classmethod
    def opened(cls, opening: Sequence[Message], sql: str | None = None) -> "Conversation":
        """Return a conversation without turns."""
        written = [[message.role, message.content] for message in opening]
        return cls(tuple(opening), (), _sha256([written, sql]), sql)

    def then(self, turn: Turn) -> "Conversation":
        """Return the conversation with a further turn."""
        return replace(self, turns=(*self.turns, turn), digest=_sha256([self.digest, asdict(turn)]))

    @property
    def identity(self) -> Mapping[str, Any]:
        """The digest."""
        return {"digest": self.digest}

    @property
    def answer(self) -> str | None:
        """The answer if no further turn follows."""
        return self.turns[-1].sql if self.turns else self.sql

    @property
    def submitted(self) -> bool:
        """Whether the model has submitted its answer."""
        return bool(self.turns) and self.turns[-1].submitted

    @property
    def calls(self) -> int:
        """How many tool calls were executed."""
        return sum(call.error != "refused" for turn in self.turns for call in turn.calls)

    def best_sql(self, calls: Sequence[ToolCall]) -> str | None:
        """Return the best query so far and of further calls: the last with rows, else the last that ran, else the last.

        A plan (EXPLAIN) is no answer.
        """
        executed = [
            call
            for call in chain(*(turn.calls for turn in self.turns), calls)
            if call.sql and call.error != "refused" and not is_plan(call.sql)
        ]
        best = max(enumerate(executed), key=lambda each: (_rank(each[1]), each[0]), default=None)
        return best[1].sql if best else self.sql


_BEFORE = re.compile(r"(?:[\s(]|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""Blanks, parentheses and comments before a SQL."""


def is_plan(sql: str) -> bool:
    """Return whether a SQL asks for the plan of a query and not for its result.

    >>> is_plan("/* why */ explain SELECT 1"), is_plan("SELECT 'EXPLAIN'")
    (True, False)
    """
    begun = _BEFORE.match(sql)
    return sql[begun.end() if begun else 0 :][: len("EXPLAIN")].upper() == "EXPLAIN"


def _rank(call: ToolCall) -> int:
    return 0 if call.error else 1 if (call.result or "").startswith(EMPTY) else 2


def _sha256(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
