"""The demo benchmark: its sources, one folder per database, written on first use as BIRD lays files out."""

import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from tasks.benchmarks.descriptions import one_line
from tasks.benchmarks.rows import read_csv_table, read_text
from tasks.core.errors import DataError
from tasks.database.sqlite_files import locked_folder

DESCRIPTION_HEADER = (
    "original_column_name", "column_name", "column_description", "data_format", "value_description"
)  # fmt: skip
OneLine = Annotated[str, AfterValidator(one_line)]
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's takes a fifteenth of the time


class TrainItem(BaseModel, extra="forbid", frozen=True):
    """A training question: a demonstration."""

    question: OneLine
    evidence: OneLine = ""
    sql: OneLine = Field(serialization_alias="SQL")


class DevItem(TrainItem):
    """A question of the evaluated split."""

    difficulty: Literal["simple", "moderate", "challenging"]


class QuestionFile(BaseModel, extra="forbid", frozen=True):
    """A `questions.yaml`."""

    dev: tuple[DevItem, ...]
    train: tuple[TrainItem, ...]


@dataclass(frozen=True)
class DemoDatabase:
    """The source of one database: its id, the folder of its files, its CREATE statements, its questions."""

    name: str
    folder: Path
    schema: str
    questions: QuestionFile


def database_folders(sources: Path) -> list[Path]:
    """Return the folders below `sources` that hold a database, in the order of their names."""
    folders = sorted(path.parent for path in sources.glob("*/schema.sql"))
    if not folders:
        raise DataError(
            f"{sources}: no demo database here (<database>/schema.sql). "
            "Point CROSSCHECK_CONF at the checkout's conf folder."
        )
    return folders


def read_database(folder: Path) -> DemoDatabase:
    """Read one database's schema and questions."""
    path = folder / "questions.yaml"
    try:
        content = yaml.load(read_text(path), _YAML_LOADER)  # noqa: S506 - one of the two safe loaders
        questions = QuestionFile.model_validate(content)
    except (ValidationError, yaml.YAMLError) as error:
        raise DataError(f"{path}: {error}") from None
    return DemoDatabase(folder.name, folder, read_text(folder / "schema.sql"), questions)


def read_descriptions(path: Path) -> list[dict[str, str]]:
    """Return the rows of a description file."""
    return [dict(zip(DESCRIPTION_HEADER, row, strict=True)) for _, row in read_csv(path, DESCRIPTION_HEADER)]


