"""A report in short: the JSON object of the command line, and Markdown for MLflow."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from tasks.core.wording import number, percent_and_counts, signed
from tasks.documents.markdown import table_lines
from tasks.documents.model import Table
from tasks.scoring.cost import in_words as cost_in_words
from tasks.scoring.report import LinkingScore, Report
from tasks.scoring.score import Accuracy
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.evaluation import EvaluationRun


@dataclass(frozen=True, slots=True)
class TaskRunCounts:
    """Prefect task runs of an evaluation: how many ran, and how many its server recorded (None: unknown)."""

    task_runs: int | None = None
    recorded: int | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """Where MLflow has the run.

    Attributes:
        tracking_uri: the store, without password.
        run_id: MLflow's id of the run; None when it could not be made.
        experiment_id: MLflow's id of its experiment; None when it could not be made.
        problem: what kept the run from being logged in full, and what to do about it; "" where nothing did.
    """

    tracking_uri: str
    run_id: str | None = None
    experiment_id: str | None = None
    problem: str = ""


def summary(
    run: EvaluationRun,
    report: Report,
    *,
    seconds: float | None = None,
    prefect: TaskRunCounts | None = None,
    mlflow: Tracked | None = None,
) -> dict[str, Any]:
    """Return the summary as plain JSON; what is not known is null, never 0."""
    linking = headline_link(report)
    runs = prefect or TaskRunCounts()
    facts = {
        "run_id": run.run_id,
        "benchmark": run.benchmark,
        "backbone": run.backbone,
        "pipeline": run.pipeline,
        "questions": report.questions,
        "answered": report.answered,
        "ex": {"rule": report.rule} | _ratio(report.score),
        "rules": {rule: _ratio(score) for rule, score in report.rules.items()},
        "stages": [_plain(stage) for stage in report.stages],
        "linking": {
            "nsr": linking.nsr.value if linking else None,
            "strict_recall": linking.strict_recall.value if linking else None,
            "avg_tables": linking.avg_tables if linking else None,
            "avg_columns": linking.avg_columns if linking else None,
        },
        **report.cost.as_object(),
        "seconds": None if seconds is None else round(seconds, 3),
        "prefect": {"task_runs": runs.task_runs, "recorded": runs.recorded},
        "mlflow": {
            "tracking_uri": mlflow.tracking_uri if mlflow else None,
            "experiment_id": mlflow.experiment_id if mlflow else None,
            "run_id": mlflow.run_id if mlflow else None,
        },
        "scores": {name: _plain(score) for name, score in report.scores.items()},
        "scored": report.scored,
        "failures": dict(report.failures),
        "retryable": report.retryable,
        "missing_databases": dict(report.missing_databases),
        "without_gold": report.without_gold,
        "not_executable": _not_executable(report),
        "gold_faults": dict(report.gold_faults),
        "degradation": report.degradation.as_object(),
        "by_difficulty": {grade: _ratio(ratio) for grade, ratio in report.by_difficulty.items()},
        "by_database": {database: _ratio(ratio) for database, ratio in report.by_database.items()},
        "links": {link.name: _link(link) for link in report.linking},
        "retries": report.cost.retries,
        "revision": run.revision,
        "translations": list(run.translations),
        "question_sha256": run.question_sha256,
        "golds_sha256": run.golds_sha256 or None,
        "engine": run.engine,
        "version": run.version,
        "git_commit": run.git_commit,
        "started": run.started.isoformat(timespec="seconds"),
        "tags": dict(run.tags),
    }
    metrics = {name: found.data if found else None for name, found in report.details.items()}
    return facts | {name: data for name, data in metrics.items() if name not in facts}


def headline_link(report: Report) -> LinkingScore | None:
    """Return the link that the SQL was generated from: "both", else the last one; None without linking."""
    by_name = {link.name: link for link in report.linking}
    return by_name.get("both") or (report.linking[-1] if report.linking else None)


def markdown(run: EvaluationRun, report: Report, seconds: float | None = None) -> str:
    """Return the run's description for MLflow's UI: what was evaluated, the score, the stages, the cost."""
    return "\n".join([*_head(run, report), *_stage_table(report), *_remarks(run, report, seconds)]) + "\n"


def _not_executable(report: Report) -> dict[str, int]:
    """Return how many questions ended at each stage that executes SQL, because only their schema is available."""
    failures = (row.outcome.failure for row in report.rows if not row.executable)
    return dict(Counter(failure.stage for failure in failures if failure and failure.stage))


def _plain(record: Any) -> Any:
    return TypeAdapter(type(record)).dump_python(record, mode="json")


def _ratio(score: Accuracy) -> dict[str, Any]:
    return {"correct": score.correct, "total": score.total, "value": score.ex}


def _link(link: LinkingScore) -> dict[str, Any]:
    shares = {name: getattr(link, name).as_object() for name in ("nsr", "strict_recall", "precision")}
    return shares | {
        name: getattr(link, name) for name in ("linked", "avg_tables", "avg_columns", "reduction")
    }


def _head(run: EvaluationRun, report: Report) -> Iterator[str]:
    yield f"**EX {percent_and_counts(report.score)}** under rule `{report.rule}`: {run.backbone} with {run.pipeline}"
    yield f"on {run.benchmark}, revision {run.revision}."
    yield from (f"**{sentence}.**" for sentence in run.translations)
    if labels := labels_in_words(run.tags):
        yield f"\n{labels}\n"
    if changed := run.tags.get("changed"):
        yield f"\nDiffers from the defaults: `{changed}`\n"
    others = [
        f"`{rule}` {percent_and_counts(ratio)}" for rule, ratio in report.rules.items() if rule != report.rule
    ]
    if others:
        yield ""
        yield f"Other rules: {', '.join(others)}."
    yield ""


def _stage_table(report: Report) -> Iterator[str]:
    if not report.stages:
        return
    rows = [
        (
            stage.name,
            percent_and_counts(stage),
            "" if stage.fixed is None else signed(stage.fixed),
            "" if stage.broken is None else signed(-stage.broken),
        )
        for stage in report.stages
    ]
    yield from table_lines(Table("", ("stage", "EX", "fixed", "broken"), tuple(rows)))
    yield ""


def _lower(line: str) -> str:
    """Return a line that begins small, unless it begins with an abbreviation."""
    return line[:1].lower() + line[1:] if line[1:2].islower() or line[1:2] == "-" else line


def _remarks(run: EvaluationRun, report: Report, seconds: float | None) -> Iterator[str]:
    yield from (f"- **{sentence}**" for sentence in report.degradation.sentences)
    yield f"- questions: {report.questions} selected, {report.scored} scored, {report.answered} answered"
    if report.missing_databases:
        left_out = ", ".join(f"{name} ({count})" for name, count in report.missing_databases.items())
        yield f"- not scored, database missing: {left_out}"
    if report.without_gold:
        yield f"- not scored, without gold: {report.without_gold}"
    if report.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.failures.items())
        yield f"- without an answer: {kinds}; a re-run can answer {report.retryable}"
    if report.gold_faults:
        yield f"- faults of the benchmark's own gold: {len(report.gold_faults)}"
    for found in report.measurements.values():
        for line in found.lines or ():
            yield f"- {_lower(line)}"
    link = headline_link(report)
    if link is not None:
        nsr, recall = percent_and_counts(link.nsr), percent_and_counts(link.strict_recall)
        yield f"- linking ({link.name}): NSR {nsr}, strict recall {recall}"
    duration = "" if seconds is None else f", {seconds:.1f} s"
    calls, cached = number(report.cost.calls), number(report.cost.cached_calls)
    yield f"- {calls} calls paid, {cached} from the cache, {cost_in_words(report.cost)}{duration}"
    yield f"- run `{run.run_id}`, questions sha256 `{run.question_sha256[:12]}`, {run.engine}"
