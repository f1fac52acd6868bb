"""Plan of a re-run: its parent run, the questions to ask again, and the settings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.evaluate.runner import RerunSpec
from tasks.backbone.kinds.kind import kind_of
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, DataError, did_you_mean, first_problem
from tasks.core.outcome import FAILED_ATTEMPT, Outcome
from tasks.database.database import Database, digests_of
from tasks.results.parameters import HIDDEN
from tasks.results.run_record import GENERATED_DESCRIPTIONS, RunRecord
from tasks.results.warehouse.run_names import find_run
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.evaluation import (
    HARMLESS,
    PINNED,
    EvaluationSettings,
    Only,
    QuestionSelection,
    RerunSettings,
)
from tasks.settings.home import Home
from tasks.settings.kinds import BACKBONES
from tasks.settings.load import parse_override

_OWN_TAGS = (
    *("parent_run_id", "parent_mlflow_run_id", "rerun", "rerun_from", "attempt", GENERATED_DESCRIPTIONS),
    *("name", "note", PINNED),
)
"""Tags of one re-run, which a re-run of it does not inherit."""


@dataclass(frozen=True)
class RerunPlan:
    """Re-run that is ready to start."""

    asked_for: RerunSettings  # settings of the re-run
    parent: RunRecord  # the run whose answers are merged
    mlflow_parent: str | None  # MLflow's id of that run; None where it has none
    settings: EvaluationSettings  # the parent's settings, over all of its questions
    again: Mapping[str, RerunSpec] = field(repr=False)  # how each selected question is asked, by id
    attempt: int  # which sampling of the model `fresh` asks for; 0 without it

    @property
    def selection(self) -> str:
        """Option that selects the questions to ask again."""
        return _selection(self.asked_for)

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the run in MLflow; that it is rerolled is known at its end, or of its parent."""
        settings, run = self.asked_for, self.parent
        inherited = {name: value for name, value in run.tags.items() if name not in _OWN_TAGS}
        tags = inherited | {"parent_run_id": run.run_id, "rerun": self.selection}
        tags |= {"parent_mlflow_run_id": self.mlflow_parent} if self.mlflow_parent else {}
        tags |= {"rerun_from": settings.from_stage} if settings.from_stage else {}
        return tags | ({"attempt": str(self.attempt)} if settings.fresh else {})


def plan_rerun(wanted: RerunSettings) -> RerunPlan:
    """Read the parent run and select the questions to ask again."""
    warehouse = Warehouse(Home(Path(wanted.home)).warehouse)
    header = find_run(wanted.run, warehouse.runs())
    parent = warehouse.read_run(header.run_id)
    if not header.is_finished or not parent.rows:
        raise DataError(
            f"The run {header.run_id} is {header.status}, so it has no answers to merge with: the command that began "
            "it continues it."
        )
    settings = settings_of_run(parent, wanted.overrides, data=wanted.data, home=wanted.home)
    selected = _selected(wanted, parent)
    if wanted.from_stage:
        _check_stage(wanted.from_stage, parent)
    if wanted.fresh and kind_of(settings.backbone).replays:
        raise ConfigurationError(
            "--fresh: a recording always returns the recorded replies; only a model can give new ones."
        )
    attempt = _fresh_attempt(wanted, parent, warehouse) if wanted.fresh else 0
    return RerunPlan(
        asked_for=wanted,
        parent=parent,
        mlflow_parent=header.mlflow_run_id,
        settings=settings,
        again={name: _again(score.outcome, wanted, attempt) for name, score in selected.items()},
        attempt=attempt,
    )


def check_data(run: RunRecord, benchmark: Benchmark, databases: Mapping[str, Database]) -> None:
    """Check that the benchmark's questions and databases are still those of the run."""
    if benchmark.digest != run.question_sha256:
        raise DataError(
            f"The questions {benchmark.question_files[0]} are not those of run {run.run_id} (their sha256 differs). "
            "Name the folder that they were read from with --data, or evaluate again."
        )
    digests = digests_of(databases)
    for name, digest in run.databases.items():
        if digests.get(name, digest) != digest:
            raise DataError(
                f'The database "{name}" has changed since run {run.run_id} (its sha256 differs), so a merged '
                "score would mix two states of the data. Evaluate again with the same command: paid replies are reused."
            )