def read_csv(path: Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header: the number of the line that each ends on, and its fields."""
    text = read_text(path)
    names, rows = read_csv_table(path, text)
    if names != list(header):
        raise DataError(f"{path}, line 1: must be {','.join(header)}.")
    yield from rows.items()
    if not text.endswith("\n"):
        last_line = max(rows, default=1)  # without rows, that of the header
        raise DataError(f"{path}, line {last_line}: breaks off. A complete file ends with a line break.")


NULL = r"\N"
"""What stands for NULL in `rows/<table>.csv`, as in the text formats of PostgreSQL and MySQL."""

CONVERTERS: Mapping[str, Callable[[str], int | float | str]] = {"INTEGER": int, "REAL": float}
"""How a field is read, by the declared type of its column; any other type is text."""

Columns = Mapping[str, Sequence[sqlite3.Row]]
"""By table, in the order of the schema: `name`, `type` and `pk` of every column."""


def write_questions(databases: Sequence[DemoDatabase], folder: Path) -> None:
    """Write dev.json and train.json; ids count from 0 over the databases in the order given."""
    for split in ("dev", "train"):
        items = [
            {"db_id": database.name, **item.model_dump(by_alias=True)}
            for database in databases
            for item in getattr(database.questions, split)
        ]
        write_json([{"question_id": n, **item} for n, item in enumerate(items)], folder / f"{split}.json")


def write_database(database: DemoDatabase, folder: Path) -> dict[str, Any]:
    """Write the SQLite file of one database, copy its descriptions beside it, return its entry of dev_tables.json.

    Tables are filled in the order of the schema, so a row must come after those that it points to.
    """
    path = folder / "dev_databases" / database.name / f"{database.name}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON;"
        )
        try:
            connection.executescript(database.schema)
        except sqlite3.Error as error:
            raise DataError(f"{database.folder / 'schema.sql'}: SQLite refused it: {error}.") from error
        columns = _columns(connection)
        for file in sorted(database.folder.glob("*/*.csv")):  # rows and descriptions
            if file.stem not in columns:
                raise DataError(f'{file}: schema.sql has no table "{file.stem}".')
        for table, its_columns in columns.items():
            _insert_rows(connection, its_columns, database.folder / "rows" / f"{table}.csv")
        connection.commit()
        readable_names = _copy_descriptions(database, columns, path.parent / "database_description")
        return _tables_entry(connection, database.name, columns, readable_names)


def write_json(content: Any, path: Path) -> None:
    """Write a JSON file, indented."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _columns(connection: sqlite3.Connection) -> Columns:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    ).fetchall()
    query = "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid"
    return {table: connection.execute(query, (table,)).fetchall() for (table,) in tables}


def _insert_rows(connection: sqlite3.Connection, columns: Sequence[sqlite3.Row], path: Path) -> None:
    """Insert the rows of a CSV file into its table, with values of the columns' types."""
    converters = [CONVERTERS.get(column["type"], str) for column in columns]
    table = path.stem.replace('"', '""')
    placeholders = ", ".join("?" * len(columns))
    insert = f'INSERT INTO "{table}" VALUES ({placeholders})'
    line = 1
    try:
        for line, fields in read_csv(path, [column["name"] for column in columns]):  # noqa: B007 - for the error
            row = [
                None if field == NULL else convert(field)
                for convert, field in zip(converters, fields, strict=True)
            ]
            connection.execute(insert, row)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise DataError(f'{path}, line {line}: not a row of "{table}": {error}.') from error


def _copy_descriptions(database: DemoDatabase, columns: Columns, folder: Path) -> dict[tuple[str, str], str]:
    """Copy the description files; return the readable names in them, "" for none, by table and column."""
    folder.mkdir()
    readable_names = {}
    for path in sorted((database.folder / "descriptions").glob("*.csv")):
        names = {column["name"] for column in columns[path.stem]}
        for row in read_descriptions(path):
            name = row["original_column_name"]
            if name not in names:
                raise DataError(f'{path}: the table "{path.stem}" of {database.name} has no column "{name}".')
            readable_names[path.stem, name] = row["column_name"]
        shutil.copyfile(path, folder / path.name)
    return readable_names


def _tables_entry(
    connection: sqlite3.Connection, name: str, columns: Columns, given_names: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """Return a database as Spider's tables.json has it: columns are numbered across all tables, from 1."""
    tables = list(columns)
    names = [(table, column["name"]) for table in tables for column in columns[table]]
    position = {key: number for number, key in enumerate(names, 1)}
    primary_keys = []
    for table in tables:
        # "pk" is the place of a column in the primary key, from 1, and 0 outside of it
        key_columns = sorted((column for column in columns[table] if column["pk"]), key=itemgetter("pk"))
        if key := [position[table, column["name"]] for column in key_columns]:
            primary_keys.append(key if len(key) > 1 else key[0])
    # SQLite numbers foreign keys from the last one up: the order is that of the schema
    query = 'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq'
    column_names = [column for _, column in names]
    readable_names = [given_names.get((table, column)) or column.replace("_", " ") for table, column in names]
    table_indices = [tables.index(table) for table, _ in names]
    return {
        "db_id": name,
        "table_names_original": tables,
        "table_names": [table.replace("_", " ") for table in tables],
        "column_names_original": [(-1, "*"), *zip(table_indices, column_names, strict=True)],
        "column_names": [(-1, "*"), *zip(table_indices, readable_names, strict=True)],
        "column_types": ["text", *(column["type"].lower() for table in tables for column in columns[table])],
        "primary_keys": primary_keys,
        "foreign_keys": [
            (position[table, child], position[parent, column])
            for table in tables
            for child, parent, column in connection.execute(query, (table,))
        ],
    }


MANIFEST = "built.json"
"""Written last: the stamp, and the size of every file."""


def build_demo(target: Path, *, sources: Path, progress: Callable[[str], None] | None = None) -> Path:
    """Build the demo benchmark under `target`, unless `target` is complete and up to date already; return `target`.

    It is built in a temporary folder beside the target, which is then renamed, so no other process sees a part of it;
    of two processes that build at once, the second finds it built. The content is the same on every machine.
    `sources` is the folder `benchmarks/demo` of the configuration.
    """
    stamp = demo_stamp(sources)
    if _is_current(target, stamp):
        return target
    say = progress or (lambda message: None)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        locked_folder(target.parent),
        tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as temporary,
    ):
        if _is_current(target, stamp):  # another process built it while this one waited for the lock
            return target
        built = Path(temporary) / "new"
        built.mkdir()
        databases = [read_database(folder) for folder in database_folders(sources)]
        entries = []
        for number, database in enumerate(databases, 1):
            say(f"Building the demo benchmark: {database.name} ({number} of {len(databases)})")
            entries.append(write_database(database, built))
        write_json(entries, built / "dev_tables.json")
        write_questions(databases, built)
        sizes = {path.relative_to(built).as_posix(): path.stat().st_size for path in _files(built)}
        write_json({"stamp": stamp, "sizes": sizes}, built / MANIFEST)
        if target.exists():
            target.rename(Path(temporary) / "old")
        built.rename(target)
    return target


def demo_stamp(sources: Path) -> str:
    """Return the sha256 of everything that the demo benchmark's content follows from."""
    package = Path(__file__).parent
    named_files = [(path.relative_to(package), path) for path in package.glob("*.py")]
    for folder in database_folders(sources):
        named_files += [(path.relative_to(sources), path) for path in _files(folder)]
    digest = hashlib.sha256()
    for name, path in sorted(named_files):
        content = path.read_bytes().replace(b"\r\n", b"\n")  # a checkout on Windows may have these line ends
        digest.update(f"{name.as_posix()} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _is_current(folder: Path, stamp: str) -> bool:
    """Whether `folder` was built from this stamp's sources and no file of it was lost or cut since."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["stamp"] == stamp and all(
            (folder / name).stat().st_size == size for name, size in manifest["sizes"].items()
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return False
