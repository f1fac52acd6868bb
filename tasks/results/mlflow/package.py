"""Everything that is logged to MLflow of one evaluation, so that it can be sent now or kept for later."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Base64Bytes

from tasks.core.wording import counts, interval, money, number, percent
from tasks.results.parameters import flatten
from tasks.results.predictions_table import FILE as PREDICTIONS_FILE
from tasks.results.predictions_table import table
from tasks.results.run_record import RunRecord, TaskRunCounts, Tracked, json_of
from tasks.scoring.scores import Accuracy, Ratio, Value

_LOG = logging.getLogger(__name__)

Logged = Value | Accuracy | None


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric value; `step` is the stage number of a stepped series and 0 elsewhere."""

    name: str
    value: float
    step: int


PAGE, COMPARISON = "report.html", "comparison.html"
"""Artifacts with the page of a run, and with its comparison with the previous run."""
COUNTS_OF_FAULTS = ("failures/", "questions/gold_fault", "questions/database_missing")
"""Beginnings of the names of counts that are a metric only where they are not 0."""


def measures(record: RunRecord) -> tuple[Measure, ...]:
    """Return the metrics of a run, about forty, without values that are not known and counts of faults that are 0.

    MLflow's UI sorts metrics by name, and groups them by what stands before the slash: the names are chosen
    so that `ex` comes first and everything about one subject stands together. Further figures, for example
    the cost by stage, are in the run's record (`summary.json`) and in the warehouse.
    """
    without_steps = _metrics_without_steps(record)
    values = [(name, value, 0) for name, value in without_steps.items()]
    values += [("ex_by_stage", stage, step) for step, stage in enumerate(record.stages, 1)]
    for measurement in record.measurements.values():
        for name, series in measurement.series.items():
            values += [(name, value, step) for step, value in enumerate(series, 1)]
    numbers = [(name, _number(value), step) for name, value, step in values]
    return tuple(
        Measure(name, number, step)
        for name, number, step in numbers
        if number or (number is not None and not name.startswith(COUNTS_OF_FAULTS))
    )


def _number(value: Logged) -> float | None:
    """Return a value; of a share six decimals, which MLflow shows in full; None of nothing."""
    if value is None or isinstance(value, int | float):
        return value
    share = value.value if isinstance(value, Ratio) else value.ex
    return None if share is None else round(share, 6)


def _metrics_without_steps(record: RunRecord) -> dict[str, Logged]:
    """Return the metrics without steps; the value of a registered metric stands under the metric's name."""
    values: dict[str, Logged] = {"ex": record.score}
    values |= {f"ex_{name}": score for name, score in record.scores.items() if name != record.rule}
    values |= {f"ex_by_difficulty/{grade}": ratio for grade, ratio in record.by_difficulty.items()}
    values |= {f"stage_ex/{stage.name}": stage for stage in record.stages}
    for link in record.links:
        values[f"linking/{link.name}/nsr"] = link.nsr
        values[f"linking/{link.name}/strict_recall"] = link.strict_recall
    for name, score in {"": record.score, **record.variants}.items():
        end = f"_{name}" if name else ""
        values |= {f"questions/correct{end}": score.correct, f"questions/total{end}": score.total}
    values |= {f"questions/differs_{name}": score.differs.count for name, score in record.variants.items()}
    values |= {
        "questions/failed": sum(record.failures.values()),
        "questions/retryable": record.retryable,
        "questions/database_missing": sum(record.missing_databases.values()),
        "questions/gold_fault": len(record.gold_faults),
        "questions/degraded": record.degradation.affected,
    }
    for degraded in record.degradation.stages:
        values[f"stage_unreadable/{degraded.stage}"] = Ratio(degraded.unreadable, degraded.replies)
        values[f"stage_fallbacks/{degraded.stage}"] = degraded.fallbacks
    values |= {f"failures/{kind}": count for kind, count in record.failures.items()}
    for name, measurement in record.measurements.items():
        values |= {name: measurement.value} | dict(measurement.further)
    cost = record.cost
    values |= {
        "usage/calls": cost.calls,
        "usage/cached_calls": cost.cached_calls,
        "usage/input_tokens": cost.input_tokens,
        "usage/output_tokens": cost.output_tokens,
        "usage/cost_usd": _dollars(cost.cost_usd),
        "usage/from_scratch_usd": _dollars(cost.from_scratch_usd),
        "usage/call_p95_seconds": cost.p95_s,
        "usage/seconds": record.seconds,
    }
    return values


def _dollars(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 9)


MAX_TAG = 8000
"""MLflow's limit on the length of a tag."""


