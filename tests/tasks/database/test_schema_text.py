"""A schema as text, of which `schema_text/` has pairs of a database (SQL) and how it is shown; and its views."""

import re
from dataclasses import astuple, replace
from pathlib import Path
from typing import get_args

import pytest

from tasks.backbone.offline.prompt import read_schema
from tasks.core.records import ColumnName, ColumnValues, Link
from tasks.database.database import open_database
from tasks.database.schema import Column, ColumnDescription, ForeignKey, Schema, Table, united
from tasks.database.schema_text import PromptParts, SchemaView, literal
from tasks.settings.pipeline import PromptSettings, SchemaFormat
from tasks.stages.stage import identity
from tests.support.stage_bench import render
from tests.tasks.database.conftest import Build

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


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_database_is_shown_as_its_text_pair_says_and_can_be_rebuilt_from_its_create_table_format(
    path: Path, build_database: Build, tmp_path: Path
) -> None:
    sql, descriptions, expected = read_pair(path)
    file = build_database(tmp_path / "pair.sqlite", sql).path
    original = open_database(file, path.stem, descriptions=descriptions).schema
    found = {}
    for style in STYLES:
        parts = render(original, style, sample_rows=3, descriptions=True)
        found |= {f"{style} {name}": text for name, text in vars(parts).items() if text and name != "sampled"}
    assert found == expected
    rebuilt = build_database(tmp_path / "copy.sqlite", found["create_table schema"]).schema
    assert rebuilt.column_names == original.column_names
    assert rebuilt.foreign_keys == original.foreign_keys
    assert [each.primary_key for each in rebuilt.tables] == [each.primary_key for each in original.tables]


ZOO = Schema(
    "zoo",
    (
        Table(
            "cage",
            (
                Column("id", "INTEGER", samples=(1, 2)),
                Column("si`ze", "REAL", "In metres.", samples=(2.5, None)),
            ),
            ("id",),
        ),
        Table(
            "animal",
            (
                Column("name", "TEXT", "Its name.", samples=("O'Leo", "a" * 100, "line\nbreak")),
                Column("cage id", "INTEGER", samples=(b"\x00",)),
                Column("born"),
            ),
            ("name",),
        ),
    ),
    (
        ForeignKey("animal", ("cage id",), "cage", ("id",)),
        ForeignKey("animal", ("name", "born"), "cage", ("id", "si`ze")),
    ),
    dialect="sqlite",
)
VIEW = SchemaView(ZOO, PromptSettings(sample_rows=1, values_per_column=2), descriptions=True)


def table(*columns: Column, dialect: str = "sqlite") -> Schema:
    """A database with one table."""
    return Schema("x", (Table("t", columns),), dialect=dialect)


def test_the_format_values_has_examples_behind_columns_and_keys_as_equations() -> None:
    parts = render(ZOO, "values", sample_rows=3, descriptions=True)
    assert parts.schema.split("\n") == [
        "`cage`(`id`: 1 | 2, `si``ze`: 2.5)",
        "`animal`(`name`: 'O''Leo' | 'line break', `cage id`, `born`)",
    ]
    assert parts.foreign_keys.split("\n") == [
        "`animal`.`cage id` = `cage`.`id`",
        "`animal`.`name` = `cage`.`id` AND `animal`.`born` = `cage`.`si``ze`",
    ]
    assert parts.descriptions == "# `cage`.`si``ze`: In metres.\n# `animal`.`name`: Its name."


@pytest.mark.parametrize("style", get_args(SchemaFormat))
def test_what_is_switched_off_does_not_show(style: SchemaFormat) -> None:
    parts = render(ZOO, style, sample_rows=0, foreign_keys=False, descriptions=False)
    assert parts == PromptParts(parts.schema)
    for hidden in ("2.5", "Its name", "->", " = ", "REFERENCES", "Foreign keys", "Examples"):
        assert hidden not in parts.schema


def test_a_view_shows_what_its_settings_say_in_its_schemas_dialect() -> None:
    parts = VIEW.render()
    assert parts.schema == "# `cage`(`id`, `si``ze`)\n# `animal`(`name`, `cage id`, `born`)"
    assert parts.samples == "# cage(id: 1, `si``ze`: 2.5)\n# animal(name: 'O''Leo', `cage id`: <1 bytes>)"
    assert parts.descriptions == "# `cage`.`si``ze`: In metres.\n# `animal`.`name`: Its name."
    assert parts.foreign_keys.split("\n") == [
        "# `animal`.`cage id` -> `cage`.`id`",
        "# `animal`.(`name`, `born`) -> `cage`.(`id`, `si``ze`)",
    ]
    assert replace(VIEW, descriptions=False).render() == replace(parts, descriptions="")
    other = SchemaView(replace(ZOO, dialect="postgres"))
    assert (VIEW.dialect, VIEW.dialect_name) == ("sqlite", "SQLite")
    assert (other.dialect, other.dialect_name) == ("postgres", "PostgreSQL")
    assert other.render().schema.startswith('# "cage"("id", "si`ze")')


