"""One question on a user's database, run in this process without Prefect, MLflow and gold SQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.evaluate.demonstration_search import (
    DemonstrationSearch,
    QuestionExtras,
    QuestionInputs,
    most_demonstrations,
)
from flows.evaluate.preparation import check_candidates, eliminator_settings
from flows.evaluate.runner import Resources
from flows.runtime.control import Control, Progress
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from tasks.backbone.kind import check_backbone
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.outcome import Outcome
from tasks.core.records import Execution, Question
from tasks.core.wording import storable
from tasks.database.database import Database, database_name, locate, open_database
from tasks.database.engine import engine_of
from tasks.results.run_record import JsonDocument, TextOrNull, at
from tasks.results.warehouse.views import Rows
from tasks.scoring.cost import Cost, total_cost
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import has_oracle, oracle_settings
from tasks.stages.question_run import QuestionRun

if TYPE_CHECKING:
    from pandas import DataFrame

NO_MODEL = (
    'No model was used: the backbone "offline" is a rule-based baseline, and its SQL is often wrong. '
    "Name a model with --backbone."
)


@dataclass(frozen=True)
class AnswerRequest:
    """Question on a user's database."""

    text: str
    evidence: str
    database: str  # its path or URL
    rows: int  # rows of the result to return


@dataclass(frozen=True)
class Answered:
    """Answer to a question."""

    question: Question
    outcome: Outcome
    execution: Execution | None  # None if there is no SQL
    remark: str = ""  # warning about the answer

    @property
    def error(self) -> str:
        """Why there is no result; "" if there is one."""
        if self.outcome.failure:
            return self.outcome.failure.message
        if self.execution is None:
            return "the backbone's replies held no SQL."
        return "" if self.execution.ok else self.execution.error or self.execution.status

    @property
    def cost(self) -> Cost:
        """Its model calls."""
        return total_cost(self.outcome.stages)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the pipeline and of its stages."""
        stages = (f"{record.label}: {note}" for record in self.outcome.stages for note in record.notes)
        return (*self.outcome.notes, *stages)

    @property
    def exit_code(self) -> int:
        """0 if the SQL ran, 1 if there is none or it failed, 3 if the question can be retried."""
        if self.outcome.retryable:
            return ExitCode.TRY_AGAIN
        return ExitCode.DONE if self.execution and self.execution.ok else ExitCode.NEGATIVE


class StageSql(JsonDocument):
    """The SQL after a stage."""

    name: str = at("stage")
    sql: str | None


class DatabaseAnswer(JsonDocument):
    """Answer to a question on a database of one's own, as `crosscheck answer --json` prints it."""

    question: str = at("question", "text")
    sql: str | None = at("outcome", "sql")
    """The SQL; None if the model gave none."""
    remark: TextOrNull
    status: str = at("execution", "status", default="no_answer")
    error: TextOrNull
    """Why there is no result; None if there is one."""
    columns: tuple[str, ...] = at("execution", "columns", default=())
    rows: Rows = at("execution", "rows", default=())
    """The first rows of the result."""
    row_count: int | None = at("execution", "row_count", default=None)
    """Rows of the whole result; None if there is none."""
    stages: tuple[StageSql, ...] = at("outcome", "candidates")
    calls: int = at("cost", "calls")
    cached_calls: int = at("cost", "cached_calls")
    notes: tuple[str, ...]

    @property
    def table(self) -> "DataFrame":
        """The rows as a frame."""
        from pandas import DataFrame

        return DataFrame(list(self.rows), columns=list(self.columns))


def _open_database(settings: EvaluationSettings, database_path: str, progress: Progress) -> Database:
    benchmark = settings.benchmark
    location = locate(
        database_path, writable=benchmark.allow_writable_role, version=benchmark.database_version
    )
    name = database_name(location)
    engine = engine_of(location)
    if not engine.exists(location) and (engine.server or not location.path.is_file()):
        or_refused = ", or its role may not open it" if engine.server else ""
        raise ConfigurationError(
            f"--database {location}: there is no database{or_refused}. Name a SQLite or DuckDB file, a folder of "
            "Parquet or CSV files, or the URL of a server (postgresql://..., mysql://...)."
        )
    progress.step(f"Reading {name}")
    return open_database(location, name, sample_rows=settings.pipeline.prompt.sample_rows)


async def answer_one(settings: EvaluationSettings, request: AnswerRequest, progress: Progress) -> Answered:
    """Answer one question with the pipeline and run its SQL; demonstrations are the benchmark's training questions."""
    check_backbone(settings.backbone)
    eliminator_settings(settings)
    check_candidates(settings)
    if has_oracle(settings.pipeline):
        raise ConfigurationError(
            f"{' and '.join(oracle_settings(settings.pipeline))} gives parts of the gold SQL, and a question of your "
            "own has none. Leave that setting out."
        )
    if not request.text.strip():
        raise ConfigurationError("The question is empty: write what you want to know, in quotes.")
    database = _open_database(settings, request.database, progress)
    question = Question("1", storable(request.text), database.id, storable(request.evidence))
    with watched(Home(Path(settings.home))):
        extras: Mapping[str, QuestionExtras] = {question.id: QuestionExtras()}
        if most_demonstrations(settings.pipeline):
            benchmark = Folders.of(settings).benchmark(settings.benchmark, progress)
            extras = DemonstrationSearch(benchmark, settings, progress).choose((question,))
        progress.step(f"Asking {settings.backbone.name}")
        async with Resources.open(settings, Control(progress), persistent=False) as resources:
            runner = resources.runner(QuestionInputs({database.id: database}, extras))
            outcome = await runner.run(QuestionRun(question))
            if outcome.failure and outcome.failure.fatal and not outcome.failure.transient:
                raise ConfigurationError(outcome.failure.message)
            execution = None
            if outcome.sql:
                execution = await resources.tools.workers.execute(
                    database, outcome.sql, rows=request.rows, timeout_s=settings.benchmark.timeout_s
                )
    return Answered(question, outcome, execution, NO_MODEL if settings.backbone.kind == "offline" else "")
