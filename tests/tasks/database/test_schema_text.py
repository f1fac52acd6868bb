"""A schema as text: pairs of a database (SQL) and how it is shown, below `schema_text/`."""

import re
import sqlite3
from pathlib import Path
from typing import get_args

import pytest

from tasks.backbone.offline.prompt import read_schema
from tasks.core.records import ColumnName, Link
from tasks.database.database import open_database
from tasks.database.schema import Column, ColumnDescription, ForeignKey, Schema, Table
from tasks.database.schema_text import PromptParts, literal
from tasks.settings.pipeline import SchemaFormat
from tests.support.schema_text import render

PAIRS = sorted((Path(__file__).parent / "schema_text").glob("*.txt"))
STYLES = ("comment", "create_table", "m_schema")


def read_pair(path: Path) -> tuple[str, dict[tuple[str, str], ColumnDescription], dict[str, str]]:
    """Read "SQL and DESCRIBE lines, then `=== style part` and its text" from a file."""
    given, *sections = re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)
    lines = [line for line in given.splitlines() if not line.startswith("#")]
    sql = "\n".join(line for line in lines if not line.startswith("DESCRIBE "))
    descriptions = {}
    for line in lines:
        if match := re.match(r"DESCRIBE (\w+)\.(.+?): (.*)", line):
            text, _, values = match[3].partition(" | ")
            descriptions[match[1], match[2]] = ColumnDescription(text, values)
    expected = {title: body.strip("\n") for title, _, body in (part.partition("\n") for part in sections)}
    return sql, descriptions, expected


