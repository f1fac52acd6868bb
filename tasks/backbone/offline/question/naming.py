"""What a table's rows are called and what identifies them."""

from tasks.backbone.offline.prompt.english import stem, stems
from tasks.backbone.offline.prompt.schema import PromptSchema, SchemaColumn
from tasks.core.records import ColumnName

NAME_STEMS = frozenset(stems("name title"))
"""Last words of columns that name a row."""
CODE_STEMS = frozenset(stems("id code"))
"""Last words of columns whose values mean nothing by themselves."""
_KEY_STEMS = CODE_STEMS | frozenset(stems("number key"))


def name_columns(schema: PromptSchema, table: str) -> tuple[ColumnName, ...]:
    """Return what a row of a table is called: its name or title, else first and last name, else its key."""
    found = schema.table(table)
    if found is None or not found.columns:
        return ()

    def rank(column: SchemaColumn) -> int:
        own = set(column.stems) - set(found.stems)
        if NAME_STEMS.isdisjoint(column.stems[-1:]):
            return 3 if set(column.stems) == set(found.stems) else 9
        return 0 if len(own) == 1 else 2 if own & {"first", "last"} else 1

    best = min(map(rank, found.columns))
    names = tuple(column.name for column in found.columns if rank(column) == best)
    if best == 9:
        return (key_column(schema, table) or names[0],)
    return names[: 2 if best == 2 else 1]


def key_column(schema: PromptSchema, table: str) -> ColumnName | None:
    """Return the column that identifies a table's rows: what others refer to, else what is named like a key."""
    found = schema.table(table)
    if found is None or not found.columns:
        return None
    parents = [reference.parent for reference in schema.references if reference.parent.table == found.name]
    if parents:
        return max(dict.fromkeys(parents), key=parents.count)
    keys = (
        c
        for c in found.columns
        if c.stems[-1:] and c.stems[-1] in _KEY_STEMS and set(c.stems[:-1]) <= set(found.stems)
    )
    return next(keys, found.columns[0]).name


def hinted_column(schema: PromptSchema, hints: tuple[str, ...], table: str) -> tuple[ColumnName, bool] | None:
    """Return the table's column that the first fitting hint names, and whether the direction turns round."""
    for hint in hints:
        for column in schema.columns_of(table):
            if stem(hint.lstrip("-")) in column.stems and column.stems[-1] not in ("id", "name"):
                return column.name, hint.startswith("-")
    return None
