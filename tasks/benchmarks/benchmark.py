"""A benchmark's split as loaded: questions, gold, demonstrations, and where its databases are."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from tasks.benchmarks.answer_keys import read_keys
from tasks.benchmarks.expected_files import demand_files, notes_on_descriptions, notes_on_revision, where_from
from tasks.benchmarks.files.descriptions import Key, read_published
from tasks.benchmarks.files.schemas import names_in_schema, read_ddl, schema_from_ddl
from tasks.benchmarks.fingerprint import sql_fingerprint
from tasks.benchmarks.gold_dialect import gold_for
from tasks.benchmarks.keys.key import AnswerKey
from tasks.benchmarks.layouts.base import GoldResults, Layout, SearchPaths, layout_of
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.records import Demonstration, Question
from tasks.database.database import dialect_named, locate
from tasks.database.engine import engine_of
from tasks.database.location import Location
from tasks.database.schema import ColumnDescription, Schema
from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True)
class Benchmark:
    """One split of one benchmark. Questions, gold and schemas are read at once, the rest on demand."""

    settings: BenchmarkSettings  # what it was loaded by
    layout: Layout  # its file layout
    folder: Path  # the folder of its files
    question_files: tuple[Path, ...]  # the files of the questions
    # every question of the split, in file order, also those whose database is missing
    questions: tuple[Question, ...] = field(repr=False)
    # gold SQL by question id; a question without one is absent. For `tasks.scoring` only.
    gold: Mapping[str, str] = field(repr=False)
    # accepted results by question id, in the place of gold SQL. For `tasks.scoring` only.
    results: Mapping[str, GoldResults] = field(repr=False)
    digest: str  # sha256 of the question file, or of the digests of several
    # schemas of the tables file by database id: names, types and keys; no samples
    schemas: Mapping[str, Schema] = field(repr=False)
    missing: Mapping[str, int]  # questions per database whose file is absent, by database id
    notes: tuple[str, ...] = ()  # what a user should know about the files, in sentences
    # those of the notes that say which files differ from the stated revision
    other_revision: tuple[str, ...] = ()
    # what was done where the gold SQL was translated into the databases' dialect; "" elsewhere
    translated: str = ""
    # gold SQL by question id as the files have it
    written_gold: Mapping[str, str] = field(default_factory=dict, repr=False)
    # further gold SQL by question id, as right as the first, never translated. For scoring only.
    further_gold: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    # answer keys beside the official one, in the order of the settings. For `tasks.scoring` only.
    keys: tuple[AnswerKey, ...] = ()

    def has_gold(self, question_id: str) -> bool:
        """Return whether there is a gold SQL or an accepted result to compare an answer with."""
        return question_id in self.gold or question_id in self.results

    @cached_property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The training questions, in file order; () where the benchmark has none. Read on first use.

        Raises:
            DataError: the settings name a file that is missing or invalid.
        """
        absent = [path for path in self.train_files if not path.is_file()]
        if absent:
            raise DataError(
                f"{self.settings.name}: the training questions are not at {absent[0]}. "
                f"{where_from(self.settings)} "
                'Or name another file ("--set benchmark.train=FILE"), or do without demonstrations '
                '("--set pipeline.demonstrations.k=0").'
            )
        return tuple(shown for path in self.train_files for shown in self.layout.read_demonstrations(path))

    @cached_property
    def gold_fingerprints(self) -> frozenset[str]:
        """Fingerprints of the whole split's gold, translated or not, and of each key: all that the leak guard sees."""
        further = (sql for sqls in self.further_gold.values() for sql in sqls)
        of_keys = (sql for key in self.keys for entry in key.decided.values() for sql in entry.sql)
        every = (*self.gold.values(), *self.written_gold.values(), *further, *of_keys)
        return frozenset(sql_fingerprint(sql) for sql in every)

    @cached_property
    def schema_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the tables and columns of every database that the files describe, by database id.

        From the tables file, and for the training split's databases from the "schema" column (DDL) of a
        Parquet file of training questions. Needed by masked retrieval only.
        """
        described = {name: schema_from_ddl(name, ddl) for name, ddl in self._training_ddl.items()}
        return {name: names_in_schema(schema) for name, schema in {**described, **self.schemas}.items()}

    def training_schemas(self, names: Iterable[str]) -> dict[str, Schema]:
        """Return the schemas of training databases, as far as the benchmark's files describe them, without samples.

        From the tables file, else from the "schema" column (DDL) of a Parquet file of training questions. A database
        that neither describes is absent.

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
        files = [path for path in self.train_files if path.suffix.lower() == ".parquet" and path.is_file()]
        return {name: ddl for path in files for name, ddl in read_ddl(path).items()}

    @cached_property
    def published_descriptions(self) -> Mapping[str, Mapping[Key, ColumnDescription]]:
        """Generated descriptions that came with the benchmark, by lower-cased database id; often none.

        Raises:
            DataError: the file is malformed.
        """
        name = self.settings.column_descriptions
        path = self.folder / name if name else None
        return read_published(path) if path and path.is_file() else {}

    @property
    def train_files(self) -> tuple[Path, ...]:
        """The files of the training questions, whether or not they exist; () where none is configured."""
        return tuple(self.folder / name for name in self.settings.train_files)

    def database_path(self, database_id: str) -> Path:
        """Return the place of a database's SQLite file, whether or not it exists."""
        found = [self.layout.database_path(folder, database_id) for folder in self._database_folders]
        return next((path for path in found if path.is_file()), found[0])

    def location(self, database_id: str) -> Location:
        """Return where a database is, whether or not it exists.

        Raises:
            ConfigurationError: the settings' URL is malformed or holds a password, or no engine has such URLs.
        """
        chosen = self.settings
        if not chosen.url:
            return locate(str(self.database_path(database_id)))
        if ":" in chosen.url.partition("://")[2].rpartition("@")[0]:
            raise ConfigurationError(
                "benchmark.url holds a password, and settings are recorded. Leave it out of the URL, and set "
                "PGPASSWORD or MYSQL_PWD."
            )
        url = chosen.url.replace("{database}", quote(database_id, safe=""))
        return locate(url, writable=chosen.allow_writable_role, version=chosen.database_version)

    def exists(self, database_id: str) -> bool:
        """Return whether a database is there.

        Raises:
            CrosscheckError: its server does not answer, or the settings' URL is malformed.
        """
        location = self.location(database_id)
        return engine_of(location).exists(location)

    def suite_paths(self, database_id: str) -> tuple[Path, ...]:
        """Return the further SQLite files of a database on which predictions are judged; often none."""
        if not self.settings.test_suite or self.settings.url:
            return ()
        main = self.database_path(database_id)
        folders = self._database_folders
        holder = next(
            (each for each in folders if self.layout.database_path(each, database_id) == main), folders[0]
        )
        return self.layout.suite_paths(holder, database_id)

    @property
    def where_from(self) -> str:
        """Where the files are to be had, and how to say where they are."""
        return where_from(self.settings)

    @property
    def _database_folders(self) -> tuple[Path, ...]:
        return tuple(self.folder / name for name in self.settings.database_folders)

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

    `progress` is called with a sentence about work that takes a while.

    Raises:
        ConfigurationError: there is no such layout.
        DataError: a file is missing or invalid.
    """
    layout = layout_of(settings.layout)
    places = SearchPaths(data, home, conf, progress)
    folder = layout.folder(settings, places)
    files = demand_files(settings, folder)
    split = layout.load(settings, folder, files)
    other_revision = tuple(notes_on_revision(settings, folder))
    benchmark = Benchmark(
        settings=settings,
        layout=layout,
        folder=folder,
        question_files=files,
        questions=split.questions,
        gold=split.gold,
        results=split.results,
        digest=split.digest,
        schemas=_schemas(layout, settings, folder),
        missing={},
        notes=(*other_revision, *split.notes, *notes_on_descriptions(settings, folder)),
        other_revision=other_revision,
        further_gold=split.further_gold,
    )
    # a tables file says nothing of the engine: its schemas are written as the benchmark's databases are
    engine = engine_of(benchmark.location("x"))
    if settings.transpile_predictions:
        dialect_named(settings.transpile_predictions)
    translated = gold_for(settings, engine, split.gold, split.questions, benchmark.schemas)
    if translated:
        benchmark = replace(
            benchmark,
            gold=translated.gold,
            written_gold=split.gold,
            translated=translated.note,
            notes=(translated.note, *benchmark.notes),
        )
    keys = read_keys(settings, split, places, engine.dialect)
    schemas = {name: replace(schema, dialect=engine.dialect) for name, schema in benchmark.schemas.items()}
    per_database = Counter(question.database_id for question in split.questions)
    absent = (name for name in per_database if not benchmark.exists(name))
    return replace(
        benchmark,
        schemas=schemas,
        missing={name: per_database[name] for name in absent},
        keys=keys,
        notes=(*benchmark.notes, *(note for key in keys for note in key.notes)),
    )


def _schemas(layout: Layout, settings: BenchmarkSettings, folder: Path) -> Mapping[str, Schema]:
    path = folder / settings.tables
    return layout.read_schemas(path) if settings.tables and (path.is_file() or not settings.url) else {}
