"""Reads the database sections of a prompt, in the four formats of `tasks.database.rendering`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tasks.backbone.offline.prompt.english import stems_of
from tasks.backbone.offline.prompt.schema import PromptSchema, Reference, SchemaColumn, SchemaTable, ValueKind
from tasks.core.records import ColumnName

_QUOTED = r"((?<!`)`(?:[^`]|``)++`|(?<!\")\"(?:[^\"]|\"\")++\")"
_NAME = (
    r"(?:(?<!`)`(?:[^`]|``)++`|(?<!\")\"(?:[^\"]|\"\")++\"|\[[^\]]{1,300}+\]"
    r"|(?<![^\s(),.:;=`\"\[\]])[^\s(),.:;=`\"\[\]]++)"
)
_VALUE = r"(?:'(?:[^']|'')*+'|<\d+ bytes>|[^\s|,()']+)"
_LITERAL = re.compile(r"(?<!')'((?:[^']|'')*+)'(?=\s*(?:[|,\]]|$))|([^\s|,\[\]'][^|,\[\]]*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)

_TABLE = re.compile(rf"^(?:#\s*)?{_QUOTED}\s*\((.*)\)\s*$")
_COLUMN = re.compile(rf"{_QUOTED}(?:: ({_VALUE}(?: \| {_VALUE})*))?(?:, |$)")
_SAMPLE_TABLE = re.compile(rf"^#\s*({_NAME})\((.*)\)\s*$")
_SAMPLE_COLUMN = re.compile(rf"({_NAME}): ({_VALUE}(?: \| {_VALUE})*)(?:, |$)")
_KEY = re.compile(rf"({_NAME})\.(\(.{{0,300}}?\)|{_NAME})\s*(?:->|=)\s*({_NAME})\.(\(.{{0,300}}?\)|{_NAME})")

_CREATE = re.compile(rf"^\s*create\s+table\s+({_NAME})\s*\(\s*$", re.IGNORECASE)
_REFERENCES = re.compile(
    rf"foreign\s++key\s*+\((.{{0,300}}?)\)\s*+references\s++({_NAME})\s*+\((.{{0,300}}?)\)\s*+,?\s*+$",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(r"^\s*(?:primary\s+key|foreign\s+key)\b", re.IGNORECASE)
_DDL_COLUMN = re.compile(rf"^\s*({_NAME})([^-]*+)(?:--\s*+(.*))?$")
_M_TABLE = re.compile(rf"^#\s*Table:\s*({_NAME})")
_M_COLUMN = re.compile(rf"^\(({_NAME})(?::((?:[^,()]|\([^)]*\))*?))?((?:, .*)?)\),?$")
_EXAMPLES = re.compile(r"(?:^|, |\| )Examples: (\[.*\]|.*)$")


@dataclass(slots=True)
class _Column:
    """One column while it is being read."""

    kind: ValueKind = "unknown"
    samples: list[str] = field(default_factory=list)

    def add_samples(self, text: str) -> None:
        """Add the literals of a list; quotes win over the declared type, because SQLite keeps any value."""
        for match in _LITERAL.finditer(text):
            bare = (match[2] or "").strip()
            if match[1] is not None:
                self.samples.append(match[1].replace("''", "'"))
                self.kind = "text"
            elif bare and bare.upper() != "NULL" and not bare.startswith("<"):
                self.samples.append(bare)
                if self.kind == "unknown":
                    self.kind = "number" if _NUMBER.fullmatch(bare) else "text"

    def add_remark(self, remark: str) -> None:
        """Add the examples from what stands behind a column."""
        if examples := _EXAMPLES.search(remark):
            self.add_samples(examples[1])


@dataclass(slots=True)
class _Draft:
    """Tables and keys while they are being read, in the order of the text."""

    tables: dict[str, dict[str, _Column]] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    def add_key(self, table: str, columns: Iterable[str], parent: str, others: Iterable[str]) -> None:
        """Add the column pairs of a foreign key."""
        for child, other in zip(columns, others, strict=False):
            self.references.append(Reference(ColumnName(table, child), ColumnName(parent, other)))

    def finished(self) -> PromptSchema:
        """Return the schema; keys to columns that it does not have are left out."""
        tables = tuple(
            SchemaTable(
                table,
                stems_of(table),
                tuple(
                    SchemaColumn(ColumnName(table, name), stems_of(name), tuple(one.samples), one.kind)
                    for name, one in columns.items()
                ),
            )
            for table, columns in self.tables.items()
        )
        bare = PromptSchema(tables)
        known: dict[Reference, None] = {}
        for reference in self.references:
            child = bare.find(reference.child.column, reference.child.table)
            parent = bare.find(reference.parent.column, reference.parent.table)
            if child and parent:
                known[Reference(child[0], parent[0])] = None
        return PromptSchema(tables, tuple(known))


def read_schema(schema: str, samples: str = "", foreign_keys: str = "", *, dialect: str) -> PromptSchema:
    """Read the database sections of a prompt; lines in no known format are passed over.

    Args:
        schema: tables and columns.
        samples: values of the first rows.
        foreign_keys: a key a line.
        dialect: sqlglot's name of the dialect in which queries are to be written.
    """
    draft = _Draft()
    for line in schema.splitlines():
        if match := _TABLE.match(line):
            columns = draft.tables.setdefault(plain_name(match[1]), {})
            for column in _COLUMN.finditer(match[2]):
                columns.setdefault(plain_name(column[1]), _Column()).add_samples(column[2] or "")
    if not draft.tables:
        _read_create_table(schema, draft)
    if not draft.tables:
        _read_m_schema(schema, draft)
    for line in samples.splitlines():
        if match := _SAMPLE_TABLE.match(line):
            columns = draft.tables.get(plain_name(match[1]), {})
            for column in _SAMPLE_COLUMN.finditer(match[2]):
                if sampled := columns.get(plain_name(column[1])):
                    sampled.add_samples(column[2])
    _read_keys(foreign_keys, draft)
    return replace(draft.finished(), dialect=dialect)


def plain_name(name: str) -> str:
    """Take a name out of its quotes.

    >>> plain_name("`x``y`"), plain_name('"a b"'), plain_name("plain")
    ('x`y', 'a b', 'plain')
    """
    name = name.strip()
    for opening, closing in ("``", '""', "[]"):
        if len(name) > 1 and name[0] == opening and name[-1] == closing:
            return name[1:-1].replace(closing * 2, closing)
    return name


def _names(text: str) -> list[str]:
    return [plain_name(name) for name in re.findall(_NAME, text)]


def _kind(declared: str) -> ValueKind:
    if re.search(r"char|text|date|time|clob", declared, re.IGNORECASE):
        return "text"
    return (
        "number" if re.search(r"int|real|num|float|double|dec|year", declared, re.IGNORECASE) else "unknown"
    )


def _read_keys(text: str, draft: _Draft) -> None:
    for key in _KEY.finditer(text):
        table, child, parent, other = key.groups()
        draft.add_key(plain_name(table), _key_columns(child), plain_name(parent), _key_columns(other))


def _key_columns(text: str) -> Sequence[str]:
    return _names(text[1:-1]) if text.startswith("(") else [plain_name(text)]


def _read_create_table(text: str, draft: _Draft) -> None:
    table = ""
    for line in text.splitlines():
        if match := _CREATE.match(line):
            table = plain_name(match[1])
            draft.tables.setdefault(table, {})
        elif line.strip() == ");":
            table = ""
        elif table and (match := _REFERENCES.search(line)):
            draft.add_key(table, _names(match[1]), plain_name(match[2]), _names(match[3]))
        elif table and not _CONSTRAINT.match(line) and (match := _DDL_COLUMN.match(line)):
            column = draft.tables[table].setdefault(plain_name(match[1]), _Column(_kind(match[2])))
            column.add_remark(match[3] or "")


def _read_m_schema(text: str, draft: _Draft) -> None:
    """Read M-Schema: a "# Table:" line, then one parenthesis per column."""
    tables, _, keys = text.partition("【Foreign keys】")
    columns: dict[str, _Column] = {}
    for line in tables.splitlines():
        if match := _M_TABLE.match(line):
            columns = draft.tables.setdefault(plain_name(match[1]), {})
        elif match := _M_COLUMN.match(line):
            column = columns.setdefault(plain_name(match[1]), _Column(_kind(match[2] or "")))
            column.add_remark(match[3])
    _read_keys(keys, draft)
