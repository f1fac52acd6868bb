"""Runs made up for the tests of results."""

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tasks.core.outcome import Call, Candidate, Failure, Outcome, StageRecord, Usage
from tasks.core.records import ColumnName, Link, Question
from tasks.results.build_record import record_of
from tasks.results.mlflow.store import Store
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import (
    LinkingScore,
    QuestionScore,
    Ratio,
    Verdict,
)
from tasks.settings.home import Home

STAGES = ("1_preliminary_sql", "2_augmented_sql", "3_binary_selection", "4_self_correction")
GRADES = ("simple", "moderate", "challenging")
RULES = ("bird", "spider", "strict")
LINKS = tuple(
    LinkingScore(name, Ratio(86, 90), Ratio(27, 30), Ratio(90, 270), 2.5, 9.25, reduction, 30)
    for name, reduction in (("forward", None), ("both", 0.81))
)


def verdict(right: bool, status: str = "ok") -> Verdict:
    return Verdict(
        correct={rule: right and rule != "strict" for rule in RULES},
        status=status,
        error="" if status == "ok" else "no such column: nope",
        row_count=3 if status == "ok" else None,
        seconds=0.002,
    )


def stage_record(number: int, label: str, sql: str | None) -> StageRecord:
    usage = Usage(input=1200 + number, cached_input=None, output=40)
    call = Call(
        f"{number:064x}",
        "weak-1",
        usage,
        cached=number % 5 == 0,
        seconds=0.5,
        retries=number % 2,
        parse="json",
    )
    notes = ("the reply named a column that is not there",) if number % 7 == 0 else ()
    return StageRecord(
        label, label, {"sql": sql}, restored=number % 4 == 0, calls=(call,), notes=notes, seconds=0.6
    )


def question_score(number: int, stages: Sequence[str] = STAGES) -> QuestionScore:
    """One question; which stages are right follows from its number, so that stages fix and break some."""
    question = Question(
        id=str(number),
        text=f"How many heroes have the power number {number}?",
        database_id="superhero" if number % 3 else "card games",
        evidence="power refers to power_name" if number % 2 else "",
        difficulty=GRADES[number % 3],
    )
    sqls = [f"SELECT COUNT(*)\nFROM hero -- stage {stage}\nWHERE power = '{number}'" for stage in stages]
    rights = [(number * 7 + 3 * place) % 10 < 4 + place for place in range(len(stages))]
    if number % 11 == 10:
        failure = Failure("backbone_error", stages[0], "The backbone did not answer in time.", retryable=True)
        lost = Outcome(question.id, None, failure=failure, notes=("given up",))
        return QuestionScore(
            question, lost, Verdict(dict.fromkeys(RULES, False), "no_answer"), {}, "SELECT 1"
        )
    link = Link(("hero",), (ColumnName("hero", "power"),), ("heroes.power",))
    outcome = Outcome(
        question_id=question.id,
        sql=sqls[-1],
        candidates=tuple(Candidate(stage, sql) for stage, sql in zip(stages, sqls, strict=True)),
        links={"forward": link, "both": link},
        stages=tuple(
            stage_record(number + place, stage[2:], sql)
            for place, (stage, sql) in enumerate(zip(stages, sqls, strict=True))
        ),
    )
    verdicts = [verdict(right, "ok" if right or number % 2 else "error") for right in rights]
    return QuestionScore(
        question,
        outcome,
        verdicts[-1],
        dict(zip(stages, verdicts, strict=True)),
        f"SELECT COUNT(*) FROM hero -- {number}",
    )


def make_rows(
    questions: int = 30, stages: Sequence[str] = STAGES, shift: int = 0
) -> tuple[QuestionScore, ...]:
    """As many questions with their scores; `shift` varies the answers."""
    return tuple(
        replace(
            score,
            question=replace(score.question, id=str(number)),
            outcome=replace(score.outcome, question_id=str(number)),
        )
        for number, score in ((number, question_score(number + shift, stages)) for number in range(questions))
    )


def make_record(
    questions: int = 30, stages: Sequence[str] = STAGES, shift: int = 0, **facts: Any
) -> RunRecord:
    """The record of a run of as many questions, with made-up links."""
    return record_of(make_run(), make_rows(questions, stages, shift), **{"links": LINKS, **facts})


def record_with(rows: Sequence[QuestionScore], rule: str = "bird", **facts: Any) -> RunRecord:
    """Return the record of a run of some questions, with further fields or schemas."""
    return record_of(make_run(rule=rule), rows, **facts)


def home_of(store: Store) -> Home:
    """The working folder of a store in a file."""
    return Home(store.sqlite_file.parent)  # type: ignore[union-attr]


def make_run(**changes: object) -> RunRecord:
    run = RunRecord(
        run_id="20261121-020000-3f9a1c",
        benchmark="bird-dev",
        backbone="weak-1",
        pipeline="rsl-sql",
        status="running",
        settings={
            "benchmark": {"name": "bird-dev", "timeout_s": 30.0, "quarantine": []},
            "backbone": {"name": "weak-1", "model": "weak-1", "api_key_env": "WEAK_API_KEY", "prices": None},
            "pipeline": {"name": "rsl-sql", "selection": {"enabled": True, "rows_shown": 5}},
        },
        rule="bird",
        revision="20240627",
        question_file="data/bird/dev.json",
        question_sha256="a1" * 32,
        started=datetime.datetime(2026, 11, 21, 2, 0, tzinfo=datetime.UTC),
        version="0.1.0",
        git_commit="0464afb",
        engine="SQLite 3.45.1",
        questions_in_benchmark=30,
        tags={"sweep": "nightly"},
    )
    return run.model_copy(update=changes)
