"""A benchmark's split as loaded: questions, gold and its dialect, demonstrations, and where its databases are."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from tasks.benchmarks.answer_keys import AnswerKey, read_keys
from tasks.benchmarks.descriptions import Key, read_published
from tasks.benchmarks.expected_files import demand_files, notes_on_descriptions, notes_on_revision, where_from
from tasks.benchmarks.layouts import Layout, SearchPaths, Split, layout_of
from tasks.benchmarks.rows import parquet_schemas
from tasks.benchmarks.schemas import names_in_schema, schema_from_ddl
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.records import Demonstration
from tasks.core.registry import of_type
from tasks.core.wording import counted
from tasks.database.database import dialect_named, locate
from tasks.database.engine import Engine, engine_of
from tasks.database.location import Location
from tasks.database.schema import ColumnDescription, Schema
from tasks.settings.benchmark import BenchmarkSettings
from tasks.sql.transpiling import transpile


@dataclass(frozen=True, kw_only=True)
class Benchmark(Split):
    """One split of one benchmark. Questions, gold and schemas are read at once, the rest on demand."""

    settings: BenchmarkSettings  # what it was loaded by
    layout: Layout  # its file layout
    folder: Path  # the folder of its files
    question_files: tuple[Path, ...]  # the files of the questions
    # schemas of the tables file by database id: names, types and keys; no samples
    schemas: Mapping[str, Schema] = field(repr=False)
    missing: Mapping[str, int]  # questions per database whose file is absent, by database id
    # those of the notes that say which files differ from the stated revision
    other_revision: tuple[str, ...] = ()
    # what was done where the gold SQL was translated into the databases' dialect; "" elsewhere
    translated: str = ""
    # gold SQL by question id as the files have it, of several the first one first
    written_gold: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    # answer keys beside the official one, in the order of the settings. For `tasks.scoring` only.
    keys: tuple[AnswerKey, ...] = ()

    def has_gold(self, question_id: str) -> bool:
        """Return whether there is a gold SQL or an accepted result to compare an answer with."""
        return question_id in self.gold or question_id in self.results

    @cached_property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The training questions, in file order; () where the benchmark has none. Read on first use."""
        absent = [path for path in self.train_files if not path.is_file()]
        if absent:
            raise DataError(
                f"{self.settings.name}: the training questions are not at {absent[0]}. "
                f"{where_from(self.settings)} "
                'Or name another file ("--set benchmark.train=FILE"), or do without demonstrations '
                '("--set pipeline.demonstrations.k=0").'
            )
        return tuple(each for path in self.train_files for each in self.layout.read_demonstrations(path))

    @cached_property
    def gold_fingerprints(self) -> frozenset[str]:
        """Fingerprints of the whole split's gold, translated or not, and of each key: all that the leak guard sees."""
        further = chain.from_iterable((*self.further_gold.values(), *self.written_gold.values()))
        entries = chain.from_iterable(key.entries.values() for key in self.keys)
        of_keys = chain.from_iterable(entry.sql for entry in entries)
        sqls = (*self.gold.values(), *further, *of_keys)
        return frozenset(map(sql_fingerprint, sqls))

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
        is absent if neither describes it, or the description has no table.
        """
        schemas = {}
        for name in names:
            if name in self.schemas:
                schemas[name] = self.schemas[name]
            elif name not in schemas and name in self._training_ddl:
                schemas[name] = schema_from_ddl(name, self._training_ddl[name])
        return {name: schema for name, schema in schemas.items() if schema.tables}

    @cached_property
    def _training_ddl(self) -> Mapping[str, str]:
        """CREATE TABLE statements of training databases in Parquet files of training questions, by database id."""
        files = [path for path in self.train_files if path.suffix.lower() == ".parquet" and path.is_file()]
        return {name: ddl for path in files for name, ddl in parquet_schemas(path).items()}

    @cached_property
    def published_descriptions(self) -> Mapping[str, Mapping[Key, ColumnDescription]]:
        """Generated descriptions that came with the benchmark, by lower-cased database id; often none."""
        name = self.settings.column_descriptions
        path = self.folder / name if name else None
        return read_published(path) if path and path.is_file() else {}

    @property
    def train_files(self) -> tuple[Path, ...]:
        """The files of the training questions, whether or not they exist; () where none is configured."""
        return tuple(self.folder / name for name in self.settings.train_files)

    def database_path(self, database_id: str) -> Path:
        """Return the place of a database's SQLite file, whether or not it exists."""
        paths = [self.layout.database_path(folder, database_id) for folder in self._database_folders]
        return next((path for path in paths if path.is_file()), paths[0])

    def location(self, database_id: str) -> Location:
        """Return where a database is, whether or not it exists."""
        settings = self.settings
        if not settings.url:
            return locate(str(self.database_path(database_id)))
        user_and_password = settings.url.partition("://")[2].rpartition("@")[0]
        if ":" in user_and_password:
            raise ConfigurationError(
                "benchmark.url holds a password, and settings are recorded. Leave it out of the URL, and set "
                "PGPASSWORD or MYSQL_PWD."
            )
        url = settings.url.replace("{database}", quote(database_id, safe=""))
        return locate(url, writable=settings.allow_writable_role, version=settings.database_version)

    def exists(self, database_id: str) -> bool:
        """Return whether a database is there."""
        location = self.location(database_id)
        return engine_of(location).exists(location)

    def suite_paths(self, database_id: str) -> tuple[Path, ...]:
        """Return the further SQLite files of a database on which predictions are judged; often none."""
        if not self.settings.test_suite or self.settings.url:
            return ()
        main = self.database_path(database_id)
        folders = self._database_folders
        holders = (folder for folder in folders if self.layout.database_path(folder, database_id) == main)
        return self.layout.suite_paths(next(holders, folders[0]), database_id)

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


