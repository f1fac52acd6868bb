"""ATIF, the Agent Trajectory Interchange Format of Harbor (harbor-framework/harbor), versions 1.0 to 1.8.

A document is one trajectory; a step whose source is the agent is a turn. One without a model call (`llm_call_count` 0)
belongs to the turn before; as the first step it is a turn without a call. A step that stands for several model calls
counts as one. The id of the question is not a part of the format: it is `question_id` of the root's `extra`, else the
task's name in the result.json of Harbor's trial folder. ATIF does not say whether a tool call failed.
"""

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

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

SCHEMA = "ATIF-"
"""Begins the `schema_version` of a document."""


class _ToolCall(BaseModel):
    tool_call_id: str
    function_name: str
    arguments: Any = None


class _Result(BaseModel):
    source_call_id: str | None = None
    content: Any = None


class _Observation(BaseModel):
    results: list[_Result] = []


class _Metrics(BaseModel):
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    cached_tokens: Tokens = None
    cost_usd: Amount = None


class _Step(BaseModel):
    source: Literal["system", "user", "agent"]
    message: Any = None
    model_name: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None


class _Agent(BaseModel):
    model_name: str | None = None


class _Document(BaseModel):
    agent: _Agent = _Agent()
    steps: list[_Step]
    extra: dict[str, Any] | None = None


def read(place: str, content: dict[str, Any], task: str | None = None) -> Trajectory:
    """Read one document; `task` is the name of Harbor's task, None where it is unknown.

    Raises:
        DataError: it is not of the format, or nothing names its question.
    """
    try:
        document = _Document.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{place}: {first_problem(error)} (ATIF).") from None
    identity = (document.extra or {}).get("question_id", task)
    if not isinstance(identity, int | str) or not str(identity).strip():
        raise DataError(
            f"{place}: an ATIF document does not name its question. Write the question's id as question_id into the "
            "document's \"extra\", or give the folder of Harbor's job, whose trials name their tasks."
        )
    model = document.agent.model_name or ""
    turns: list[ImportedTurn] = []
    for step in document.steps:
        if step.source != "agent" or step.is_copied_context:
            continue
        turn = _turn(step, model)
        if step.llm_call_count == 0:  # a dispatch without a model call
            before = turns.pop() if turns else replace(turn, calls=(), call=None)
            turn = replace(before, calls=(*before.calls, *turn.calls))
        turns.append(turn)
    return Trajectory(place, str(identity).strip(), tuple(turns))


def _turn(step: _Step, model: str) -> ImportedTurn:
    results = step.observation.results if step.observation else []
    contents = {each.source_call_id: as_text(each.content) for each in results}
    calls = tuple(
        tool_call(each.function_name, each.arguments, contents.get(each.tool_call_id), id=each.tool_call_id)
        for each in step.tool_calls or ()
    )
    found = step.metrics or _Metrics()
    usage = Usage(found.prompt_tokens, found.cached_tokens, found.completion_tokens)
    call = ModelCall(step.model_name or model, usage, found.cost_usd)
    return ImportedTurn(as_text(step.message) or "", calls, call=call)
