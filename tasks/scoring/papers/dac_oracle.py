"""Right answers to DAC's sub-tasks, from the gold SQL (DAC, section 5: oracle entities, oracle skeleton).

Scoring is the only reader of gold, so they are made here; a flow hands them to the pipeline in `Context.oracle`, for
an analysis that is tagged "oracle" and never ranked.
"""

from tasks.dac_records import Entities, Oracle, ParsedSkeleton
from tasks.database.schema import Schema
from tasks.settings.pipeline import DacCorrectionSettings
from tasks.sql.elements import used_elements
from tasks.sql.skeleton import read_skeleton


def make_oracle(gold_sql: str, schema: Schema, settings: DacCorrectionSettings | None) -> Oracle | None:
    """Return the parts that the settings ask for; None where they ask for none.

    Args:
        gold_sql: the question's gold.
        schema: the full schema of its database.
        settings: DAC's switches; None where the pipeline does not correct by decomposition.
    """
    if settings is None or settings.oracle == "none":
        return None
    return Oracle(
        gold_entities(gold_sql, schema) if settings.oracle_entities else None,
        gold_skeleton(gold_sql, schema.dialect) if settings.oracle_skeleton else None,
    )


def gold_entities(gold_sql: str, schema: Schema) -> Entities:
    """Return the tables that the gold reads and the columns that it uses otherwise than to join."""
    used = used_elements(gold_sql, schema)
    return Entities(used.tables, used.columns)


def gold_skeleton(gold_sql: str, dialect: str) -> ParsedSkeleton:
    """Return the gold's skeleton, or why it has none."""
    reading = read_skeleton(gold_sql, dialect)
    return ParsedSkeleton(reading.text, note=reading.reason)
