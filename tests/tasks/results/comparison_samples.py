"""Runs as the warehouse has them, made up of which questions are right."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.core.outcome import Call, Candidate, Outcome, StageRecord, Usage
from tasks.core.records import Question
from tasks.results.build_record import record_of
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import QuestionScore, Verdict
from tests.tasks.results.samples import RULES, make_run

GRADES = ("simple", "moderate", "challenging")
FINAL = "1_preliminary_sql"


def score(number: int, right: bool, letter: str = "a", stages: Sequence[str] = (FINAL,)) -> QuestionScore:
    """One question of one run; its SQL names the run unless it is right."""
    id_ = str(number)
    sql = f"SELECT {number}" + ("" if right else f" FROM {letter}")
    verdict = Verdict(dict.fromkeys(RULES, right), "ok", row_count=number)
    call = Call("f" * 64, "m", Usage(input=100, output=10), cached=False, seconds=0.5, cost_usd=0.25)
    return QuestionScore(
        Question(id_, f"What is {number}?", f"db{number % 4}", "", GRADES[number % 3]),
        Outcome(
            id_,
            sql,
            tuple(Candidate(stage, sql) for stage in stages),
            stages=(StageRecord("preliminary_sql", "preliminary_sql", {}, False, (call,)),),
        ),
        verdict,
        dict.fromkeys(stages, verdict),
        f"SELECT {number} -- gold",
    )


def stored(
    rows: Iterable[QuestionScore], letter: str = "a", status: str = "complete", **changes: Any
) -> RunRecord:
    """A run with these questions."""
    run = make_run(run_id=f"20261121-02000{'ab'.index(letter)}-00000{letter}", **changes)
    found = tuple(rows)
    return record_of(run, found, status)


def with_status(run: RunRecord, status: str) -> RunRecord:
    """The same run with another end."""
    return run.model_copy(update={"status": status})


def two_runs(fixed: int, broken: int, questions: int) -> tuple[RunRecord, RunRecord]:
    """Runs of which B fixes the first questions and breaks the next; every other of the rest is right in both."""

    def right(number: int, letter: str) -> bool:
        if number < fixed:
            return letter == "b"
        return letter == "a" if number < fixed + broken else bool(number % 2)

    one, other = (
        stored((score(number, right(number, letter), letter) for number in range(questions)), letter)
        for letter in "ab"
    )
    return one, other


def with_row(run: RunRecord, place: int, **changes: Any) -> RunRecord:
    """The same run with one question changed."""
    rows = list(run.rows)
    rows[place] = replace(rows[place], **changes)
    return run.model_copy(update={"rows": tuple(rows)})


def with_benchmark(run: RunRecord, **settings: Any) -> RunRecord:
    """The same run with other settings of the benchmark."""
    changed: Mapping[str, Any] = {
        **run.settings,
        "benchmark": {**run.settings["benchmark"], **settings},
    }
    return run.model_copy(update={"settings": changed})