def settings_of_run(
    parent: RunRecord, overrides: Sequence[str], *, data: str, home: str
) -> EvaluationSettings:
    """Return the settings of a run that has ended, over all of its questions.

    Args:
        parent: the run.
        overrides: changes of the settings in `HARMLESS`, `backbone.concurrency=4`.
        data: folder of the benchmarks' files.
        home: working folder.
    """
    stored: dict[str, Any] = json.loads(json.dumps(parent.settings))
    name = parent.run_id
    if not BACKBONES.has(str(stored["backbone"].get("kind"))):
        raise DataError(
            f"The run {name} scored predictions that were made elsewhere: there is no model to ask again."
        )
    for override in overrides:
        kind, keys, value = parse_override(override)
        key = ".".join((kind, *keys))
        if key not in HARMLESS:
            raise ConfigurationError(
                f"--set {override}: a re-run keeps the settings of its run, or its score would mean something else. "
                f"It may change {', '.join(HARMLESS)}. To change another setting, evaluate again."
            )
        stored.setdefault(kind, {})[keys[0]] = value
    if HIDDEN in json.dumps(stored):
        raise DataError(
            f"The settings of run {name} held a secret, which was not stored. Evaluate again with the same command: "
            "paid replies are reused."
        )
    whole = len(parent.rows) == parent.questions_in_benchmark
    ids = None if whole else ",".join(row.question.id for row in parent.rows)
    rest = {"questions": ids, "data": data, "home": home}
    try:
        return EvaluationSettings.model_validate_json(json.dumps(stored | rest))
    except ValidationError as error:
        raise ConfigurationError(
            f"The settings of run {name}, with --set, are not valid in this release: {first_problem(error)}."
        ) from None


def _fresh_attempt(settings: RerunSettings, parent: RunRecord, warehouse: Warehouse) -> int:
    """Return the sampling of a fresh re-run: the last one while it lacks answers that it was asked for, else a new one.

    It is asked for them by the same selection and stage, of the run that it re-ran or of the run that it became.
    """
    last = warehouse.last_sampled(parent)
    if last is None:
        return 1
    facts, attempt = last.rerun or {}, int(last.tags["attempt"])
    same = (facts.get("selection"), facts.get("from")) == (_selection(settings), settings.from_stage)
    continued = same and parent.run_id in (facts["parent"], last.run_id)
    return attempt if continued and facts.get("no_new_answer") else attempt + 1


def _selected(settings: RerunSettings, parent: RunRecord) -> dict[str, QuestionScore]:
    rows = {row.question.id: row for row in parent.rows if row.executable}
    if settings.questions is not None:
        meant = select([row.question for row in parent.rows], QuestionSelection(questions=settings.questions))
        return {question.id: rows[question.id] for question in meant if question.id in rows}
    if only := _only(settings):
        return {name: row for name, row in rows.items() if _is_of(only, row, parent.rule)}
    return {name: row for name, row in rows.items() if settings.from_stage in _stages([row])}


def _selection(settings: RerunSettings) -> str:
    if settings.questions:
        return f"--questions {settings.questions}"
    only = _only(settings)
    return f"--only {only}" if only else f"--from {settings.from_stage}"


def _only(settings: RerunSettings) -> Only | None:
    """Return which answers are asked for again; None: those of every question that went through the stage."""
    return settings.only or (None if settings.from_stage else "errors")


def _is_of(kind: Only, row: QuestionScore, rule: str) -> bool:
    """Return whether `--only` with this value asks a question again."""
    failure, final = row.outcome.failure, row.final
    if kind == "errors":
        if failure is None or failure.kind == "missing_database":
            return False
        return failure.retryable or failure.kind == "internal_error"
    if kind == "wrong":
        return failure is None and not is_right(final, rule)
    if kind == "empty":
        return final.status == "ok" and final.row_count == 0
    return final.status == "timeout"


def _check_stage(stage: str, parent: RunRecord) -> None:
    known = _stages(parent.rows)
    if stage not in known:
        raise ConfigurationError(
            f"--from {stage}: no question of run {parent.run_id} went through such a stage. "
            f"{did_you_mean(stage, known)}"
        )


def _stages(rows: Iterable[QuestionScore]) -> set[str]:
    """Return the names and labels of the stages that questions went through."""
    records = (record for row in rows for record in row.outcome.stages if record.stage != FAILED_ATTEMPT)
    return {name for record in records for name in (record.stage, record.label)}


def _again(old: Outcome, settings: RerunSettings, attempt: int) -> RerunSpec:
    latest_first = tuple(reversed(old.samples))
    if settings.fresh:
        return RerunSpec(attempt, latest_first if settings.from_stage else (), settings.from_stage or "")
    if settings.from_stage:
        return RerunSpec(latest_first[0], latest_first, settings.from_stage, refresh=True)
    return RerunSpec(latest_first[0], latest_first[1:])
