"""Columns that foreign keys make equal."""

from tasks.database.schema import Schema


def equal_columns(schema: Schema) -> dict[str, str]:
    """Map each column that foreign keys make equal to others to the first of them by name, in lower case.

    >>> from tasks.database.schema import ForeignKey
    >>> equal_columns(Schema("d", (), (ForeignKey("Pet", ("owner",), "Man", ("id",)),)))["pet.owner"]
    'man.id'
    """
    groups: list[set[str]] = []
    for key in schema.foreign_keys:
        for child, parent in zip(key.columns, key.parent_columns, strict=False):
            pair = {f"{key.table}.{child}".lower(), f"{key.parent}.{parent}".lower()}
            touched = [group for group in groups if group & pair]
            groups = [group for group in groups if not group & pair] + [pair.union(*touched)]
    return {column: min(group) for group in groups for column in group}
