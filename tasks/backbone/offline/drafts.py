"""A schema while its text is being read, and the pieces that all formats share: names, types, sample values."""

import re
from dataclasses import dataclass, field

from tasks.backbone.offline.schema import PromptSchema, Reference, SchemaColumn, SchemaTable, ValueKind
from tasks.backbone.offline.words import stems_of
from tasks.records import ColumnName

NAME = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|\[[^\]]+\]|[^\s(),.:;=`\"\[\]]+)"
"""A name in any quotes, or bare."""

_LITERAL = re.compile(r"'((?:[^']|'')*)'(?=\s*(?:[|,\]]|$))|([^\s|,\[\]'][^|,\[\]]*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)


@dataclass(slots=True)
class ColumnDraft:
    """One column while it is being read."""

    kind: ValueKind = "unknown"
    description: str = ""
    samples: list[str] = field(default_factory=list)

    def add_samples(self, text: str) -> None:
        """Add the literals of a list; where the type is not declared, they say what the column holds.

        SQLite keeps text in a number column and numbers in a text column, so quotes win over the declaration.
        """
        for match in _LITERAL.finditer(text):
            bare = match[2]
            if bare is None:
                self.samples.append(match[1].replace("''", "'"))
                self.kind = "text"
            elif bare.strip() and bare.strip().upper() != "NULL" and not bare.startswith("<"):
                self.samples.append(bare.strip())
                if self.kind == "unknown":
                    self.kind = "number" if _NUMBER.fullmatch(bare.strip()) else "text"


@dataclass(slots=True)
class SchemaDraft:
    """Tables and keys while they are being read, in the order of the text."""

    tables: dict[str, dict[str, ColumnDraft]] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    def finished(self) -> PromptSchema:
        """Return the schema; keys to columns that it does not have are left out."""
        tables = tuple(
            SchemaTable(
                table,
                stems_of(table),
                tuple(
                    SchemaColumn(
                        ColumnName(table, name),
                        stems_of(name),
                        draft.description,
                        tuple(draft.samples),
                        draft.kind,
                    )
                    for name, draft in columns.items()
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


def names_in(text: str) -> list[str]:
    """Return the names of a list."""
    return [plain_name(name) for name in re.findall(NAME, text)]


def kind_of(declared: str) -> ValueKind:
    """Return what a declared type holds."""
    if re.search(r"char|text|date|time|clob", declared, re.IGNORECASE):
        return "text"
    return (
        "number" if re.search(r"int|real|num|float|double|dec|year", declared, re.IGNORECASE) else "unknown"
    )
