"""What a summary proposes to do next: two commands."""

from flows.runtime.summary import next_steps
from tasks.results.build_record import record_of
from tasks.scoring.build_report import build_report
from tasks.scoring.report import is_right
from tests.tasks.results.samples import make_report, make_run

RUN = "20261121-020000-3f9a1c"
BEFORE = "20261120-020000-3f9a1c"


def steps(questions: int, before: str = "", *, only_right: bool = False) -> list[str]:
    rows = make_report(questions).rows
    rows = tuple(row for row in rows if is_right(row.final, "bird")) if only_right else rows
    run = make_run().model_copy(update={"run_id": RUN})
    return next_steps(record_of(run, build_report(rows, rule="bird", schemas={})), before)


def commands(lines: list[str]) -> list[str]:
    return [line.partition("  #")[0].rstrip() for line in lines]


def test_wrong_answers_are_looked_at_and_the_run_before_compared() -> None:
    assert commands(steps(9)) == [f"crosscheck show {RUN} --wrong", f"crosscheck show {RUN} --open"]
    assert commands(steps(9, BEFORE))[1] == f"crosscheck compare {BEFORE} {RUN}"


def test_what_can_be_retried_comes_first() -> None:
    assert steps(11)[0].startswith(f"crosscheck rerun {RUN}") and "asks 1 again" in steps(11)[0]


def test_a_run_without_a_wrong_answer_lists_none() -> None:
    assert commands(steps(9, only_right=True))[0] == f"crosscheck show {RUN} --details"
