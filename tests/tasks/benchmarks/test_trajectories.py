"""Files of trajectories: what a format says becomes a turn, what it does not say is unknown, bad input is named."""

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tasks.benchmarks.predictions.trajectory import MAX_CHARACTERS, MAX_TURNS, Trajectory, outcome_of, sql_in
from tasks.benchmarks.predictions.trajectory_file import TrajectoryFile, read_trajectories
from tasks.core.errors import DataError
from tasks.core.outcome import Outcome, Usage

Write = Callable[..., Path]
FULL = {
    "text": "First the tables.",
    "tool_calls": [
        {"name": "run_sql", "arguments": {"sql": "SELECT 1"}, "result": "1", "error": False, "id": "a"}
    ],
    "model": "m-1",
    "input_tokens": 800,
    "cached_input_tokens": 100,
    "output_tokens": 40,
    "reasoning_tokens": 30,
    "cost_usd": 0.002,
    "seconds": 1.5,
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write objects as JSON lines, a text as it is; return the file."""

    def write(*lines: Any, name: str = "agent.jsonl") -> Path:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(texts), encoding="utf-8")
        return file

    return write


def only(file: TrajectoryFile) -> Trajectory:
    (found,) = file.trajectories
    return found


def outcome(path: Path) -> Outcome:
    return outcome_of(only(read_trajectories(path)), "digest")


def answers(path: Path) -> list[str | None]:
    return [each.sql for each in only(read_trajectories(path)).own_turns]


def tool(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def run_sql(sql: str, **more: Any) -> dict[str, Any]:
    return {**tool("run_sql", sql=sql), **more}


def calls(*called: dict[str, Any]) -> dict[str, Any]:
    """A turn that calls tools."""
    return {"tool_calls": list(called)}


def submit(sql: str, **more: Any) -> dict[str, Any]:
    return calls(run_sql(sql, **{"name": "submit", **more}))


def line(*turns: Any, **more: Any) -> dict[str, Any]:
    return {"question_id": 7, "turns": list(turns), **more}


def resource(*spans: dict[str, Any]) -> dict[str, Any]:
    """Spans in OTLP's JSON encoding."""
    return {
        "resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]
    }


def test_a_turn_becomes_a_stage_with_its_call_and_a_candidate(write: Write) -> None:
    found = outcome(write(line(FULL, submit("SELECT 2"))))
    first, second = found.stages
    assert (first.stage, first.label, second.label) == ("turn", "turn", "turn 2")
    (call,) = first.calls
    assert (call.model, call.usage, call.cost_usd) == ("m-1", Usage(800, 100, 40, 30), 0.002)
    assert (call.seconds, first.seconds, call.cached, first.restored) == (1.5, 1.5, False, False)
    asked = {"name": "run_sql", "arguments": '{"sql": "SELECT 1"}', "error": "", "sql": "SELECT 1", "id": "a"}
    assert first.value["calls"][0] | {"result": None} == asked | {"result": None}
    candidates = [(each.stage, each.sql) for each in found.candidates]
    assert candidates == [("turn_1", "SELECT 1"), ("turn_2", "SELECT 2")]
    assert (found.sql, second.value["submitted"]) == ("SELECT 2", True)


def test_what_a_line_does_not_say_is_unknown_and_not_zero(write: Write) -> None:
    found = outcome(write(line({"text": "", **calls(run_sql("SELECT 1"))})))
    (record,) = found.stages
    (call,) = record.calls
    assert call.usage == Usage() and call.cost_usd is None and call.seconds is None and record.seconds is None
    assert record.value["calls"][0]["error"] is None and record.value["calls"][0]["result"] is None
    of_tools_alone = outcome(write(line(calls(run_sql("SELECT 1")))))
    assert of_tools_alone.stages[0].calls == ()


@pytest.mark.parametrize(("turns", "expected"), [
    ([{"text": "hm"}, calls(run_sql("SELECT 1")), {"text": "so"}], [None, "SELECT 1", "SELECT 1"]),
    ([calls(run_sql("SELECT 1"), run_sql("SELECT x", error=True))], ["SELECT 1"]),
    ([calls(run_sql("SELECT 1"), run_sql("SELECT 2"))], ["SELECT 2"]),
    ([{"text": "It is\n```sql\nSELECT 3\n```"}, calls(run_sql("SELECT 4"))], ["SELECT 3", "SELECT 3"]),
    ([{"text": "SELECT 3"}], ["SELECT 3"]),
    ([{"text": "select the best one"}], [None]),
    ([{"sql": "SELECT 5", **calls(run_sql("SELECT 4"))}], ["SELECT 5"]),
    ([calls(tool("final_answer", query="SELECT 1"), run_sql("SELECT 2"))], ["SELECT 1"]),
    ([calls(tool("search", query="rivers"))], [None]),
    ([calls(run_sql("SELECT 1")), submit("SELECT 2", error=True)], ["SELECT 1", "SELECT 1"]),
])  # fmt: skip
def test_the_answer_after_a_turn_is_what_was_submitted_else_the_last_sql_that_ran(
    turns: list[Any], expected: list[str | None], write: Write
) -> None:
    assert answers(write(line(*turns))) == expected


def test_a_turn_that_names_its_sql_has_submitted_it_if_it_calls_a_tool_that_submits(write: Write) -> None:
    turns = [{"sql": "SELECT 1", **calls(run_sql("SELECT 1", name=name))} for name in ("run", "submit")]
    found = outcome(write(line(*turns)))
    assert [record.value["submitted"] for record in found.stages] == [False, True]


@pytest.mark.parametrize("id", ["call_0", None])
def test_an_id_that_comes_again_has_the_result_behind_each_call(id: str | None, write: Write) -> None:
    messages: list[dict[str, Any]] = []
    for sql, error in (("SELECT a", True), ("SELECT 2", False)):
        function = {"name": "run_sql", "arguments": json.dumps({"sql": sql})}
        messages.append({"role": "assistant", "tool_calls": [{"id": id, "function": function}]})
        messages.append({"role": "tool", "tool_call_id": id, "content": f"of {sql}", "error": error})
    found = outcome(write({"question_id": 7, "messages": messages}))
    known = [record.value["calls"][0] for record in found.stages]
    assert [call["result"] for call in known] == ["of SELECT a", "of SELECT 2"]
    assert [call["error"] for call in known] == ["failed", ""]
    assert [each.sql for each in found.candidates] == [None, "SELECT 2"]


@pytest.mark.parametrize(
    ("more", "sql"), [({}, "SELECT 1"), ({"sql": None}, None), ({"sql": "SELECT 9"}, "SELECT 9")]
)
def test_a_final_sql_of_the_line_is_the_answer_be_it_null(more: Any, sql: str | None, write: Write) -> None:
    assert outcome(write(line(FULL, **more))).sql == sql


def test_a_failure_leaves_no_answer_and_of_a_question_asked_again_the_last_line_counts(write: Write) -> None:
    failed = line(FULL, failure="no answer in time")
    found = outcome(write(failed))
    assert found.sql is None and found.failure
    assert (found.failure.kind, found.failure.message) == ("extension_error", "no answer in time")
    assert not found.failure.retryable
    assert only(read_trajectories(write(failed, line(FULL)))).answer == "SELECT 1"


def test_messages_of_the_chat_protocol_are_turns(write: Write) -> None:
    call, broken = (
        {"id": name, "type": "function", "function": {"name": "run_sql", "arguments": arguments}}
        for name, arguments in (("c", '{"sql": "SELECT 1"}'), ("d", '{"sql": '))
    )
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
        "x": 1,
    }
    asked = {"content": None, "tool_calls": [call, broken], "usage": usage, "refusal": None}
    messages = [
        {"role": "system", "content": "You are an analyst."},
        {"role": "user", "content": "How many?"},
        {"role": "assistant", **asked},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "d", "content": "no JSON", "error": "not JSON"},
        {"role": "assistant", "content": "```sql\nSELECT 2\n```", "model": None},
    ]
    found = outcome(write({"question_id": 7, "messages": messages}))
    first, second = found.stages
    assert [(each["result"], each["error"], each["sql"]) for each in first.value["calls"]] == [
        ("1", None, "SELECT 1"),
        ("no JSON", "failed", None),
    ]
    assert first.calls[0].usage == Usage(9, 8, 4) and second.calls[0].usage == Usage()
    assert (found.sql, second.value["submitted"]) == ("SELECT 2", True)


