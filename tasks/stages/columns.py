"""What is known of columns whatever the question: descriptions, random rows, and how much is missing.

RSL-SQL and DAC generate descriptions offline; rows and missing shares are of RSL-SQL (acl), without a model call.
"""

import random
from dataclasses import dataclass, replace

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import ColumnName
from tasks.database.dialects import quoted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Column, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.stages import prompts
from tasks.stages.links import read_link
from tasks.stages.replies import DescriptionsReply
from tasks.stages.stage import stage

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
    profiles: list[ColumnProfile] = []
    for table in schema.tables:
        for start in range(0, len(table.columns), COLUMNS_AT_ONCE):
            part = replace(table, columns=table.columns[start : start + COLUMNS_AT_ONCE])
            profiles.extend(await _profiled(part, schema.dialect, rows, seed, runner))
    return tuple(profiles)


def with_profile(
    schema: Schema, profile: tuple[ColumnProfile, ...], *, samples: bool, missing: bool
) -> Schema:
    """Return the schema with the drawn values as its columns' samples, and with their shares of NULL as `missing`."""
    profiles = {read.column: read for read in profile}

    def profiled(table: Table, column: Column) -> Column:
        read = profiles.get(ColumnName(table.name, column.name))
        if read and samples:
            column = replace(column, samples=read.samples)
        if read and missing:
            column = replace(column, missing=read.missing)
        return column

    tables = (
        replace(table, columns=tuple(profiled(table, column) for column in table.columns))
        for table in schema.tables
    )
    return replace(schema, tables=tuple(tables))


async def _profiled(
    table: Table, dialect: str, rows: int, seed: int, runner: DatabaseRunner
) -> list[ColumnProfile]:
    """Return drawn values and the share of NULL of each column; [] where the table cannot be read."""
    name = quoted(table.name, dialect)
    columns = [quoted(column.name, dialect) for column in table.columns]
    counts = ", ".join(f"COUNT({column})" for column in columns)
    counted = await runner.run(f"SELECT COUNT(*), {counts} FROM {name}", 1)
    if not counted.ok:
        return []
    total, *present = (int(count) for count in counted.rows[0])
    drawn: list[tuple[object, ...]] = []
    # the same rows for every part of a wide table
    for offset in sorted(random.Random(f"{seed} {table.name}").sample(range(total), min(rows, total))):
        row = await runner.run(f"SELECT {', '.join(columns)} FROM {name} LIMIT 1 OFFSET {offset}", 1)
        if not row.ok:
            return []
        drawn.extend(row.rows)
    return [
        ColumnProfile(
            ColumnName(table.name, column.name),
            tuple(value for row in drawn if isinstance(value := row[offset], Cell)),
            1 - present[offset] / total if total else None,
        )
        for offset, column in enumerate(table.columns)
    ]


@stage(prompts=("describe_columns",))
async def describe_columns(
    view: SchemaView, table: str, columns: tuple[str, ...], backbone: MeteredBackbone
) -> dict[str, str]:
    """Ask for descriptions of some columns of one table; `view` has that table only.

    Returns a sentence by column name as the schema spells it; columns that the reply leaves out are absent and noted.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "describe_columns",
            table=quoted(table, view.dialect),
            columns=[quoted(name, view.dialect) if "," in name else name for name in columns],
            parts=view.render(),
        ),
        DescriptionsReply,
        otherwise="no column was described",
    )
    given = {
        name.column: text or ""
        for written, text in (reply.descriptions.items() if reply else ())
        for name in read_link(view.schema, (), (written,)).columns
        if name.table == table
    }
    described = {name: text for name in columns if (text := " ".join(given.get(name, "").split()))}
    if left_out := [name for name in columns if name not in described]:
        backbone.note(f"not described: {', '.join(left_out)}")
    return described
