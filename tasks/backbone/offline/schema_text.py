"""The database sections of a prompt -> the schema, in whichever of the four formats they are written."""

import re

from tasks.backbone.offline.drafts import NAME, ColumnDraft, SchemaDraft, kind_of, names_in, plain_name
from tasks.backbone.offline.schema import PromptSchema, Reference
from tasks.backbone.offline.values_text import read_values_format
from tasks.records import ColumnName

_TICKED = r"(`(?:[^`]|``)+`)"
_TABLE_LINE = re.compile(rf"^#\s*{_TICKED}\s*\((.*)\)\s*$")
_SAMPLE_TABLE = re.compile(rf"^#\s*{_TICKED}\s*$")
_SAMPLE_COLUMN = re.compile(rf"^#\s*{_TICKED}\s*:\s?(.*)$")
_KEY_LINE = re.compile(rf"^#\s*{_TICKED}\.(\(.*?\)|{_TICKED})\s*->\s*{_TICKED}\.(\(.*?\)|{_TICKED})\s*$")
_DESCRIPTION = re.compile(rf"^#\s*{_TICKED}\.{_TICKED}\s*:\s*(.+)$")
_CREATE = re.compile(rf"^\s*create\s+table\s+(?:if\s+not\s+exists\s+)?({NAME})\s*\(\s*$", re.IGNORECASE)
_DDL_COLUMN = re.compile(rf"^\s*({NAME})([^-]*?)(?:,?\s*(?:--\s*(.*))?)?$")
_CONSTRAINT = re.compile(r"^\s*(?:primary\s+key|foreign\s+key|unique|check|constraint)\b", re.IGNORECASE)
_REFERENCES = re.compile(
    rf"foreign\s+key\s*\((.*?)\)\s*references\s+({NAME})\s*\((.*?)\)\s*,?\s*$", re.IGNORECASE
)
_EXAMPLES = re.compile(r"(?:^|\| )Examples: (.*)$")
_M_TABLE = re.compile(rf"^#\s*Table:\s*({NAME})")
_M_COLUMN = re.compile(rf"^\(({NAME})(?::((?:[^,()]|\([^)]*\))*?))?((?:, .*)?)\),?$")
_M_EXAMPLES = re.compile(r"(?:^|, )Examples: \[(.*)\]$")
_M_KEY = re.compile(rf"({NAME})\.({NAME})=({NAME})\.({NAME})")


def read_schema(
    schema: str, samples: str = "", foreign_keys: str = "", descriptions: str = ""
) -> PromptSchema:
    """Read the four database sections of a prompt; lines that are in no known format are passed over.

    Args:
        schema: tables and columns in one of the formats of `tasks.database.rendering`.
        samples: the section "Sample rows" (`comment`).
        foreign_keys: the section "Foreign keys" (`comment`).
        descriptions: the section "Column descriptions" (`comment`).
    """
    draft = SchemaDraft()
    for line in schema.splitlines():
        if match := _TABLE_LINE.match(line):
            draft.tables.setdefault(
                plain_name(match[1]), {name: ColumnDraft() for name in names_in(match[2])}
            )
    if not draft.tables:
        _read_create_table(schema, draft)
    if not draft.tables:
        _read_m_schema(schema, draft)
    if not draft.tables:
        read_values_format(schema, foreign_keys, draft)
    _read_samples(samples, draft)
    for line in descriptions.splitlines():
        if match := _DESCRIPTION.match(line):
            column = draft.tables.get(plain_name(match[1]), {}).get(plain_name(match[2]))
            if column is not None:
                column.description = match[3].strip()
    for line in foreign_keys.splitlines():
        if match := _KEY_LINE.match(line):
            children, parents = names_in(match[2].strip("()")), names_in(match[5].strip("()"))
            _add_keys(draft, plain_name(match[1]), children, plain_name(match[4]), parents)
    return draft.finished()


def _add_keys(draft: SchemaDraft, table: str, columns: list[str], parent: str, parents: list[str]) -> None:
    draft.references.extend(
        Reference(ColumnName(table, child), ColumnName(parent, other))
        for child, other in zip(columns, parents, strict=False)
    )


def _read_samples(text: str, draft: SchemaDraft) -> None:
    """Read the section "Sample rows"."""
    columns: dict[str, ColumnDraft] = {}
    for line in text.splitlines():
        if match := _SAMPLE_TABLE.match(line):
            columns = draft.tables.get(plain_name(match[1]), {})
        elif (match := _SAMPLE_COLUMN.match(line)) and (column := columns.get(plain_name(match[1]))):
            column.add_samples(match[2])


def _read_create_table(text: str, draft: SchemaDraft) -> None:
    """Read CREATE TABLE statements with one column or constraint per line."""
    table = ""
    for line in text.splitlines():
        if match := _CREATE.match(line):
            table = plain_name(match[1])
            draft.tables.setdefault(table, {})
        elif line.strip() in (");", ")"):
            table = ""
        elif table and (match := _REFERENCES.search(line)):
            _add_keys(draft, table, names_in(match[1]), plain_name(match[2]), names_in(match[3]))
        elif table and not _CONSTRAINT.match(line) and (match := _DDL_COLUMN.match(line)):
            column = draft.tables[table].setdefault(plain_name(match[1]), ColumnDraft(kind_of(match[2])))
            remark = match[3] or ""
            if examples := _EXAMPLES.search(remark):
                column.add_samples(examples[1])
                remark = remark[: examples.start()]
            column.description = remark.strip()


def _read_m_schema(text: str, draft: SchemaDraft) -> None:
    """Read M-Schema: a "# Table:" line, then one parenthesis per column."""
    columns: dict[str, ColumnDraft] | None = None
    for line in text.splitlines():
        if match := _M_TABLE.match(line):
            columns = draft.tables.setdefault(plain_name(match[1]), {})
        elif columns is not None and (match := _M_COLUMN.match(line)):
            column = columns.setdefault(plain_name(match[1]), ColumnDraft(kind_of(match[2] or "")))
            rest = match[3].removeprefix(", ").removeprefix("Primary Key").removeprefix(", ")
            if examples := _M_EXAMPLES.search(rest):
                column.add_samples(examples[1])
                rest = rest[: examples.start()]
            column.description = rest.strip()
        elif line.startswith("【Foreign keys】"):
            columns = None
        elif columns is None:
            for key in _M_KEY.finditer(line):
                left, child, right, parent = (plain_name(name) for name in key.groups())
                _add_keys(draft, left, [child], right, [parent])
