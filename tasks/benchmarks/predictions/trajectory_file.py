"""Files of trajectories: Crosscheck's own JSON lines (docs/agents.md), or OpenTelemetry's spans.

    {"question_id": 7, "turns": [{"text": "...", "tool_calls": [{"name": "run_sql", "arguments": {"sql": "SELECT 1"}}],
     "model": "m", "input_tokens": 812, "output_tokens": 40, "cost_usd": 0.0021, "seconds": 1.4}], "sql": "SELECT 1"}

In the place of `turns`, `messages` may hold the conversation in the protocol of OpenAI's chat completions: a turn is a
message of the assistant with the messages of the tools behind it. The format of a file follows from its content.

Spans are read as the OTLP exporters write them (`resourceSpans`) and as the Python SDK does (`ReadableSpan.to_json`).
A span of a model call (`gen_ai.operation.name` is chat, text_completion or generate_content) is a turn. Its tool calls
are those of `gen_ai.output.messages`, with the results of the spans whose operation is execute_tool; without messages,
which are written on request only, they are those spans alone. The conventions have no question: its id is the attribute
`question_id` of any span of the trace, else `gen_ai.conversation.id`. Traces of one id are one trajectory. Cost is not
in the conventions.
"""

import datetime
import json
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.backbone.endpoint.chat import usage_of
from tasks.benchmarks.predictions.formats import Format, PredictionEntry, PredictionFile, sql_or_none
from tasks.benchmarks.predictions.trajectory import (
    MAX_TOKENS,
    UNKNOWN_CALL,
    AgentTurn,
    Amount,
    Tokens,
    Trajectory,
    as_text,
    known_call,
    tool_call,
)
from tasks.benchmarks.rows import files_digest, parse_json
from tasks.core.errors import DataError, first_problem
from tasks.core.files import require_file
from tasks.core.outcome import Call, ToolCall, Usage

FORMATS: Mapping[Format, str] = {
    "trajectories": "JSON lines with question_id and turns, or messages (docs/agents.md)",
    "opentelemetry": "OpenTelemetry spans of the GenAI conventions as JSON, of an OTLP exporter or of the Python SDK",
}
_VALID = f"Formats: {'; '.join(FORMATS.values())}."
MAX_BYTES = 2**30
"""Size of a file from which on it is not read."""


@dataclass(frozen=True, slots=True)
class TrajectoryFile(PredictionFile):
    """A file of trajectories; its predictions are their answers, which are paired with questions as any are."""

    trajectories: tuple[Trajectory, ...] = field(default=(), repr=False)


_Object = tuple[str, dict[str, Any]]
"""An object of a file, and where it stands."""


