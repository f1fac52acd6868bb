"""Records of a run in the making: what is known before its first answer, and what its questions add at its end."""

import datetime
import getpass
import hashlib
import json
import secrets
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tasks.benchmarks.rows import files_digest
from tasks.core.outcome import StageRecord
from tasks.core.wording import storable
from tasks.database.schema import Schema
from tasks.results.parameters import redact, secrets_of, stored_settings
from tasks.results.run_record import BESIDE, KINDS, TRANSLATED, Kind, RunRecord, read_record
from tasks.scoring.breakdown import by_database, by_grade, stage_scores
from tasks.scoring.candidates import bill_line
from tasks.scoring.cost import total_cost
from tasks.scoring.degradation import find_degradation, most_frequent
from tasks.scoring.linking import score_links
from tasks.scoring.scores import NO_GOLD, Measurement, QuestionScore, accuracy
from tasks.scoring.variants import scores as scores_of

MESSAGE_LENGTH = 300
NO_ANSWER = "no_answer"
"""Kind of failure of a question without SQL whose pipeline reports none."""


def new_run_id() -> str:
    """Return a new run id: the time in UTC and six random hex digits, e.g. "20261121-020000-3f9a1c"."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def describe(
    settings: Mapping[Kind, Mapping[str, Any]],
    question_files: Sequence[Path],
    *,
    engine: str,
    questions_in_benchmark: int | None = None,
    tags: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    databases: Mapping[str, str] | None = None,
    inputs: str = "",
) -> RunRecord:
    """Return the record of a run that begins; `settings` are those of benchmark, backbone and pipeline as plain JSON.

    `keys` has the sha256 of each answer key, a file of corrected golds; the other arguments are fields of `RunRecord`.
    """
    benchmark, backbone, pipeline = (settings[kind] for kind in KINDS)
    tag_of_dialect = {TRANSLATED: str(benchmark.get("dialect"))} if benchmark.get("transpile_gold") else {}
    run_id = new_run_id()
    return storable_record(
        RunRecord(
            run_id=run_id,
            benchmark=str(benchmark["name"]),
            backbone=str(backbone["name"]),
            pipeline=str(pipeline["name"]),
            status="running",
            settings=stored_settings(settings),
            rule=str(benchmark["rule"]),
            revision=str(benchmark["revision"]),
            question_set=run_id,
            question_file=", ".join(map(str, question_files)),
            question_sha256=files_digest(question_files),
            started=datetime.datetime.now(datetime.UTC),
            version=metadata.version("crosscheck-sql"),
            git_commit=_git_commit(),
            engine=engine,
            questions_in_benchmark=questions_in_benchmark,
            user=user_name(),
            keys=dict(keys or {}),
            databases=dict(databases or {}),
            inputs=inputs,
            tags={**(tags or {}), **tag_of_dialect},
            translations=_translations(benchmark),
        )
    )


def _translations(benchmark: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what sqlglot translates for the score, in sentences: a score with translated SQL is another score."""
    sentences = {
        "transpile_gold": "gold SQL translated by sqlglot: not the benchmark's own score",
        "transpile_predictions": "answers translated by sqlglot before they were scored",
    }
    return tuple(sentence for key, sentence in sentences.items() if benchmark.get(key))


