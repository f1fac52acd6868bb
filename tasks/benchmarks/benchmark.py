"""A benchmark's split as loaded: questions, gold, demonstrations, and where its databases are."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tasks.benchmarks.files.ddl import names_in_ddl, schema_from_ddl
from tasks.benchmarks.files.descriptions import Key, read_published
from tasks.benchmarks.files.schemas import names_in_schema, read_ddl
from tasks.benchmarks.fingerprint import sql_fingerprint
from tasks.benchmarks.layouts.base import Layout, Places, layout_of
from tasks.database.schema import Schema
from tasks.errors import DataError
from tasks.records import Demonstration, Question
from tasks.settings.benchmark import BenchmarkSettings


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
        schemas: schemas of the tables file by database id: names, types and keys; no samples.
        missing: questions per database whose file is absent, by database id.
        notes: what a user should know about the files, in sentences.
    """

    settings: BenchmarkSettings
    layout: Layout
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
            DataError: the settings name a file that is missing or invalid.
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
        return self.layout.read_demonstrations(path)

    @cached_property
    def gold_fingerprints(self) -> frozenset[str]:
        """Fingerprints of the whole split's gold: all that the leak guard sees of it."""
        return frozenset(sql_fingerprint(sql) for sql in self.gold.values())

    @cached_property
    def schema_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the tables and columns of every database that the files describe, by database id.

        From the tables file, and for the training split's databases from the "schema" column (DDL) of a
        Parquet file of training questions. Needed by masked retrieval only.
        """
        described = {name: names_in_ddl(ddl) for name, ddl in self._training_ddl.items()}
        return described | {name: names_in_schema(schema) for name, schema in self.schemas.items()}

    def training_schemas(self, names: Iterable[str]) -> dict[str, Schema]:
        """Return the schemas of training databases, as far as the benchmark's files describe them, without samples.

        From the tables file, else from the "schema" column (DDL) of a Parquet file of training questions. A database
        that neither describes is absent.

        Args:
            names: ids of training databases; only these are read.

        Raises:
            DataError: the file of the training questions is invalid.
        """
        wanted = dict.fromkeys(names)
        found = {name: self.schemas[name] for name in wanted if name in self.schemas}
        if len(found) < len(wanted):
            ddl = self._training_ddl
            found |= {
                name: schema_from_ddl(name, ddl[name]) for name in wanted if name not in found and name in ddl
            }
        return {name: schema for name, schema in found.items() if schema.tables}

    @cached_property
    def _training_ddl(self) -> Mapping[str, str]:
        train = self.train_file
        return read_ddl(train) if train and train.suffix.lower() == ".parquet" and train.is_file() else {}

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
        return self.layout.database_path(self.folder / self.settings.databases, database_id)

    def description_folder(self, database_id: str) -> Path | None:
        """Return the place of a database's description CSVs; None where the layout has none."""
        name = self.layout.descriptions
        return self.database_path(database_id).parent / name if name else None


def load_benchmark(
    settings: BenchmarkSettings,
    *,
    data: Path,
    home: Path,
    conf: Path,
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Load a benchmark: its layout finds its files, or makes them as the demo's does.

    Args:
        settings: which benchmark.
        data: the data location, the parent of `settings.folder` unless that is absolute.
        home: the working folder.
        conf: the configuration folder.
        progress: is called with a sentence about work that takes a while.

    Raises:
        ConfigurationError: there is no such layout.
        DataError: a file is missing or invalid.
    """
    layout = layout_of(settings.layout)
    folder = layout.folder(settings, Places(data, home, conf, progress))
    _demand_files(settings, folder)
    split = layout.read_split(folder / settings.questions)
    benchmark = Benchmark(
        settings=settings,
        layout=layout,
        folder=folder,
        questions=split.questions,
        gold=split.gold,
        digest=split.digest,
        schemas=layout.read_schemas(folder / settings.tables) if settings.tables else {},
        missing={},
        notes=tuple(_notes(settings, folder)),
    )
    per_database = Counter(question.database_id for question in split.questions)
    absent = (name for name in per_database if not benchmark.database_path(name).is_file())
    return replace(benchmark, missing={name: per_database[name] for name in absent})


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
