"""Spans of OpenTelemetry's semantic conventions for generative AI, from version 1.37 on, as JSON.

Spans are read as the OTLP exporters write them (`resourceSpans`) and as the Python SDK does (`ReadableSpan.to_json`).
A span of a model call (`gen_ai.operation.name` is chat, text_completion or generate_content) is a turn. Its tool calls
are those of `gen_ai.output.messages`, with the results of the spans whose operation is execute_tool; without messages,
which are written on request only, they are those spans alone. The conventions have no question: its id is the attribute
`question_id` of any span of the trace, else `gen_ai.conversation.id`. Traces of one id are one trajectory. Cost is not
in the conventions.
"""

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tasks.benchmarks.predictions.trajectory import (
    MAX_TOKENS,
    AgentTurn,
    Trajectory,
    as_text,
    known_call,
    tool_call,
)
from tasks.core.errors import DataError
from tasks.core.outcome import Call, ToolCall, Usage

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
    place: str
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


def is_span(content: dict[str, Any]) -> bool:
    """Return whether an object holds spans."""
    return "resourceSpans" in content or (
        isinstance(content.get("context"), dict) and "attributes" in content
    )


def read(path: str, objects: Iterable[tuple[str, dict[str, Any]]]) -> list[Trajectory]:
    """Read the trajectories of spans."""
    by_trace: dict[str, list[_Span]] = defaultdict(list)
    for place, content in objects:
        for span in _spans(place, content):
            by_trace[span.trace].append(span)
    by_question: dict[str, list[_Span]] = defaultdict(list)
    for trace, spans in by_trace.items():
        if any(span.operation in _MODEL_CALLS or span.operation == "execute_tool" for span in spans):
            by_question[_question(trace, spans)] += spans
    if not by_question:
        raise DataError(
            f"{path}: no span has the attribute gen_ai.operation.name with {', '.join(_MODEL_CALLS)} or execute_tool."
        )
    return [
        Trajectory(spans[0].place, question, tuple(_turns(sorted(spans, key=lambda span: span.start))))
        for question, spans in by_question.items()
    ]


def _question(trace: str, spans: Sequence[_Span]) -> str:
    names = (span.text(name).strip() for name in QUESTION for span in spans)
    identity = next(filter(None, names), "")
    if not identity:
        raise DataError(
            f"{spans[0].place}: the trace {trace} does not name its question. Set the attribute question_id on one of "
            "its spans, for example on the span around the agent."
        )
    return identity


def _turns(spans: Sequence[_Span]) -> Iterator[AgentTurn]:
    models = [span for span in spans if span.operation in _MODEL_CALLS]
    tools = [span for span in spans if span.operation == "execute_tool"]
    by_id = {span.text("gen_ai.tool.call.id"): span for span in tools if span.text("gen_ai.tool.call.id")}
    responses = {
        str(part.get("id")): as_text(part.get("response", part.get("result")))
        for span in models
        for part in _parts(span, "gen_ai.input.messages", "tool_call_response")
    }
    for span, following in zip_longest(models, models[1:]):
        end = following.start if following else float("inf")
        requested = _parts(span, "gen_ai.output.messages", "tool_call")
        if requested:
            calls = tuple(_requested(part, by_id, responses) for part in requested)
        else:
            calls = tuple(_executed(tool) for tool in tools if span.start <= tool.start < end)
        texts = (as_text(part.get("content")) for part in _parts(span, "gen_ai.output.messages", "text"))
        yield AgentTurn("\n".join(filter(None, texts)), calls, call=_model_call(span))
    if not models:
        yield from (AgentTurn(calls=(_executed(tool),)) for tool in tools)


def _model_call(span: _Span) -> Call:
    usage = {name: span.attributes.get(attribute) for name, attribute in _TOKENS.items()}
    for name, count in usage.items():
        if count is not None and not (type(count) is int and 0 <= count <= MAX_TOKENS):
            raise DataError(
                f"{span.place}: {_TOKENS[name]} must be a whole number up to {MAX_TOKENS:,}, not {count!r}."
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
    """Return the parts of a kind of messages, which are an attribute's value, or JSON text in it."""
    value = span.attributes.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise DataError(f"{span.place}: the attribute {name} is not JSON.") from None
    messages = value if isinstance(value, list) else []
    lists = (message.get("parts") for message in messages if isinstance(message, dict))
    parts = (part for listed in lists if isinstance(listed, list) for part in listed)
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


def _spans(place: str, content: dict[str, Any]) -> Iterator[_Span]:
    try:
        if "resourceSpans" not in content:
            yield _of_sdk(place, content)
            return
        for resource in content["resourceSpans"]:
            shared = _attributes((resource.get("resource") or {}).get("attributes") or ())
            for scope in resource.get("scopeSpans") or ():
                for span in scope.get("spans") or ():
                    yield _of_otlp(place, span, shared)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{place}: a span of OpenTelemetry is malformed: {what}.") from None


def _of_sdk(place: str, span: dict[str, Any]) -> _Span:
    start, end = (
        datetime.datetime.fromisoformat(span[name].replace("Z", "+00:00")).timestamp()
        for name in ("start_time", "end_time")
    )
    status = str((span.get("status") or {}).get("status_code", ""))
    attributes = dict(span["attributes"] or {})
    failed = status == "ERROR" or "error.type" in attributes
    return _Span(place, str(span["context"]["trace_id"]), start, end - start, attributes, failed)


def _of_otlp(place: str, span: dict[str, Any], shared: Mapping[str, Any]) -> _Span:
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    attributes = {**shared, **_attributes(span.get("attributes") or ())}
    failed = (span.get("status") or {}).get("code") in (2, "STATUS_CODE_ERROR") or "error.type" in attributes
    named = f"{place}, span {span.get('spanId', '')}"
    return _Span(named, str(span["traceId"]), start / 1e9, (end - start) / 1e9, attributes, failed)


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
