"""The content of a bundle: a run's settings, answers, verdicts and costs, without questions, gold SQL and results."""

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.backbone.recordings.file import RecordedReply
from tasks.core.errors import DataError, first_problem
from tasks.core.outcome import Outcome, StageRecord
from tasks.core.records import Question
from tasks.core.trajectory import TURN
from tasks.scoring.report import Opinion, QuestionScore
from tasks.tracking.bundle.anonymous import Anonymizer
from tasks.tracking.bundle.archive import read_archive
from tasks.tracking.evaluation import EvaluationRun, as_json, is_run_id, run_from_json
from tasks.tracking.run_record import RunRecord, Tracked, json_of, read_record
from tasks.tracking.warehouse.stored import StoredRun

RUN, RECORD, QUESTIONS, REPLIES, EXPORT = (
    "run.json", "record.json", "questions.jsonl", "replies.jsonl", "export.json",
)  # fmt: skip
"""Files of a bundle."""

READING = ("value_retrieval", "question_values", "column_profile")
"""Stages whose results are values of the database."""
VALUES = ("values", "samples")
"""Keys of these values in them."""
PROSE = ("description", "source", "download", "licence")
"""Settings of a benchmark that describe it to a reader, and are left out."""


@dataclass(frozen=True, slots=True)
class BundledQuestion:
    """A question of a run: its answer and the verdicts on it."""

    id: str
    text_sha256: str  # sha256 of its text and evidence
    outcome: Outcome
    scored: bool  # whether there was a database and a gold
    # whether the final SQL is right, by rule, and the same by stage and by answer key
    final: Mapping[str, bool] = field(default_factory=dict)
    stages: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    keys: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    opinion: Opinion | None = None


@dataclass(frozen=True)
class Bundle:
    """A bundle as read."""

    file: Path
    digest: str  # sha256 of its manifest
    run: EvaluationRun
    record: RunRecord
    questions: tuple[BundledQuestion, ...] = field(repr=False)
    export: Mapping[str, Any]  # versions of the packages that exported it, and the counts of replies
    replies: bytes | None = field(repr=False)  # a recording; None where they were refused


def text_digest(question: Question) -> str:
    """Return the sha256 of a question's text and evidence."""
    return hashlib.sha256(json.dumps([question.text, question.evidence]).encode()).hexdigest()


def bundled(score: QuestionScore, hidden: Anonymizer, *, replies: bool) -> BundledQuestion:
    """Return a scored question as a bundle holds it; `replies`: with what the model wrote in an agent's turns."""
    outcome, opinion = score.outcome, score.opinion
    failure = outcome.failure and replace(outcome.failure, message=hidden.text(outcome.failure.message))
    stages = tuple(_without_results(_without_names(each, hidden), replies=replies) for each in outcome.stages)
    notes = tuple(map(hidden.text, outcome.notes))
    return BundledQuestion(
        score.question.id,
        text_digest(score.question),
        replace(outcome, failure=failure, stages=stages, notes=notes),
        score.executable,
        score.final.correct,
        {name: verdict.correct for name, verdict in score.stages.items()},
        {name: verdict.correct for name, verdict in score.keys.items()},
        opinion and replace(opinion, reason=hidden.text(opinion.reason)),
    )


def _without_names(record: StageRecord, hidden: Anonymizer) -> StageRecord:
    return replace(
        record,
        calls=tuple(replace(call, model=hidden.value(call.model, "model")) for call in record.calls),
        notes=tuple(map(hidden.text, record.notes)),
        error=hidden.text(record.error),
        fallback=hidden.text(record.fallback),
        skipped=hidden.text(record.skipped),
    )


def _without_results(record: StageRecord, *, replies: bool) -> StageRecord:
    """Return a stage without values of the database: those that it read, and the results of an agent's tool calls."""
    if record.stage in READING:
        return replace(record, value=_without_values(record.value))
    if record.stage != TURN or not record.value:
        return record
    left_out = {"result": None} if replies else {"result": None, "arguments": ""}
    calls = [{**call, **left_out} for call in record.value["calls"]]
    return replace(record, value={**record.value, "calls": calls, **({} if replies else {"text": ""})})


def _without_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: [] if name in VALUES else _without_values(item) for name, item in value.items()}
    return [_without_values(item) for item in value] if isinstance(value, list | tuple) else value


def files_of(
    stored: StoredRun, hidden: Anonymizer, replies: Sequence[RecordedReply] | None, missing: int
) -> dict[str, bytes]:
    """Return the files of a run's bundle by name.

    Args:
        stored: the run with its questions.
        hidden: removes what must not be in it.
        replies: the model's replies; None: they are refused.
        missing: number of replies that are not stored any more.
    """
    run = json.loads(as_json(replace(stored.run, user=None)))
    run["settings"]["benchmark"] = {
        name: value for name, value in run["settings"]["benchmark"].items() if name not in PROSE
    }
    record = stored.record.model_copy(update={"mlflow": Tracked(), "mlflow_run_id": None})
    counts = {"included": None if replies is None else len(replies), "missing": missing}
    export = {"python": platform.python_version(), "packages": package_versions(), "replies": counts}
    files = {
        RUN: _json(hidden.value(run)),
        RECORD: _json(hidden.value(json_of(record))),
        QUESTIONS: _lines(asdict(bundled(row, hidden, replies=replies is not None)) for row in stored.rows),
        EXPORT: _json(export),
    }
    if replies is None:
        return files
    # the name of a model can be the path of its folder
    lines = (replace(reply, model=hidden.value(reply.model, "model")) for reply in replies)
    return files | {REPLIES: _lines(map(asdict, lines))}


def package_versions() -> dict[str, str]:
    """Return the versions of Crosscheck and of the packages that it needs, by name."""
    try:
        needed = metadata.requires("crosscheck-sql") or ()
    except metadata.PackageNotFoundError:
        return {}
    names = {match[0] for each in needed if "extra ==" not in each and (match := re.match(r"[\w.-]+", each))}
    found = {}
    for name in sorted({"crosscheck-sql", *names}):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # one of another platform
            continue
    return found


def read_bundle(path: Path) -> Bundle:
    """Read a bundle and check its digests.

    Raises:
        CrosscheckError: it cannot be read, was changed, or does not fit this release.
    """
    archive = read_archive(path)
    files = archive.files
    try:
        run = run_from_json(files[RUN].decode())
        if not is_run_id(run.run_id):
            raise DataError(f'{path} is of the run "{run.run_id}", and no run has such an id.')
        return Bundle(
            path,
            archive.digest,
            run,
            read_record(files[RECORD].decode()),
            tuple(_questions().validate_python(json.loads(line)) for line in files[QUESTIONS].splitlines()),
            json.loads(files[EXPORT]),
            files.get(REPLIES),
        )
    except KeyError as error:
        raise DataError(f"{path} has no file {error}, which every bundle has.") from None
    except ValidationError as error:
        raise DataError(
            f"{path} does not fit this release of Crosscheck ({first_problem(error)}). Use the release that wrote it: "
            f"it is in {EXPORT}."
        ) from None
    except ValueError as error:
        raise DataError(f"{path} holds a file that is no JSON: {error}.") from None


@cache
def _questions() -> TypeAdapter[BundledQuestion]:
    return TypeAdapter(BundledQuestion)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _lines(values: Any) -> bytes:
    return "".join(f"{json.dumps(value)}\n" for value in values).encode()
