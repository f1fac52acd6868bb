"""The run of a question: labels of its stages, and the order of their records."""

import time

from tasks.core.outcome import StageRecord
from tasks.core.records import Question
from tasks.stages.question_run import QuestionRun

CALLS = 20_000


def question_run() -> QuestionRun:
    return QuestionRun(Question("1", "?", "db"))


def test_a_stage_is_numbered_from_its_second_call_on() -> None:
    made = question_run()
    assert [made.label(stage) for stage in ("a", "a", "b", "a", "a 5", "a", "a")] == [
        "a", "a 2", "b", "a 3", "a 5", "a 4", "a 6",
    ]  # fmt: skip


def test_candidates_are_numbered_apart_and_stand_where_they_are_joined() -> None:
    made = question_run()
    made.label("first")
    second = made.for_candidate(2)
    labels = [second.label("ask"), second.label("ask")]
    second.records += [StageRecord("ask", label, None, restored=False) for label in reversed(labels)]
    made.join(second)
    made.records.insert(0, StageRecord("last", made.label("last"), None, restored=False))
    assert [record.label for record in made.in_order] == ["ask (candidate 2)", "ask 2 (candidate 2)", "last"]


def test_thousands_of_calls_of_one_stage_hold_the_loop_up_for_no_second() -> None:
    made = question_run()
    started = time.process_time()
    made.records += [StageRecord("a", made.label("a"), None, restored=False) for _ in range(CALLS)]
    labels = [record.label for record in made.in_order]
    assert time.process_time() - started < 5
    assert labels[-1] == f"a {CALLS}"


def test_a_result_is_counted_once_whatever_its_process() -> None:
    made = QuestionRun(Question("1", "?", "db"), run="tonight")
    result, others = {"made_by": "tonight/1"}, {"made_by": "yesterday/1"}
    assert made.count_own("key", result, ran=True)  # by a task that ran now
    assert not made.count_own("key", result, ran=False)  # restored for the question's second call
    assert not made.for_candidate(2).count_own("key", result, ran=False)
    assert made.count_own("other key", result, ran=False)  # by a worker that crashed
    assert not made.count_own("third key", others, ran=False)
