"""Training and evaluation of SEA-SQL's eliminator. Both run without Prefect: they have no stages to cache."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.check.known import KnownEndpoints
from tasks.backbone.kinds.opening import Layers, open_backbone
from tasks.backbone.protocol import Backbone
from tasks.core.errors import DataError
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.finetuning.evaluation import RULE, EliminatorScore, judge_pairs
from tasks.finetuning.pairs import TrainingPair, digest_of, read_pairs, refuse_trained
from tasks.finetuning.settings import FinetuningSettings
from tasks.finetuning.training import Trained, train
from tasks.scoring.execution.accuracy import Judge
from tasks.settings.backbone import BackboneSettings
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.home import Home, find_replies
from tasks.tracking.mlflow.finetuning import FinetuningTracker


def run_training(
    pairs_file: Path,
    settings: FinetuningSettings,
    output: Path,
    home: Home,
    progress: Progress,
    stop: threading.Event,
) -> Trained:
    """Train an eliminator, and log the metrics of every step and the adapter to MLflow.

    Raises:
        CrosscheckError: bad input or configuration; the message says what to change.
    """
    pairs = read_pairs(pairs_file)
    tracker = FinetuningTracker(home, output)
    started = False

    def logged(step: int, metrics: Mapping[str, float]) -> None:
        tracker.log(step, metrics)
        if "loss" in metrics:
            progress.step(f"Step {step:,}: loss {metrics['loss']:.3f}")

    def begin(text: str) -> None:
        nonlocal started
        progress.step(text)
        if not started:
            started = True
            tags = {"pairs_sha256": digest_of(pairs), "pairs": str(len(pairs)), "pairs_file": str(pairs_file)}
            tracker.start(output.name, settings.model_dump(mode="json"), tags)

    try:
        trained = train(pairs, settings, output, logged=logged, stop=stop.is_set, progress=begin)
    except BaseException:
        tracker.finish(None, "FAILED")
        raise
    tracker.finish(
        trained.adapter if trained.finished else None, "FINISHED" if trained.finished else "KILLED"
    )
    if tracker.problem:
        progress.note(f"MLflow does not have the complete run: {tracker.problem}")
    return trained


@dataclass(frozen=True)
class EliminatorEvaluation:
    """Settings of an eliminator's evaluation."""

    pairs_file: Path  # the held-out pairs
    # the pairs that it was trained on, none of which may be held out; None: not known
    trained_on: Path | None
    benchmarks: tuple[BenchmarkSettings, ...]  # the splits that the pairs are from, for their databases
    eliminator: BackboneSettings | Path  # a served eliminator, or the folder of an adapter


def run_eliminator_evaluation(
    settings: EliminatorEvaluation, folders: Folders, progress: Progress
) -> EliminatorScore:
    """Evaluate an eliminator on held-out pairs.

    Raises:
        CrosscheckError: bad input or configuration; the message says what to change.
    """
    home, eliminator = folders.home, settings.eliminator
    pairs = read_pairs(settings.pairs_file)
    if settings.trained_on is not None:
        refuse_trained(read_pairs(settings.trained_on), pairs)
    progress.step("Reading the databases")
    databases = _databases(settings, pairs, folders, progress)

    async def judged() -> EliminatorScore:
        async with SqlWorkers() as workers, _opened(eliminator, home) as backbone:
            progress.questions(len(pairs), 0, "pair")
            return await judge_pairs(
                pairs,
                backbone,
                Judge(workers, (RULE,), max(one.timeout_s for one in settings.benchmarks)),
                lambda pair: databases[pair.benchmark, pair.database_id],
                concurrency=eliminator.concurrency if isinstance(eliminator, BackboneSettings) else 1,
                on_judged=lambda one: progress.judged(correct=one.after),
            )

    score = asyncio.run(judged())
    if isinstance(eliminator, Path):
        tracker = FinetuningTracker(home, eliminator.parent)
        tracker.resume()
        tracker.log(0, score.metrics)
    return score


def _databases(
    settings: EliminatorEvaluation, pairs: Sequence[TrainingPair], folders: Folders, progress: Progress
) -> dict[tuple[str, str], Database]:
    """Open the databases of pairs, by training split and id; a pair that names no split may be from any.

    Raises:
        DataError: one is missing, or its split is not among the settings.
    """
    splits = [folders.benchmark(one, progress) for one in settings.benchmarks]
    found: dict[tuple[str, str], Database] = {}
    for benchmark, name in dict.fromkeys((pair.benchmark, pair.database_id) for pair in pairs):
        known = [split for split in splits if benchmark in ("", split.settings.name)]
        places = [split.location(name) for split in known if split.exists(name)]
        if not places:
            raise DataError(
                f"{settings.pairs_file} has pairs of the database {name}"
                f"{f' of {benchmark}' if benchmark else ''}, but it is not in "
                f"{', '.join(split.settings.name for split in splits)}. Name every benchmark of the pairs "
                "(--benchmark, --also, or --training)."
            )
        found[benchmark, name] = open_database(places[0], name, sample_rows=0)
    return found


@asynccontextmanager
async def _opened(eliminator: BackboneSettings | Path, home: Home) -> AsyncIterator[Backbone]:
    if isinstance(eliminator, Path):
        from tasks.finetuning.local import LocalEliminator

        yield await asyncio.to_thread(LocalEliminator.open, eliminator)
        return
    with open_reply_cache(find_replies(home)) as cache:
        async with open_backbone(
            eliminator, Layers(cache, endpoints=KnownEndpoints(home.endpoints))
        ) as backbone:
            yield backbone.inner
