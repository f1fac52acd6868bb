"""Records of a scored file of predictions in MLflow and the warehouse, like those of an evaluation."""

from collections.abc import Sequence
from dataclasses import replace

from flows.report.result import EvaluationResult, Ui
from flows.runtime.running_servers import shown_store
from flows.scoring.scorer import Scorable
from flows.scoring.settings import ScoreSettings
from tasks.benchmarks.predictions.formats import PredictionFile
from tasks.benchmarks.predictions.pairing import Predictions
from tasks.core.errors import CrosscheckError
from tasks.database.database import digests_of, product_of
from tasks.scoring.report import Report
from tasks.settings.home import Home
from tasks.tracking.evaluation import PREDICTIONS, EvaluationRun, describe
from tasks.tracking.mlflow.package import Completion
from tasks.tracking.mlflow.store import ui_command, ui_url
from tasks.tracking.mlflow.tracker import Tracker
from tasks.tracking.run_record import Tracked
from tasks.tracking.warehouse.runs import Warehouse


def describe_score(settings: ScoreSettings, scorable: Scorable, predictions: Predictions) -> EvaluationRun:
    """Return the run's identity, with the system's name as its backbone."""
    file = predictions.file
    linking = {"linking": str(settings.linking)} if settings.linking else {}
    run = describe(
        {
            "benchmark": settings.benchmark.model_dump(mode="json"),
            "backbone": {"name": settings.name, "kind": PREDICTIONS, **describe_file(file)},
            "pipeline": {"name": PREDICTIONS, "kind": PREDICTIONS, "rules": list(settings.rules), **linking},
        },
        scorable.benchmark.question_files,
        engine=product_of(scorable.databases),
        questions_in_benchmark=len(scorable.benchmark.questions),
        keys={key.name: key.sha256 for key in scorable.benchmark.keys},
        databases=digests_of(scorable.databases),
    )
    return replace(run, rule=settings.headline)


def log_score(
    home: Home, run: EvaluationRun, report: Report, completion: Completion, notes: Sequence[str]
) -> EvaluationResult:
    """Log a run that was scored without a model to MLflow and the warehouse, and return its result."""
    tracker = Tracker(home)
    tracker.start(run)
    tracked = tracker.finish(report, completion)
    notes = [*notes, tracked.problem]
    warehouse = Warehouse(home.warehouse)
    try:
        warehouse.finish(run, report, tracker.finished(notes))
    except CrosscheckError as error:
        notes.append(f"The warehouse does not have this run: {error}")
    return EvaluationResult(
        report=report,
        record=tracker.finished(notes),
        mlflow=mlflow_ui(home, tracked),
    )


def mlflow_ui(home: Home, tracked: Tracked) -> Ui:
    """Return where MLflow shows a run."""
    store = shown_store(home)
    command = ui_command(store) or f"MLflow's server answers at {store.shown}"
    if not tracked.experiment_id:
        return Ui(command, served=store.served)
    page, runs = ui_url(store, tracked.experiment_id, tracked.run_id), ui_url(store, tracked.experiment_id)
    return Ui(command, page, runs, store.served)


def describe_file(file: PredictionFile) -> dict[str, str]:
    """Return what a run's record has of a file of predictions."""
    return {"file": str(file.path), "format": file.format, "sha256": file.sha256}
