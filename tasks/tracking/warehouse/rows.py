"""The warehouse's rows: from scores to flat rows and back, without loss.

A row is a record's fields by their names, of which the table keeps those that it has a column for. Only what is named
or nested otherwise is written out here.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from tasks.core.outcome import Call, StageRecord, Usage
from tasks.scoring.report import QuestionScore, Verdict

Row = Mapping[str, Any]

TABLES = ("questions", "candidates", "stages", "calls")
"""The tables that hold the questions of a run; `tables.py` has their columns."""

_USAGE = tuple(field.name for field in fields(Usage))


def to_rows(
    run_id: str, scores: Iterable[QuestionScore], positions: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of some questions by table.

    A question without a position in the benchmark has none yet.
    """
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for score in scores:
        key = {"run_id": run_id, "question_id": score.question.id}
        rows["questions"].append(_question_row(score) | key | {"position": positions.get(score.question.id)})
        rows["candidates"].extend(row | key for row in _candidate_rows(score))
        for place, stage in enumerate(score.outcome.stages):
            value = json.dumps(stage.value)
            rows["stages"].append(_row(stage) | key | {"position": place, "value": value})
            rows["calls"].extend(
                _call_row(stage, call) | key | {"stage_position": place, "position": number}
                for number, call in enumerate(stage.calls)
            )
    return rows


def from_rows(tables: Mapping[str, Iterable[Row]]) -> tuple[QuestionScore, ...]:
    """Return the scores of the questions whose rows are given, in the order of `questions`."""
    candidates, stages, calls = (_by_question(tables[name]) for name in ("candidates", "stages", "calls"))
    return tuple(
        _score(row, candidates[row["question_id"]], stages[row["question_id"]], calls[row["question_id"]])
        for row in tables["questions"]
    )


def _question_row(score: QuestionScore) -> dict[str, Any]:
    question, outcome, failure = score.question, score.outcome, score.outcome.failure
    return {
        **_row(score),
        **_row(question),
        **_row(outcome),
        **_verdict_row(score.final),
        "question": _utf8(question.text),
        "database": question.database_id,
        "keys": json.dumps({name: asdict(found) for name, found in score.keys.items()}),
        "opinion": json.dumps(asdict(score.opinion)) if score.opinion else None,
        "links": json.dumps({name: asdict(link) for name, link in outcome.links.items()}),
        "failure": json.dumps(asdict(failure)) if failure else None,
        "failure_kind": failure.kind if failure else None,
    }


def _candidate_rows(score: QuestionScore) -> Iterator[dict[str, Any]]:
    given = {candidate.stage: candidate for candidate in score.outcome.candidates}
    for place, stage in enumerate(dict.fromkeys([*given, *score.stages])):
        candidate, verdict = given.get(stage), score.stages.get(stage)
        yield {
            **(_row(candidate) if candidate else {}),
            **(_verdict_row(verdict) if verdict else {}),
            "position": place,
            "stage": stage,
            "reached": candidate is not None,
        }


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    return _row(verdict) | {"correct": list(verdict.correct.items())}


def _call_row(stage: StageRecord, call: Call) -> dict[str, Any]:
    tokens = {f"{name}_tokens": getattr(call.usage, name) for name in _USAGE}
    return _row(call) | tokens | {"stage": stage.stage, "label": stage.label, "restored": stage.restored}


def _row(record: Any) -> dict[str, Any]:
    """Return a record's fields by name, texts as UTF-8 can hold them; no error is None, so that it becomes NULL."""
    row: dict[str, Any] = {}
    for name in _names(record.__class__):
        value = getattr(record, name)
        if isinstance(value, str):
            value = _utf8(value) if value or name != "error" else None
        elif name == "notes":
            value = [_utf8(note) for note in value]
        row[name] = value
    return row


def _utf8(text: str) -> str:
    """Return text with question marks for halves of surrogate pairs. NUL stays: an SQL with it fails as it did."""
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


def _by_question(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["question_id"]].append(row)
    return found


def _score(row: Row, candidates: list[Row], stages: list[Row], calls: list[Row]) -> QuestionScore:
    names = {"id": row["question_id"], "text": row["question"], "database_id": row["database"]}
    outcome = {
        "candidates": [each for each in candidates if each["reached"]],
        "links": json.loads(row["links"]),
        "stages": [_stage(stage, calls) for stage in stages],
        "failure": json.loads(row["failure"]) if row["failure"] else None,
    }
    found = {
        "question": {**row, **names},
        "outcome": {**row, **outcome},
        "final": _with_error(row),
        "keys": json.loads(row["keys"]),
        "opinion": json.loads(row["opinion"]) if row["opinion"] else None,
        "stages": {each["stage"]: _with_error(each) for each in candidates if each["status"] is not None},
    }
    return _scores().validate_python({**row, **found})


def _stage(row: Row, calls: list[Row]) -> Row:
    own = [
        {**call, "usage": {name: call[f"{name}_tokens"] for name in _USAGE}}
        for call in calls
        if call["stage_position"] == row["position"]
    ]
    return {**_with_error(row), "value": json.loads(row["value"]), "calls": own}


def _with_error(row: Row) -> Row:
    return {**row, "error": row["error"] or ""}


@cache
def _scores() -> TypeAdapter[QuestionScore]:
    return TypeAdapter(QuestionScore)