def test_a_view_reduced_to_a_link_or_to_tables_keeps_how_it_is_shown() -> None:
    link = Link(columns=(ColumnName("cage", "id"), ColumnName("animal", "name")))
    assert VIEW.reduced_to(link) == replace(VIEW, schema=ZOO.reduced_to(link))
    assert VIEW.reduced_to(Link()) == VIEW
    assert [each.name for each in VIEW.limited_to(["ANIMAL"]).schema.tables] == ["animal"]
    assert VIEW.limited_to(["band"]) == VIEW


def test_a_link_hides_other_columns_and_the_keys_of_hidden_ones() -> None:
    link = Link(("cage", "animal"), (ColumnName("cage", "si`ze"), ColumnName("animal", "born")))
    parts = render(ZOO.reduced_to(link), "comment", sample_rows=3, descriptions=True)
    schema, samples = "# `cage`(`si``ze`)\n# `animal`(`born`)", "# cage(`si``ze`: 2.5 | NULL)"
    assert parts == PromptParts(schema, samples, "", "# `cage`.`si``ze`: In metres.", sampled=True)
    text = render(ZOO.reduced_to(link), "create_table", sample_rows=0, descriptions=False).schema
    assert text == "CREATE TABLE cage (\n  `si``ze` REAL\n);\nCREATE TABLE animal (\n  born\n);"


@pytest.mark.parametrize("style", get_args(SchemaFormat))
@pytest.mark.parametrize("hidden", ["x", "y"])
def test_a_foreign_key_is_shown_with_all_its_columns_or_not_at_all(style: SchemaFormat, hidden: str) -> None:
    tables = (Table("a", (Column("k"), Column("x"))), Table("b", (Column("i"), Column("y"))))
    key = ForeignKey("a", ("k", "x"), "b", ("i", "y"))
    view = SchemaView(Schema("d", tables, (key,), dialect="sqlite"), PromptSettings(schema_format=style))
    assert hidden in "".join(map(str, astuple(view.render())))
    link = Link(columns=tuple(name for name in view.schema.column_names if name.column != hidden))
    reduced = view.reduced_to(link)
    assert reduced.schema.foreign_keys == () and reduced.render().foreign_keys == ""
    assert not re.search(rf"\b{hidden}\b", reduced.render().schema)


def test_values_take_the_place_of_sample_rows_everywhere() -> None:
    leo = ColumnValues(ColumnName("animal", "name"), ("Zoe", "Leo", "Mia"))
    sizes = ColumnValues(ColumnName("cage", "si`ze"), (7, 2.5))
    valued = VIEW.with_values([leo, sizes])
    assert valued.render().samples == "# cage(`si``ze`: 7 | 2.5)\n# animal(name: 'Zoe' | 'Leo')"
    assert VIEW.prompt.sample_rows == 1, "the view before is unchanged"
    schema = ZOO.with_values([leo, sizes])
    text = render(schema, "values", sample_rows=3, descriptions=False).schema
    assert (
        text == "`cage`(`id`, `si``ze`: 7 | 2.5)\n`animal`(`name`: 'Zoe' | 'Leo' | 'Mia', `cage id`, `born`)"
    )
    assert schema.digest == ZOO.with_values([leo, sizes]).digest != ZOO.digest
    assert (schema.column_names, schema.foreign_keys) == (ZOO.column_names, ZOO.foreign_keys)
    reduced = schema.reduced_to(Link(("animal",), (ColumnName("animal", "name"),)))
    text = render(reduced, "values", sample_rows=3, descriptions=False).schema
    assert text == "`animal`(`name`: 'Zoe' | 'Leo' | 'Mia')"


def test_every_change_of_a_view_changes_its_identity_and_nothing_else_does() -> None:
    views = [
        VIEW,
        replace(VIEW, descriptions=False),
        VIEW.limited_to(["cage"]),
        VIEW.with_values(()),
        replace(VIEW, prompt=PromptSettings(sample_rows=2, values_per_column=2)),
    ]
    assert len({str(identity(view)) for view in views}) == len(views)
    assert identity(VIEW) == identity(replace(VIEW, schema=replace(ZOO)))
    assert identity(VIEW)["schema"] == ZOO.digest


