"""A finished or interrupted run as `crosscheck show` prints it: its facts, and the questions that are not right."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flows.results.paper_runs import schemas_of
from flows.runtime.folders import Folders
from tasks.core.errors import CrosscheckError
from tasks.database.schema import Schema
from tasks.scoring.build_report import build_report
from tasks.scoring.cost import Cost
from tasks.scoring.error_classes import classify
from tasks.scoring.metrics.causes import is_unanswered
from tasks.scoring.metrics.corrected import Differing, corrected_ex, differing
from tasks.scoring.report import QuestionScore, Ratio, Report, is_right
from tasks.scoring.significance import CONFIDENCE, wilson
from tasks.settings.assemble import EvaluationChoice, evaluation_settings
from tasks.tracking.evaluation import KINDS
from tasks.tracking.parameters import flatten
from tasks.tracking.predictions import status
from tasks.tracking.warehouse.stored import StoredRun

UNKNOWN_DEFAULTS = "what differs from the defaults is unknown, the settings of these names cannot be read"


@dataclass(frozen=True)
class RunView:
    """A run with what is computed from its questions.

    Attributes:
        stored: the run.
        report: its scores, computed again from its questions.
        schemas: schemas of its databases; {} if the benchmark's files cannot be read.
        problem: why there are no schemas, and so no causes; "" if there are.
        changes: settings that differ from the defaults, `key=value`; None if the defaults are unknown.
    """

    stored: StoredRun
    report: Report
    schemas: Mapping[str, Schema] = field(repr=False)
    problem: str
    changes: tuple[str, ...] | None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the headline score, as shares."""
        return wilson(self.report.score.correct, self.report.score.total)

    @property
    def corrected(self) -> Ratio | None:
        """Execution accuracy on corrected golds; None where the run has none."""
        return corrected_ex(self.report.rows, self.report.rule) if self.stored.run.golds_sha256 else None

    @property
    def corrected_differs(self) -> Differing:
        """Questions on which corrected golds give another verdict."""
        return differing(self.report.rows, self.report.rule)

    @property
    def wrong(self) -> tuple[QuestionScore, ...]:
        """Scored questions whose answer is wrong."""
        rule = self.report.rule
        return tuple(
            row
            for row in self.report.rows
            if row.executable and row.outcome.sql and not is_right(row.final, rule)
        )

    @property
    def unanswered(self) -> tuple[QuestionScore, ...]:
        """Questions that were asked, or handed in, without a SQL; they count as wrong."""
        return tuple(row for row in self.report.rows if is_unanswered(row))

    @property
    def seconds(self) -> float | None:
        """Wall time of the run; None while it is not finished."""
        return self.stored.summary.get("seconds")

    @property
    def causes(self) -> dict[str, int]:
        """Wrong questions by cause, most frequent first; one question may have several."""
        found = dict(self.stored.summary.get("errors") or {})
        for row in () if found else self.report.rows:
            for name in causes_of(self, row):
                found[name] = found.get(name, 0) + 1
        return {name: count for name, count in sorted(found.items(), key=lambda each: -each[1]) if count}


def causes_of(view: RunView, row: QuestionScore) -> tuple[str, ...]:
    """Return why a question is wrong; () if it is right or the schema of its database is unknown."""
    schema = view.schemas.get(row.question.database_id)
    return classify(row, view.report.rule, schema) if schema else ()


def view_run(stored: StoredRun, folders: Folders) -> RunView:
    """Compute what is shown of a run; without the benchmark's files, everything but the causes of single questions."""
    schemas: dict[str, Schema] = {}
    problem = ""
    try:
        schemas = schemas_of(stored, folders)
    except CrosscheckError as error:
        problem = str(error)
    rule = stored.run.rule
    # Only Spider's difficulties are computed from schemas; the linking scores, which take seconds, are not shown.
    report = build_report(
        stored.rows,
        rule=rule,
        schemas=schemas if rule == "spider" else {},
        benchmark=stored.run.settings.get("benchmark") or {},
    )
    if stored.run.made_elsewhere:
        report = replace(report, cost=Cost())
    return RunView(stored, report, schemas, problem, _changes(stored))


def run_as_object(view: RunView, listed: Mapping[str, Sequence[QuestionScore]]) -> dict[str, Any]:
    """Return a run as plain JSON, with the questions that are listed by "wrong" and "unanswered"."""
    run, report = view.stored.run, view.report
    low, high = view.interval
    return {
        "run_id": run.run_id,
        "benchmark": run.benchmark,
        "revision": run.revision,
        "backbone": run.backbone,
        "pipeline": run.pipeline,
        "status": view.stored.status,
        "started": run.started.isoformat(timespec="seconds"),
        "seconds": view.seconds,
        "tags": dict(run.tags),
        "engine": run.engine,
        "translations": list(run.translations),
        "changes": None if view.changes is None else list(view.changes),
        "questions": report.questions,
        "scored": report.scored,
        "answered": report.answered,
        "ex": {"rule": report.rule}
        | asdict(Ratio(report.score.correct, report.score.total))
        | {"low": low, "high": high, "confidence": CONFIDENCE},
        "ex_corrected": _corrected(view),
        "rules": {name: asdict(ratio) for name, ratio in report.rules.items()},
        "stages": [
            {"name": each.name, "fixed": each.fixed, "broken": each.broken} | asdict(each)
            for each in report.stages
        ],
        "by_difficulty": {name: asdict(ratio) for name, ratio in report.by_difficulty.items()},
        "by_database": {name: asdict(ratio) for name, ratio in report.by_database.items()},
        "causes": view.causes or (None if view.problem else {}),
        **report.cost.as_object(),
        "degradation": report.degradation.as_object(),
        "failures": dict(report.failures),
        "retryable": report.retryable,
        **{kind: [_line_as_object(view, row) for row in rows] for kind, rows in listed.items()},
    }


def _corrected(view: RunView) -> dict[str, Any] | None:
    if view.corrected is None:
        return None
    named = {"sha256": view.stored.run.golds_sha256}
    return view.corrected.as_object() | named | asdict(view.corrected_differs)


def _line_as_object(view: RunView, row: QuestionScore) -> dict[str, Any]:
    return {
        "question_id": row.question.id,
        "database": row.question.database_id,
        "difficulty": row.question.difficulty,
        "question": row.question.text,
        "status": status(row),
        "causes": list(causes_of(view, row)),
    }


def _changes(stored: StoredRun) -> tuple[str, ...] | None:
    """Return the settings that differ from those of the same names without `--set`."""
    run = stored.run
    try:
        made = evaluation_settings(
            EvaluationChoice(benchmark=run.benchmark, backbone=run.backbone, pipeline=run.pipeline)
        )
    except CrosscheckError:  # settings of a file, or predictions made elsewhere
        return None
    default = flatten({kind: getattr(made, kind).model_dump(mode="json") for kind in KINDS})
    now = flatten({kind: run.settings.get(kind) or {} for kind in KINDS})
    return tuple(sorted(f"{key}={value}" for key, value in now.items() if default.get(key) != value))