@pytest.mark.parametrize(("lines", "message"), [
    (["{not json"], "line 1: not JSON"),
    ([line(), "{"], "line 2: not JSON"),
    ([line(), "[" * 100_000], "line 2: not JSON (nested too deeply"),
    ([line(), '"text"'], "line 2: must be an object, not str"),
    ([""], "is empty"),
    ([{"question_id": 1}], "neither turns nor messages"),
    ([line(), {"question_id": 2}], "line 2: write either turns or messages"),
    ([line(), line(messages=[])], "line 2: write either turns or messages"),
    ([{"turns": []}], "line 1: question_id: Field required"),
    ([line(question_id=True)], "line 1: question_id"),
    ([line(question_id=" ")], "line 1: question_id: it is empty"),
    ([{"question_id": 1, "turns": {}}], "line 1: turns"),
    ([line({"tool_call": []})], "turns.0.tool_call: Extra inputs"),
    ([line(calls({}))], "turns.0.tool_calls.0.name: Field required"),
    ([line({"input_tokens": -1})], "turns.0.input_tokens"),
    ([line({"input_tokens": "9"})], "turns.0.input_tokens: Input should be a valid integer"),
    (['{"question_id": 1, "turns": [{"cost_usd": NaN}]}'], "turns.0.cost_usd"),
    (['{"question_id": 1, "turns": [{"input_tokens": 1' + "0" * 5_000 + "}]}"], "line 1: not JSON"),
    ([{"question_id": 1, "messages": [{"content": "x"}]}], "messages.0.role: Field required"),
    ([line({"cost_usd": 1e308})], "turns.0.cost_usd"),
    ([resource({"traceId": "a"})], "line 1: a span of OpenTelemetry"),
    ([{"resourceSpans": 3}], "line 1: a span of OpenTelemetry"),
    ([{"context": {}, "attributes": {}}], "span of OpenTelemetry is malformed: lacks 'start_time'"),
    ([{"resourceSpans": []}], "no span has the attribute gen_ai.operation.name"),
])  # fmt: skip
def test_bad_input_is_one_message_with_file_and_line(lines: list[Any], message: str, write: Write) -> None:
    file = write(*lines)
    with pytest.raises(DataError) as raised:
        read_trajectories(file)
    assert message in str(raised.value) and str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_utf_8_or_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "latin.jsonl"
    file.write_bytes(b'{"question_id": 1, "turns": []}\n{"question_id": 2, "turns": ["\xe9"]}')
    with pytest.raises(DataError, match=r"latin.jsonl, line 2: not UTF-8"):
        read_trajectories(file)
    with pytest.raises(DataError, match=r"absent.jsonl cannot be read: No such file"):
        read_trajectories(tmp_path / "absent.jsonl")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.jsonl"
    with file.open("wb") as opened:
        opened.truncate(2**30 + 1)  # a sparse file
    started = time.process_time()
    with pytest.raises(DataError, match="1,024 MiB, and at most 1,024 are read"):
        read_trajectories(file)
    assert time.process_time() - started < 1


