"""The warehouse's rows: from scores to flat rows and back, without loss."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from tasks.records import Call, Candidate, ColumnName, Failure, Link, Outcome, Question, StageRecord, Usage
from tasks.scoring.report import QuestionScore, Verdict
from tasks.tracking.parameters import clean

Row = Mapping[str, Any]

_VERDICT = (
    "correct MAP(VARCHAR, BOOLEAN), status VARCHAR, error VARCHAR, row_count BIGINT, gold_status VARCHAR, "
    "seconds DOUBLE"
)
_KEY = "run_id VARCHAR, question_id VARCHAR, position BIGINT"

TABLES: Mapping[str, str] = {
    "questions": f"{_KEY}, database VARCHAR, difficulty VARCHAR, question VARCHAR, evidence VARCHAR, sql VARCHAR, "
    "gold_sql VARCHAR, executable BOOLEAN, failure_kind VARCHAR, failure VARCHAR, links VARCHAR, "
    f"notes VARCHAR[], attempts BIGINT, samples BIGINT[], {_VERDICT}",
    "candidates": f"{_KEY}, stage VARCHAR, reached BOOLEAN, sql VARCHAR, {_VERDICT}",
    "stages": f"{_KEY}, stage VARCHAR, label VARCHAR, value VARCHAR, restored BOOLEAN, notes VARCHAR[], "
    "seconds DOUBLE, error VARCHAR",
    "calls": f"{_KEY}, stage_position BIGINT, stage VARCHAR, label VARCHAR, restored BOOLEAN, request VARCHAR, "
    "model VARCHAR, input_tokens BIGINT, cached_input_tokens BIGINT, output_tokens BIGINT, "
    "reasoning_tokens BIGINT, cached BOOLEAN, seconds DOUBLE, retries BIGINT, parse VARCHAR, cost_usd DOUBLE",
}
"""Columns per table. `questions` and `candidates` hold the verdicts; `links`, `failure` and `value` are JSON text.

A question has one row in `questions`, one in `candidates` per stage that yields a SQL (`reached` false where
there is a verdict but no candidate), one in `stages` per stage it went through, one in `calls` per model call.
"""


def to_rows(
    run_id: str, scores: Iterable[QuestionScore], positions: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of some questions by table.

    Args:
        run_id: the run.
        scores: the questions.
        positions: place in the benchmark by question id; a question that is not named has none yet.
    """
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for score in scores:
        key = {"run_id": run_id, "question_id": score.question.id}
        rows["questions"].append(key | _question_row(score, positions.get(score.question.id)))
        rows["candidates"].extend(key | row for row in _candidate_rows(score))
        for place, stage in enumerate(score.outcome.stages):
            rows["stages"].append(key | _stage_row(stage, place))
            rows["calls"].extend(key | row for row in _call_rows(stage, place))
    return rows


def from_rows(tables: Mapping[str, Iterable[Row]]) -> tuple[QuestionScore, ...]:
    """Return the scores of the questions whose rows are given, in the order of `questions`."""
    candidates, stages = _by_question(tables["candidates"]), _by_question(tables["stages"])
    calls: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in tables["calls"]:
        calls[row["question_id"], row["stage_position"]].append(row)
    return tuple(
        _score(row, candidates[row["question_id"]], stages[row["question_id"]], calls)
        for row in tables["questions"]
    )


def _question_row(score: QuestionScore, position: int | None) -> dict[str, Any]:
    question, outcome = score.question, score.outcome
    failure = outcome.failure
    return {
        "position": position,
        "database": question.database_id,
        "difficulty": question.difficulty,
        "question": _text(question.text),
        "evidence": _text(question.evidence),
        "sql": _text(outcome.sql),
        "gold_sql": _text(score.gold_sql),
        "executable": score.executable,
        "failure_kind": failure.kind if failure else None,
        "failure": json.dumps(asdict(failure)) if failure else None,
        "links": json.dumps({name: asdict(link) for name, link in outcome.links.items()}),
        "notes": [_text(note) for note in outcome.notes],
        "attempts": outcome.attempts,
        "samples": list(outcome.samples),
        **_verdict_row(score.final),
    }


