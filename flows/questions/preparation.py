"""Everything that can be found wrong before the first paid call: settings, files, questions, databases, keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from flows.questions.demonstrations import Shown, demonstrations_for
from flows.questions.eliminator import eliminator_settings
from flows.questions.recording import check_record
from flows.runtime.control import Progress
from tasks import prompts
from tasks.backbone.factory import check_backbone, kind_of
from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.benchmarks.databases import open_benchmark_database, schema_only_database
from tasks.benchmarks.selection import select
from tasks.database.database import Database
from tasks.errors import DataError
from tasks.records import Question
from tasks.scoring.papers.dac_oracle import make_oracle
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_conf
from tasks.settings.pipeline import dac_of, has_oracle
from tasks.tracking.mlflow.store import check as check_store
from tasks.tracking.mlflow.store import find_store

ORACLE_NOTE = (
    "An analysis, not a score: parts of the gold SQL were given to the pipeline (pipeline.dac.oracle)."
)


@dataclass(frozen=True)
class Preparation:
    """An evaluation that is ready to start.

    Attributes:
        settings: what was asked for.
        benchmark: the whole split.
        questions: the selected questions, in the benchmark's order, also those without a database.
        databases: the opened databases, by id.
        shown: what each question is given besides its database, by question id.
        notes: what a user should know before reading the scores.
        schema_only: databases that are not at hand but whose schema is, by id. Only a replay takes its questions
            through the stages that execute nothing: a model would be paid for answers that nobody can score.
    """

    settings: EvaluationSettings
    benchmark: Benchmark
    questions: tuple[Question, ...]
    databases: Mapping[str, Database] = field(repr=False)
    shown: Mapping[str, Shown] = field(repr=False)
    notes: tuple[str, ...] = ()
    schema_only: Mapping[str, Database] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> Mapping[str, Database]:
        """Every database that questions are asked about."""
        return {**self.databases, **self.schema_only}

    @property
    def asked(self) -> tuple[Question, ...]:
        """The selected questions that are asked: about a database, or a schema."""
        known = self.known
        return tuple(question for question in self.questions if question.database_id in known)

    @property
    def executable(self) -> tuple[Question, ...]:
        """The selected questions whose database is at hand: the ones that are scored."""
        return tuple(question for question in self.questions if question.database_id in self.databases)


def prepare(settings: EvaluationSettings, progress: Progress) -> Preparation:
    """Read and check everything; a second call with the same settings costs nothing.

    Raises:
        CrosscheckError: in the user's words, what is wrong and how to mend it.
    """
    return _prepare(settings.model_dump_json(), _Ignored((settings, progress)))


class _Ignored:
    """Carries arguments past the cache: equal to every other one of its kind."""

    def __init__(self, content: tuple[EvaluationSettings, Progress]) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ignored)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=1)
def _prepare(key: str, arguments: _Ignored) -> Preparation:
    settings, progress = arguments.content
    check_backbone(settings.backbone)
    eliminator_settings(settings.pipeline)
    prompts.check()
    check_record(settings)
    home = Path(settings.home)
    progress.step("Opening MLflow's store")
    check_store(find_store(Home(home)))
    progress.step(f"Reading {settings.benchmark.name}")
    benchmark = load_benchmark(
        settings.benchmark, data=Path(settings.data), home=home, conf=find_conf(), progress=progress.step
    )
    questions = select(benchmark.questions, limit=settings.limit, ids=settings.questions)
    wanted = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in wanted if name not in benchmark.missing]
    replayed = kind_of(settings.backbone).replays
    schemas = [
        name for name in wanted if replayed and name in benchmark.missing and name in benchmark.schemas
    ]
    if not present and not schemas:
        raise DataError(
            f"{settings.benchmark.name}: none of the databases of the selected questions is at hand; the first would "
            f"be {benchmark.database_path(next(iter(wanted)))}. Put them there, or say where they are with --data "
            f"FOLDER or CROSSCHECK_DATA.{settings.benchmark.source and f' They come from {settings.benchmark.source}.'}"
        )
    progress.step(f"Reading {len(present)} databases")
    databases = {
        name: open_benchmark_database(benchmark, name, settings.pipeline.prompt.sample_rows, home)
        for name in present
    }
    schema_only = {name: schema_only_database(benchmark, name, home) for name in schemas}
    shown, guarded = demonstrations_for(questions, benchmark, settings, progress)
    notes = [*benchmark.notes, guarded]
    if has_oracle(settings.pipeline):
        shown = _with_oracles(shown, questions, benchmark, {**databases, **schema_only}, settings)
        notes.append(ORACLE_NOTE)
    told = tuple(note for note in notes if note)
    return Preparation(settings, benchmark, questions, databases, shown, told, schema_only)


def _with_oracles(
    shown: Mapping[str, Shown],
    questions: Sequence[Question],
    benchmark: Benchmark,
    databases: Mapping[str, Database],
    settings: EvaluationSettings,
) -> dict[str, Shown]:
    """Give each question the parts of its gold that the settings ask for: the one way in, for analysis only."""
    dac = dac_of(settings.pipeline)
    return {
        question.id: replace(
            shown[question.id],
            oracle=make_oracle(benchmark.gold[question.id], databases[question.database_id].schema, dac),
        )
        for question in questions
        if question.database_id in databases
    }