def test_long_texts_are_cut_and_turns_beyond_the_limit_count_for_the_answer_only(write: Write) -> None:
    sql = "SELECT 1 -- " + "x" * (MAX_CHARACTERS + 50)
    long = {"text": "y" * (MAX_CHARACTERS + 7), **calls(run_sql(sql))}
    found = outcome(write(line(long, *([{"text": "again"}] * MAX_TURNS), submit("SELECT 2"))))
    assert len(found.stages) == len(found.candidates) == MAX_TURNS
    assert (found.sql, found.notes) == ("SELECT 2", ("2 further turns are not kept",))
    value = found.stages[0].value
    assert value["text"].endswith("… 7 more characters") and len(value["text"]) < MAX_CHARACTERS + 50
    assert value["calls"][0]["sql"] == sql  # what is executed is not cut
    assert len(value["calls"][0]["arguments"]) < MAX_CHARACTERS + 50


def test_what_no_store_can_hold_is_replaced(write: Write) -> None:
    found = outcome(write(line({"text": "a\0b\ud800", **calls(run_sql("SELECT '\0'"))})))
    assert found.stages[0].value["text"] == "a\ufffdb\ufffd"
    assert found.sql == "SELECT '\ufffd'"


@pytest.mark.parametrize(
    "arguments", ['{"sql": "SELECT 1"', "[1]", None, 7, {"sql": 3}, {"sql": "DROP TABLE a"}]
)
def test_arguments_without_a_query_have_no_sql(arguments: Any) -> None:
    assert sql_in(arguments) is None


@pytest.mark.parametrize("form", ["[{},\n{}\n]", "[{}\n,{}]"])
def test_a_list_with_an_object_on_each_line_is_one_document(form: str, write: Write) -> None:
    items = [json.dumps(line(question_id=name, sql="SELECT 1")) for name in ("a", "b")]
    found = read_trajectories(write(form.format(*items), name="list.json"))
    assert [each.question_id for each in found.trajectories] == ["a", "b"]


