"""Names and schemas of databases as a benchmark's files describe them, also of databases whose files are absent.

An entry of a tables file (Spider's `tables.json`, BIRD's `dev_tables.json`) names one database (`db_id`), its tables
(`table_names_original`), its columns as pairs of table index and name (`column_names_original`, the first being
[-1, "*"]), their types, and its keys as column indices; BIRD writes a composite primary key as a list within the list.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.benchmarks.rows import Row, json_rows
from tasks.core.errors import DataError
from tasks.core.wording import counted
from tasks.database.dialects import SQLITE
from tasks.database.schema import Column, ColumnDescription, ForeignKey, Schema, Table, united

if TYPE_CHECKING:
    from sqlglot import exp


def read_schemas(path: Path) -> dict[str, Schema]:
    """Read every schema of a tables file (`tables.json`, `dev_tables.json`) by database id, without samples."""
    schemas: dict[str, Schema] = {}
    for row in json_rows(path):
        name = row.text(["db_id"])
        if name in schemas:
            raise DataError(f'{row.location}: the schema of "{name}" is in the file twice. Take one out.')
        try:
            schemas[name] = schema_from_tables_json(row.content).described(_descriptions(row))
        except DataError as error:
            raise DataError(f"{row.location}: {error}") from None
    return schemas


def _descriptions(row: Row) -> dict[tuple[str, str], ColumnDescription]:
    """Read `column_descriptions` (KaggleDBQA): a text per column, in the order of `column_names_original`."""
    texts = row.content.get("column_descriptions")
    columns = row.content.get("column_names_original")
    tables = row.content.get("table_names_original")
    if not (texts and isinstance(texts, list) and isinstance(columns, list) and isinstance(tables, list)):
        return {}
    if len(texts) != len(columns):
        raise DataError(
            f"column_descriptions has {counted(len(texts), 'text')}, and column_names_original has {len(columns):,}. "
            "Give every column a text."
        )
    descriptions = {}
    for item, (table, name) in zip(texts, columns, strict=True):
        text = item[-1] if isinstance(item, list) and item else item  # a list has the text as its last item
        if table >= 0 and isinstance(text, str) and text.strip():  # -1 is the table of "*", the first entry
            descriptions[tables[table].lower(), name.lower()] = ColumnDescription(" ".join(text.split()))
    return descriptions


def names_in_schema(schema: Schema) -> tuple[str, ...]:
    """Return the names of a schema's tables and columns."""
    columns = (column.column for column in schema.column_names)
    return (*(table.name for table in schema.tables), *columns)


def schema_from_tables_json(entry: Mapping[str, Any]) -> Schema:
    """Return the schema that an entry describes, for a database whose file is missing; it has no sample rows.

    There is one foreign key per pair of columns.
    """
    try:
        table_names = entry["table_names_original"]
        column_names = entry["column_names_original"]
        columns: list[list[Column]] = [[] for _ in table_names]
        for (table, name), type_name in zip(column_names, entry["column_types"], strict=True):
            if table >= 0:  # the first entry is "*", with table -1
                columns[table].append(Column(name, type_name))
        primary_keys: list[list[str]] = [[] for _ in table_names]
        for key in entry["primary_keys"]:
            indices = key if isinstance(key, list) else [key]
            for index in indices:
                table, name = column_names[index]
                primary_keys[table].append(name)
        tables = tuple(
            Table(name, tuple(its_columns), tuple(key))
            for name, its_columns, key in zip(table_names, columns, primary_keys, strict=True)
        )
        foreign_keys = []
        for child_index, parent_index in entry["foreign_keys"]:
            table, child = column_names[child_index]
            parent_table, parent = column_names[parent_index]
            foreign_keys.append(
                ForeignKey(table_names[table], (child,), table_names[parent_table], (parent,))
            )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        fault = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f'The tables file\'s entry for database "{entry.get("db_id", "?")}" is malformed: {fault}. '
            "Compare it with the benchmark's original file."
        ) from error
    return Schema(entry["db_id"], tables, united(tables, foreign_keys), dialect=SQLITE)


def schema_from_ddl(database_id: str, ddl: str) -> Schema:
    """Return the schema that a script of CREATE TABLE statements makes, without samples.

    What sqlglot cannot parse is passed over, so a table may be missing; the first of two tables of a name counts.

    >>> ddl = "CREATE TABLE a (i INT PRIMARY KEY, j INT REFERENCES b (k)); CREATE TABLE b (k INT)"
    >>> schema = schema_from_ddl("d", ddl)
    >>> [table.name for table in schema.tables], schema.tables[0].primary_key, schema.foreign_keys[0].parent
    (['a', 'b'], ('i',), 'b')
    """
    tables: dict[str, Table] = {}
    keys: list[ForeignKey] = []
    for definition in _definitions(ddl):
        name = definition.this.name.lower()
        if name not in tables:
            tables[name] = _table(definition)
            keys += _foreign_keys(definition)
    return Schema(database_id, tuple(tables.values()), united(tuple(tables.values()), keys), dialect=SQLITE)


def _definitions(ddl: str) -> "Iterator[exp.Schema]":
    """Yield sqlglot's tree of each CREATE TABLE statement: the table's name and the parts of its definition."""
    import sqlglot
    from sqlglot import exp

    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # no warning about each statement that it passes over
    try:
        statements = sqlglot.parse(ddl, dialect=SQLITE, error_level=sqlglot.ErrorLevel.IGNORE)
    except sqlglot.errors.SqlglotError:
        return
    finally:
        logger.setLevel(level)
    for statement in statements:
        if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
            yield statement.this


def _table(definition: "exp.Schema") -> Table:
    """Return the table of a CREATE TABLE statement."""
    from sqlglot import exp

    defined = [part for part in definition.expressions if isinstance(part, exp.ColumnDef)]
    columns = tuple(Column(column.name, column.kind.sql(SQLITE) if column.kind else "") for column in defined)
    primary_key = [column.name for column in defined if column.find(exp.PrimaryKeyColumnConstraint)]
    for constraint in definition.find_all(exp.PrimaryKey):
        primary_key = [part.name for part in constraint.expressions]
    return Table(definition.this.name, columns, tuple(primary_key))


def _foreign_keys(definition: "exp.Schema") -> Iterator[ForeignKey]:
    """Yield the foreign keys of a CREATE TABLE statement, of columns and of the table."""
    from sqlglot import exp

    columns = (part for part in definition.expressions if isinstance(part, exp.ColumnDef))
    # the columns of each key, and what it references: a table, or a table with columns
    keys: list[tuple[tuple[str, ...], Any]] = [
        ((column.name,), reference) for column in columns for reference in column.find_all(exp.Reference)
    ]
    for key in definition.find_all(exp.ForeignKey):
        keys.append((tuple(part.name for part in key.expressions), key.args.get("reference")))
    for key_columns, reference in keys:
        parent = reference.this if isinstance(reference, exp.Reference) else None
        if isinstance(parent, exp.Schema):
            parent_columns = tuple(part.name for part in parent.expressions)
            yield ForeignKey(definition.this.name, key_columns, parent.this.name, parent_columns)
        elif parent is not None:  # a table without columns: its primary key is meant
            yield ForeignKey(definition.this.name, key_columns, parent.name, ())
