"""Backward link: the columns that the preliminary SQL mentions (RSL-SQL, section 3.1). No model call."""

from tasks.core.records import Link
from tasks.database.schema import Schema
from tasks.settings.stages import BackwardLinkSettings
from tasks.sql.elements import columns_mentioned
from tasks.stage_runs.stage import stage
from tasks.stages.links import make_link


@stage(version=2)
async def backward_link(schema: Schema, sql: str | None, settings: BackwardLinkSettings) -> Link:
    """Link from the preliminary SQL back to the full schema; without a SQL, nothing."""
    return make_link(schema, columns_mentioned(sql, schema, settings.match) if sql else ())
