"""Training pairs of SEA-SQL's eliminator, made from runs of SEA-SQL on a training split (SEA-SQL, section 3)."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import ConfigurationError, DataError, first_problem
from tasks.core.files import atomic_write, require_file
from tasks.core.records import ColumnValues, Demonstration
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Schema
from tasks.database.schema_view import SchemaView
from tasks.results.run_record import RunRecord
from tasks.retrieval.demonstrations import without_leaks
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.pipeline import SeaSqlSettings
from tasks.stages.sea_sql import elimination_prompt

STAGE = "1_preliminary_sql"
_VALUES = TypeAdapter(tuple[ColumnValues, ...])


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A prompt of the eliminator with the SQL to answer, in the form that TRL trains on."""

    prompt: list[dict[str, str]]  # one message of the user, as at inference
    completion: list[dict[str, str]]  # one message: the preliminary SQL if it is right, else the gold SQL
    right: bool  # whether the preliminary SQL is right
    benchmark: str  # the training split
    database_id: str
    question_id: str


_PAIR = TypeAdapter(TrainingPair)


@dataclass(frozen=True)
class Pairs:
    """Training pairs by the text of their prompt, with counts of the questions that gave none."""

    by_prompt: dict[str, TrainingPair] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)  # questions without a pair, by reason

    def add(self, pair: TrainingPair) -> None:
        """Add a pair, or count it if its prompt occurred before."""
        text = pair.prompt[0]["content"]
        self.left_out["duplicate"] += text in self.by_prompt
        self.by_prompt.setdefault(text, pair)


def make_pairs(
    runs: Sequence[RunRecord], evaluated: Sequence[Benchmark], folders: Folders, progress: Progress
) -> Pairs:
    """Make the pairs of runs of SEA-SQL on training splits, without what the evaluated benchmarks contain.

    The preliminary SQL is executed again, for its result in the prompt. No model is called.
    """
    pairs = Pairs()
    for run in runs:
        settings = _sea_settings(run)
        progress.step(f"Reading {run.benchmark}")
        benchmark = folders.benchmark_of(run, progress)
        rows = _without_evaluated(run.rows, evaluated, pairs)
        asyncio.run(_add_pairs(pairs, rows, benchmark, settings, folders.home.path))
    if not pairs.by_prompt:
        raise DataError(
            f"No training pair; questions left out: {dict(pairs.left_out)}. Name a run of SEA-SQL on a training split."
        )
    return pairs


def write_pairs(path: Path, pairs: Pairs) -> None:
    """Write pairs as JSON lines, the file whole or not at all."""
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8") as file:
        for pair in pairs.by_prompt.values():
            file.write(json.dumps(asdict(pair), ensure_ascii=False) + "\n")


def read_pairs(path: Path) -> tuple[TrainingPair, ...]:
    """Read pairs from JSON lines."""
    number, pairs = 0, []
    try:
        require_file(path)
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):  # noqa: B007 - named in the error
                pairs.append(_PAIR.validate_json(line))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        why = f"line {number}: {first_problem(error)}" if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"The training pairs {path} cannot be read ({why}). `crosscheck finetune pairs` writes them."
        ) from None
    if not pairs:
        raise DataError(f"{path} has no training pair.")
    return tuple(pairs)


def _sea_settings(run: RunRecord) -> SeaSqlSettings:
    """Return the settings of a run's pipeline, after checking that it is SEA-SQL."""
    try:
        if run.settings["pipeline"]["kind"] == "sea-sql":
            return SeaSqlSettings.model_validate_json(json.dumps(run.settings["pipeline"]))
    except ValidationError as error:
        raise ConfigurationError(
            f"The settings of the run {run.run_id} are not valid in this release: {first_problem(error)}."
        ) from None
    raise ConfigurationError(
        f"The run {run.run_id} is of the pipeline {run.pipeline}: training pairs are made from runs of "
        "SEA-SQL (--pipeline sea-sql)."
    )


def _without_evaluated(
    rows: Sequence[QuestionScore], evaluated: Sequence[Benchmark], pairs: Pairs
) -> list[QuestionScore]:
    """Return the questions with a gold whose text and gold no evaluated benchmark has, in any database."""
    examples: dict[Demonstration, QuestionScore] = {}
    for row in rows:
        question = row.question
        example = Demonstration(question.text, row.gold_sql, question.database_id, question.evidence)
        if row.executable and row.gold_sql:
            pairs.left_out["duplicate"] += example in examples
            examples.setdefault(example, row)
    questions = [question for benchmark in evaluated for question in benchmark.questions]
    golds = {fingerprint for benchmark in evaluated for fingerprint in benchmark.gold_fingerprints}
    guarded = without_leaks(examples, questions, golds)
    pairs.left_out["in an evaluated benchmark"] += guarded.removed
    return [examples[example] for example in guarded.pool]


async def _add_pairs(
    pairs: Pairs, rows: Sequence[QuestionScore], benchmark: Benchmark, settings: SeaSqlSettings, home: Path
) -> None:
    names = dict.fromkeys(row.question.database_id for row in rows)
    databases = {
        name: open_benchmark_database(benchmark, name, settings.prompt.sample_rows, home) for name in names
    }
    rows_shown = settings.bias_elimination.rows_shown
    async with SqlWorkers() as workers:
        for row in rows:
            verdict = row.stages.get(STAGE)
            sql = next(
                (candidate.sql for candidate in row.outcome.candidates if candidate.stage == STAGE), None
            )
            if verdict is None or not sql:
                pairs.left_out["without SQL"] += 1
            elif verdict.gold_status != "ok":
                pairs.left_out["gold fails"] += 1
            else:
                database = databases[row.question.database_id]
                execution = await workers.execute(
                    database, sql, rows=rows_shown, timeout_s=benchmark.settings.timeout_s
                )
                view = _view(row, database.schema, settings)
                prompt = elimination_prompt(row.question, view, sql, execution, rows_shown)
                right = is_right(verdict, benchmark.settings.rule)
                response = sql if right else row.gold_sql.strip().rstrip(";").rstrip()
                messages = (
                    [{"role": "user", "content": prompt}],
                    [{"role": "assistant", "content": response}],
                )
                pairs.add(
                    TrainingPair(*messages, right, benchmark.settings.name, database.id, row.question.id)
                )


def _view(row: QuestionScore, schema: Schema, settings: SeaSqlSettings) -> SchemaView:
    """Return the schema as the prompts of a question showed it."""
    view = SchemaView(schema, settings.prompt, descriptions=settings.descriptions)
    if settings.prompt.values != "retrieved":
        return view
    values = next((record.value for record in row.outcome.stages if record.stage == "value_retrieval"), ())
    return view.with_values(_VALUES.validate_python(values))
