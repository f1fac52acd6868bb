"""Trajectories as a file has them, and the outcome of a question that follows from one."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from tasks.backbone.protocol import json_object
from tasks.backbone.replies.sql_text import read_sql
from tasks.benchmarks.predictions.formats import sql_or_none
from tasks.core.outcome import (
    TURN,
    Call,
    Candidate,
    Failure,
    Outcome,
    StageRecord,
    ToolCall,
    ToolError,
    Turn,
    Usage,
    turn_step,
)
from tasks.core.wording import storable

MAX_TURNS = 1_000
"""Turns of a question that are kept; the answer is that of all of them."""
MAX_CHARACTERS = 100_000
"""Length at which a text that is only shown, such as a tool's result, is cut."""
MAX_TOKENS = 10**12
"""Highest number of tokens, dollars and seconds of a turn; a higher one is an error of the file."""
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None
Amount = Annotated[float, Field(ge=0, le=MAX_TOKENS, allow_inf_nan=False)] | None
SQL_ARGUMENTS = ("sql", "sql_query", "query", "statement", "command", "code")
"""Names of the arguments of tools that hold SQL; of several, the first counts."""

_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*+(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_SUBMITTING_TOOL = re.compile(r"submit|final|finish|answer|terminate", re.IGNORECASE)


def known_call(model: str, usage: Usage, seconds: float | None, cost_usd: float | None = None) -> Call:
    """Return what a file says of a model call; its identity follows from the file and the question."""
    return Call("", model, usage, cached=False, seconds=seconds, cost_usd=cost_usd)


UNKNOWN_CALL = known_call("", Usage(), None)
"""A model call of which a file says nothing."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """A turn as a file has it."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    sql: str | None = None  # the answer after it, where the file names it
    submitted: bool | None = None  # None: it is if it calls a tool that submits
    call: Call | None = None  # its model call, as far as it is known; None where only its tool calls are


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The turns about one question."""

    location: str  # where it stands in its file
    question_id: str
    turns: tuple[AgentTurn, ...]
    sql: str | None = None  # the answer, where the file names it apart from the turns
    names_answer: bool = False  # whether it does, be it None
    database_id: str | None = None  # the database that the file names; None where it names none
    failure: str = ""  # why the agent gave no answer; "" where it gave one, or the file does not say

    @property
    def own_turns(self) -> tuple[Turn, ...]:
        """Its turns with the answer after each.

        The answer after a turn is the SQL that the file names for it, else the SQL that it submits (by a tool, or in a
        reply without tool calls). Else, until a submission has given an answer, it is the last SQL that the turn
        executed without a known error. Else it is that of the turn before.
        """
        turns: list[Turn] = []
        answer = None
        has_submitted = False  # in this turn or an earlier one
        for turn in self.turns:
            submitted_sql = _submitted(turn)
            submits = bool(submitted_sql) if turn.submitted is None else turn.submitted
            has_submitted = has_submitted or submits
            executed = [call.sql for call in turn.calls if call.sql and not call.error]
            if turn.sql or submitted_sql:
                answer = turn.sql or submitted_sql
            elif executed and not (has_submitted and answer):
                answer = executed[-1]
            turns.append(Turn(shortened(turn.text), turn.calls, answer, submits))
        return tuple(turns)

    @property
    def answer(self) -> str | None:
        """The final SQL."""
        if self.failure:
            return None
        if self.names_answer:
            return self.sql
        turns = self.own_turns
        return turns[-1].sql if turns else None


def outcome_of(trajectory: Trajectory, sha256: str) -> Outcome:
    """Return a trajectory as the outcome of its question: a stage and a candidate per turn.

    A file has no requests of model calls: `sha256`, the file's digest, distinguishes its calls from those of others.
    """
    turns = trajectory.own_turns[:MAX_TURNS]
    omitted = len(trajectory.turns) - len(turns)
    calls = [turn.call for turn in trajectory.turns[:MAX_TURNS]]
    records = tuple(
        _record(number, turn, call, f"{sha256} {trajectory.question_id} {number}")
        for number, (turn, call) in enumerate(zip(turns, calls, strict=True), 1)
    )
    reason = shortened(trajectory.failure)
    return Outcome(
        trajectory.question_id,
        trajectory.answer,
        candidates=tuple(Candidate(turn_step(number), turn.sql) for number, turn in enumerate(turns, 1)),
        stages=records,
        failure=Failure("extension_error", "", reason, retryable=False) if reason else None,
        notes=(f"{omitted:,} further turns are not kept",) if omitted else (),
    )


def _record(number: int, turn: Turn, call: Call | None, identity: str) -> StageRecord:
    """Return the record of a turn; the digest of `identity` is that of the call's request, which no file has."""
    request = hashlib.sha256(identity.encode()).hexdigest()
    return StageRecord(
        stage=TURN,
        label=TURN if number == 1 else f"{TURN} {number}",
        value=json.loads(json.dumps(asdict(turn))),  # as plain JSON: with lists for tuples
        restored=False,
        calls=(replace(call, request=request),) if call else (),
        seconds=call.seconds if call else None,
    )


def tool_call(
    name: str,
    arguments: Any,
    result: Any = None,
    *,
    error: bool | None = None,
    sql: str | None = None,
    id: str = "",
) -> ToolCall:
    """Return a tool call of a file.

    `arguments` are an object, or the text that the model wrote; `result` is a text or plain JSON; `error` is whether
    the call failed. `result` and `error` are None if unknown. Without `sql`, the SQL is taken from the arguments
    (`SQL_ARGUMENTS`).
    """
    output = as_text(result)
    known_error: ToolError = "failed" if error else ""
    return ToolCall(
        name=shortened(name),
        arguments=shortened(as_text(arguments) or ""),
        result=None if output is None else shortened(output),
        error=None if error is None else known_error,
        sql=sql_or_none(storable(sql)) if sql else sql_in(arguments),
        id=id,
    )


def sql_in(arguments: Any) -> str | None:
    """Return the SQL among the arguments of a tool call; None where there is none.

    >>> sql_in('{"query": "select 1"}'), sql_in({"query": "rivers of Peru"}), sql_in("no JSON")
    ('select 1', None, None)
    """
    if isinstance(arguments, str):
        arguments = json_object(arguments)
    if not isinstance(arguments, dict):
        return None
    by_name = {str(name).lower(): value for name, value in arguments.items()}
    values = (by_name.get(name) for name in SQL_ARGUMENTS)
    texts = (value for value in values if isinstance(value, str))
    return next((sql_or_none(storable(text)) for text in texts if _QUERY.match(text)), None)


def as_text(value: Any) -> str | None:
    """Return a value as text: a text as it is, parts of a message joined, anything else as JSON; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) and "text" in part for part in value):
        return "\n".join(str(part["text"]) for part in value)
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """Return a text that every store can hold, cut where it is too long to be read."""
    kept = storable(text[:MAX_CHARACTERS])
    left = len(text) - len(kept)
    return f"{kept}\n… {left:,} more characters" if left > 0 else kept


def _submitted(turn: AgentTurn) -> str | None:
    """Return the SQL that a turn submits; None where it submits none.

    A turn without tool calls submits the SQL of its text, in a Markdown fence or alone; another turn that of the last
    call of a tool with a name such as "submit", among the calls with SQL that are not known to have failed.
    """
    if not turn.calls:
        return read_sql(turn.text) if "```" in turn.text or _QUERY.match(turn.text) else None
    calls = (call for call in reversed(turn.calls) if call.sql and not call.error)
    return next((call.sql for call in calls if _SUBMITTING_TOOL.search(call.name)), None)
