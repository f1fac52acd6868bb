"""Scoring of the predictions of any system, as in an evaluation, but without a model and Prefect."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flows.report.result import EvaluationResult
from flows.runtime.control import Progress
from flows.runtime.folder_use import watched
from flows.runtime.process import import_in_background
from flows.scoring.keys import check_keys
from flows.scoring.remarks import about_same_failure
from flows.scoring.scorer import Scorable, Scorer
from flows.scoring.settings import ScoreSettings
from flows.scoring.tracking import describe_file, describe_score, log_score
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import no_database, other_content
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.predictions.link_files import read_links
from tasks.benchmarks.predictions.pairing import Predictions, pair
from tasks.benchmarks.selection import select
from tasks.benchmarks.trajectories.file import read_trajectories
from tasks.benchmarks.trajectories.imported import outcome_of
from tasks.core.errors import DataError
from tasks.core.outcome import Outcome
from tasks.core.records import Link, Question
from tasks.core.wording import counted
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.build_report import as_reported
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.report import Report
from tasks.stages.links import read_link
from tasks.tracking.mlflow.package import Completion
from tasks.tracking.mlflow.tracker import Tracker

LINK = "predicted"
AT_ONCE = 64
"""Questions that are prepared while others are executed; with all at once, nothing would be executed at first."""


@dataclass(frozen=True)
class Selected:
    """Questions and databases to score, with what is known of the questions."""

    scorable: Scorable
    predictions: Predictions = field(repr=False)
    links: Mapping[str, Link] = field(repr=False)
    trajectories: Mapping[str, Outcome] = field(repr=False)  # outcomes by question id; {} for predictions


def run_score(settings: ScoreSettings, progress: Progress) -> EvaluationResult:
    """Score a file of predictions and log it like an evaluation.

    Raises:
        CrosscheckError: bad input or configuration; the message says what to change.
    """
    with watched(settings.folders.home):
        return _run(settings, progress)


def _run(settings: ScoreSettings, progress: Progress) -> EvaluationResult:
    started = time.monotonic()
    import_in_background()
    progress.step(f"Reading {settings.benchmark.name}")
    selected = _select(settings, progress)
    run = describe_score(settings, selected.scorable, selected.predictions)
    report = asyncio.run(_score(settings, selected, progress))
    for note in about_same_failure(report):
        progress.note(note)
    progress.step("Logging to MLflow")
    facts = {"predictions": describe_file(selected.predictions.file)}
    completion = Completion(seconds=time.monotonic() - started, facts=facts)
    notes = [*selected.predictions.notes, *progress.notes]
    return log_score(settings.folders.home, run, report, completion, notes)


def _select(settings: ScoreSettings, progress: Progress) -> Selected:
    # first: it takes no time, the benchmark may
    given = read_trajectories(settings.predictions) if settings.trajectories else None
    file = given.predictions if given else read_predictions(settings.predictions, settings.reading)
    benchmark = settings.folders.benchmark(settings.benchmark, progress)
    if not benchmark.gold and not benchmark.results:
        raise DataError(
            f"{settings.benchmark.name} has no gold, so nothing can be scored. `crosscheck evaluate` makes predictions "
            "and `crosscheck export RUN --submission FILE` writes what its official evaluator takes."
        )
    predictions = pair(file, benchmark)
    for note in (*benchmark.other_revision, *filter(None, [benchmark.translated])):
        progress.note(note)
    questions = select(benchmark.questions, limit=settings.limit, ids=settings.questions)
    wanted = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in wanted if name not in benchmark.missing]
    if not present and settings.linking is None:
        raise no_database(benchmark, wanted)
    progress.step(f"Reading {counted(len(present), 'database')}")
    databases = {name: _open(benchmark, name) for name in present}
    for note in other_content(benchmark, databases):
        progress.note(note)
    links = _links(settings.linking, benchmark, databases) if settings.linking else {}
    outcomes = (
        {each.question_id: outcome_of(each, given.sha256) for each in given.trajectories} if given else {}
    )
    return Selected(Scorable(benchmark, questions, databases), predictions, links, outcomes)


def _open(benchmark: Benchmark, name: str) -> Database:
    entry = benchmark.schemas.get(name)
    return open_database(
        benchmark.location(name),
        name,
        sample_rows=0,
        foreign_keys=entry.foreign_keys if entry else (),
    )


def _links(path: Path, benchmark: Benchmark, databases: Mapping[str, Database]) -> dict[str, Link]:
    """Match the names in a file of schema links with the schemas, those of missing databases included."""
    schemas = {**benchmark.schemas, **{name: database.schema for name, database in databases.items()}}
    names = read_links(path, benchmark)
    return {
        question.id: read_link(schemas[question.database_id], written.tables, written.columns)
        for question in benchmark.questions
        if question.database_id in schemas and (written := names.get(question.id))
    }


async def _score(settings: ScoreSettings, selected: Selected, progress: Progress) -> Report:
    tracker = Tracker(settings.folders.home)
    # takes seconds, during which predictions are scored
    store = asyncio.create_task(asyncio.to_thread(tracker.check))
    # asyncio logs the exception of a task that is never awaited, as where scoring fails first
    store.add_done_callback(lambda done: done.cancelled() or done.exception())
    judging = _Judging(progress, selected.scorable.compared)
    async with SqlWorkers() as workers:
        with VerdictCache(settings.folders.home.verdicts, workers.limits) as cache:
            judge = Judge(workers, settings.rules, settings.benchmark.timeout_s, cache)
            scorable = selected.scorable
            await check_keys(scorable.benchmark, scorable.questions, scorable.databases, workers, progress)
            scorer = Scorer(scorable, judge, headline=settings.headline, progress=judging)
            outcomes = {question.id: _outcome(question, selected) for question in scorable.questions}
            await score_all(scorer, scorable.questions, outcomes)
        efficiency = await scorer.measure_efficiency(settings.trials) if settings.trials else None
    await store
    report = scorer.report(efficiency, link_all=settings.linking is not None)
    return as_reported(report)


async def score_all(scorer: Scorer, questions: Sequence[Question], outcomes: Mapping[str, Outcome]) -> None:
    """Score the outcome of every question, ordered by database, so that workers keep a database open."""
    places = asyncio.Semaphore(AT_ONCE)

    async def score(question: Question) -> None:
        async with places:
            await scorer.score(question, outcomes[question.id])

    await asyncio.gather(*map(score, sorted(questions, key=lambda question: question.database_id)))


def _outcome(question: Question, selected: Selected) -> Outcome:
    links = {LINK: selected.links[question.id]} if question.id in selected.links else {}
    known = selected.trajectories.get(question.id) or Outcome(
        question.id, selected.predictions.sqls.get(question.id)
    )
    return replace(known, links=links)


class _Judging(Progress):
    """Progress that shows the number of scored predictions as a step."""

    def __init__(self, progress: Progress, total: int) -> None:
        super().__init__()
        self._progress = progress
        self._total = total
        self._done = 0

    def step(self, text: str) -> None:
        """Show a step of the scorer."""
        self._progress.step(text)

    def note(self, text: str) -> None:
        """Keep a sentence for the end of the run."""
        self._progress.note(text)

    def judged(self, *, correct: bool) -> None:
        """Count a scored prediction."""
        self._done += 1
        self._progress.step(f"Judging {self._done:,} of {self._total:,} predictions")
