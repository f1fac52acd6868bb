"""Data of the reproductions, and scoring as in an evaluation, without Prefect and MLflow."""

from collections.abc import Mapping
from dataclasses import dataclass

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.scorer import Scorable, Scorer
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.recordings.file import Recording
from tasks.backbone.recordings.replay import RecordedBackbone
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.predictions.pairing import pair
from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, Release, read_release, recorded_replies
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.report import Report
from tasks.settings.assemble import EvaluationChoice, evaluation_settings
from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True)
class Sources:
    """Benchmarks, pipelines and released outputs that figures are computed from."""

    folders: Folders  # where the benchmarks' files are
    progress: Progress  # display of the current step

    def settings(self, benchmark: str, pipeline: str, *overrides: str) -> EvaluationSettings:
        """Return the settings of a benchmark and a pipeline of these names."""
        choice = EvaluationChoice(
            benchmark=benchmark,
            backbone="replay",
            pipeline=pipeline,
            overrides=overrides,
            data=str(self.folders.data),
            home=str(self.folders.home.path),
        )
        return evaluation_settings(choice)

    def benchmark(self, settings: EvaluationSettings) -> Benchmark:
        """Load a benchmark. Raises DataError when its files are missing or malformed."""
        self.progress.step(f"Reading {settings.benchmark.name}")
        return self.folders.benchmark(settings.benchmark)

    def release(self) -> Release:
        """Read the RSL-SQL authors' released outputs. Raises DataError when they are missing or malformed."""
        return read_release(self.folders.data / FOLDER)

    def predictions(self, file: str, benchmark: Benchmark) -> Mapping[str, str | None]:
        """Return the SQL of a file of predictions in the data folder, by question id."""
        return pair(read_predictions(self.folders.data / file), benchmark).sqls


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
