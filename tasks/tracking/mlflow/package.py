"""Everything that is logged to MLflow of one evaluation, so that it can be sent now or kept for later."""

import base64
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from tasks.core.errors import DataError
from tasks.core.files import atomic_write_text
from tasks.core.wording import money, number
from tasks.documents.markdown import markdown
from tasks.scoring.report import Report
from tasks.tracking.candidate_curve import candidate_figure
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.mlflow.figures import change_figure, stage_figure
from tasks.tracking.mlflow.metrics import Measure, measures
from tasks.tracking.parameters import flatten
from tasks.tracking.predictions import FILE, table
from tasks.tracking.run_display.document import run_document
from tasks.tracking.run_record import RunRecord, TaskRunCounts, Tracked, json_of
from tasks.tracking.submission import submission
from tasks.tracking.turn_curve import turn_figure

SOURCE = "crosscheck"
"""What MLflow's column Source shows of a run that goes on."""
MAX_TAG = 8000
"""MLflow's limit on the length of a tag."""


EncodedBytes = Annotated[
    bytes,
    PlainSerializer(lambda data: base64.b64encode(data).decode(), when_used="json"),
    BeforeValidator(lambda data: base64.b64decode(data) if isinstance(data, str) else data),
]
"""Bytes, in base 64 where they are written as JSON."""


@dataclass(frozen=True, slots=True)
class Package:
    """What one flat MLflow run holds."""

    run: EvaluationRun  # the evaluation
    params: Mapping[str, str]  # flattened settings
    tags: Mapping[str, str]  # provenance, and the Markdown description
    measures: tuple[Measure, ...] = ()  # metrics; () while the evaluation runs
    # artifacts by path; empty while the evaluation runs
    files: Mapping[str, EncodedBytes] = field(default_factory=dict)
    # the MLflow run that was created before MLflow could not be reached; None where there is none
    tracked: Tracked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How an evaluation ended, and what is logged beside its report."""

    status: str = "complete"  # the tag `status`, e.g. "complete", or "partial" after a stop in mid-run.
    seconds: float | None = None  # wall time; None when unknown
    prefect: TaskRunCounts = field(default_factory=TaskRunCounts)  # its Prefect task runs
    facts: Mapping[str, Any] = field(default_factory=dict)  # further fields of the record
    tags: Mapping[str, str] = field(default_factory=dict)  # further tags of the run
    remarks: tuple[str, ...] = ()  # further sentences of the description
    genai_evaluation: bool = False  # whether MLflow lists the run among its evaluation runs


def opening(run: EvaluationRun) -> Package:
    """Return what is known before the first answer."""
    return Package(run, _params(run), _tags(run, "running"))


def closing(run: EvaluationRun, report: Report, record: RunRecord, completion: Completion) -> Package:
    """Return what is known at the end; `record` becomes `summary.json`."""
    title = f"{run.name} on {run.benchmark}, revision {run.revision}"
    answers = submission(report, run.layout, run.questions_in_benchmark)
    files: dict[str, bytes | None] = {
        "config.yaml": _yaml(dict(run.settings)),
        "summary.json": json.dumps(json_of(record), indent=2, ensure_ascii=False).encode("utf-8", "replace"),
        answers.file_name: answers.text.encode("utf-8", "replace"),
        "figures/ex_by_stage.svg": stage_figure(report, title),
        "figures/fixed_and_broken.svg": change_figure(report, title),
        "figures/candidates.svg": candidate_figure(record.metrics.get("candidates"), title),
        "figures/turns.svg": turn_figure(record.metrics.get("turns"), title),
        FILE: table(report, run.settings.get("benchmark") or {}).encode("utf-8", "replace"),
    }
    remarks = "".join(f"- {remark}\n" for remark in completion.remarks)
    described = markdown(run_document(record)) + remarks
    tags = _tags(run, completion.status) | {
        "mlflow.note.content": described[:MAX_TAG],
        "mlflow.source.name": in_short(record),
        "mlflow.loggedArtifacts": json.dumps([{"path": FILE, "type": "table"}]),
        **({"mlflow.runType": "genai_evaluate"} if completion.genai_evaluation else {}),
    }
    return Package(
        run,
        _params(run),
        tags,
        measures(report, completion.seconds),
        {path: content for path, content in files.items() if content is not None},
    )


def in_short(record: RunRecord, verdict: str = "") -> str:
    """Return score, cost, unanswered questions and verdict, for the column Source, which MLflow's list always shows."""
    share = record.score.ex
    score = "no score" if share is None else f"{100 * share:.1f} %"  # the column is as wide as that
    usd = money(record.cost.cost_usd)
    return ", ".join((score, usd, f"{number(record.unanswered)} unanswered", *([verdict] if verdict else [])))


def keep(package: Package, folder: Path) -> Path:
    """Write a package to `<folder>/<run id>.json`, to be sent later. Returns the file."""
    file = folder / f"{package.run.run_id}.json"
    atomic_write_text(file, json.dumps(TypeAdapter(Package).dump_python(package, mode="json")))
    return file


def fetch(folder: Path, run_id: str) -> Package:
    """Read a package that was kept.

    Raises:
        DataError: there is none of that run.
    """
    file = folder / f"{run_id}.json"
    if not file.is_file():
        waiting = ", ".join(sorted(path.stem for path in folder.glob("*.json"))) or "none"
        raise DataError(
            f'Run "{run_id}" is not among the runs that are still to be logged to MLflow. In {folder}: {waiting}.'
        )
    return TypeAdapter(Package).validate_python(json.loads(file.read_text(encoding="utf-8")))


def drop(folder: Path, run_id: str) -> None:
    """Remove a package that has been sent."""
    (folder / f"{run_id}.json").unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


def _tags(run: EvaluationRun, status: str) -> dict[str, str]:
    """Return tags; those under `mlflow.` fill the columns that MLflow's UI has of its own."""
    known = {
        "status": status,
        "rule": run.rule,
        "benchmark_revision": run.revision,
        "question_sha256": run.question_sha256,
        "answer_keys": ", ".join(f"{name} {sha256}" for name, sha256 in run.keys.items()),
        "engine": run.engine,
        "crosscheck_version": run.version,
        "crosscheck_run_id": run.run_id,
        "git_commit": run.git_commit,
        "mlflow.source.git.commit": run.git_commit,
        "mlflow.source.name": SOURCE,
        "mlflow.source.type": "LOCAL",
        "mlflow.user": run.user,
        **dict(run.tags),
    }
    return {name: value for name, value in known.items() if value}


def _params(run: EvaluationRun) -> dict[str, str]:
    """Return the settings, without their descriptions, and first in MLflow's order what distinguishes runs.

    MLflow's page of comparison draws the first parameters that differ, capital letters before small ones.
    """
    settings = {
        kind: {key: value for key, value in content.items() if key != "description"}
        for kind, content in run.settings.items()
    }
    return {"Backbone": run.backbone, "Pipeline": run.pipeline} | flatten(settings)


def _yaml(settings: Mapping[str, Any]) -> bytes:
    import yaml

    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).encode()
