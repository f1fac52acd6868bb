"""The schema format `values`: a line per table, each column followed by its examples; keys as equations."""

import re

from tasks.backbone.offline.drafts import ColumnDraft, SchemaDraft, plain_name
from tasks.backbone.offline.schema import Reference
from tasks.records import ColumnName

_NAME = r"`(?:[^`]|``)+`"
_VALUE = r"(?:'(?:[^']|'')*'|[^\s|,()']+)"
_TABLE = re.compile(rf"^({_NAME})\((.*)\)\s*$")
_COLUMN = re.compile(rf"({_NAME})(?:: ({_VALUE}(?: \| {_VALUE})*))?(?:, |$)")
_KEY = re.compile(rf"({_NAME})\.({_NAME}) = ({_NAME})\.({_NAME})")


def read_values_format(schema: str, foreign_keys: str, draft: SchemaDraft) -> None:
    """Add the tables, columns, examples and keys of the two sections to a draft; other lines are passed over."""
    for line in schema.splitlines():
        if table := _TABLE.match(line):
            columns = draft.tables.setdefault(plain_name(table[1]), {})
            for column in _COLUMN.finditer(table[2]):
                columns.setdefault(plain_name(column[1]), ColumnDraft()).add_samples(column[2] or "")
    for key in _KEY.finditer(foreign_keys):
        child_table, child, parent_table, parent = map(plain_name, key.groups())
        draft.references.append(Reference(ColumnName(child_table, child), ColumnName(parent_table, parent)))
