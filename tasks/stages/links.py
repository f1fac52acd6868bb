"""Reading and combining schema links: pure functions on names."""

from collections.abc import Iterable, Iterator

from tasks.core.records import ColumnName, Link, Question
from tasks.database.dialects import quoted_if_needed
from tasks.database.schema import Schema, Table
from tasks.settings.stages import HintSource

_QUOTES = "`\"'[] \t\n"
_CLOSING = {"`": "`", '"': '"', "'": "'", "[": "]"}


def make_link(
    schema: Schema, columns: Iterable[ColumnName], tables: Iterable[str] = (), dropped: Iterable[str] = ()
) -> Link:
    """Return a link in schema order, each name once, with the tables of its columns among its tables."""
    linked_columns = set(columns)
    table_names = set(tables) | {column.table for column in linked_columns}
    return Link(
        tables=tuple(table.name for table in schema.tables if table.name in table_names),
        columns=tuple(column for column in schema.column_names if column in linked_columns),
        dropped=tuple(dict.fromkeys(dropped)),
    )


def read_link(schema: Schema, tables: Iterable[str], columns: Iterable[str]) -> Link:
    """Match the names that a backbone gave against the schema, without regard to case and quoting.

    A column may be written `table.column`, with either part quoted, or alone when only one of the named tables,
    or of all the schema's tables, has it. What the schema does not have is dropped and kept in `Link.dropped`.

    >>> from tasks.database.schema import Column
    >>> schema = Schema("d", (Table("My Pets", (Column("id"), Column("pet.name"))),), dialect="sqlite")
    >>> link = read_link(schema, ["my pets"], ["`My Pets`.`PET.NAME`", "id", "size"])
    >>> [str(column) for column in link.columns], link.dropped
    (['My Pets.id', 'My Pets.pet.name'], ('size',))
    """
    tables_by_name = {name: _find_table(schema, name) for name in tables}
    linked_tables = [table for table in tables_by_name.values() if table]
    columns_by_name = {name: _find_column(schema, name, linked_tables) for name in columns}
    linked = [column for column in columns_by_name.values() if column]
    dropped = [name for name, match in (*tables_by_name.items(), *columns_by_name.items()) if match is None]
    return make_link(schema, linked, (table.name for table in linked_tables), dropped)


def hinted_link(question: Question, schema: Schema, source: HintSource) -> Link:
    """Return the columns that the hint source names: they join the link after SQL1 (RSL-SQL, section 3.1).

    A column is named where its lower-cased name is a substring of the lower-cased text.
    """
    texts = {
        "evidence": question.evidence,
        "question": question.text,
        "both": f"{question.text}\n{question.evidence}",
        "none": "",
    }
    lowered = texts[source].lower()
    hinted = (name for name in schema.column_names if name.column and name.column.lower() in lowered)
    return make_link(schema, hinted)


def unite(schema: Schema, *links: Link) -> Link:
    """Return the union of links over one schema."""
    return make_link(
        schema,
        (column for link in links for column in link.columns),
        (table for link in links for table in link.tables),
        (name for link in links for name in link.dropped),
    )


def merge(schema: Schema, *links: Link) -> Link:
    """Return all columns of the links, and the tables of these columns only (RSL-SQL, section 3.1).

    So were the published figures counted too: a table that was named without any column is in none of them.
    """
    united = unite(schema, *links)
    return make_link(schema, united.columns, (), united.dropped)


def join_keys(schema: Schema, tables: Iterable[str]) -> set[ColumnName]:
    """Return the columns of every foreign key between two of these tables."""
    names = set(tables)
    columns: set[ColumnName] = set()
    for key in schema.foreign_keys:
        if {key.table, key.parent} <= names:
            columns |= {ColumnName(key.table, column) for column in key.columns}
            columns |= {ColumnName(key.parent, column) for column in key.parent_columns}
    return columns


def with_join_keys(schema: Schema, link: Link) -> Link:
    """Return the link with the columns of every foreign key between two of its tables added (our extension)."""
    added = join_keys(schema, (column.table for column in link.columns))
    return make_link(schema, (*link.columns, *added), link.tables, link.dropped)


def shown_tables(schema: Schema, link: Link | None) -> tuple[str, ...]:
    """Return the names of a link's tables as a prompt shows them, quoted where SQL needs it."""
    return tuple(quoted_if_needed(name, schema.dialect) for name in link.tables) if link else ()


def quoted_column(column: ColumnName, dialect: str) -> str:
    """Return a column as `table.column`, each part quoted where SQL needs it."""
    return f"{quoted_if_needed(column.table, dialect)}.{quoted_if_needed(column.column, dialect)}"


def shown_columns(schema: Schema, link: Link | None) -> tuple[str, ...]:
    """Return a link's columns as a prompt shows them."""
    return tuple(quoted_column(column, schema.dialect) for column in link.columns) if link else ()


def spellings(reply_name: str) -> Iterator[str]:
    """Yield the names that a spelling may mean: itself, since quotes may be part of it, then without its quotes.

    Last without any quote at its ends, for those that were opened and never closed.

    >>> list(spellings(" `a``b` ")), list(spellings("size [cm]"))
    (['`a``b`', 'a`b', 'a``b'], ['size [cm]', 'size [cm'])
    """
    text = reply_name.strip()
    yield text
    while len(text) > 1 and _CLOSING.get(text[0]) == text[-1]:
        text = text[1:-1].replace(text[-1] * 2, text[-1]).strip()
        yield text
    if (bare := reply_name.strip(_QUOTES)) != text:
        yield bare


def _find_table(schema: Schema, reply_name: str) -> Table | None:
    return next((table for name in spellings(reply_name) if (table := schema.table(name))), None)


def _find_column(schema: Schema, reply_name: str, linked_tables: Iterable[Table]) -> ColumnName | None:
    # A dot may be part of a name, so every dot is tried as the separator; so may a quote, so the text is tried
    # with and without the quotes around it.
    for text in spellings(reply_name):
        for position, character in enumerate(text):
            table = _find_table(schema, text[:position]) if character == "." else None
            if table and (column := _column_in(table, text[position + 1 :])):
                return column
        for tables in (linked_tables, schema.tables):
            alone = {column for table in tables if (column := _column_in(table, text))}
            if len(alone) == 1:
                return alone.pop()
    return None


def _column_in(table: Table, reply_name: str) -> ColumnName | None:
    for name in spellings(reply_name):
        for column in table.columns:
            if column.name.lower() == name.lower():
                return ColumnName(table.name, column.name)
    return None