def _demand_texts(split: Split, layout: str) -> Split:
    """Return what a layout has read; raise an error if a user's own has made values of another type."""
    for question in of_type(Split, split, f"{layout} returned").questions:
        for value in (question.id, question.text, question.database_id, split.gold.get(question.id, "")):
            of_type(str, value, f"question {question.id} of {layout} has")
    return split


def load_benchmark(
    settings: BenchmarkSettings,
    *,
    data: Path,
    home: Path,
    conf: Path,
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Load a benchmark from its files, which its layout finds; the demo's layout writes them.

    `progress` is called with a sentence about work that takes a while.
    """
    layout = layout_of(settings.layout)
    places = SearchPaths(data, home, conf, progress)
    folder = layout.folder(settings, places)
    files = demand_files(settings, folder)
    split = _demand_texts(layout.load(settings, folder, files), settings.layout)
    other_revision = tuple(notes_on_revision(settings, folder))
    split = replace(split, notes=(*other_revision, *split.notes, *notes_on_descriptions(settings, folder)))
    tables = folder / settings.tables
    # with a URL the file may be absent: the server describes its databases
    has_schemas = settings.tables and (tables.is_file() or not settings.url)
    fields_of_split = {part.name: getattr(split, part.name) for part in fields(split)}
    benchmark = Benchmark(
        **fields_of_split,
        settings=settings,
        layout=layout,
        folder=folder,
        question_files=files,
        schemas=layout.read_schemas(tables) if has_schemas else {},
        missing={},  # set below: the benchmark itself says where its databases are
        other_revision=other_revision,
    )
    engine = engine_of(benchmark.location("any_name"))  # all databases are of one engine
    if settings.transpile_predictions:
        dialect_named(settings.transpile_predictions)  # raises an error for an unknown name
    benchmark = translated(benchmark, engine)
    keys = read_keys(settings, split, places, engine.dialect)
    # the types in a tables file are of the databases' dialect, which the file does not name
    schemas = {name: replace(schema, dialect=engine.dialect) for name, schema in benchmark.schemas.items()}
    questions_by_database = Counter(question.database_id for question in split.questions)
    missing = [name for name in questions_by_database if not benchmark.exists(name)]
    return replace(
        benchmark,
        schemas=schemas,
        missing={name: questions_by_database[name] for name in missing},
        keys=keys,
        notes=(*benchmark.notes, *(note for key in keys for note in key.notes)),
    )


def translated(benchmark: Benchmark, engine: Engine) -> Benchmark:
    """Return a benchmark with its gold SQL in the dialect of an engine; sqlglot translates, if the settings allow it.

    A gold SQL that cannot be translated stays as it is.
    """
    settings, gold = benchmark.settings, benchmark.gold
    if not gold:
        return benchmark
    if settings.url and not settings.dialect:
        raise ConfigurationError(
            f"{settings.name}: benchmark.url names databases of {engine.name}; in which dialect is the gold SQL? Add "
            f"`dialect: {engine.name}` to the benchmark's YAML file, or the dialect that it is in."
        )
    dialect = dialect_named(settings.dialect) if settings.dialect else engine.dialect
    if dialect == engine.dialect:
        return benchmark
    if not settings.transpile_gold:
        raise ConfigurationError(
            f"{settings.name}: its gold SQL is of the dialect {settings.dialect}, its databases are of {engine.name}. "
            f"{_remedy(settings, engine)}"
        )
    schemas = _schemas_with_types(benchmark)
    schema_of = {question.id: schemas.get(question.database_id) for question in benchmark.questions}
    written = {
        question_id: (sql, *benchmark.further_gold.get(question_id, ())) for question_id, sql in gold.items()
    }
    translated_golds = {
        question_id: tuple(
            transpile(sql, dialect, engine.dialect, schema_of.get(question_id)) for sql in sqls
        )
        for question_id, sqls in written.items()
    }
    translations = [(question_id, gold) for question_id, golds in translated_golds.items() for gold in golds]
    changed = sum(translation.changed for _, translation in translations)
    remarks = ""
    if failed := [question_id for question_id, translation in translations if translation.problem]:
        remarks = f" {len(failed):,} could not be translated and are as they were: {', '.join(failed[:10])}."
    if doubtful := [question_id for question_id, translation in translations if translation.unknown_division]:
        remarks += (
            f" {counted(len(doubtful), 'gold', 'divides')} values of which the schema does not say whether they are "
            f"integers, and may have another result: {', '.join(doubtful[:10])}."
        )
    note = (
        f"The gold SQL was translated from {settings.dialect} to {engine.name} by sqlglot; {changed} of "
        f"{len(translations)} with other text than before.{remarks} Scores against it are not the benchmark's and are "
        "not ranked. Demonstrations are as they were written."
    )
    return replace(
        benchmark,
        gold={question_id: golds[0].sql for question_id, golds in translated_golds.items()},
        further_gold={
            question_id: tuple(gold.sql for gold in golds[1:])
            for question_id, golds in translated_golds.items()
            if golds[1:]
        },
        written_gold=written,
        translated=note,
        notes=(note, *benchmark.notes),
    )


def _remedy(settings: BenchmarkSettings, engine: Engine) -> str:
    """Return what a user can do about gold SQL of another dialect than the engine's, in sentences."""
    translate = (
        'With "--set benchmark.transpile_gold=true" sqlglot translates it; reports then say so, and such runs are '
        "not ranked."
    )
    if settings.has_dialects:
        return (
            f'The benchmark may have it in that dialect: "--set benchmark.dialect={engine.name}". {translate}'
        )
    return f'Use databases of that dialect ("--set benchmark.url=..." or the files). {translate}'


def _schemas_with_types(benchmark: Benchmark) -> Mapping[str, Schema]:
    """Return the schemas of the databases' files, with column types; for unreadable files those of the tables file."""
    schemas = dict(benchmark.schemas)
    for name in dict.fromkeys(question.database_id for question in benchmark.questions):
        location = locate(str(benchmark.database_path(name)))
        engine = engine_of(location)
        if engine.exists(location):
            with suppress(DataError):
                schemas[name] = engine.read(location, name, sample_rows=0)
    return schemas


_QUOTES = re.compile("[\"'`´‘’‚“”„«»\\[\\]]")
_SPACE = re.compile(r"\s+")


def sql_fingerprint(sql: str) -> str:
    r"""Return the sha256 of a SQL without case, white space, quotes and trailing semicolons.

    Deliberately coarse: two queries that differ only in these are one, even where the difference has a
    meaning (`'A'` and `'a'`), because a demonstration too few is harmless and a leak is not.

    >>> sql_fingerprint('SELECT "a"\n FROM t ;') == sql_fingerprint("select `A` from T")
    True
    """
    return _digest(_bare(sql).rstrip(";"))


def question_fingerprint(question: str) -> str:
    """Return the sha256 of a question without case, white space, quotes and closing punctuation.

    >>> question_fingerprint("How many  singers ?") == question_fingerprint("how many singers")
    True
    """
    return _digest(_bare(question).rstrip(".?!;:,"))


def _bare(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _QUOTES.sub("", text)).casefold()  # NFKC splits ´ into two signs
    return _SPACE.sub("", _QUOTES.sub("", folded))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