def read_trajectories(path: Path) -> TrajectoryFile:
    """Read a file of trajectories, the turns of an agent by question; its first object tells the format."""
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise DataError(
                f"{path} has {size / 2**20:,.0f} MiB, and at most {MAX_BYTES // 2**20:,} are read. Score it in parts."
            )
        objects = _objects(path)
        if (first := next(objects, None)) is None:
            raise DataError(f"{path} holds no trajectory. {_VALID}")
        location, content = first
        file_format = _format(location, content)
        rows = chain([first], objects)
        if file_format == "opentelemetry":
            trajectories = tuple(read_spans(str(path), rows))
        else:
            lines = (read_line(location, content) for location, content in rows)
            trajectories = tuple(_without_replaced_failures(lines))
        answers = tuple(
            PredictionEntry(each.location, each.question_id, each.answer, each.database_id)
            for each in trajectories
        )
        return TrajectoryFile(path, file_format, files_digest([path]), answers, trajectories=trajectories)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _without_replaced_failures(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield trajectories without the failed ones whose question has a later trajectory."""
    by_id: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        earlier = by_id.get(trajectory.question_id, ())
        by_id[trajectory.question_id] = [*(other for other in earlier if not other.failure), trajectory]
    return chain.from_iterable(by_id.values())


def _format(location: str, content: dict[str, Any]) -> Format:
    if _is_span(content):
        return "opentelemetry"
    if "turns" in content or "messages" in content:
        return "trajectories"
    named = ", ".join(map(str, content)) or "nothing"
    raise DataError(f"{location}: the object has {named[:200]}, but neither turns nor messages. {_VALID}")


def _objects(path: Path) -> Iterator[_Object]:
    """Yield the objects of a file of JSON lines, one after the other, or those of a JSON document of several lines.

    The first line that is not blank tells: that of a document of several lines is not complete JSON.
    """
    require_file(path)
    with path.open("rb") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        first_number, first_line = next(lines, (1, b""))
        first_line = first_line.removeprefix(BOM_UTF8)
        text = first_line.strip()
        if not text:
            raise DataError(f"{path} is empty. {_VALID}")
        is_open_list = text.startswith(b"[") and not text.endswith(b"]")
        if is_open_list or text.endswith((b"{", b"[", b",", b":")):
            yield from _parsed(path, first_number, b"".join((first_line, *file)))
            return
        for number, line in chain([(first_number, first_line)], lines):
            yield from _parsed(path, number, line)


def _parsed(path: Path, number: int, content: bytes) -> Iterator[_Object]:
    """Yield the object of JSON text that begins at a line of a file, or those of a list."""
    try:
        value = parse_json(content.decode())
    except UnicodeDecodeError as error:
        line = number + content[: error.start].count(b"\n")
        raise DataError(f"{path}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        line = number + error.lineno - 1
        raise DataError(
            f"{path}, line {line}: not JSON ({error.msg} in column {error.colno}). {_VALID}"
        ) from None
    is_list = isinstance(value, list)
    for position, item in enumerate(value if is_list else [value]):
        where = f"{path}, line {number}"
        if is_list:
            where += f", item {position} (from 0)"
        if not isinstance(item, dict):
            raise DataError(f"{where}: must be an object, not {type(item).__name__}. {_VALID}")
        yield where, item


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


class TurnLine(_Line):
    """A turn."""

    text: str | None = None
    tool_calls: tuple[ToolCallLine, ...] = Field(default=(), strict=False)
    sql: str | None = None
    submitted: bool | None = None
    model: str | None = None
    input_tokens: Tokens = None
    cached_input_tokens: Tokens = None
    output_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    cost_usd: Amount = None
    seconds: Amount = None

    @property
    def call(self) -> Call:
        """What is known of its model call."""
        usage = Usage(self.input_tokens, self.cached_input_tokens, self.output_tokens, self.reasoning_tokens)
        return known_call(self.model or "", usage, self.seconds, self.cost_usd)


class _Function(BaseModel):
    name: str
    arguments: Any = None


class _MessageCall(BaseModel):
    function: _Function
    id: str | None = None


class MessageLine(BaseModel):
    """A message of the chat protocol; what else a framework writes in it is not read."""

    role: str
    content: Any = None
    tool_calls: list[_MessageCall] | None = None
    tool_call_id: str | None = None
    error: bool | str | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    cost_usd: Amount = None
    seconds: Amount = None

    @property
    def call(self) -> Call:
        """What is known of the call that gave the message."""
        return known_call(self.model or "", usage_of(self.usage), self.seconds, self.cost_usd)


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


def read_line(location: str, content: dict[str, Any]) -> Trajectory:
    """Read the object of one question; `location` is its file and line.

    Its turns are those of "turns", or else those of the chat messages in "messages".
    """
    try:
        line = TrajectoryLine.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{location}: {first_problem(error)}.") from None
    identity = str(line.question_id).strip()
    if not identity:
        raise DataError(f"{location}: question_id: it is empty.")
    turns = turns_of(line.messages or []) if line.turns is None else map(_turn, line.turns)
    return Trajectory(
        location,
        identity,
        tuple(turns),
        sql=sql_or_none(line.sql),
        names_answer="sql" in line.model_fields_set,  # also with null, which says that there is no answer
        database_id=line.database or None,
        failure=line.failure,
    )


def _turn(line: TurnLine) -> AgentTurn:
    calls = tuple(
        tool_call(call.name, call.arguments, call.result, error=_failed(call.error), sql=call.sql, id=call.id)
        for call in line.tool_calls
    )
    call = None if line.text is None and line.call == UNKNOWN_CALL else line.call
    return AgentTurn(line.text or "", calls, line.sql or None, line.submitted, call)


def _failed(error: bool | str | None) -> bool | None:
    """Return whether a tool call failed, of which `error` says it, or why; None where it is unknown."""
    return None if error is None else bool(error)


def turns_of(messages: list[MessageLine]) -> list[AgentTurn]:
    """Return the turns of a conversation in the chat protocol: one per message of the assistant.

    The result of a tool call is the next message of a tool that has the call's id. Messages are read from the last one,
    because some endpoints use an id again in a later turn.
    """
    turns: list[AgentTurn] = []
    results: dict[str | None, MessageLine] = {}
    for message in reversed(messages):
        if message.role == "tool":
            results[message.tool_call_id] = message
        elif message.role == "assistant":
            calls = tuple(_tool_call(call, results.pop(call.id, None)) for call in message.tool_calls or ())
            turns.append(AgentTurn(as_text(message.content) or "", calls, call=message.call))
    return turns[::-1]


def _tool_call(call: _MessageCall, message: MessageLine | None) -> ToolCall:
    result, error = (as_text(message.content), _failed(message.error)) if message else (None, None)
    return tool_call(call.function.name, call.function.arguments, result, error=error, id=call.id or "")


QUESTION = ("question_id", "gen_ai.conversation.id")
"""Attributes that name the question; the first that a trace has counts."""
_MODEL_CALLS = ("chat", "text_completion", "generate_content")
_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "cached_input": "gen_ai.usage.cache_read.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
}


@dataclass(frozen=True, slots=True)
class _Span:
    location: str
    trace: str
    start: float  # seconds since the epoch
    seconds: float
    attributes: Mapping[str, Any]
    failed: bool

    @property
    def operation(self) -> Any:
        return self.attributes.get("gen_ai.operation.name")

    def text(self, name: str) -> str:
        return as_text(self.attributes.get(name)) or ""


def _is_span(content: dict[str, Any]) -> bool:
    return "resourceSpans" in content or (
        isinstance(content.get("context"), dict) and "attributes" in content
    )


def read_spans(path: str, objects: Iterable[_Object]) -> list[Trajectory]:
    """Return a trajectory for each question of which the spans have a model call or a tool call."""
    by_trace: dict[str, list[_Span]] = defaultdict(list)
    for location, content in objects:
        for span in _spans(location, content):
            by_trace[span.trace].append(span)
    by_question: dict[str, list[_Span]] = defaultdict(list)
    for trace, spans in by_trace.items():
        if any(span.operation in _MODEL_CALLS or span.operation == "execute_tool" for span in spans):
            by_question[_question_id(trace, spans)] += spans
    if not by_question:
        raise DataError(
            f"{path}: no span has the attribute gen_ai.operation.name with {', '.join(_MODEL_CALLS)} or execute_tool."
        )
    trajectories = []
    for question_id, spans in by_question.items():
        turns = tuple(_turns_of_spans(sorted(spans, key=lambda span: span.start)))
        trajectories.append(Trajectory(location=spans[0].location, question_id=question_id, turns=turns))
    return trajectories


def _question_id(trace: str, spans: Sequence[_Span]) -> str:
    """Return the id of the question that the spans of a trace name."""
    names = (span.text(name).strip() for name in QUESTION for span in spans)
    identity = next(filter(None, names), "")
    if not identity:
        raise DataError(
            f"{spans[0].location}: the trace {trace} does not name its question. Set the attribute question_id on one "
            "of its spans, for example on the span around the agent."
        )
    return identity


def _turns_of_spans(spans: Sequence[_Span]) -> Iterator[AgentTurn]:
    """Yield the turns of a question from its spans, which are in order of their start: one per model call.

    The tool calls of a turn are those that the model's output requests. If it lists none, they are the tools that
    start from then until the next model call. Without any model call, each tool is a turn.
    """
    models = [span for span in spans if span.operation in _MODEL_CALLS]
    tools = [span for span in spans if span.operation == "execute_tool"]
    tools_by_call = {id: span for span in tools if (id := span.text("gen_ai.tool.call.id"))}
    # results of tool calls by the id of the call, from the input of later model calls
    results_by_call = {
        str(part.get("id")): as_text(part.get("response", part.get("result")))
        for span in models
        for part in _parts(span, "gen_ai.input.messages", "tool_call_response")
    }
    turn_ends = [*(span.start for span in models[1:]), float("inf")]
    # without a model call, only the infinite end is left
    for span, turn_end in zip(models, turn_ends, strict=False):
        requested = _parts(span, "gen_ai.output.messages", "tool_call")
        if requested:
            calls = tuple(_requested(part, tools_by_call, results_by_call) for part in requested)
        else:
            calls = tuple(_executed(tool) for tool in tools if span.start <= tool.start < turn_end)
        texts = (as_text(part.get("content")) for part in _parts(span, "gen_ai.output.messages", "text"))
        yield AgentTurn("\n".join(text for text in texts if text), calls, call=_model_call(span))
    if not models:
        yield from (AgentTurn(calls=(_executed(tool),)) for tool in tools)


def _model_call(span: _Span) -> Call:
    """Return the model, tokens and duration of a model call's span."""
    usage = {name: span.attributes.get(attribute) for name, attribute in _TOKENS.items()}
    for name, count in usage.items():
        is_number = isinstance(count, int) and not isinstance(count, bool)
        if count is not None and not (is_number and 0 <= count <= MAX_TOKENS):
            raise DataError(
                f"{span.location}: {_TOKENS[name]} must be a whole number up to {MAX_TOKENS:,}, not {count!r}."
            )
    model = span.text("gen_ai.response.model") or span.text("gen_ai.request.model")
    return known_call(model, Usage(**usage), span.seconds)


def _requested(
    part: Mapping[str, Any], by_id: Mapping[str, _Span], responses: Mapping[str, str | None]
) -> ToolCall:
    identity = str(part.get("id") or "")
    span = by_id.get(identity)
    result = (span.attributes.get("gen_ai.tool.call.result") if span else None) or responses.get(identity)
    error = span.failed if span else None
    return tool_call(str(part.get("name", "")), part.get("arguments"), result, error=error, id=identity)


def _executed(span: _Span) -> ToolCall:
    return tool_call(
        span.text("gen_ai.tool.name"),
        span.attributes.get("gen_ai.tool.call.arguments"),
        span.attributes.get("gen_ai.tool.call.result"),
        error=span.failed,
        id=span.text("gen_ai.tool.call.id"),
    )


def _parts(span: _Span, name: str, kind: str) -> list[Mapping[str, Any]]:
    """Return the parts of one kind, such as "tool_call", of the messages in an attribute: a list, or its JSON text."""
    value = span.attributes.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise DataError(f"{span.location}: the attribute {name} is not JSON.") from None
    messages = value if isinstance(value, list) else []
    lists = (message.get("parts") for message in messages if isinstance(message, dict))
    parts = (part for listed in lists if isinstance(listed, list) for part in listed)
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


def _spans(location: str, content: dict[str, Any]) -> Iterator[_Span]:
    """Yield the spans of an object: one as the Python SDK prints it, or all of an OTLP export ("resourceSpans").

    In an export, a span has the attributes of its resource, too.
    """
    try:
        if "resourceSpans" not in content:
            yield _span_of_python_sdk(location, content)
            return
        for resource in content["resourceSpans"]:
            shared = _attributes((resource.get("resource") or {}).get("attributes") or ())
            for scope in resource.get("scopeSpans") or ():
                for span in scope.get("spans") or ():
                    yield _span_of_otlp(location, span, shared)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{location}: a span of OpenTelemetry is malformed: {problem}.") from None


def _span_of_python_sdk(location: str, span: dict[str, Any]) -> _Span:
    """Read a span as OpenTelemetry's Python SDK writes it (`ReadableSpan.to_json`)."""
    start, end = (
        datetime.datetime.fromisoformat(span[name].replace("Z", "+00:00")).timestamp()
        for name in ("start_time", "end_time")
    )
    status = str((span.get("status") or {}).get("status_code", ""))
    attributes = dict(span["attributes"] or {})
    failed = status == "ERROR" or "error.type" in attributes
    return _Span(location, str(span["context"]["trace_id"]), start, end - start, attributes, failed)


def _span_of_otlp(location: str, span: dict[str, Any], shared: Mapping[str, Any]) -> _Span:
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    attributes = {**shared, **_attributes(span.get("attributes") or ())}
    failed = (span.get("status") or {}).get("code") in (2, "STATUS_CODE_ERROR") or "error.type" in attributes
    span_location = f"{location}, span {span.get('spanId', '')}"
    return _Span(span_location, str(span["traceId"]), start / 1e9, (end - start) / 1e9, attributes, failed)


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Any:
    """Return the value of an attribute of OTLP, whose key is its type."""
    ((kind, content),) = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [_value(item) for item in content.get("values") or ()]
    return _attributes(content.get("values") or ()) if kind == "kvlistValue" else content