def test_another_dialect_gets_its_own_quotes() -> None:
    schema = Schema("x", (Table("my order", (Column("select", "text"),)),), dialect="postgres")
    text = render(schema, "create_table", sample_rows=0, descriptions=True).schema
    assert text == 'CREATE TABLE "my order" (\n  "select" text\n);'


@pytest.mark.parametrize("style", get_args(SchemaFormat))
def test_a_view_is_marked_in_every_format_and_read_from_it(style: SchemaFormat) -> None:
    columns = (Column("a", "INTEGER"), Column("b b", "TEXT"))
    schema = Schema("x", (Table("t", columns), Table("v", columns, view=True)), dialect="sqlite")
    parts = render(schema, style, sample_rows=3, descriptions=True)
    assert parts.schema.lower().count("view") == 1
    assert tuple(read_schema(parts.schema, dialect="sqlite").samples) == schema.column_names
    named_view = Schema("x", (Table("view", columns),), dialect="sqlite")
    parts = render(named_view, style, sample_rows=3, descriptions=True)
    assert read_schema(parts.schema, dialect="sqlite").tables == ("view",)


def test_no_character_of_a_value_ends_its_line() -> None:
    for code in range(0x3000):
        assert len(literal(f"a{chr(code)}b").splitlines()) == 1


IF_NULL = "The height in cm. If it is NULL or 0, it is missing."


@pytest.mark.parametrize(("description", "values", "shown"), [
    ("The gender.", "M or F", "The gender. Values: M or F"),
    ("The gender: M is male, F is female.", "commonsense evidence: M: male, F: female", None),
    (IF_NULL, "if the height is NULL or 0, it is missing", None),
    ("Whether it is a school.", "1 = yes, 0 = no", "Whether it is a school. Values: 1 = yes, 0 = no"),
    ("The range.", "The range is 0 to 1.", "The range. Values: The range is 0 to 1."),
])  # fmt: skip
def test_a_description_of_the_values_is_shown_only_where_it_says_more(
    description: str, values: str, shown: str | None
) -> None:
    schema = table(Column("a", "TEXT", description, values))
    text = render(schema, "comment", sample_rows=0, descriptions=True).descriptions
    assert text == f"# `t`.`a`: {shown or description}"


def test_values_are_cut_where_the_settings_say_and_missing_shares_are_never_rounded_away() -> None:
    shares = {"a": None, "b": 0.0, "c": 0.001, "d": 0.999, "e": 1.0, "f": 0.5}
    columns = (Column(name, "TEXT", samples=("x" * 60,), missing=share) for name, share in shares.items())
    text = render(table(*columns), "m_schema", sample_rows=1, descriptions=False, longest_value=50).schema
    assert re.findall(r"Missing: (\d+ %)", text) == ["1 %", "99 %", "100 %", "50 %"]
    assert f"'{'x' * 50}...'" in text and "x" * 51 not in text


def test_an_example_is_shown_whole_or_not_at_all() -> None:
    """One that is cut off matches nothing in the database."""
    schema = table(Column("a", "TEXT", samples=("x" * 150, "y" * 201)))
    parts = render(schema, "values", sample_rows=2, descriptions=False, longest_value=200)
    assert parts.schema == f"`t`(`a`: '{'x' * 150}')"


def test_lists_are_cut_and_quoted_parts_of_types_keep_their_case() -> None:
    columns = (
        Column("state", "enum('Open', 'on hold')", samples=("Open",)),
        Column("vector", "FLOAT[768]", samples=((0.25,) * 768, ("a", None))),
    )
    view = SchemaView(
        Schema("d", (Table("t", columns),), dialect="duckdb"),
        PromptSettings(schema_format="m_schema", sample_rows=2),
    )
    lines = view.render().schema.splitlines()
    assert "(state:ENUM('Open', 'on hold'), Examples: ['Open'])," in lines
    cut = ("[" + "0.25, " * 17)[:100] + "..."
    assert f"(vector:FLOAT[768], Examples: [{cut}, ['a', NULL]])" in lines


def test_a_key_points_to_the_table_and_the_column_that_it_spells() -> None:
    columns = (Column("id"), Column("Id"))
    tables = [
        Table("Customer", columns, ("Id",)),
        Table("customer", columns, ("id",)),
        Table("bill", columns),
    ]
    keys = [
        ForeignKey("bill", ("id",), "Customer", ("id",)),
        ForeignKey("bill", ("Id",), "customer", ("Id",)),
    ]
    assert united(tables, keys) == tuple(keys)
