"""Foreign keys from several sources, as one list that fits the tables."""

from collections.abc import Iterable

from tasks.database.schema import ForeignKey, Table


def united(tables: Iterable[Table], *sources: Iterable[ForeignKey]) -> tuple[ForeignKey, ...]:
    """Return the keys of all sources, each once, spelled as the tables spell their names.

    Names are compared without case. A key that names no parent columns gets the parent's primary key. A key
    with a table or column that is absent is dropped. So is a single-column key that an earlier composite one
    already holds: benchmark files list composite keys column by column.
    """
    by_name = {table.name.lower(): table for table in tables}
    kept: dict[ForeignKey, None] = {}
    covered: set[ForeignKey] = set()
    for key in (key for source in sources for key in source):
        spelled = _spelled(key, by_name)
        if spelled is None or spelled in kept or spelled in covered:
            continue
        kept[spelled] = None
        covered.update(
            ForeignKey(spelled.table, (child,), spelled.parent, (parent,))
            for child, parent in zip(spelled.columns, spelled.parent_columns, strict=True)
        )
    return tuple(kept)


def _spelled(key: ForeignKey, by_name: dict[str, Table]) -> ForeignKey | None:
    table, parent = by_name.get(key.table.lower()), by_name.get(key.parent.lower())
    if table is None or parent is None:
        return None
    columns = _columns(table, key.columns)
    parent_columns = _columns(parent, key.parent_columns or parent.primary_key)
    if not columns or not parent_columns or len(columns) != len(parent_columns):
        return None
    return ForeignKey(table.name, columns, parent.name, parent_columns)


def _columns(table: Table, names: Iterable[str]) -> tuple[str, ...] | None:
    spelling = {column.name.lower(): column.name for column in table.columns}
    found = tuple(spelling.get(name.lower()) for name in names)
    return None if None in found else tuple(name for name in found if name is not None)
