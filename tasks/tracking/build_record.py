"""From an evaluation and its report to the record of the run."""

import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import Any

from tasks.core.errors import CrosscheckError
from tasks.core.wording import storable
from tasks.scoring.report import Report
from tasks.settings.evaluation import HARMLESS
from tasks.tracking.evaluation import KINDS, EvaluationRun
from tasks.tracking.parameters import flatten, redact, secrets_of
from tasks.tracking.run_record import RunRecord, read_record

MESSAGE_LENGTH = 300


def started_record(run: EvaluationRun, status: str = "running") -> RunRecord:
    """Return the record of a run that has begun."""
    fields = {
        "run_id": run.run_id,
        "benchmark": run.benchmark,
        "revision": run.revision,
        "backbone": run.backbone,
        "pipeline": run.pipeline,
        "rule": run.rule,
        "status": status,
        "started": run.started,
        "tags": dict(run.tags),
        "question_set": run.run_id,
        "changes": _changes(run),
        "translations": run.translations,
        "engine": run.engine,
        "question_sha256": run.question_sha256,
        "keys": dict(run.keys),
        "version": run.version,
        "git_commit": run.git_commit,
    }
    return _clean(fields)


def record_of(run: EvaluationRun, report: Report, status: str = "complete", **facts: Any) -> RunRecord:
    """Return the record of a run from its report.

    Args:
        run: the evaluation.
        report: what it found, of the questions that it has so far.
        status: how it ended.
        facts: further fields of the record.
    """
    score = report.score
    found = {name: each.data if each else None for name, each in report.details.items()}
    update: dict[str, Any] = {
        "questions": report.questions,
        "scored": report.scored,
        "answered": report.answered,
        "unanswered": sum(report.failures.values()),
        "retryable": report.retryable,
        **{name: getattr(score, name) for name in ("ex", "correct", "total", "low", "high")},
        "question_set": _question_set(run, report),
        "scores": report.scores,
        "stages": report.stages,
        "by_difficulty": report.by_difficulty,
        "by_database": report.by_database,
        "links": report.linking,
        "cost": report.cost,
        "stage_costs": report.stage_cost,
        "degradation": report.degradation,
        "failures": report.failures,
        "failure_messages": redact(
            _failure_messages(report, facts.get("fatal", "")), *secrets_of(run.settings.get("backbone") or {})
        ),
        "missing_databases": report.missing_databases,
        "without_gold": report.without_gold,
        "not_executable": _not_executable(report),
        "gold_faults": report.gold_faults,
        "metrics": found,
        "remarks": tuple(line for each in report.measurements.values() for line in each.lines or ()),
        **({"mlflow_run_id": facts["mlflow"].run_id} if facts.get("mlflow") else {}),
        **facts,
    }
    return _clean({**started_record(run, status).model_dump(), **update})


def _plain(value: Any) -> Any:
    """Return a dataclass, mapping or moment as JSON can write it."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields_of(value)}
    return value.isoformat() if isinstance(value, datetime.datetime) else dict(value)


def _clean(fields: Mapping[str, Any]) -> RunRecord:
    """Return a record in whose texts is nothing that a store cannot hold: it equals what is read from one."""
    return read_record(storable(json.dumps(fields, default=_plain, ensure_ascii=False)))


def _changes(run: EvaluationRun) -> tuple[str, ...] | None:
    """Return the settings that differ from those of the same names without `--set`.

    A backbone of a file that cannot be read by its name is compared with any endpoint: without its prices, and without
    what has no influence on an answer.
    """
    from tasks.settings.assemble import EvaluationChoice, evaluation_settings  # imports YAML
    from tasks.settings.backbone import BackboneSettings

    def defaults_of(backbone: str) -> Any:
        choice = EvaluationChoice(benchmark=run.benchmark, backbone=backbone, pipeline=run.pipeline)
        return evaluation_settings(choice)

    skipped: tuple[str, ...] = ()
    try:
        defaults = defaults_of(run.backbone)
    except CrosscheckError:
        if (run.settings.get("backbone") or {}).get("kind") != "openai":
            return None
        try:
            unnamed = {"backbone": BackboneSettings(name=run.backbone)}
            defaults = defaults_of("offline").model_copy(update=unnamed)
            skipped = ("backbone.prices", *HARMLESS)
        except CrosscheckError:  # a benchmark or a pipeline of a file, or predictions made elsewhere
            return None
    default = flatten({kind: getattr(defaults, kind).model_dump(mode="json") for kind in KINDS})
    now = flatten({kind: run.settings.get(kind) or {} for kind in KINDS})
    changed = (key for key in now if _differs(key, now[key], default) and not key.startswith(skipped))
    return tuple(sorted(f"{key}={now[key]}" for key in changed))


def _differs(key: str, value: str, default: Mapping[str, str]) -> bool:
    """Return whether a flat setting has another value than by default, where a part of a null mapping is null."""
    if key in default:
        return default[key] != value
    return value != "null" or any(name.startswith(f"{key}.") for name in default)


def _question_set(run: EvaluationRun, report: Report) -> str:
    ids = sorted(row.question.id for row in report.rows)
    named = "\n".join([run.question_sha256, *ids])
    return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:32] if ids else run.run_id


def _not_executable(report: Report) -> dict[str, int]:
    failures = (row.outcome.failure for row in report.rows if not row.executable)
    return dict(Counter(failure.stage for failure in failures if failure and failure.stage))


def _failure_messages(report: Report, fatal: str) -> dict[str, str]:
    """Return the most frequent message of each kind of failure, without those that repeat the fatal error."""
    found: dict[str, Counter[str]] = {}
    for failure in (row.outcome.failure for row in report.rows):
        if failure and failure.kind in report.failures and not (fatal and fatal in failure.message):
            found.setdefault(failure.kind, Counter())[failure.message] += 1
    most = {kind: messages.most_common(1)[0][0] for kind, messages in found.items()}
    return {kind: " ".join(message.split())[:MESSAGE_LENGTH] for kind, message in most.items()}
