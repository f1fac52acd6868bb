"""Results of Spider-Agent-TC (xlang-ai/Spider2, methods/spider-agent-tc): a file per question, with its rollouts.

A message of the assistant is a turn, and the messages of tools behind it are the results of its calls. The answer is
the SQL of `terminate`; a conversation that did not call it has none. Of several rollouts, the first that ended so
counts (the released converter to submissions draws one at random). Tokens, money and times are not in the files.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from tasks.benchmarks.trajectories.imported import ImportedTurn, ModelCall, Trajectory, as_text, tool_call
from tasks.core.errors import DataError, first_problem
from tasks.core.trajectory import ToolCall

TERMINATE = "terminate"
_ERRORS = (
    "SQL Error:", "Database error:", "Execution timed out", "Unexpected error:", "Error", "Command execution failed",
    "Command timed out",
)  # fmt: skip
"""Begin the results of tool calls that failed, behind a line that names the tool."""


class _Call(BaseModel):
    name: str
    arguments: Any = None


class _Message(BaseModel):
    role: str
    content: Any = None
    tool_calls: list[_Call] | None = None


class _Rollout(BaseModel):
    instance_id: str | int
    rollout_idx: int = 0
    conversation: list[_Message] = []
    terminated: bool = False
    error: str | None = None


def is_rollout(content: dict[str, Any]) -> bool:
    """Return whether an object is a rollout."""
    return "instance_id" in content and bool(content.keys() & {"conversation", "rollout_idx"})


def read(objects: Iterable[tuple[str, dict[str, Any]]]) -> list[Trajectory]:
    """Read rollouts, each with its place, and return one trajectory per question.

    Raises:
        DataError: one is not of the format.
    """
    chosen: dict[str, tuple[tuple[bool, int], Trajectory]] = {}
    for place, content in objects:
        try:
            rollout = _Rollout.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{place}: {first_problem(error)} (Spider-Agent-TC).") from None
        question, order = str(rollout.instance_id).strip(), (not rollout.terminated, rollout.rollout_idx)
        if question not in chosen or order < chosen[question][0]:
            chosen[question] = (order, _trajectory(place, question, rollout))
    return [trajectory for _, trajectory in chosen.values()]


def _trajectory(place: str, question: str, rollout: _Rollout) -> Trajectory:
    turns: list[ImportedTurn] = []
    results: list[str | None] = []
    for message in reversed(rollout.conversation):  # a turn's results stand behind it
        if message.role == "tool":
            results.insert(0, as_text(message.content))
        elif message.role == "assistant":
            requested = message.tool_calls or []
            missing = [None] * len(requested)  # the last calls may have no result
            calls = tuple(map(_call, requested, [*results, *missing]))
            turns.insert(0, ImportedTurn(as_text(message.content) or "", calls, call=ModelCall()))
            results = []
    ended = turns[-1].calls[-1] if rollout.terminated and turns and turns[-1].calls else None
    return Trajectory(
        place,
        question,
        tuple(turns),
        sql=ended.sql if ended and ended.name == TERMINATE else None,
        names_answer=True,
        failure=rollout.error or "",
    )


def _call(call: _Call, result: str | None) -> ToolCall:
    answer = call.arguments.get("answer") if isinstance(call.arguments, dict) else None
    sql = answer if call.name == TERMINATE and isinstance(answer, str) else None
    output = None if result is None else result.partition("]:\n")[2] or result
    error = False if sql else None if output is None else output.startswith(_ERRORS)
    return tool_call(call.name, call.arguments, result, error=error, sql=sql)