def _candidate_rows(score: QuestionScore) -> Iterator[dict[str, Any]]:
    given = {candidate.stage: candidate.sql for candidate in score.outcome.candidates}
    nothing = dict.fromkeys(("correct", "status", "error", "row_count", "gold_status", "seconds"))
    for place, stage in enumerate(dict.fromkeys([*given, *score.stages])):
        verdict = score.stages.get(stage)
        judged = _verdict_row(verdict) if verdict else nothing
        yield {
            "position": place,
            "stage": stage,
            "reached": stage in given,
            "sql": _text(given.get(stage)),
            **judged,
        }


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    return {
        "correct": list(verdict.correct.items()),
        "status": verdict.status,
        "error": _text(verdict.error),
        "row_count": verdict.row_count,
        "gold_status": verdict.gold_status,
        "seconds": verdict.seconds,
    }


def _stage_row(stage: StageRecord, place: int) -> dict[str, Any]:
    return {
        "position": place,
        "stage": stage.stage,
        "label": stage.label,
        "value": json.dumps(stage.value),
        "restored": stage.restored,
        "notes": [_text(note) for note in stage.notes],
        "seconds": stage.seconds,
        "error": _text(stage.error),
    }


def _call_rows(stage: StageRecord, stage_place: int) -> Iterator[dict[str, Any]]:
    for place, call in enumerate(stage.calls):
        yield {
            "position": place,
            "stage_position": stage_place,
            "stage": stage.stage,
            "label": stage.label,
            "restored": stage.restored,
            "request": call.request,
            "model": call.model,
            "input_tokens": call.usage.input,
            "cached_input_tokens": call.usage.cached_input,
            "output_tokens": call.usage.output,
            "reasoning_tokens": call.usage.reasoning,
            "cached": call.cached,
            "seconds": call.seconds,
            "retries": call.retries,
            "parse": call.parse,
            "cost_usd": call.cost_usd,
        }


def _text(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _by_question(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["question_id"]].append(row)
    return found


def _score(
    row: Row, candidates: list[Row], stages: list[Row], calls: Mapping[tuple[str, int], list[Row]]
) -> QuestionScore:
    question_id = row["question_id"]
    outcome = Outcome(
        question_id=question_id,
        sql=row["sql"],
        candidates=tuple(Candidate(each["stage"], each["sql"]) for each in candidates if each["reached"]),
        links={name: _link(link) for name, link in json.loads(row["links"]).items()},
        stages=tuple(_stage(each, calls.get((question_id, each["position"]), [])) for each in stages),
        failure=Failure(**json.loads(row["failure"])) if row["failure"] else None,
        notes=tuple(row["notes"]),
        attempts=row.get("attempts") or 1,
        samples=tuple(row.get("samples") or (0,)),
    )
    return QuestionScore(
        question=Question(question_id, row["question"], row["database"], row["evidence"], row["difficulty"]),
        outcome=outcome,
        final=_verdict(row),
        stages={each["stage"]: _verdict(each) for each in candidates if each["status"] is not None},
        gold_sql=row["gold_sql"],
        executable=row["executable"],
    )


def _link(link: Mapping[str, Any]) -> Link:
    columns = tuple(ColumnName(**column) for column in link["columns"])
    return Link(tuple(link["tables"]), columns, tuple(link["dropped"]))


def _verdict(row: Row) -> Verdict:
    return Verdict(
        dict(row["correct"]),
        row["status"],
        row["error"],
        row["row_count"],
        row["gold_status"],
        row["seconds"],
    )


def _stage(row: Row, calls: list[Row]) -> StageRecord:
    return StageRecord(
        row["stage"],
        row["label"],
        json.loads(row["value"]),
        row["restored"],
        tuple(_call(call) for call in calls),
        tuple(row["notes"]),
        row["seconds"],
        row["error"],
    )


def _call(row: Row) -> Call:
    usage = Usage(
        row["input_tokens"], row["cached_input_tokens"], row["output_tokens"], row["reasoning_tokens"]
    )
    return Call(
        row["request"],
        row["model"],
        usage,
        row["cached"],
        row["seconds"],
        row["retries"],
        row["parse"],
        row["cost_usd"],
    )
