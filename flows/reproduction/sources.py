"""Data of the reproductions, and scoring as in an evaluation, without Prefect and MLflow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.scorer import Scorable, Scorer
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.recordings.file import Recording
from tasks.backbone.recordings.replay import RecordedBackbone
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, Release, read_release, recorded_replies
from tasks.database.sandbox.workers import SqlWorkers
from tasks.records import Outcome
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.report import Report
from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True)
class Sources:
    """Data folder, and settings of the shipped benchmarks and pipelines.

    Attributes:
        settings: makes settings from the names of a benchmark and a pipeline.
        progress: display of the current step.
    """

    settings: Callable[[str, str], EvaluationSettings]
    progress: Progress

    def benchmark(self, settings: EvaluationSettings) -> Benchmark:
        """Load a benchmark. Raises DataError when its files are missing or malformed."""
        self.progress.step(f"Reading {settings.benchmark.name}")
        return Folders.of(settings).benchmark(settings.benchmark)

    def release(self, settings: EvaluationSettings) -> Release:
        """Read the RSL-SQL authors' released outputs. Raises DataError when they are missing or malformed."""
        return read_release(Path(settings.data) / FOLDER)


def replay(release: Release, benchmark: Benchmark) -> MeteredBackbone:
    """Return a backbone that replays GPT-4o's recorded replies."""
    replies = tuple(recorded_replies(release, benchmark.questions))
    return MeteredBackbone(RecordedBackbone(Recording(release.folder, "", replies)))


async def score(scorable: Scorable, outcomes: Mapping[str, Outcome], workers: SqlWorkers) -> Report:
    """Score one outcome for each selected question."""
    settings = scorable.benchmark.settings
    scorer = Scorer(scorable, Judge(workers, rules_beside(settings.rule), settings.timeout_s))
    for question in scorable.questions:
        await scorer.score(question, outcomes[question.id])
    return scorer.report()