def rendered(path: Path, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    sql, descriptions, expected = read_pair(path)
    file = folder / "pair.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(sql)
    connection.close()
    schema = open_database(file, path.stem, descriptions=descriptions).schema
    found = {}
    for style in STYLES:
        parts = render(schema, style, sample_rows=3, foreign_keys=True, descriptions=True)
        found |= {f"{style} {name}": text for name, text in vars(parts).items() if text and name != "sampled"}
    return found, expected


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_database_is_shown_as_its_text_pair_says(path: Path, tmp_path: Path) -> None:
    found, expected = rendered(path, tmp_path)
    assert found == expected


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_the_create_table_format_is_sql_that_rebuilds_the_schema(path: Path, tmp_path: Path) -> None:
    found, _ = rendered(path, tmp_path)
    copy = tmp_path / "copy.sqlite"
    connection = sqlite3.connect(copy)
    connection.executescript(found["create_table schema"])
    connection.close()
    original = open_database(tmp_path / "pair.sqlite", "x", sample_rows=0).schema
    rebuilt = open_database(copy, "x", sample_rows=0).schema
    assert rebuilt.column_names == original.column_names
    assert rebuilt.foreign_keys == original.foreign_keys
    assert [table.primary_key for table in rebuilt.tables] == [table.primary_key for table in original.tables]


SCHEMA = Schema(
    "zoo",
    (
        Table(
            "cage", (Column("id", "INTEGER", samples=(1,)), Column("size", "REAL", samples=(2.5,))), ("id",)
        ),
        Table("animal", (Column("name", "TEXT", "Its name."), Column("cage", "INTEGER")), ("name",)),
    ),
    (ForeignKey("animal", ("cage",), "cage", ("id",)),),
    dialect="sqlite",
)


@pytest.mark.parametrize("style", STYLES)
def test_what_is_switched_off_does_not_show(style: str) -> None:
    parts = render(SCHEMA, style, sample_rows=0, foreign_keys=False, descriptions=False)  # type: ignore[arg-type]
    text = parts.schema
    assert parts == PromptParts(parts.schema)
    for hidden in ("2.5", "Its name", "->", "REFERENCES", "Foreign keys", "Examples"):
        assert hidden not in text


def test_a_link_hides_other_columns_and_the_keys_of_hidden_ones() -> None:
    link = Link(("cage", "animal"), (ColumnName("cage", "size"), ColumnName("animal", "name")))
    parts = render(SCHEMA.reduced_to(link), "comment", sample_rows=3, foreign_keys=True, descriptions=True)
    assert parts == PromptParts(
        "# `cage`(`size`)\n# `animal`(`name`)",
        "# cage(size: 2.5)",
        "",
        "# `animal`.`name`: Its name.",
        sampled=True,
    )


def test_a_primary_key_whose_column_is_not_shown_is_no_constraint() -> None:
    link = Link(("cage",), (ColumnName("cage", "size"),))
    text = render(
        SCHEMA.reduced_to(link), "create_table", sample_rows=0, foreign_keys=True, descriptions=True
    ).schema
    assert text == "CREATE TABLE cage (\n  size REAL\n);"


def test_another_dialect_gets_its_own_quotes() -> None:
    schema = Schema("x", (Table("my order", (Column("select", "text"),)),), dialect="postgres")
    text = render(schema, "create_table", sample_rows=0, foreign_keys=True, descriptions=True).schema
    assert text == 'CREATE TABLE "my order" (\n  "select" text\n);'


@pytest.mark.parametrize("style", get_args(SchemaFormat))
def test_a_view_is_marked_in_every_format_and_read_from_it(style: SchemaFormat) -> None:
    columns = (Column("a", "INTEGER"), Column("b b", "TEXT"))
    schema = Schema("x", (Table("t", columns), Table("v", columns, view=True)), dialect="sqlite")
    parts = render(schema, style, sample_rows=3, foreign_keys=True, descriptions=True)
    assert parts.schema.lower().count("view") == 1
    assert tuple(read_schema(parts.schema, dialect="sqlite").samples) == schema.column_names
    table = Schema("x", (Table("view", columns),), dialect="sqlite")
    parts = render(table, style, sample_rows=3, foreign_keys=True, descriptions=True)
    assert read_schema(parts.schema, dialect="sqlite").tables == ("view",)


def test_no_character_of_a_value_ends_its_line() -> None:
    for code in range(0x3000):
        assert len(literal(f"a{chr(code)}b").splitlines()) == 1


@pytest.mark.parametrize(
    ("description", "values", "shown"),
    [
        ("The gender.", "M or F", "The gender. Values: M or F"),
        ("The gender: M is male, F is female.", "commonsense evidence: M: male, F: female", None),
        (
            "The height in cm. If it is NULL or 0, it is missing.",
            "if the height is NULL or 0, it is missing",
            None,
        ),
        ("Whether it is a school.", "1 = yes, 0 = no", "Whether it is a school. Values: 1 = yes, 0 = no"),
        ("The range.", "The range is 0 to 1.", "The range. Values: The range is 0 to 1."),
    ],
)
def test_a_description_of_the_values_is_shown_only_where_it_says_more(
    description: str, values: str, shown: str | None
) -> None:
    schema = Schema("x", (Table("t", (Column("a", "TEXT", description, values),)),), dialect="sqlite")
    text = render(schema, "comment", sample_rows=0, foreign_keys=True, descriptions=True).descriptions
    assert text == f"# `t`.`a`: {shown or description}"


def test_values_are_cut_where_the_settings_say_and_missing_shares_are_never_rounded_away() -> None:
    columns = tuple(
        Column(name, "TEXT", samples=("x" * 60,), missing=missing)
        for name, missing in (("a", None), ("b", 0.0), ("c", 0.001), ("d", 0.999), ("e", 1.0), ("f", 0.5))
    )
    text = render(
        Schema("x", (Table("t", columns),), dialect="sqlite"),
        "m_schema",
        sample_rows=1,
        foreign_keys=True,
        descriptions=False,
        longest_value=50,
    ).schema
    assert re.findall(r"Missing: (\d+ %)", text) == ["1 %", "99 %", "100 %", "50 %"]
    assert f"'{'x' * 50}...'" in text and "x" * 51 not in text


def test_an_example_is_shown_whole_or_not_at_all() -> None:
    """One that is cut off matches nothing in the database."""
    schema = Schema(
        "x", (Table("t", (Column("a", "TEXT", samples=("x" * 150, "y" * 201)),)),), dialect="sqlite"
    )
    parts = render(schema, "values", sample_rows=2, foreign_keys=True, descriptions=False, longest_value=200)
    assert parts.schema == f"`t`(`a`: '{'x' * 150}')"
