"""Opens the databases of a benchmark with everything that is known about their columns."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.descriptions import GeneratedColumn, Key, merge, read_description_files, read_generated
from tasks.core.errors import DataError
from tasks.core.wording import counted
from tasks.database.database import Database, open_database
from tasks.database.engine import engine_of
from tasks.database.schema import ColumnDescription


def open_benchmark_database(
    benchmark: Benchmark, database_id: str, sample_rows: int, home: Path | None = None
) -> Database:
    """Open one database of a benchmark: its own schema, the benchmark's foreign keys and descriptions.

    Generated descriptions are read from the working folder; without one they are left out.
    """
    schema = benchmark.schemas.get(database_id)
    return open_database(
        benchmark.location(database_id),
        database_id,
        sample_rows=sample_rows,
        descriptions=column_descriptions(benchmark, database_id, home),
        foreign_keys=schema.foreign_keys if schema else (),
    )


def other_content(benchmark: Benchmark, databases: Mapping[str, Database]) -> tuple[str, ...]:
    """Return a sentence for each database whose content is not the published one, by `benchmark.database_sha256`.

    A database without a digest, such as one on a server, and one without a published checksum are not compared.
    """
    published = benchmark.settings.database_sha256
    return tuple(
        f"{database.location} is not the published database (its sha256 is {database.digest}, not {published[name]}): "
        "figures are not comparable with published ones."
        for name, database in databases.items()
        if name in published and database.digest and database.digest != published[name]
    )


def no_database(benchmark: Benchmark, database_ids: Iterable[str]) -> DataError:
    """Return the error that none of the databases of the selected questions is there."""
    return DataError(
        f"{benchmark.settings.name}: none of the databases of the selected questions is there; the first would be "
        f"{benchmark.location(next(iter(database_ids)))}. {benchmark.where_from}"
    )


def schema_only_database(benchmark: Benchmark, database_id: str, home: Path | None = None) -> Database:
    """Return a database without its file: its schema from the tables file, with its descriptions.

    It does not exist and its digest is "": no SQL can be executed on it.
    """
    schema = benchmark.schemas.get(database_id)
    if schema is None:
        raise DataError(
            f'{benchmark.settings.name}: neither the database "{database_id}" nor its schema is available; '
            f"{benchmark.settings.tables or 'a tables file'} does not describe it."
        )
    described = schema.described(column_descriptions(benchmark, database_id, home))
    return Database(database_id, benchmark.location(database_id), described, digest="")


def column_descriptions(
    benchmark: Benchmark, database_id: str, home: Path | None = None
) -> dict[Key, ColumnDescription]:
    """Return the column descriptions of a database, by lower-cased table and column.

    The benchmark's own descriptions take precedence over generated ones.
    """
    generated = _generated(benchmark, database_id, home)
    return merge(_own(benchmark, database_id), {key: column.texts for key, column in generated.items()})


def generated_descriptions(benchmark: Benchmark, database_ids: Iterable[str], home: Path) -> str:
    """Return how many columns have a text by a backbone, which backbone, and a digest of its texts; "" if none have.

    An example is "25 columns by offline (1a2b3c4d)". If these words differ, so do prompts that show descriptions.
    """
    used: list[GeneratedColumn] = []
    for database_id in database_ids:
        generated = _generated(benchmark, database_id, home)
        if not generated:
            continue
        own_descriptions = _own(benchmark, database_id)
        merged = merge(own_descriptions, {key: column.texts for key, column in generated.items()})
        used += [column for key, column in generated.items() if merged[key] != own_descriptions.get(key)]
    if not used:
        return ""
    makers = Counter(column.made_by for column in used)
    by = ", ".join(f"{counted(number, 'column')} by {name}" for name, number in sorted(makers.items()))
    texts = "".join(column.model_dump_json() for column in used)
    return f"{by} ({hashlib.sha256(texts.encode()).hexdigest()[:8]})"


def _own(benchmark: Benchmark, database_id: str) -> dict[Key, ColumnDescription]:
    """Return the benchmark's own descriptions of a database."""
    folder = benchmark.description_folder(database_id)
    schema = benchmark.schemas.get(database_id)
    in_tables_file = {
        (table.name.lower(), each.name.lower()): ColumnDescription(each.description, each.value_description)
        for table in (schema.tables if schema else ())
        for each in table.columns
        if each.description or each.value_description
    }
    return merge(
        benchmark.published_descriptions.get(database_id.lower(), {}),
        read_description_files(folder) if folder else {},
        in_tables_file,
    )


def _generated(benchmark: Benchmark, database_id: str, home: Path | None) -> dict[Key, GeneratedColumn]:
    """Return what `crosscheck benchmarks prepare` had a backbone write about a database."""
    if home is None or not benchmark.exists(database_id):
        return {}
    location = benchmark.location(database_id)
    return read_generated(home, engine_of(location).digest(location))
