"""What a table's rows are called and what identifies them."""

from tasks.backbone.offline.schema import PromptSchema, SchemaColumn
from tasks.backbone.offline.words import stem
from tasks.records import ColumnName

NAME_STEMS = tuple(stem(word) for word in ("name", "title"))
"""Last words of columns that name a row."""
_LABEL_STEMS = tuple(stem(word) for word in ("label", "caption", "heading"))
KEY_STEMS = frozenset(stem(word) for word in ("id", "code", "number", "key"))
"""Last words of columns that identify a row."""


def name_columns(schema: PromptSchema, name: str) -> tuple[ColumnName, ...]:
    """Return what a row of a table is called: its name or title, else first and last name, else its key."""
    table = schema.table(name)
    if table is None or not table.columns:
        return ()

    def rank(column: SchemaColumn) -> tuple[int, int]:
        own = [s for s in column.stems if s not in table.stems]
        if own == [NAME_STEMS[0]] or own == [NAME_STEMS[1]]:
            return (0, 0)
        if own == ["full", NAME_STEMS[0]]:
            return (1, 0)
        if column.stems[-1:] == (NAME_STEMS[0],) and set(own) & {"first", "last"}:
            return (3, 0)
        if column.stems[-1:] and column.stems[-1] in NAME_STEMS:
            return (2, 0)
        return (9, 0)

    best = min(table.columns, key=rank)
    if rank(best)[0] == 3:
        return tuple(column.name for column in table.columns if rank(column)[0] == 3)[:2]
    if rank(best)[0] < 9:
        return (best.name,)
    label = next((c for c in table.columns if c.stems[-1:] and c.stems[-1] in _LABEL_STEMS), None)
    if label is not None:
        return (label.name,)
    twin = next((c for c in table.columns if set(c.stems) == set(table.stems)), None)
    if twin is not None:
        return (twin.name,)
    detail = next(
        (c for c in table.columns if c.stems[-1:] and c.stems[-1] in ("detail", "description")), None
    )
    return (detail.name,) if detail else (key_column(schema, name) or table.columns[0].name,)


def key_column(schema: PromptSchema, name: str) -> ColumnName | None:
    """Return the column that identifies a table's rows: what others refer to, else what is named like a key."""
    table = schema.table(name)
    if table is None or not table.columns:
        return None
    parents = [r.parent for r in schema.references if r.parent.table == table.name]
    if parents:
        return max(dict.fromkeys(parents), key=parents.count)
    own = [
        c
        for c in table.columns
        if c.stems and c.stems[-1] in KEY_STEMS and set(c.stems[:-1]) <= set(table.stems)
    ]
    return own[0].name if own else table.columns[0].name


def hinted_column(schema: PromptSchema, hints: tuple[str, ...], table: str) -> tuple[ColumnName, bool] | None:
    """Return the table's column that the first fitting hint names, and whether the direction turns round."""
    found = schema.table(table)
    for hint in hints if found else ():
        wanted = stem(hint.lstrip("-"))
        for column in found.columns if found else ():
            if wanted in column.stems and column.stems[-1] not in ("id", "nam"):
                return column.name, hint.startswith("-")
    return None
