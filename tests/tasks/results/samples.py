"""Reports made up for the tests of tracking: their sums agree with their rows."""

import datetime
from collections.abc import Sequence
from dataclasses import replace

from tasks.core.outcome import Call, Candidate, Failure, Outcome, StageRecord, Usage
from tasks.core.records import ColumnName, Link, Question
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost
from tasks.scoring.report import (
    Accuracy,
    LinkingScore,
    QuestionScore,
    Ratio,
    Report,
    Score,
    StageScore,
    Verdict,
)

STAGES = ("1_preliminary_sql", "2_augmented_sql", "3_binary_selection", "4_self_correction")
GRADES = ("simple", "moderate", "challenging")
RULES = ("bird", "spider", "strict")


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


def make_report(questions: int = 30, stages: Sequence[str] = STAGES, shift: int = 0) -> Report:
    """A report whose sums agree with its rows; `shift` varies the answers."""
    rows = tuple(
        replace(
            score,
            question=replace(score.question, id=str(number)),
            outcome=replace(score.outcome, question_id=str(number)),
        )
        for number, score in ((number, question_score(number + shift, stages)) for number in range(questions))
    )
    return report_of(rows, stages)


def report_of(rows: tuple[QuestionScore, ...], stages: Sequence[str] = STAGES) -> Report:
    scored = [row for row in rows if row.executable]

    def right(row: QuestionScore, rule: str = "bird") -> bool:
        return row.final.correct.get(rule, False)

    def at(row: QuestionScore, stage: str) -> bool:
        return stage in row.stages and row.stages[stage].correct["bird"]

    def share(chosen: Sequence[QuestionScore]) -> Accuracy:
        return Accuracy(sum(right(row) for row in chosen), len(chosen))

    scores = []
    for place, stage in enumerate(stages):
        right_now = sum(at(row, stage) for row in scored)
        before = stages[place - 1] if place else None
        fixed = sum(at(row, stage) and not at(row, before) for row in scored) if before else None
        broken = sum(not at(row, stage) and at(row, before) for row in scored) if before else None
        scores.append(StageScore(right_now, len(scored), name=stage, fixed=fixed, broken=broken))
    lost = [row for row in rows if row.outcome.failure is not None]
    total = len(scored)
    links = tuple(
        LinkingScore(
            name,
            Ratio(3 * total - 4, 3 * total),
            Ratio(total - 3, total),
            Ratio(3 * total, 9 * total),
            2.5,
            9.25,
            reduction,
            total,
        )
        for name, reduction in (("forward", None), ("both", 0.81))
    )
    return Report(
        rule="bird",
        questions=len(rows),
        scored=total,
        answered=sum(row.outcome.sql is not None for row in scored),
        scores={rule: Score(sum(right(row, rule) for row in scored), total, rule=rule) for rule in RULES},
        by_difficulty={
            grade: share([row for row in scored if row.question.difficulty == grade]) for grade in GRADES
        },
        by_database={
            name: share([row for row in scored if row.question.database_id == name])
            for name in ("card games", "superhero")
        },
        stages=tuple(scores),
        links=links if total else (),
        cost=Cost(
            calls=4 * total,
            cached_calls=7,
            retries=2,
            input_tokens=1200 * total,
            output_tokens=40 * total,
            p50_s=0.5,
            p95_s=1.25,
        ),
        stage_costs={stage[2:]: Cost(calls=total, input_tokens=300 * total) for stage in stages},
        failures={"backbone_error": len(lost)} if lost else {},
        retryable=len(lost),
        missing_databases={},
        gold_faults={},
        rows=rows,
    )


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
