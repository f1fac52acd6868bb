"""A schema as the prompts of a question show it: as text, in five formats.

- `comment`: one comment line per table with its columns; samples, a line per table too, keys and descriptions apart
  (RSL-SQL's S, V, FK block and D).
- `create_table`: DDL, with samples and descriptions as comments behind the columns and keys as constraints.
- `m_schema`: one line per column with type, key, description and examples (after M-Schema of XiYan-SQL).
- `values`: one line per table, each column followed by its examples; keys as equations (SEA-SQL).
- `omnisql`: DDL as OmniSQL and Arctic-Text2SQL-R1 are trained with (data_preprocessing/process_dataset.py of
  snowflakedb/ArcticTraining): description and examples in one comment, named constraints, a blank line between tables.

Every name is spelled as in the database. Views are marked as such. Values and descriptions are put on one line each.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from tasks.core.records import ColumnValues, Link
from tasks.database.dialects import quoted, quoted_if_needed, words_of
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.settings.pipeline import PromptSettings

MAX_VALUE_CHARACTERS = 100
"""Characters of a value that are shown, unless the settings say otherwise."""

BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+")
"""Line ends and control characters."""

_QUOTED = re.compile(r"""('[^']*'|"[^"]*")|[^'"]+""")
"""A quoted part of a type, as group 1, or what is between such parts."""
_WORD = re.compile(r"\w+")
_EMPTY_WORDS = words_of(
    """
    a an and are as at by for from in is it its of on or that the this to was which with
    commonsense evidence reasoning
    """
)
"""Words without which a description says the same; the last three head BIRD's own remarks."""


@dataclass(frozen=True)
class PromptParts:
    """The parts of a prompt that show a database; "" for a part that is switched off or empty."""

    schema: str  # tables and columns; with `create_table` and `m_schema` everything else too
    samples: str = ""  # values of each table's columns
    foreign_keys: str = ""  # one line per key
    descriptions: str = ""  # one line per described column
    sampled: bool = False  # whether values are shown, in any of the parts


@dataclass(frozen=True)
class SchemaView:
    """A schema as the prompts of a question show it. Every stage that reads or shows a schema takes one.

    In the cache key of a stage it stands for its first three fields, the schema by its digest.
    """

    # the full schema of the question's database, or one reduced to a link; its samples are the values shown
    schema: Schema
    # format, samples per column, and whether foreign keys are shown
    prompt: PromptSettings = field(default_factory=PromptSettings)
    descriptions: bool = field(default=False, kw_only=True)  # whether column descriptions are shown
    # whether prompts about other questions show the same: nothing was left out or added for one question
    common: bool = field(default=True, compare=False, kw_only=True)

    @property
    def dialect(self) -> str:
        """The SQL dialect, as sqlglot spells it."""
        return self.schema.dialect

    @property
    def dialect_name(self) -> str:
        """The SQL dialect as its makers write it, for prompts."""
        return self.schema.dialect_name

    def render(self) -> PromptParts:
        """Return the parts of a prompt that show the schema; no more rows than the schema was read with."""
        schema = self.schema
        rows = self.prompt.sample_rows
        longest = self.prompt.longest_value
        keys = schema.foreign_keys if self.prompt.foreign_keys else ()
        descriptions = _lines(_comment_descriptions(schema)) if self.descriptions else ""
        has_samples = any(column.samples[:rows] for table in schema.tables for column in table.columns)
        style = self.prompt.schema_format
        if style == "comment":
            return PromptParts(
                _lines(_comment_line(table, schema.dialect) for table in schema.tables),
                samples=_lines(_comment_samples(schema, rows, longest)),
                foreign_keys=_lines(_comment_key(key, schema.dialect) for key in keys),
                descriptions=descriptions,
                sampled=has_samples,
            )
        if style == "values":
            in_quotes = partial(quoted, dialect=schema.dialect)
            return PromptParts(
                _lines(_values_line(table, rows, schema.dialect, longest) for table in schema.tables),
                foreign_keys=_lines(_equations(key, in_quotes, " = ") for key in keys),
                descriptions=descriptions,
                sampled=has_samples,
            )
        sampled_schema = schema.with_samples(
            lambda _, column: tuple(literal(value, longest) for value in column.samples[:rows])
        )
        if style == "m_schema":
            lines = _m_schema(sampled_schema, keys, descriptions=self.descriptions)
        else:
            ddl = _OmniSqlDdl if style == "omnisql" else _Ddl
            lines = ddl(sampled_schema, self.descriptions).lines(keys)
        return PromptParts(_lines(lines), sampled=has_samples)

    def reduced_to(self, link: Link) -> "SchemaView":
        """Return the view of the link's tables and columns only; of everything where the link is empty."""
        return replace(self, schema=self.schema.reduced_to(link), common=False)

    def limited_to(self, tables: Iterable[str]) -> "SchemaView":
        """Return the view of these tables only, in full; of everything where the schema has none of them."""
        return replace(self, schema=self.schema.limited_to(tables), common=False)

    def with_values(self, values: Iterable[ColumnValues]) -> "SchemaView":
        """Return the view with retrieved values in place of sample rows, as many as configured."""
        return self.with_samples(self.schema.with_values(values), self.prompt.values_per_column)

    def with_samples(self, schema: Schema, per_column: int) -> "SchemaView":
        """Return the view of a schema with other samples, of which so many are shown per column."""
        prompt = self.prompt.model_copy(update={"sample_rows": per_column})
        return replace(self, schema=schema, prompt=prompt, common=self.common and not per_column)