@dataclass(frozen=True, slots=True)
class Package:
    """What one flat MLflow run holds."""

    run: RunRecord  # as it began
    dataset: Mapping[str, str]  # file, revision, sha256 and benchmark of its questions
    params: Mapping[str, str]  # flattened settings
    tags: Mapping[str, str]  # provenance, and the Markdown description
    measures: tuple[Measure, ...] = ()  # metrics; () while the evaluation runs
    # artifacts by path; empty while the evaluation runs
    files: Mapping[str, Base64Bytes] = field(default_factory=dict)
    # the MLflow run that was created before MLflow could not be reached; None where there is none
    tracked: Tracked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How an evaluation ended, and what is logged beside its record."""

    seconds: float | None = None  # wall time; None when unknown
    prefect: TaskRunCounts = field(default_factory=TaskRunCounts)  # its Prefect task runs
    facts: Mapping[str, Any] = field(default_factory=dict)  # further fields of the record
    describe: Callable[[RunRecord], str] = lambda record: ""  # MLflow's description of the run, in Markdown
    # pages in HTML, by the name of their artifact, from the record with its questions
    pages: Callable[[RunRecord], Mapping[str, str]] = lambda record: {}
    remarks: tuple[str, ...] = ()  # further sentences of the description
    genai_evaluation: bool = False  # whether MLflow lists the run among its evaluation runs


def opening(run: RunRecord) -> Package:
    """Return what is known before the first answer."""
    return Package(run, _dataset(run), _params(run), _tags(run))


def closing(record: RunRecord, completion: Completion) -> Package:
    """Return what is logged at the end of a run; the record becomes the file `summary.json`."""
    import yaml

    pages: Mapping[str, str] = {}
    try:
        pages = completion.pages(record)
    except Exception:  # a run without its pages is still a result that was paid for
        _LOG.exception("run %s is logged without its pages", record.run_id)
    files = {
        "config.yaml": yaml.safe_dump(record.settings, sort_keys=False, allow_unicode=True).encode(),
        "summary.json": json.dumps(json_of(record), indent=2, ensure_ascii=False).encode("utf-8", "replace"),
        **{path: page.encode("utf-8", "replace") for path, page in pages.items()},
        PREDICTIONS_FILE: table(record).encode("utf-8", "replace"),
    }
    remarks = "".join(f"- {remark}\n" for remark in completion.remarks)
    described = completion.describe(record) + remarks
    score = record.score
    range_ = f", {interval(*score.interval)}" if score.interval else ""
    tags = _tags(record) | {
        "mlflow.note.content": described[:MAX_TAG],
        "mlflow.source.name": in_short(record),
        "score": f"{percent(score)} ({counts(score)}){range_}",
        "mlflow.loggedArtifacts": json.dumps([{"path": PREDICTIONS_FILE, "type": "table"}]),
    }
    if completion.genai_evaluation:
        tags["mlflow.runType"] = "genai_evaluate"
    return Package(record, _dataset(record), _params(record), tags, measures(record), files)


def in_short(record: RunRecord, verdict: str = "") -> str:
    """Return score, cost, unanswered questions and verdict, for the column Source, which MLflow's list always shows."""
    score = percent(record.score, 1) if record.score.total else "no score"  # the column is as wide as that
    usd = money(record.cost.cost_usd)
    return ", ".join((score, usd, f"{number(record.unanswered)} unanswered", *([verdict] if verdict else [])))


def address_of_page(record: RunRecord, page: Path) -> str:
    """Return the address of a run's page, relative to another page in a folder of the working folder.

    It is "" where MLflow keeps its artifacts elsewhere, or the run has no page.
    """
    file = Path("mlartifacts", str(record.mlflow_run_id), "artifacts", PAGE)
    return f"../{file.as_posix()}" if (page.parents[1] / file).exists() else ""


def _dataset(run: RunRecord) -> dict[str, str]:
    return {
        "file": run.question_file,
        "revision": run.revision,
        "sha256": run.question_sha256,
        "benchmark": run.benchmark,
    }


def _tags(run: RunRecord) -> dict[str, str]:
    """Return tags; those under `mlflow.` fill the columns that MLflow's UI has of its own."""
    tags = {
        "status": run.status,
        "rule": run.rule,
        "benchmark_revision": run.revision,
        "question_sha256": run.question_sha256,
        "answer_keys": ", ".join(f"{name} {sha256}" for name, sha256 in run.keys.items()),
        "engine": run.engine,
        "crosscheck_version": run.version,
        "crosscheck_run_id": run.run_id,
        "git_commit": run.git_commit,
        "mlflow.source.git.commit": run.git_commit,
        "mlflow.source.name": "crosscheck",  # what the column Source shows while the run goes on
        "mlflow.source.type": "LOCAL",
        "mlflow.user": run.user,
        **dict(run.tags),
    }
    return {name: value for name, value in tags.items() if value}


def _params(run: RunRecord) -> dict[str, str]:
    """Return the settings, without their descriptions, and first in MLflow's order what distinguishes runs.

    MLflow's page of comparison draws the first parameters that differ, capital letters before small ones.
    """
    params = {"Backbone": run.backbone, "Pipeline": run.pipeline} | flatten(run.settings)
    left_out = {"backbone.name", "pipeline.name", *(f"{kind}.description" for kind in run.settings)}
    return {key: value for key, value in params.items() if key not in left_out}
