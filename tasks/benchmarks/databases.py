"""Opens the databases of a benchmark with everything that is known about their columns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.files.descriptions import Key, merge, read_description_files
from tasks.benchmarks.files.generated import read_generated
from tasks.database.database import ColumnDescription, Database, open_database
from tasks.database.files import file_digest
from tasks.database.schema import Column, Schema, Table
from tasks.errors import DataError


def open_benchmark_database(
    benchmark: Benchmark, database_id: str, sample_rows: int, home: Path | None = None
) -> Database:
    """Open one database of a benchmark: its own schema, the benchmark's foreign keys and descriptions.

    Args:
        benchmark: the benchmark.
        database_id: one of its databases.
        sample_rows: rows of each table to keep as samples.
        home: the working folder, where generated descriptions are; None: those are left out.

    Raises:
        DataError: the database is missing or broken, or a description file is.
    """
    entry = benchmark.schemas.get(database_id)
    return open_database(
        benchmark.database_path(database_id),
        database_id,
        sample_rows=sample_rows,
        descriptions=column_descriptions(benchmark, database_id, home),
        foreign_keys=entry.foreign_keys if entry else (),
    )


def schema_only_database(benchmark: Benchmark, database_id: str, home: Path | None = None) -> Database:
    """Return a database without its file: its schema from the tables file, with its descriptions.

    Its path does not exist and its digest is "": no SQL can be executed on it.

    Raises:
        DataError: the tables file does not describe it, or a description file is malformed.
    """
    schema = benchmark.schemas.get(database_id)
    if schema is None:
        raise DataError(
            f'{benchmark.settings.name}: neither the database "{database_id}" nor its schema is available; '
            f"{benchmark.settings.tables or 'a tables file'} does not describe it."
        )
    described = _described(schema, column_descriptions(benchmark, database_id, home))
    return Database(database_id, benchmark.database_path(database_id), described, digest="")


def _described(schema: Schema, descriptions: Mapping[Key, ColumnDescription]) -> Schema:
    def column(table: Table, column: Column) -> Column:
        found = descriptions.get((table.name.lower(), column.name.lower()), ColumnDescription())
        return replace(column, description=found.description, value_description=found.value_description)

    tables = tuple(
        replace(table, columns=tuple(column(table, each) for each in table.columns))
        for table in schema.tables
    )
    return Schema(schema.database_id, tables, schema.foreign_keys, schema.dialect)


def column_descriptions(
    benchmark: Benchmark, database_id: str, home: Path | None = None
) -> dict[Key, ColumnDescription]:
    """Return the column descriptions of a database, by lower-cased table and column.

    The benchmark's own descriptions take precedence over generated ones.

    Raises:
        DataError: a description file is malformed.
    """
    folder = benchmark.description_folder(database_id)
    known = merge(
        benchmark.published_descriptions.get(database_id.lower(), {}),
        read_description_files(folder) if folder else {},
    )
    path = benchmark.database_path(database_id)
    if home and path.is_file():
        for key, found in read_generated(home, file_digest(path)).items():
            before = known.get(key, ColumnDescription())
            known[key] = replace(
                before,
                description=before.description or found.description,
                value_description=before.value_description or found.value_description,
            )
    return known
