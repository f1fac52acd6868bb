"""Opens the databases of a benchmark with everything that is known about their columns."""

from pathlib import Path

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.files.descriptions import Key, merge, read_description_files
from tasks.benchmarks.files.generated import read_generated
from tasks.database.database import Database, open_database
from tasks.database.engine import engine_of
from tasks.database.schema import ColumnDescription, Schema
from tasks.errors import DataError


def open_benchmark_database(
    benchmark: Benchmark, database_id: str, sample_rows: int, home: Path | None = None
) -> Database:
    """Open one database of a benchmark: its own schema, the benchmark's foreign keys and descriptions.

    Generated descriptions are read from the working folder; without one they are left out.

    Raises:
        DataError: the database is missing or broken, or a description file is.
    """
    entry = benchmark.schemas.get(database_id)
    return open_database(
        benchmark.location(database_id),
        database_id,
        sample_rows=sample_rows,
        descriptions=column_descriptions(benchmark, database_id, home),
        foreign_keys=entry.foreign_keys if entry else (),
    )


def schema_only_database(benchmark: Benchmark, database_id: str, home: Path | None = None) -> Database:
    """Return a database without its file: its schema from the tables file, with its descriptions.

    It does not exist and its digest is "": no SQL can be executed on it.

    Raises:
        DataError: the tables file does not describe it, or a description file is malformed.
    """
    schema = benchmark.schemas.get(database_id)
    if schema is None:
        raise DataError(
            f'{benchmark.settings.name}: neither the database "{database_id}" nor its schema is available; '
            f"{benchmark.settings.tables or 'a tables file'} does not describe it."
        )
    described = schema.described(column_descriptions(benchmark, database_id, home))
    return Database(database_id, benchmark.location(database_id), described, digest="")


def _in_tables_file(schema: Schema | None) -> dict[Key, ColumnDescription]:
    """Return the descriptions that the tables file gives to columns."""
    return {
        (table.name.lower(), column.name.lower()): ColumnDescription(
            column.description, column.value_description
        )
        for table in (schema.tables if schema else ())
        for column in table.columns
        if column.description or column.value_description
    }


def column_descriptions(
    benchmark: Benchmark, database_id: str, home: Path | None = None
) -> dict[Key, ColumnDescription]:
    """Return the column descriptions of a database, by lower-cased table and column.

    The benchmark's own descriptions take precedence over generated ones.

    Raises:
        DataError: a description file is malformed.
    """
    folder, location = benchmark.description_folder(database_id), benchmark.location(database_id)
    known = home is not None and benchmark.exists(database_id)
    return merge(
        benchmark.published_descriptions.get(database_id.lower(), {}),
        read_description_files(folder) if folder else {},
        _in_tables_file(benchmark.schemas.get(database_id)),
        read_generated(home, engine_of(location).digest(location)) if home and known else {},
    )
