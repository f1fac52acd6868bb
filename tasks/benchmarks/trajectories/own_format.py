"""Crosscheck's own format: JSON lines with one object per question (docs/agents.md).

    {"question_id": 7, "turns": [{"text": "...", "tool_calls": [{"name": "run_sql", "arguments": {"sql": "SELECT 1"}}],
     "model": "m", "input_tokens": 812, "output_tokens": 40, "cost_usd": 0.0021, "seconds": 1.4}], "sql": "SELECT 1"}

In the place of `turns`, `messages` may hold the conversation in the protocol of OpenAI's chat completions: a turn is a
message of the assistant with the messages of the tools behind it.
"""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.benchmarks.predictions.formats import sql_or_none
from tasks.benchmarks.trajectories.imported import (
    Amount,
    ImportedTurn,
    ModelCall,
    Tokens,
    Trajectory,
    as_text,
    tool_call,
)
from tasks.core.errors import DataError, first_problem
from tasks.core.outcome import Usage
from tasks.core.trajectory import ToolCall


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ToolCallLine(_Line):
    """A tool call."""

    name: str
    arguments: Any = None
    result: Any = None
    error: bool | str | None = None  # whether it failed, or why; null: unknown
    sql: str | None = None
    id: str = ""


class _Cost(_Line):
    model: str = ""
    input_tokens: Tokens = None
    cached_input_tokens: Tokens = None
    output_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    cost_usd: Amount = None
    seconds: Amount = None

    @property
    def call(self) -> ModelCall:
        usage = Usage(self.input_tokens, self.cached_input_tokens, self.output_tokens, self.reasoning_tokens)
        return ModelCall(self.model, usage, self.cost_usd, self.seconds)


class TurnLine(_Cost):
    """A turn."""

    text: str | None = None
    tool_calls: tuple[ToolCallLine, ...] = Field(default=(), strict=False)
    sql: str | None = None
    submitted: bool | None = None


class _Function(BaseModel):
    name: str
    arguments: Any = None


class _MessageCall(BaseModel):
    function: _Function
    id: str | None = None


class _Details(BaseModel):
    cached_tokens: Tokens = None
    reasoning_tokens: Tokens = None


class _Usage(BaseModel):
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class MessageLine(BaseModel):
    """A message of the chat protocol; what else a framework writes in it is not read."""

    role: str
    content: Any = None
    tool_calls: list[_MessageCall] | None = None
    tool_call_id: str | None = None
    error: bool | str | None = None
    usage: _Usage | None = None
    model: str = ""
    cost_usd: Amount = None
    seconds: Amount = None

    @property
    def call(self) -> ModelCall:
        """What is known of the call that gave the message."""
        usage = self.usage or _Usage()
        sent, received = usage.prompt_tokens_details, usage.completion_tokens_details
        tokens = Usage(
            usage.prompt_tokens,
            sent.cached_tokens if sent else None,
            usage.completion_tokens,
            received.reasoning_tokens if received else None,
        )
        return ModelCall(self.model, tokens, self.cost_usd, self.seconds)


class TrajectoryLine(_Line):
    """A question."""

    question_id: int | str
    turns: tuple[TurnLine, ...] | None = Field(default=None, strict=False)
    messages: list[MessageLine] | None = None
    sql: str | None = None
    database: str | None = None
    failure: str = ""

    @model_validator(mode="after")
    def _one_conversation(self) -> Self:
        if (self.turns is None) == (self.messages is None):
            raise ValueError("write either turns or messages (with no turn, an empty list)")
        return self


def read(place: str, content: dict[str, Any]) -> Trajectory:
    """Read the object of one question; `place` is its file and line.

    Raises:
        DataError: a key is missing, unknown or of another type.
    """
    try:
        line = TrajectoryLine.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{place}: {first_problem(error).replace('Value error, ', '')}.") from None
    identity = str(line.question_id).strip()
    if not identity:
        raise DataError(f"{place}: question_id: it is empty.")
    turns = (
        [_turn(each) for each in line.turns or ()]
        if line.turns is not None
        else turns_of(line.messages or [])
    )
    return Trajectory(
        place,
        identity,
        tuple(turns),
        sql=sql_or_none(line.sql),
        names_answer="sql" in line.model_fields_set,
        database_id=line.database or None,
        failure=line.failure,
    )


def _turn(line: TurnLine) -> ImportedTurn:
    calls = tuple(
        tool_call(
            each.name,
            each.arguments,
            each.result,
            error=_failed(each.error),
            sql=each.sql,
            id=each.id,
        )
        for each in line.tool_calls
    )
    known = line.text is not None or line.call != ModelCall()
    return ImportedTurn(
        line.text or "", calls, line.sql or None, line.submitted, line.call if known else None
    )


def _failed(error: bool | str | None) -> bool | None:
    """Return whether a tool call failed, of which `error` says it, or why; None where it is unknown."""
    return None if error is None else bool(error)


def turns_of(messages: list[MessageLine]) -> list[ImportedTurn]:
    """Return the turns of a conversation in the chat protocol: one per message of the assistant.

    The result of a tool call is the next message of a tool with its id: some endpoints use an id again in a later turn.
    """
    turns: list[ImportedTurn] = []
    results: dict[str | None, MessageLine] = {}
    for each in reversed(messages):
        if each.role == "tool":
            results[each.tool_call_id] = each
        elif each.role == "assistant":
            calls = tuple(_tool_call(call, results.pop(call.id, None)) for call in each.tool_calls or ())
            turns.append(ImportedTurn(as_text(each.content) or "", calls, call=each.call))
    return turns[::-1]


def _tool_call(call: _MessageCall, message: MessageLine | None) -> ToolCall:
    result, error = (as_text(message.content), _failed(message.error)) if message else (None, None)
    return tool_call(call.function.name, call.function.arguments, result, error=error, id=call.id or "")
