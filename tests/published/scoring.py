"""Settings, data and scores of the published figures, without Prefect and MLflow."""

from collections.abc import Mapping
from pathlib import Path

from flows.evaluate.scorer import Scorable, Scorer
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.predictions.pairing import pair
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.results.run_record import RunRecord
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import EvaluationSettings
from tests.tasks.results.samples import make_run


def read(benchmark: str, pipeline: str, data: Path, home: Path) -> tuple[EvaluationSettings, Benchmark]:
    """Read a benchmark of these names, with the settings of its evaluation."""
    choice = EvaluationChoice(
        benchmark=benchmark, backbone="replay", pipeline=pipeline, data=str(data), home=str(home)
    )
    settings = evaluation_settings(choice)
    return settings, Folders.of(settings).benchmark(settings.benchmark)


def predictions(file: Path, benchmark: Benchmark) -> Mapping[str, Outcome]:
    """Read a file of predictions as one outcome for each question."""
    sqls = pair(read_predictions(file), benchmark).sqls
    return {question.id: Outcome(question.id, sqls.get(question.id)) for question in benchmark.questions}


async def score(scorable: Scorable, outcomes: Mapping[str, Outcome], workers: SqlWorkers) -> RunRecord:
    """Return the record of a run of these outcomes, scored by the benchmark's rule and those beside it."""
    settings = scorable.benchmark.settings
    scorer = Scorer(scorable, Judge(workers, rules_beside(settings.rule), settings.timeout_s))
    for question in scorable.questions:
        await scorer.score(question, outcomes[question.id])
    return scorer.record(make_run(rule=settings.rule))