def literal(value: Any, longest: int = MAX_VALUE_CHARACTERS) -> str:
    """Return a value as SQL would write it, on one line and cut to a readable length.

    >>> literal("it's"), literal(None), literal(1.5), literal(b"abc"), literal((1, None))
    ("'it''s'", 'NULL', '1.5', '<3 bytes>', '[1, NULL]')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, tuple):
        return _cut(f"[{', '.join(literal(item, longest) for item in value[:longest])}]", longest)
    if not isinstance(value, str):
        return str(value)
    return "'" + _cut(BREAKS.sub(" ", value), longest).replace("'", "''") + "'"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "..."


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _sentence(column: Column) -> str:
    """Return what is known about a column as one line, "" when nothing is."""
    description = " ".join(column.description.split())
    values = " ".join(column.value_description.split())
    if not values or _says_nothing_new(values, description):
        return description
    if description and description[-1] not in ".!?":
        description += "."
    return f"{description} Values: {values}".strip()


def _says_nothing_new(values: str, description: str) -> bool:
    """Whether every word, number and code of the values' description is in the column's description already."""
    words = {word.lower() for word in _WORD.findall(description)} | _EMPTY_WORDS
    return all(word.lower() in words for word in _WORD.findall(values))


def _comment_line(table: Table, dialect: str) -> str:
    columns = ", ".join(quoted(column.name, dialect) for column in table.columns)
    return f"# {_view(table)}{quoted(table.name, dialect)}({columns})"


def _view(table: Table) -> str:
    return "view " if table.view else ""


def _comment_samples(schema: Schema, rows: int, longest: int) -> Iterator[str]:
    for table in schema.tables:
        samples = [
            f"{quoted_if_needed(column.name, schema.dialect)}: "
            + " | ".join(literal(value, longest) for value in column.samples[:rows])
            for column in table.columns
            if column.samples[:rows]
        ]
        if samples:
            yield f"# {quoted_if_needed(table.name, schema.dialect)}({', '.join(samples)})"


def _comment_key(key: ForeignKey, dialect: str) -> str:
    def side(table: str, columns: tuple[str, ...]) -> str:
        names = ", ".join(quoted(column, dialect) for column in columns)
        return quoted(table, dialect) + (f".{names}" if len(columns) == 1 else f".({names})")

    return f"# {side(key.table, key.columns)} -> {side(key.parent, key.parent_columns)}"


def _comment_descriptions(schema: Schema) -> Iterator[str]:
    for table in schema.tables:
        for column in table.columns:
            if sentence := _sentence(column):
                yield f"# {quoted(table.name, schema.dialect)}.{quoted(column.name, schema.dialect)}: {sentence}"


@dataclass(frozen=True, slots=True)
class _Ddl:
    """Statements that create a schema's tables, descriptions and examples behind the columns."""

    schema: Schema
    descriptions: bool
    indent: ClassVar[str] = "  "
    between: ClassVar[str] = ""

    def lines(self, keys: Sequence[ForeignKey]) -> Iterator[str]:
        for index, table in enumerate(self.schema.tables):
            entries = [(self.definition(column), self.remark(column)) for column in table.columns]
            if table.primary_key and set(table.primary_key) <= {column.name for column in table.columns}:
                entries.append((f"PRIMARY KEY ({self.names(table.primary_key)})", ""))
            entries += [(self.constraint(key), "") for key in keys if key.table == table.name]
            view_remark = " -- view" if table.view else ""
            yield f"{self.between if index else ''}CREATE TABLE {self.names((table.name,))} ({view_remark}"
            for position, (definition, remark) in enumerate(entries, start=1):
                comma = "," if position < len(entries) else ""
                yield f"{self.indent}{definition}{comma}" + (f" -- {remark}" if remark else "")
            yield ");"

    def names(self, names: Sequence[str]) -> str:
        return ", ".join(quoted_if_needed(name, self.schema.dialect) for name in names)

    def definition(self, column: Column) -> str:
        return f"{self.names((column.name,))} {' '.join(column.type.split())}".rstrip()

    def remark(self, column: Column) -> str:
        examples = f"Examples: {', '.join(column.samples)}" if column.samples else ""
        return " | ".join(filter(None, (self.sentence(column), examples)))

    def sentence(self, column: Column) -> str:
        return _sentence(column) if self.descriptions else ""

    def constraint(self, key: ForeignKey) -> str:
        parent = f"{self.names((key.parent,))} ({self.names(key.parent_columns)})"
        return f"FOREIGN KEY ({self.names(key.columns)}) REFERENCES {parent}"


