"""Records of a run in the making: what is known before its first answer, and what its report adds at its end."""

import datetime
import getpass
import hashlib
import json
import secrets
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tasks.benchmarks.rows import files_digest
from tasks.core.wording import storable
from tasks.results.parameters import redact, secrets_of, stored_settings
from tasks.results.run_record import BESIDE, KINDS, TRANSLATED, Kind, RunRecord, read_record
from tasks.scoring.degradation import most_frequent
from tasks.scoring.report import Report

MESSAGE_LENGTH = 300
REPORTED = {field.name for field in fields_of(Report)} & set(RunRecord.model_fields) - {"rule"}
"""Fields that a record has from its report; its rule is known from the beginning."""


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
    """Return the record of a run that begins, by the settings of benchmark, backbone and pipeline as plain JSON."""
    benchmark, backbone, pipeline = (settings[kind] for kind in KINDS)
    translated = {TRANSLATED: str(benchmark.get("dialect"))} if benchmark.get("transpile_gold") else {}
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
            tags={**(tags or {}), **translated},
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


def record_of(run: RunRecord, report: Report, status: str = "complete", **facts: Any) -> RunRecord:
    """Return the record of a run with what its report found, of the questions that it has so far."""
    score = report.score
    measurements = report.measurements.values()
    messages = _failure_messages(report, facts.get("fatal", ""))
    not_executed = [row.outcome.failure for row in report.rows if not row.executable and row.outcome.failure]
    update: dict[str, Any] = {
        "status": status,
        **{name: getattr(report, name) for name in REPORTED},
        **{name: getattr(score, name) for name in ("ex", "correct", "total", "low", "high")},
        "unanswered": sum(report.failures.values()),
        "question_set": _question_set(run, report),
        "failure_messages": redact(messages, *secrets_of(run.settings_of("backbone"))),
        "not_executable": Counter(failure.stage for failure in not_executed if failure.stage),
        "metrics": {name: detail.data if detail else None for name, detail in report.details.items()},
        "tables": tuple(table for measurement in measurements for table in measurement.tables),
        "remarks": tuple(line for measurement in measurements for line in measurement.lines or ()),
        **({"mlflow_run_id": facts["mlflow"].run_id} if facts.get("mlflow") else {}),
        **facts,
    }
    return storable_record(run.model_copy(update=update))


def storable_record(record: RunRecord) -> RunRecord:
    """Return a record in whose texts is nothing that a store cannot hold: its JSON equals what is read from one."""
    fields = dict(vars(record))
    beside = {name: fields.pop(name) for name in BESIDE}
    text = json.dumps(fields, default=_plain, ensure_ascii=False)
    return read_record(storable(text)).model_copy(update=beside)


def _plain(value: Any) -> Any:
    """Return a dataclass, mapping or moment as JSON can write it."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields_of(value)}
    return value.isoformat() if isinstance(value, datetime.datetime) else dict(value)


def _question_set(run: RunRecord, report: Report) -> str:
    ids = sorted(row.question.id for row in report.rows)
    text = "\n".join([run.question_sha256, *ids])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32] if ids else run.run_id


def _failure_messages(report: Report, fatal: str) -> dict[str, str]:
    """Return the most frequent message of each kind of failure, without those that repeat the fatal error."""
    messages: dict[str, Counter[str]] = {}
    for failure in (row.outcome.failure for row in report.rows if row.executable):
        if failure:
            message = "" if fatal and fatal in failure.message else failure.message
            messages.setdefault(failure.kind, Counter())[message] += 1
    by_kind = {kind: most_frequent(counter)[:MESSAGE_LENGTH] for kind, counter in messages.items()}
    return {kind: message for kind, message in by_kind.items() if message}
