"""Scoring of the predictions of any system: settings, scores, records, as in an evaluation but without a model."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from flows.evaluate.scorer import Scorable, Scorer, check_keys
from flows.prefect.killed_runs import registered
from flows.runtime.control import Control, Progress, for_each
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from flows.runtime.process import import_in_background
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import no_database, open_benchmark_database, other_content
from tasks.benchmarks.predictions.formats import PredictionFile, ReadingOptions, read_predictions
from tasks.benchmarks.predictions.pairing import Predictions, pair, read_links
from tasks.benchmarks.predictions.trajectory import outcome_of
from tasks.benchmarks.predictions.trajectory_file import TrajectoryFile, read_trajectories
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, DataError, did_you_mean
from tasks.core.outcome import TURN, Outcome
from tasks.core.records import Link, Question
from tasks.core.wording import counted
from tasks.database.database import Database, digests_of, product_of
from tasks.database.sandbox.workers import SqlWorkers
from tasks.pages.first_screen import run_description
from tasks.pages.run_page import pages_with
from tasks.results.build_record import describe
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.store import check, find_store
from tasks.results.mlflow.tracker import Tracker, keep_record
from tasks.results.run_record import COPIES_GOLD, PREDICTIONS, RunRecord, Unfinished
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.cost import reported_cost
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import RULES, rules_beside
from tasks.scoring.execution.suite import open_suites
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.scores import QuestionScore, is_right
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.choices import QuestionSelection
from tasks.stages.links import read_link


@dataclass(frozen=True)
class ScoreSettings:
    """Settings of scoring a file of predictions."""

    benchmark: BenchmarkSettings
    predictions: Path  # file of the predictions, or of the trajectories
    name: str  # of the system, shown as the backbone in MLflow
    # the rules to judge by; the benchmark's own is the headline if it is among them, else the first
    rules: tuple[str, ...]
    selection: QuestionSelection
    trials: int  # repeated measurements of efficiency; 0: it is not measured
    trajectories: bool  # whether it is a file of trajectories
    folders: Folders
    # how it is read where its content leaves it open
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    linking: Path | None = None  # file of schema links

    @property
    def headline(self) -> str:
        """The rule of the headline score."""
        return self.benchmark.rule if self.benchmark.rule in self.rules else self.rules[0]


def read_rules(text: str | None, headline: str) -> tuple[str, ...]:
    """Read `--rules`: names separated by commas; None: the default rules and the benchmark's own, `headline`."""
    if text is None:
        return rules_beside(headline)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [""]:
        if name not in RULES:
            raise ConfigurationError(f'--rules: there is no rule "{name}". {did_you_mean(name, RULES)}')
    return tuple(dict.fromkeys(names))


def _describe(settings: ScoreSettings, scorable: Scorable, predictions: Predictions) -> RunRecord:
    file = describe_file(predictions.file)
    copied = {COPIES_GOLD: True} if predictions.copies_gold else {}
    linking = {"linking": str(settings.linking)} if settings.linking else {}
    run = describe(
        {
            "benchmark": settings.benchmark.model_dump(mode="json"),
            "backbone": {"name": settings.name, "kind": PREDICTIONS, **file, **copied},
            "pipeline": {"name": PREDICTIONS, "kind": PREDICTIONS, "rules": list(settings.rules), **linking},
        },
        scorable.benchmark.question_files,
        engine=product_of(scorable.databases),
        questions_in_benchmark=len(scorable.benchmark.questions),
        keys={key.name: key.sha256 for key in scorable.benchmark.keys},
        databases=digests_of(scorable.databases),
    )
    return run.model_copy(update={"rule": settings.headline})


def describe_file(file: PredictionFile) -> dict[str, str]:
    """Return what a run's record has of a file of predictions."""
    return {"file": str(file.path), "format": file.format, "sha256": file.sha256}


