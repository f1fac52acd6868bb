"""Where a SQL differs from what the sub-tasks found (DAC, section 3.4). Pure functions: no model call."""

from tasks.core.dac_records import Entities, Feedback
from tasks.database.schema import Schema
from tasks.sql.elements import resolved_elements, used_elements
from tasks.sql.skeleton import skeleton, skeleton_length


def missing_entities(
    sql: str | None, linked: Entities, schema: Schema, *, joins_count: bool = False
) -> Feedback | None:
    """Return the linked entities that a SQL does not use; None where it uses them all.

    What the SQL uses and the question does not mention is not missing. A SQL that cannot be parsed is searched for
    names, see `used_elements`. Without a SQL everything is missing.

    Args:
        sql: the SQL.
        linked: what the question mentions.
        schema: the full schema.
        joins_count: whether a column that the SQL uses only to join counts as used.
    """
    elements = resolved_elements if joins_count else used_elements
    used = elements(sql, schema) if sql else None
    missing = Entities(
        tuple(table for table in linked.tables if used is None or table not in used.tables),
        tuple(column for column in linked.columns if used is None or column not in used.columns),
    )
    return Feedback("entities", missing=missing) if missing else None


def other_skeleton(
    sql: str | None, expected: str | None, dialect: str, *, never_longer: bool
) -> Feedback | None:
    """Return the expected skeleton where a SQL has another; None where it has it, or they cannot be compared.

    They cannot without a SQL, without an expected skeleton, or where the SQL cannot be parsed.

    Args:
        sql: the SQL.
        expected: the skeleton that was parsed from the question.
        dialect: the SQL's dialect.
        never_longer: return None also where the expected skeleton is longer than the SQL's own (released code).
    """
    own = skeleton(sql, dialect) if sql else None
    if own is None or expected is None or own == expected:
        return None
    if never_longer and skeleton_length(expected) > skeleton_length(own):
        return None
    return Feedback("skeleton", skeleton=expected)
