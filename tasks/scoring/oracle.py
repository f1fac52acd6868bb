"""Right answers to sub-tasks, from the gold SQL: DAC's entities and skeleton (section 5), RSL-SQL's schema link.

Scoring is the only reader of gold, so they are made here; a flow hands them to the pipeline in `Context.oracle`, for
an analysis that is tagged "oracle" and never ranked.
"""

from tasks.core.dac_records import Entities, Oracle, ParsedSkeleton
from tasks.core.records import ColumnName, Link
from tasks.database.schema import Schema
from tasks.settings.pipeline import PipelineSettings, dac_of, has_oracle
from tasks.sql.elements import resolved_elements, used_elements
from tasks.sql.skeleton import read_skeleton


def make_oracle(gold_sql: str, schema: Schema, settings: PipelineSettings) -> Oracle | None:
    """Return the right answers that a pipeline's settings ask for; None where they ask for none."""
    if not has_oracle(settings):
        return None
    dac, linking = dac_of(settings), getattr(settings, "linking", None)
    return Oracle(
        gold_entities(gold_sql, schema) if dac and dac.oracle_entities else None,
        gold_skeleton(gold_sql, schema.dialect) if dac and dac.oracle_skeleton else None,
        gold_link(gold_sql, schema) if linking and linking.directions == "gold" else None,
    )


def gold_link(gold_sql: str, schema: Schema) -> Link:
    """Return the tables and columns that the gold reads, joins included; of a table without a named column, all."""
    used = resolved_elements(gold_sql, schema)
    whole = set(used.tables) - {column.table for column in used.columns}
    every = {
        ColumnName(table.name, one.name)
        for table in schema.tables
        if table.name in whole
        for one in table.columns
    }
    kept = every.union(used.columns)
    return Link(used.tables, tuple(name for name in schema.column_names if name in kept))


def gold_entities(gold_sql: str, schema: Schema) -> Entities:
    """Return the tables that the gold reads and the columns that it uses otherwise than to join."""
    used = used_elements(gold_sql, schema)
    return Entities(used.tables, used.columns)


def gold_skeleton(gold_sql: str, dialect: str) -> ParsedSkeleton:
    """Return the gold's skeleton, or why it has none."""
    reading = read_skeleton(gold_sql, dialect)
    return ParsedSkeleton(reading.text, note=reading.reason)