MIN_ALIKE = 0.8
"""Share of answers that fail alike from which the file is suspected."""
MIN_ANSWERS = 5
"""Number of answers from which the file is suspected."""


def about_same_failure(record: RunRecord) -> tuple[str, ...]:
    """Say with which message nearly all predictions fail, where they do: then the file is at fault, not the system."""
    answered = [row for row in record.rows if row.executable and row.outcome.sql]
    wrong = [row for row in answered if row.final.status == "error" and not is_right(row.final, record.rule)]
    failed = Counter(alike(row.final.error) for row in wrong)
    if len(answered) < MIN_ANSWERS or not failed:
        return ()
    message, number = failed.most_common(1)[0]
    if number < MIN_ALIKE * len(answered):
        return ()
    first = next(row for row in wrong if alike(row.final.error) == message)
    return (
        f"{number:,} of {len(answered):,} predictions fail in the same way ({first.final.error}): the SQL of question "
        f"{first.question.id} begins with {(first.outcome.sql or '')[:40]!r}. If that is no SQL, --unwrap or "
        "--sql-column may help.",
    )


def alike(message: str) -> str:
    """Return a database's message without the names and texts it quotes.

    >>> alike('near "concert_singer": syntax error')
    'near "": syntax error'
    """
    return re.sub(r'"[^"]*"|`[^`]*`', '""', re.sub(r"no such (column|table): .*", r"no such \1", message))


LINK = "predicted"
"""Name of the schema links that a file has."""
AT_ONCE = 64
"""Questions that are prepared while others are executed; with all at once, nothing would be executed at first."""


@dataclass(frozen=True)
class ScoringInput:
    """Questions and databases to score, with the outcomes of the questions."""

    scorable: Scorable
    predictions: Predictions = field(repr=False)
    outcomes: Mapping[Question, Outcome] = field(repr=False)


def run_score(settings: ScoreSettings, progress: Progress) -> RunRecord:
    """Score a file of predictions and log it like an evaluation."""
    started = time.monotonic()
    control = Control(progress)
    with watched(settings.folders.home), registered(settings.folders.home, control):
        import_in_background()
        progress.step(f"Reading {settings.benchmark.name}")
        selected = _select(settings, progress)
        run = _describe(settings, selected.scorable, selected.predictions)
        record = asyncio.run(_score(settings, selected, run, progress))
        for note in about_same_failure(record):
            progress.note(note)
        progress.step("Logging to MLflow")
        schemas = {name: database.schema for name, database in selected.scorable.databases.items()}
        tracker = Tracker(settings.folders.home)
        completion = Completion(
            seconds=time.monotonic() - started,
            facts={"predictions": describe_file(selected.predictions.file)},
            describe=run_description,
            pages=pages_with(schemas),
        )
        try:
            tracker.start(run, lambda id_: control.register(mlflow_run=id_, tracking_uri=tracker.store.uri))
            record = tracker.finish(record, completion)
        except BaseException as error:
            status: Unfinished = "failed" if isinstance(error, Exception) else "interrupted"
            ended = tracker.abandon(str(error) or "run the same command again.", status)
            control.recorded = not ended.problem
            raise
        notes = [*selected.predictions.notes, *progress.notes, record.mlflow.problem]
        return keep_record(record, notes, Warehouse(settings.folders.home.warehouse), tracker.store)


