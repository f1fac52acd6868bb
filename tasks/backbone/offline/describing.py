"""Sentences about columns, made of what their names and samples say and nothing else."""

from dataclasses import dataclass

from tasks.backbone.offline.reading import Prompt
from tasks.backbone.offline.schema import SchemaColumn
from tasks.backbone.offline.words import split_identifier


@dataclass(frozen=True, slots=True)
class Description:
    """One column's sentence."""

    column: str
    sentence: str


def describe(prompt: Prompt) -> tuple[Description, ...]:
    """Describe the columns that the prompt lists; without a list, all columns of the table it names."""
    table = prompt.schema.table(prompt.described_table)
    columns = {column.name.column: column for column in table.columns} if table else {}
    names = prompt.described_columns or tuple(columns)
    return tuple(
        Description(name, _sentence(name, prompt.described_table, columns.get(name))) for name in names
    )


def _sentence(name: str, table: str, column: SchemaColumn | None) -> str:
    """Return what the name says, what kind of values there are, and some of them."""
    words = " ".join(split_identifier(name)) or name
    about = f" of the {' '.join(split_identifier(table)) or table}" if table else ""
    sentence = f"The {words}{about}"
    if column is None or not column.samples:
        return sentence + "."
    kind = {"number": ", a number", "text": ", a text"}.get(column.kind, "")
    examples = ", ".join(sample[:40] for sample in dict.fromkeys(column.samples[:3]))
    return f"{sentence}{kind} such as {examples}."
