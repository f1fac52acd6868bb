"""Results of LiveSQLBench-Agent (bird-bench/livesqlbench).

A file holds an object with `results`, one per question, and in each the events of Google's ADK: an event of the model
is a turn. Neither tokens nor money nor the time of a turn are in it. A file without events has the tool calls alone.
"""

import json
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from tasks.benchmarks.trajectories.imported import ImportedTurn, ModelCall, Trajectory, as_text, tool_call
from tasks.core.errors import DataError, first_problem

_NO_REPLIES = frozenset(
    {
        "Task completed.",
        "No steps remaining. Task ended.",
        "Maximum interaction turns reached. Task ended.",
    }
)
"""Texts with which the agent's program ends a session in the place of the model."""
_CUT = "...<truncated>"
"""Ends a result that the agent's program has cut."""
_ERRORS = ("SQL Error:", "Error:", "Error calling", "[exec_err_flg]")
"""Begin the results of tool calls that failed."""


class _Part(BaseModel):
    type: str = ""
    text: str = ""
    name: str = ""
    id: str | None = None
    args: Any = None
    response: Any = None


class _Content(BaseModel):
    role: str | None = None
    parts: list[_Part] = []


class _Event(BaseModel):
    content: _Content | None = None


class _Tool(BaseModel):
    tool: str
    args: Any = None
    result: Any = None


class _Result(BaseModel):
    instance_id: str | int | None = None
    task_id: str | int | None = None
    database: str | None = None
    tool_trajectory: list[_Tool] = []
    adk_events: list[_Event] = Field(default=[])


def is_result(content: dict[str, Any]) -> bool:
    """Return whether an object is a result, or holds results."""
    return "adk_events" in content or "tool_trajectory" in content or isinstance(content.get("results"), list)


def results(place: str, content: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the results of an object, each with its place.

    Raises:
        DataError: its `results` are no list.
    """
    if "results" not in content:
        return [(place, content)]
    if not isinstance(content["results"], list):
        raise DataError(f"{place}: results must be a list (LiveSQLBench-Agent).")
    return [(f"{place}, results[{number}]", each) for number, each in enumerate(content["results"])]


def read(place: str, content: Any) -> Trajectory:
    """Read the result of one question.

    Raises:
        DataError: it is not of the format.
    """
    try:
        result = _Result.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{place}: {first_problem(error)} (LiveSQLBench-Agent).") from None
    identity = result.instance_id if result.instance_id is not None else result.task_id
    if identity is None:
        raise DataError(f"{place}: the result has no instance_id.")
    turns = _turns(result.adk_events) if result.adk_events else _tools(result.tool_trajectory)
    return Trajectory(place, str(identity).strip(), tuple(turns), database_id=result.database or None)


def _turns(events: list[_Event]) -> list[ImportedTurn]:
    parts = [(each.content.role, each.content.parts) for each in events if each.content]
    responses = _Responses([part for _, found in parts for part in found if part.type == "function_response"])
    turns = []
    for role, found in parts:
        text = "\n".join(part.text for part in found if part.type == "text")
        calls = tuple(
            _call(part.name, part.args, responses.of(part), part.id or "")
            for part in found
            if part.type == "function_call"
        )
        if role == "model" and (calls or text not in _NO_REPLIES):
            turns.append(ImportedTurn(text, calls, call=ModelCall()))
    return turns


class _Responses:
    """Results of tool calls. Those without an id belong to the calls without one, by tool in their order."""

    def __init__(self, responses: list[_Part]) -> None:
        self._by_id = {part.id: part for part in responses if part.id}
        self._without_id = [part for part in responses if not part.id]

    def of(self, call: _Part) -> str | None:
        """Return the result of a call; of calls without an id, each is taken once."""
        if call.id:
            found = self._by_id.get(call.id)
        elif found := next((part for part in self._without_id if part.name == call.name), None):
            self._without_id.remove(found)
        return _result_of(found.response) if found else None


def _tools(tools: list[_Tool]) -> list[ImportedTurn]:
    return [ImportedTurn(calls=(_call(each.tool, each.args, as_text(each.result)),)) for each in tools]


def _call(name: str, arguments: Any, result: str | None, id: str = "") -> Any:
    error = None if result is None else result.startswith(_ERRORS)
    return tool_call(name, arguments, result, error=error, id=id)


def _result_of(response: Any) -> str | None:
    """Return a tool's result, which stands in an object; of one that was cut, its beginning."""
    if not isinstance(response, str):
        return as_text(response)
    for text in (response, response.removesuffix(_CUT).rstrip("\\") + '…"}'):
        with suppress(ValueError, RecursionError):
            content = json.loads(text)
            return as_text(content.get("result", content) if isinstance(content, dict) else content)
    return response