def _select(settings: ScoreSettings, progress: Progress) -> ScoringInput:
    """Read the predictions, the benchmark and its databases, and pair each selected question with its prediction.

    Databases that are missing are left out. Without any of them, only schema links can be scored.
    """
    # the predictions first: reading them takes no time, reading the benchmark may
    path = settings.predictions
    file = read_trajectories(path) if settings.trajectories else read_predictions(path, settings.reading)
    benchmark = settings.folders.benchmark(settings.benchmark, progress)
    if not benchmark.gold and not benchmark.results:
        raise DataError(
            f"{settings.benchmark.name} has no gold, so nothing can be scored. `crosscheck evaluate` makes predictions "
            "and `crosscheck export RUN --submission FILE` writes what its official evaluator takes."
        )
    predictions = pair(file, benchmark)
    for note in (*benchmark.other_revision, *filter(None, [benchmark.translated])):
        progress.note(note)
    questions = select(benchmark.questions, settings.selection)
    database_ids = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in database_ids if name not in benchmark.missing]
    # links need only schemas, which the benchmark may describe
    if not present and settings.linking is None:
        raise no_database(benchmark, database_ids)
    progress.step(f"Reading {counted(len(present), 'database')}")
    databases = {name: open_benchmark_database(benchmark, name, sample_rows=0) for name in present}
    for note in other_content(benchmark, databases):
        progress.note(note)
    links = _links(settings.linking, benchmark, databases) if settings.linking else {}
    trajectories = file.trajectories if isinstance(file, TrajectoryFile) else ()
    by_id = {trajectory.question_id: outcome_of(trajectory, file.sha256) for trajectory in trajectories}
    outcomes = {}
    for question in questions:
        outcome = by_id.get(question.id) or Outcome(question.id, predictions.sqls.get(question.id))
        link = {LINK: links[question.id]} if question.id in links else {}
        outcomes[question] = replace(outcome, links=link)
    scorable = Scorable(benchmark, questions, databases, open_suites(benchmark, databases))
    return ScoringInput(scorable, predictions, outcomes)


def _links(path: Path, benchmark: Benchmark, databases: Mapping[str, Database]) -> dict[str, Link]:
    """Match the names in a file of schema links with the schemas, those of missing databases included."""
    schemas = {**benchmark.schemas, **{name: database.schema for name, database in databases.items()}}
    names = read_links(path, benchmark)
    return {
        question.id: read_link(schemas[question.database_id], linked_names.tables, linked_names.columns)
        for question in benchmark.questions
        if question.database_id in schemas and (linked_names := names.get(question.id))
    }


async def _score(
    settings: ScoreSettings, selected: ScoringInput, run: RunRecord, progress: Progress
) -> RunRecord:
    """Score the predictions, while MLflow's store is checked; return the record of the run with their scores."""
    # takes seconds, during which predictions are scored
    store = asyncio.create_task(asyncio.to_thread(check, find_store(settings.folders.home)))
    # asyncio logs the exception of a task that is never awaited, as where scoring fails first
    store.add_done_callback(lambda done: done.cancelled() or done.exception())
    numbers = count(1)
    total = selected.scorable.compared

    def show(score: QuestionScore) -> None:
        if score.executable:
            progress.step(f"Judging question {next(numbers):,} of {total:,}")

    async with SqlWorkers() as workers:
        with VerdictCache(settings.folders.home.verdicts, workers.limits) as cache:
            judge = Judge(workers, settings.rules, settings.benchmark.timeout_s, cache)
            await check_keys(selected.scorable, workers, progress)
            scorer = Scorer(
                selected.scorable, judge, headline=settings.headline, on_score=show, progress=progress
            )
            await score_all(scorer, selected.outcomes)
        efficiency = await scorer.measure_efficiency(settings.trials) if settings.trials else None
    await store
    record = scorer.record(run, efficiency, link_all=settings.linking is not None)
    stages = [stage for row in record.rows for stage in row.outcome.stages]
    cost = reported_cost(stages)
    return record.model_copy(update={"cost": cost, "stage_costs": {TURN: cost} if stages else {}})


async def score_all(scorer: Scorer, outcomes: Mapping[Question, Outcome]) -> None:
    """Score the outcome of every question, ordered by database, so that workers keep a database open."""

    async def score(question: Question) -> None:
        await scorer.score(question, outcomes[question])

    await for_each(sorted(outcomes, key=lambda question: question.database_id), score, at_once=AT_ONCE)
