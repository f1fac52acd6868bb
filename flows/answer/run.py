"""One question on a database of the user's own, in place: no Prefect, no MLflow, no gold."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.questions.demonstrations import Shown, demonstrations_for
from flows.questions.eliminator import eliminator_settings
from flows.questions.resources import open_resources
from flows.questions.runner import Asker
from flows.runtime.control import Progress
from tasks import prompts
from tasks.backbone.factory import check_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.benchmarks.benchmark import load_benchmark
from tasks.database.database import open_database
from tasks.errors import ConfigurationError
from tasks.records import Execution, Outcome, Question
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_conf
from tasks.settings.pipeline import dac_of, has_oracle

RAN, DID_NOT_RUN, TRY_AGAIN = 0, 1, 3


@dataclass(frozen=True)
class Answered:
    """A question's answer.

    Attributes:
        question: what was asked.
        outcome: its way through the pipeline, the final SQL included.
        execution: what the SQL returned; None when there is no SQL.
    """

    question: Question
    outcome: Outcome
    execution: Execution | None

    @property
    def exit_code(self) -> int:
        """0 when the SQL ran, 1 when there is none that runs, 3 when trying again can help."""
        if self.outcome.failure and self.outcome.failure.mendable:
            return TRY_AGAIN
        return RAN if self.execution and self.execution.ok else DID_NOT_RUN


async def answer_one(
    settings: EvaluationSettings, text: str, evidence: str, file: str, rows: int, progress: Progress
) -> Answered:
    """Take one question through the pipeline and run its SQL.

    Args:
        settings: backbone and pipeline; the benchmark's training questions are the demonstrations.
        text: the question.
        evidence: a hint, "" for none.
        file: path of the SQLite database.
        rows: rows of the result to return.
        progress: told what is going on.

    Raises:
        CrosscheckError: in the user's words, what is wrong and how to mend it.
    """
    check_backbone(settings.backbone)
    eliminator_settings(settings.pipeline)
    if has_oracle(settings.pipeline):
        raise ConfigurationError(
            "pipeline.dac.oracle gives parts of the gold SQL, and a question of your own has none. "
            'Do without: "--set pipeline.dac.oracle=none".'
        )
    prompts.check()
    path, home = Path(file).expanduser(), Home(Path(settings.home))
    if not text.strip():
        raise ConfigurationError("The question is empty: write what you want to know, in quotes.")
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "not there"
        raise ConfigurationError(f"--database {file}: this is {what}. Name the SQLite file to ask.")
    progress.step(f"Reading {path.name}")
    database = open_database(path, path.stem, sample_rows=settings.pipeline.prompt.sample_rows)
    question = Question(id="1", text=text, database_id=database.id, evidence=evidence)
    chosen: Mapping[str, Shown] = {question.id: Shown()}
    dac = dac_of(settings.pipeline)
    if settings.pipeline.demonstrations.k or (dac and dac.shots):
        benchmark = load_benchmark(
            settings.benchmark,
            data=Path(settings.data),
            home=home.path,
            conf=find_conf(),
            progress=progress.step,
        )
        chosen, _ = demonstrations_for((question,), benchmark, settings, progress)
    progress.step(f"Asking {settings.backbone.name}")
    async with open_resources(settings) as resources:
        asker = Asker(
            settings,
            {database.id: database},
            chosen,
            MeteredBackbone(resources.backbone),
            resources.workers,
            eliminator=resources.eliminator,
        )
        outcome = await asker.ask_directly(question)
        if outcome.failure and outcome.failure.ends_run:
            raise ConfigurationError(outcome.failure.message)
        execution = None
        if outcome.sql:
            execution = await resources.workers.execute(
                database, outcome.sql, rows=rows, timeout_s=settings.benchmark.timeout_s
            )
    return Answered(question, outcome, execution)