class _OmniSqlDdl(_Ddl):
    """The same as OmniSQL writes it."""

    indent = "    "
    between = "\n"

    def remark(self, column: Column) -> str:
        examples = f"example: [{', '.join(column.samples)}]" if column.samples else ""
        return ", ".join(filter(None, (self.sentence(column).rstrip("."), examples)))

    def constraint(self, key: ForeignKey) -> str:
        name = "_".join(("fk", key.table, *key.columns)).lower().replace(" ", "_")
        return f"CONSTRAINT {self.names((name,))} {super().constraint(key)}"


def _m_schema(schema: Schema, keys: Sequence[ForeignKey], *, descriptions: bool) -> Iterator[str]:
    name = partial(quoted_if_needed, dialect=schema.dialect)
    yield f"【DB_ID】 {schema.database_id}"
    yield "【Schema】"
    for table in schema.tables:
        description = " ".join(table.description.split()) if descriptions else ""
        head = f"# {'View' if table.view else 'Table'}: {name(table.name)}"
        yield f"{head}, {description}" if description else head
        yield "["
        for position, column in enumerate(table.columns, start=1):
            parts = [f"{name(column.name)}:{_upper(' '.join(column.type.split()))}".rstrip(":")]
            if column.name in table.primary_key:
                parts.append("Primary Key")
            if descriptions and _sentence(column):
                parts.append(_sentence(column).rstrip("."))
            if column.missing:
                parts.append(f"Missing: {_percent(column.missing)}")
            if column.samples:
                parts.append(f"Examples: [{', '.join(column.samples)}]")
            yield f"({', '.join(parts)})" + ("," if position < len(table.columns) else "")
        yield "]"
    if keys:
        yield "【Foreign keys】"
        for key in keys:
            yield _equations(key, name, "=")


def _upper(type_name: str) -> str:
    """Return a type in upper case, the values of an enum and other quoted parts as they are.

    >>> _upper("enum('Yes','no')")
    "ENUM('Yes','no')"
    """
    return _QUOTED.sub(lambda part: part[1] or part[0].upper(), type_name)


def _percent(share: float) -> str:
    """Return a share above 0 in percent, never as 0 % nor, below 1, as 100 %."""
    return f"{min(max(round(100 * share), 1), 99 if share < 1 else 100)} %"


def _values_line(table: Table, rows: int, dialect: str, longest: int) -> str:
    columns = ", ".join(_with_examples(column, rows, dialect, longest) for column in table.columns)
    return f"{_view(table)}{quoted(table.name, dialect)}({columns})"


def _with_examples(column: Column, rows: int, dialect: str, longest: int) -> str:
    name = quoted(column.name, dialect)
    examples = [literal(value, longest) for value in column.samples[:rows] if _is_example(value, longest)]
    return f"{name}: {' | '.join(examples)}" if examples else name


def _is_example(value: Any, longest: int) -> bool:
    """Whether a value can be copied into SQL: one that is cut off would match nothing."""
    return value is not None and not isinstance(value, bytes) and len(str(value)) < longest


def _equations(key: ForeignKey, name: Callable[[str], str], sign: str) -> str:
    return " AND ".join(
        f"{name(key.table)}.{name(child)}{sign}{name(key.parent)}.{name(parent)}"
        for child, parent in zip(key.columns, key.parent_columns, strict=True)
    )
