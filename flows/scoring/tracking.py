"""Keeps what scoring a file of predictions found, in MLflow and the warehouse, like an evaluation."""

from dataclasses import replace
from typing import Any

from flows.report.result import EvaluationResult
from flows.runtime.control import Progress
from flows.scoring.settings import ScoreSettings
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.pairing import Predictions
from tasks.errors import CrosscheckError
from tasks.scoring.report import Report
from tasks.tracking.evaluation import EvaluationRun, describe
from tasks.tracking.mlflow.run import Tracker
from tasks.tracking.mlflow.store import ui_command, ui_url
from tasks.tracking.summary import Tracked, summary
from tasks.tracking.warehouse.warehouse import Warehouse

PIPELINE = "predictions"


def describe_score(settings: ScoreSettings, benchmark: Benchmark, predictions: Predictions) -> EvaluationRun:
    """Return what is scored: the system's name stands where an evaluation has its backbone."""
    file = predictions.file
    told = {"file": str(file.path), "format": file.format, "sha256": file.sha256}
    linking = {"linking": str(settings.linking)} if settings.linking else {}
    run = describe(
        settings.benchmark.model_dump(mode="json"),
        {"name": settings.name, "kind": PIPELINE, **told},
        {"name": PIPELINE, "kind": PIPELINE, "rules": list(settings.rules), **linking},
        benchmark.folder / settings.benchmark.questions,
        questions_in_benchmark=len(benchmark.questions),
    )
    return replace(run, rule=settings.headline)


def log_score(
    settings: ScoreSettings,
    run: EvaluationRun,
    report: Report,
    predictions: Predictions,
    progress: Progress,
    seconds: float,
) -> EvaluationResult:
    """Log a scored file to MLflow and the warehouse, and return what the command line shows."""
    tracker = Tracker(settings.home)
    tracker.start(run)
    tracked = tracker.finish(report, seconds=seconds)
    facts = _summary(run, report, predictions, seconds, tracked)
    problems = [tracked.problem]
    try:
        Warehouse(settings.home.warehouse).finish(run, report, facts)
    except CrosscheckError as error:
        problems.append(f"The warehouse does not have this run: {error}")
    notes = (*predictions.notes, *progress.notes, *problems)
    store = tracker.store
    return EvaluationResult(
        report=report,
        summary=facts,
        notes=tuple(note for note in notes if note),
        mlflow_command=ui_command(store) or f"MLflow's server answers at {store.shown}",
        mlflow_page=ui_url(store, tracked.experiment_id, tracked.run_id) if tracked.experiment_id else "",
        prefect_command="",
        prefect_page="",
    )


def _summary(
    run: EvaluationRun, report: Report, predictions: Predictions, seconds: float, tracked: Tracked
) -> dict[str, Any]:
    file = predictions.file
    return {
        **summary(run, report, seconds=seconds, mlflow=tracked),
        "predictions": {"file": str(file.path), "format": file.format, "sha256": file.sha256},
    }
