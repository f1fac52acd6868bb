"""A benchmark's split as loaded: questions, gold, demonstrations, and where its databases are."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tasks.benchmarks.bird import BIRD
from tasks.benchmarks.ddl import names_in_ddl
from tasks.benchmarks.descriptions import Key, read_published
from tasks.benchmarks.fingerprint import sql_fingerprint
from tasks.benchmarks.layout import FileLayout
from tasks.benchmarks.questions import read_demonstrations, read_split
from tasks.benchmarks.schemas import names_in_schema, read_ddl, read_schemas
from tasks.benchmarks.spider import SPIDER
from tasks.database.schema import Schema
from tasks.errors import DataError
from tasks.records import Demonstration, Question
from tasks.settings.benchmark import BenchmarkSettings

LAYOUTS: Mapping[str, FileLayout] = {"bird": BIRD, "spider": SPIDER, "demo": BIRD}


@dataclass(frozen=True)
class Benchmark:
    """One split of one benchmark. Questions, gold and schemas are read at once, the rest on demand.

    Attributes:
        settings: what it was loaded by.
        layout: its file layout.
        folder: the folder of its files.
        questions: every question of the split, in file order, also those whose database is missing.
        gold: gold SQL by question id. For `tasks.scoring` only.
        digest: sha256 of the question file.
        schemas: what the tables file tells, by database id: names, types and keys; no samples.
        missing: questions per database that is not at hand, by database id.
        notes: what a user should know about the files, in sentences.
    """

    settings: BenchmarkSettings
    layout: FileLayout
    folder: Path
    questions: tuple[Question, ...] = field(repr=False)
    gold: Mapping[str, str] = field(repr=False)
    digest: str
    schemas: Mapping[str, Schema] = field(repr=False)
    missing: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @cached_property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The training questions, in file order; () where the benchmark has none. Read on first use.

        Raises:
            DataError: the settings name a file that is absent or says something it cannot mean.
        """
        path = self.train_file
        if path is None:
            return ()
        if not path.is_file():
            raise DataError(
                f"{self.settings.name}: the training questions are not at {path}. "
                f"{_where_from(self.settings)} "
                'Or name another file ("--set benchmark.train=FILE"), or do without demonstrations '
                '("--set pipeline.demonstrations.k=0").'
            )
        return read_demonstrations(path, self.layout)

    @cached_property
    def gold_fingerprints(self) -> frozenset[str]:
        """Fingerprints of the whole split's gold: all that the leak guard sees of it."""
        return frozenset(sql_fingerprint(sql) for sql in self.gold.values())

    @cached_property
    def schema_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the tables and columns of every database the files tell of, by database id.

        From the tables file, and for the training split's databases from the "schema" column (DDL) of a
        Parquet file of training questions. Needed by masked retrieval only.
        """
        train = self.train_file
        told = {}
        if train and train.suffix.lower() == ".parquet" and train.is_file():
            told = {name: names_in_ddl(ddl) for name, ddl in read_ddl(train).items()}
        return told | {name: names_in_schema(schema) for name, schema in self.schemas.items()}

    @cached_property
    def published_descriptions(self) -> Mapping[str, Mapping[Key, str]]:
        """Generated descriptions that came with the benchmark, by lower-cased database id; often none.

        Raises:
            DataError: the file is malformed.
        """
        name = self.settings.column_descriptions
        path = self.folder / name if name else None
        return read_published(path) if path and path.is_file() else {}

    @property
    def train_file(self) -> Path | None:
        """The file of the training questions, whether or not it exists; None where none is configured."""
        return self.folder / self.settings.train if self.settings.train else None

    def database_path(self, database_id: str) -> Path:
        """Return the place of a database's SQLite file, whether or not it exists."""
        return self._database_folder(database_id) / f"{database_id}.sqlite"

    def description_folder(self, database_id: str) -> Path | None:
        """Return the place of a database's description CSVs; None where the layout has none."""
        name = self.layout.descriptions
        return self._database_folder(database_id) / name if name else None

    def _database_folder(self, database_id: str) -> Path:
        return self.folder / self.settings.databases / database_id


def load_benchmark(
    settings: BenchmarkSettings,
    *,
    data: Path,
    home: Path,
    conf: Path,
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Load a benchmark, building the demo first where it is the demo.

    Args:
        settings: which benchmark.
        data: the data location, the parent of `settings.folder` unless that is absolute.
        home: the working folder; the demo is built below it.
        conf: the configuration folder; the demo's sources are below it.
        progress: told in words about work that takes a while.

    Raises:
        DataError: a file is missing or says something it cannot mean.
    """
    folder = _folder(settings, data, home, conf, progress)
    layout = LAYOUTS[settings.layout]
    _demand_files(settings, folder)
    split = read_split(folder / settings.questions, layout)
    benchmark = Benchmark(
        settings=settings,
        layout=layout,
        folder=folder,
        questions=split.questions,
        gold=split.gold,
        digest=split.digest,
        schemas=read_schemas(folder / settings.tables) if settings.tables else {},
        missing={},
        notes=tuple(_notes(settings, folder)),
    )
    per_database = Counter(question.database_id for question in split.questions)
    absent = (name for name in per_database if not benchmark.database_path(name).is_file())
    return replace(benchmark, missing={name: per_database[name] for name in absent})


def _folder(
    settings: BenchmarkSettings, data: Path, home: Path, conf: Path, progress: Callable[[str], None] | None
) -> Path:
    if settings.layout != "demo":
        return data / Path(settings.folder).expanduser()
    from tasks.benchmarks.demo.builder import build_demo

    return build_demo(home / "benchmarks" / "demo", sources=conf / "benchmarks" / "demo", progress=progress)


def _demand_files(settings: BenchmarkSettings, folder: Path) -> None:
    wanted = [folder / settings.questions, folder / settings.databases]
    if settings.tables:
        wanted.insert(1, folder / settings.tables)
    absent = [path for path in wanted if not path.exists()]
    if not folder.is_dir():
        wrong = f"there is no folder {folder}"
    elif absent:
        wrong = f"{folder} lacks {', '.join(path.name for path in absent)}"
    else:
        return
    names = ", ".join(str(path.relative_to(folder)) for path in wanted)
    raise DataError(f"{settings.name}: {wrong}. Looked there for {names}. {_where_from(settings)}")


def _where_from(settings: BenchmarkSettings) -> str:
    get = f"Get them from {settings.source}, and say" if settings.source else "Say"
    if Path(settings.folder).is_absolute():
        return f"{get} where they are with the benchmark's key `folder`."
    return (
        f"{get} where they are with --data FOLDER or CROSSCHECK_DATA: "
        f'the folder that holds "{settings.folder}".'
    )


def _notes(settings: BenchmarkSettings, folder: Path) -> Iterator[str]:
    file = settings.column_descriptions
    if file and not (folder / file).is_file():
        yield (
            f"{file} is not in {folder}: columns are described by the benchmark's own files alone, "
            "so prompts differ from those made with it."
        )
