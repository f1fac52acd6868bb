"""The figures of an agent's turns, from questions whose turns are written down here."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from tasks.core.outcome import (
    FAILED_ATTEMPT,
    NOT_SUBMITTED,
    Call,
    StageRecord,
    ToolCall,
    ToolError,
    Turn,
    Usage,
)
from tasks.results.curves import turn_chart
from tasks.results.mlflow.package import measures
from tasks.scoring.metric import ScoredRun
from tasks.scoring.metrics.turns import MAX_POINTS, turn_lines, turn_table, turns
from tasks.scoring.scores import Measurement, QuestionScore
from tests.tasks.results.samples import record_with
from tests.tasks.scoring.samples import record, score

UNKNOWN = Usage()


def sql_call(sql: str, error: ToolError | None = "") -> ToolCall:
    return ToolCall("run_sql", "{}", "", error, sql)


def turn(
    place: int, *calls: ToolCall, submitted: bool = False, candidate: int | None = None, **more: Any
) -> StageRecord:
    label = "turn" if place == 1 else f"turn {place}"
    label += f" (candidate {candidate})" if candidate else ""
    made = more.pop("calls", (Call(f"{label}", "m", Usage(100, output=10), False, 1.0, cost_usd=0.5),))
    value = asdict(Turn("", calls, None, submitted))
    return StageRecord("turn", label, {**value, "calls": list(value["calls"])}, False, made, **more)


def question(
    name: str,
    right: Sequence[bool],
    *records: StageRecord,
    final: bool | None = None,
    executable: bool = True,
) -> QuestionScore:
    stages = {f"turn_{place}": "bird" if good else "" for place, good in enumerate(right, 1)}
    last = right[-1] if right else False
    chosen = last if final is None else final
    made = records or tuple(turn(place) for place in range(1, len(right) + 1))
    return score(name, "bird" if chosen else "", stages=stages, records=made, executable=executable)


def measured(*rows: QuestionScore) -> Measurement | None:
    return turns.of(ScoredRun("bird", rows, {}))


def found(*rows: QuestionScore) -> Any:
    measurement = measured(*rows)
    return measurement.data


def curve(data: Any, key: str) -> list[Any]:
    return [point[key] for point in data["curve"]]


def test_a_question_that_has_ended_counts_with_its_last_sql_and_one_without_turns_is_wrong() -> None:
    data = found(
        question("1", [False, True, True]),
        question("2", [True]),
        question("3", [True, False]),
        question("4", [], record("other")),
    )
    assert curve(data, "turn") == [1, 2, 3]
    assert [(point["correct"], point["total"]) for point in data["curve"]] == [(2, 4), (2, 4), (2, 4)]
    assert curve(data, "fixed") == [None, 1, 0]
    assert curve(data, "broken") == [None, 1, 0]
    assert curve(data, "running") == [3, 2, 1]
    assert data["turns"] == {"correct": 6, "total": 4, "value": 1.5} and data["most"] == 3


def test_lost_is_right_after_a_turn_and_wrong_at_the_end() -> None:
    data = found(
        question("1", [True, False]),
        question("2", [True, True], final=False),
        question("3", [False, False]),
        question("4", [False, True]),
    )
    assert data["lost"] == {"correct": 2, "total": 4, "value": 0.5, "questions": ["1", "2"]}


def test_the_cost_up_to_a_turn_is_the_mean_over_the_questions_that_have_one() -> None:
    data = found(question("1", [True, True]), question("2", [True]), question("3", [], record("other")))
    assert curve(data, "usd") == [0.5, 0.75]
    assert curve(data, "tokens") == [110, 165]
    assert data["input_tokens_per_turn"] == {"correct": 300, "total": 3, "value": 100}


def test_the_cost_has_the_calls_before_the_first_turn_and_none_behind_it_or_of_another_agent() -> None:
    call = Call("a", "m", Usage(20, output=1), False, 1.0, cost_usd=0.25)
    failed = StageRecord(FAILED_ATTEMPT, "failed_attempt 1", None, False, (call,))
    link, without_calls = record("forward_link", call), record("values")
    data = found(
        question("1", [True, True], failed, link, without_calls, turn(1), turn(2), record("x", call))
    )
    assert (curve(data, "usd"), curve(data, "tokens")) == ([0.75, 1.25], [131, 241])
    assert data["input_tokens_per_turn"]["value"] == 100
    first, second = (replace(link, label=f"forward_link (candidate {number})") for number in (1, 2))
    data = found(question("1", [True], first, turn(1, candidate=1), second, turn(1, candidate=2)))
    assert curve(data, "usd") == [0.75]


@pytest.mark.parametrize(
    "calls",
    [(), (Call("a", "m", UNKNOWN, False, None),), (Call("a", "m", Usage(5), False, 1.0, cost_usd=None),)],
)
def test_what_is_unknown_of_one_turn_is_unknown_of_all_and_never_zero(calls: tuple[Call, ...]) -> None:
    measurement = measured(question("1", [True]), question("2", [True, True], turn(1), turn(2, calls=calls)))
    data = measurement.data
    assert curve(data, "usd") == [0.5, None] and curve(data, "tokens") == [110, None]
    assert data["output_tokens_per_turn"] is None
    assert "turns/ex_after" in measurement.series and "turns/usd_after" not in measurement.series
    assert measurement.lines and "unknown out; cost per question: unknown" in measurement.lines[-1]


def test_a_cached_call_costs_what_it_cost_when_it_was_paid_and_a_repeated_reply_once() -> None:
    cached = Call("a", "m", Usage(100, output=10), True, 0.0, cost_usd=0.0, from_scratch_usd=0.25)
    again = replace(cached, cached=False, cost_usd=0.25, from_scratch_usd=None)
    data = found(question("1", [True], turn(1, calls=(cached, again))))
    assert curve(data, "usd") == [0.25] and curve(data, "tokens") == [110]


def test_the_curve_has_the_first_agents_turns_of_scored_questions() -> None:
    data = found(
        question("1", [False, True], turn(1, candidate=1), turn(2, candidate=1), turn(1, candidate=2))
    )
    assert (data["most"], curve(data, "correct")) == (2, [0, 1])
    data = found(question("1", [True]), question("2", [True, True], executable=False))
    assert (data["most"], data["turns"]["total"], curve(data, "total")) == (1, 1, [1])
    failed = StageRecord(FAILED_ATTEMPT, "failed_attempt 1", None, False, turn(1).calls)
    assert found(question("1", [True], failed, turn(1)))["turns"]["correct"] == 1


def test_tool_errors_are_counted_by_kind_and_unknown_if_one_is() -> None:
    bad = ToolCall("nope", "{", error="unknown_tool")
    rows = [question("1", [True], turn(1, sql_call("SELECT 1"), bad, sql_call("SELECT x", "failed")))]
    data = found(*rows)
    assert data["tool_errors"] == {"correct": 2, "total": 3, "value": 2 / 3}
    assert data["tool_errors_by_kind"] == {"unknown_tool": 1, "failed": 1}
    data = found(*rows, question("2", [True], turn(1, sql_call("SELECT 1", None))))
    assert data["tool_errors"] is data["tool_errors_by_kind"] is None and data["tool_calls"] == 4


def test_a_query_that_was_executed_before_is_repeated_and_submitting_it_is_not() -> None:
    first = turn(1, sql_call("SELECT 1"), sql_call("SELECT  1"))
    last = turn(2, sql_call("SELECT 1"), submitted=True)
    data = found(
        question("1", [True, True], first, last), question("2", [True], turn(1, sql_call("SELECT 1")))
    )
    assert data["repeated_queries"] == {"correct": 1, "total": 4, "value": 0.25}
    assert data["submitted"] == {"correct": 1, "total": 2, "value": 0.5}
    both = turn(2, sql_call("SELECT 1"), sql_call("SELECT 1"), submitted=True)
    data = found(question("1", [True, True], turn(1, sql_call("SELECT 1")), both))
    assert data["repeated_queries"]["correct"] == 1, "executed again in the turn that submits"
    calls = (sql_call("SELECT 'a  b'"), sql_call("SELECT 'a b'"), sql_call("SELECT\n'a b' "))
    data = found(question("1", [True], turn(1, *calls)))
    assert data["repeated_queries"] == {"correct": 1, "total": 3, "value": 1 / 3}


def test_why_nothing_was_submitted_is_counted_and_said() -> None:
    row = question("1", [True], turn(1, sql_call("SELECT 1")))
    ended = replace(
        row, outcome=replace(row.outcome, notes=(f"{NOT_SUBMITTED}the limit of 5 turns was reached",))
    )
    data = found(ended)
    assert data["not_submitted"] == {"the limit of 5 turns was reached": 1}
    assert (
        "questions that submitted an answer: 0 of 1; not submitted: 1 (the limit of 5 turns was reached)"
        in (turn_lines(data)[0])
    )
    assert found(row)["not_submitted"] == {} and "not submitted" not in turn_lines(found(row))[0]


def test_a_run_without_turns_or_whose_every_first_turn_failed_has_no_such_figures() -> None:
    assert measured(score("1", "bird", stages={"1_sql": "bird"}, records=(record("sql"),))) is None
    failed = StageRecord("turn", "turn", None, False, error="the endpoint refused the request")
    assert measured(question("1", [], failed), question("2", [], failed)) is None


def test_turns_are_no_rows_of_the_table_of_stages_and_one_line_of_the_bill() -> None:
    rows = [question("1", [False] * 30)]
    run = record_with(rows)
    assert run.stages == () and list(run.stage_costs) == ["turn"]
    assert run.stage_costs["turn"].calls == 30


def test_a_loop_of_thousands_of_turns_has_a_short_curve_and_a_short_table() -> None:
    measurement = measured(question("1", [False] * 3_000), question("2", [True]))
    data = measurement.data
    assert curve(data, "turn") == [*range(1, MAX_POINTS + 1), 3_000]
    table = turn_table(data)
    assert [row[0] for row in table.rows if row] == ["1", "2", "3", "5", "8", "13", "21", "3000"]
    assert measurement.lines and len(measurement.lines) <= 4
    chart = turn_chart(data)
    assert chart and len(chart.lines[0].points) == MAX_POINTS + 1


def test_the_curve_and_the_counts_are_metrics_of_mlflow() -> None:
    rows = [question("1", [False, True], turn(1, sql_call("SELECT 1")), turn(2)), question("2", [True])]
    measurement = turns.of(ScoredRun("bird", rows, {}))
    logged = measures(record_with(rows, measurements={"turns": measurement}))
    steps = {(each.name, each.step): each.value for each in logged}
    assert (steps["turns/ex_after", 1], steps["turns/ex_after", 2]) == (0.5, 1.0)
    assert (steps["turns/usd_after", 2], steps["turns/mean", 0], steps["turns/tool_errors", 0]) == (
        0.75,
        1.5,
        0.0,
    )
    assert not any(name.startswith("stage_ex/turn") for name, _ in steps)