@pytest.fixture
def spans() -> list[dict[str, Any]]:
    """Spans of the OpenTelemetry SDK about one question, as its `to_json` writes them."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    def message(*parts: dict[str, Any]) -> str:
        return json.dumps([{"role": "assistant", "parts": list(parts)}])

    call = {"type": "tool_call", "id": "a", **run_sql("SELECT 1")}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1"}
    tokens = {"gen_ai.usage.input_tokens": 90, "gen_ai.usage.output_tokens": 9}
    called = {"operation.name": "execute_tool", "tool.name": "run_sql", "tool.call.id": "a"}
    calling = {f"gen_ai.{name}": value for name, value in called.items()}
    with tracer.start_as_current_span("invoke_agent", attributes={"question_id": 7}):
        output = {"gen_ai.output.messages": message({"type": "text", "content": "I look."}, call)}
        with tracer.start_as_current_span("chat m", attributes={**chat, **tokens, **output}):
            time.sleep(0.02)
        with tracer.start_as_current_span("execute_tool run_sql", attributes=calling) as span:
            span.set_status(trace.StatusCode.ERROR, "no such table")
            span.set_attribute("gen_ai.tool.call.result", "no such table")
        output = {"gen_ai.output.messages": message({"type": "text", "content": "```sql\nSELECT 2\n```"})}
        with tracer.start_as_current_span("chat m", attributes={**chat, **output}):
            pass
    return [json.loads(span.to_json(indent=None)) for span in exporter.get_finished_spans()]


def otlp(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """The same spans as OTLP's JSON encoding has them (opentelemetry-proto, trace.proto)."""

    def value(found: Any) -> dict[str, Any]:
        return {"intValue": str(found)} if isinstance(found, int) else {"stringValue": found}

    def nanoseconds(moment: str) -> str:
        at = datetime.datetime.fromisoformat(moment.replace("Z", "+00:00"))
        return str(round(at.timestamp() * 1e6) * 1000)

    found = [
        {
            "traceId": span["context"]["trace_id"],
            "spanId": span["context"]["span_id"],
            "name": span["name"],
            "startTimeUnixNano": nanoseconds(span["start_time"]),
            "endTimeUnixNano": nanoseconds(span["end_time"]),
            "attributes": [{"key": key, "value": value(each)} for key, each in span["attributes"].items()],
            "status": {"code": 2} if span["status"]["status_code"] == "ERROR" else {},
        }
        for span in spans
    ]
    return resource(*found)


@pytest.mark.parametrize("form", ["sdk", "otlp"])
def test_spans_of_model_calls_are_turns(form: str, spans: list[dict[str, Any]], write: Write) -> None:
    file = write(*(spans if form == "sdk" else [otlp(spans)]))
    assert read_trajectories(file).format == "opentelemetry"
    found = outcome(file)
    first, second = found.stages
    assert (found.question_id, found.sql, len(found.stages)) == ("7", "SELECT 2", 2)
    (call,) = first.value["calls"]
    assert (call["name"], call["sql"]) == ("run_sql", "SELECT 1")
    assert (call["result"], call["error"]) == ("no such table", "failed")
    assert (first.calls[0].model, first.calls[0].usage) == ("m-1", Usage(90, None, 9))
    assert first.seconds and 0.02 <= first.seconds < 5
    assert second.calls[0].usage == Usage() and second.calls[0].cost_usd is None
    assert [each.sql for each in found.candidates] == [None, "SELECT 2"]


def test_spans_without_a_question_are_refused(spans: list[dict[str, Any]], write: Write) -> None:
    for span in spans:
        span["attributes"].pop("question_id", None)
    with pytest.raises(DataError, match="does not name its question"):
        read_trajectories(write(*spans))
    for span in spans:
        span["attributes"]["gen_ai.conversation.id"] = "12"
    assert only(read_trajectories(write(*spans))).question_id == "12"


def test_without_messages_the_spans_of_tools_are_the_calls(spans: list[dict[str, Any]], write: Write) -> None:
    for span in spans:
        span["attributes"].pop("gen_ai.output.messages", None)
        if span["name"].startswith("execute_tool"):
            span["attributes"]["gen_ai.tool.call.arguments"] = '{"sql": "SELECT 1"}'
    first, second = outcome(write(*spans)).stages
    assert [call["sql"] for call in first.value["calls"]] == ["SELECT 1"] and second.value["calls"] == []


@pytest.mark.parametrize("tokens", ["many", 10**13, -1, True])
def test_a_span_without_a_number_of_tokens(tokens: Any, spans: list[dict[str, Any]], write: Write) -> None:
    spans[0]["attributes"]["gen_ai.usage.input_tokens"] = tokens
    limits = "must be a whole number up to 1,000,000,000,000"
    with pytest.raises(DataError, match=f"line 1: gen_ai.usage.input_tokens {limits}, not {tokens!r}"):
        read_trajectories(write(*spans))