def user_name() -> str | None:
    """Return the login name of the user; None where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _git_commit() -> str | None:
    """Return the commit of the checkout this code runs from; None without git or outside of a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def record_of(
    run: RunRecord,
    rows: Sequence[QuestionScore],
    status: str = "complete",
    *,
    schemas: Mapping[str, Schema] = MappingProxyType({}),
    measurements: Mapping[str, Measurement | None] = MappingProxyType({}),
    link_all: bool = False,
    **facts: Any,
) -> RunRecord:
    """Return the record of a run with the scores of the questions that it has so far.

    Every share is over the scored questions, those whose database is available; a question that failed, or did not get
    as far as a stage, is wrong there. `failures` counts the scored questions without SQL: one whose pipeline reports no
    failure is counted as "no_answer".

    Args:
        run: the record as it was at the beginning.
        rows: one per selected question, in the benchmark's order.
        status: how the run ended.
        schemas: by database, for the linking scores.
        measurements: what the metrics found, by name; None where one does not apply.
        link_all: whether schema links are scored of questions without a database, too.
        facts: further fields of the record, which replace those that are counted here.
    """
    scored = [row for row in rows if row.executable]
    rules = tuple(dict.fromkeys([run.rule, *(name for row in scored for name in row.final.correct)]))
    scores = scores_of(scored, rules, run.settings_of("benchmark"))
    headline = scores[run.rule]
    applicable = {name: measurement for name, measurement in measurements.items() if measurement}
    update: dict[str, Any] = {
        "status": status,
        "questions": len(rows),
        "scored": len(scored),
        "answered": sum(row.outcome.sql is not None for row in rows),
        "question_set": _question_set(run, rows),
        "scores": scores,
        **{name: getattr(headline, name) for name in ("ex", "correct", "total", "low", "high")},
        "by_difficulty": {grade: accuracy(group, run.rule) for grade, group in by_grade(scored).items()},
        "by_database": {name: accuracy(group, run.rule) for name, group in by_database(scored).items()},
        "stages": stage_scores(scored, run.rule),
        "links": score_links(rows if link_all else scored, schemas),
        **_costs(rows),
        **_failures(run, rows, facts.get("fatal", "")),
        **_not_scored(rows),
        "gold_faults": {
            row.question.id: row.final.gold_status for row in scored if row.final.gold_status != "ok"
        },
        "degradation": find_degradation(row.outcome for row in rows),
        "rows": tuple(rows),
        "measurements": applicable,
        "metrics": {name: detail.data if detail else None for name, detail in measurements.items()},
        "remarks": tuple(line for measurement in applicable.values() for line in measurement.lines or ()),
        **facts,
    }
    return storable_record(run.model_copy(update=update))


def _costs(rows: Sequence[QuestionScore]) -> dict[str, Any]:
    records = [record for row in rows for record in row.outcome.stages]
    by_label: dict[str, list[StageRecord]] = defaultdict(list)
    for record in records:
        by_label[bill_line(record.label)].append(record)
    stage_costs = {label: total_cost(records) for label, records in by_label.items()}
    return {"cost": total_cost(records), "stage_costs": stage_costs}


def _failures(run: RunRecord, rows: Sequence[QuestionScore], fatal: str) -> dict[str, Any]:
    unanswered = [row for row in rows if row.executable and row.outcome.sql is None]
    failures = [row.outcome.failure for row in unanswered]
    messages = _failure_messages(rows, fatal)
    return {
        "unanswered": len(unanswered),
        "failures": dict(Counter(failure.kind if failure else NO_ANSWER for failure in failures)),
        "retryable": sum(failure.retryable for failure in failures if failure),
        "failure_messages": redact(messages, *secrets_of(run.settings_of("backbone"))),
    }


def _not_scored(rows: Sequence[QuestionScore]) -> dict[str, Any]:
    """Count the questions without a database or without a gold, and the stages that could not execute SQL for them."""
    not_scored = [row for row in rows if not row.executable]
    missing = Counter(row.question.database_id for row in not_scored if row.status != NO_GOLD)
    failures = [row.outcome.failure for row in not_scored if row.outcome.failure]
    stages_not_run = (failure.stage for failure in failures if failure.kind == "missing_database")
    return {
        "missing_databases": dict(sorted(missing.items())),
        "without_gold": sum(row.status == NO_GOLD for row in not_scored),
        "not_executable": Counter(filter(None, stages_not_run)),
    }


def storable_record(record: RunRecord) -> RunRecord:
    """Return a record in whose texts is nothing that a store cannot hold: its JSON equals what is read from one."""
    text = json.dumps(record.model_dump(), default=str, ensure_ascii=False)  # str: of moments
    return read_record(storable(text)).model_copy(update={name: getattr(record, name) for name in BESIDE})


def _question_set(run: RunRecord, rows: Sequence[QuestionScore]) -> str:
    ids = sorted(row.question.id for row in rows)
    text = "\n".join([run.question_sha256, *ids])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32] if ids else run.run_id


def _failure_messages(rows: Sequence[QuestionScore], fatal: str) -> dict[str, str]:
    """Return the most frequent message of each kind of failure, without those that repeat the fatal error."""
    messages: dict[str, Counter[str]] = {}
    for row in rows:
        failure = row.outcome.failure
        if row.executable and failure:
            repeats_fatal = bool(fatal) and fatal in failure.message
            messages.setdefault(failure.kind, Counter())["" if repeats_fatal else failure.message] += 1
    by_kind = {kind: most_frequent(counter)[:MESSAGE_LENGTH] for kind, counter in messages.items()}
    return {kind: message for kind, message in by_kind.items() if message}
