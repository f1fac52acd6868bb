"""Random rows of each table, and how much of each column is missing (RSL-SQL, acl). No model call.

Neither depends on the question: one result serves every question of a database.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tasks.core.records import ColumnName
from tasks.database.identifiers import quoted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema, Table
from tasks.stage_runs.stage import stage

COLUMNS_AT_ONCE = 500
"""Columns per query: SQLite allows 2000 in a result."""

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What was read of one column."""

    column: ColumnName  # which
    samples: tuple[Cell, ...]  # its values in the rows that were drawn; a BLOB is left out
    missing: float | None  # share of the rows in which it is NULL, 0..1; None for a table without rows


@stage()
async def column_profile(
    schema: Schema, rows: int, seed: int, runner: DatabaseRunner
) -> tuple[ColumnProfile, ...]:
    """Draw up to `rows` random rows of each table, the same for a seed, and count the NULLs of its columns.

    Each query runs within the benchmark's time limit. A table that cannot be read in it is left out.
    """
    found: list[ColumnProfile] = []
    for table in schema.tables:
        for start in range(0, len(table.columns), COLUMNS_AT_ONCE):
            part = replace(table, columns=table.columns[start : start + COLUMNS_AT_ONCE])
            found.extend(await _profiled(part, schema.dialect, rows, seed, runner))
    return tuple(found)


def with_profile(
    schema: Schema, profile: tuple[ColumnProfile, ...], *, samples: bool, missing: bool
) -> Schema:
    """Return the schema with the rows that were drawn as its samples, and with the shares that are missing."""
    read = {one.column: one for one in profile}
    tables = []
    for table in schema.tables:
        columns = []
        for column in table.columns:
            one = read.get(ColumnName(table.name, column.name))
            changed = replace(column, samples=one.samples) if one and samples else column
            columns.append(replace(changed, missing=one.missing) if one and missing else changed)
        tables.append(replace(table, columns=tuple(columns)))
    return replace(schema, tables=tuple(tables))


async def _profiled(
    table: Table, dialect: str, rows: int, seed: int, runner: DatabaseRunner
) -> list[ColumnProfile]:
    name, columns = quoted(table.name, dialect), [quoted(column.name, dialect) for column in table.columns]
    counted = await runner.run(
        f"SELECT COUNT(*), {', '.join(f'COUNT({one})' for one in columns)} FROM {name}", 1
    )
    if not counted.ok:
        return []
    total, *present = (int(count) for count in counted.rows[0])
    drawn: list[tuple[object, ...]] = []
    # the same rows for every part of a wide table
    for place in sorted(random.Random(f"{seed} {table.name}").sample(range(total), min(rows, total))):
        row = await runner.run(f"SELECT {', '.join(columns)} FROM {name} LIMIT 1 OFFSET {place}", 1)
        if not row.ok:
            return []
        drawn.extend(row.rows)
    return [
        ColumnProfile(
            ColumnName(table.name, column.name),
            tuple(_cells(row[place] for row in drawn)),
            1 - present[place] / total if total else None,
        )
        for place, column in enumerate(table.columns)
    ]


def _cells(values: Iterator[object]) -> Iterator[Cell]:
    return (value for value in values if value is None or isinstance(value, str | int | float))
