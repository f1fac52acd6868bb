"""A schema with how prompts show it: each change gives another view, and each view another identity."""

import re
from dataclasses import FrozenInstanceError, astuple, replace
from typing import get_args

import pytest

from tasks.core.records import ColumnName, ColumnValues, Link
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import PromptSettings, SchemaFormat
from tasks.stages.stage import identity

SCHEMA = Schema(
    "zoo",
    (
        Table(
            "cage", (Column("id", samples=(1, 2)), Column("size", "REAL", "In metres.", samples=(2.5, 3.5)))
        ),
        Table("animal", (Column("name", samples=("Leo", "Mia")), Column("cage_id"))),
    ),
    (ForeignKey("animal", ("cage_id",), "cage", ("id",)),),
    dialect="sqlite",
)
VIEW = SchemaView(SCHEMA, PromptSettings(sample_rows=1, values_per_column=2), descriptions=True)


def test_a_view_shows_what_its_settings_say() -> None:
    parts = VIEW.render()
    assert parts.schema == "# `cage`(`id`, `size`)\n# `animal`(`name`, `cage_id`)"
    assert "# animal(name: 'Leo'" in parts.samples and "'Mia'" not in parts.samples
    assert parts.descriptions == "# `cage`.`size`: In metres."
    assert parts.foreign_keys == "# `animal`.`cage_id` -> `cage`.`id`"
    assert replace(VIEW, descriptions=False).render() == replace(parts, descriptions="")


def test_a_view_reduced_to_a_link_or_to_tables_keeps_how_it_is_shown() -> None:
    link = Link(columns=(ColumnName("cage", "size"), ColumnName("animal", "name")))
    assert VIEW.reduced_to(link) == replace(VIEW, schema=SCHEMA.reduced_to(link))
    assert VIEW.reduced_to(Link()) == VIEW
    assert [table.name for table in VIEW.limited_to(["ANIMAL"]).schema.tables] == ["animal"]
    assert VIEW.limited_to(["band"]) == VIEW


@pytest.mark.parametrize("schema_format", get_args(SchemaFormat))
@pytest.mark.parametrize("hidden", ["x", "y"])
def test_a_foreign_key_is_shown_with_all_of_its_columns_or_not_at_all(
    schema_format: SchemaFormat, hidden: str
) -> None:
    tables = (Table("a", (Column("k"), Column("x"))), Table("b", (Column("i"), Column("y"))))
    key = ForeignKey("a", ("k", "x"), "b", ("i", "y"))
    view = SchemaView(
        Schema("d", tables, (key,), dialect="sqlite"), PromptSettings(schema_format=schema_format)
    )
    assert hidden in "".join(map(str, astuple(view.render())))
    link = Link(columns=tuple(name for name in view.schema.column_names if name.column != hidden))
    reduced = view.reduced_to(link)
    assert reduced.schema.foreign_keys == () and reduced.render().foreign_keys == ""
    assert not re.search(rf"\b{hidden}\b", reduced.render().schema)


def test_values_replace_sample_rows_as_many_as_the_settings_say() -> None:
    found = ColumnValues(ColumnName("animal", "name"), ("Zoe", "Leo"))
    valued = VIEW.with_values([found])
    assert valued.render().samples == "# animal(name: 'Zoe' | 'Leo')"
    assert VIEW.prompt.sample_rows == 1, "the view before is unchanged"


def test_the_dialect_is_the_schemas() -> None:
    other = SchemaView(replace(SCHEMA, dialect="postgres"))
    assert (VIEW.dialect, VIEW.dialect_name) == ("sqlite", "SQLite")
    assert (other.dialect, other.dialect_name) == ("postgres", "PostgreSQL")
    assert other.render().schema.startswith('# "cage"("id", "size")')


def test_every_change_of_a_view_changes_its_identity_and_nothing_else_does() -> None:
    views = [
        VIEW,
        replace(VIEW, descriptions=False),
        VIEW.limited_to(["cage"]),
        VIEW.with_values(()),
        replace(VIEW, prompt=PromptSettings(sample_rows=2, values_per_column=2)),
    ]
    assert len({str(identity(view)) for view in views}) == len(views)
    assert identity(VIEW) == identity(SchemaView(Schema(**fields(SCHEMA)), VIEW.prompt, descriptions=True))
    assert identity(VIEW)["schema"] == SCHEMA.digest


def fields(schema: Schema) -> dict[str, object]:
    names = ("database_id", "tables", "foreign_keys", "dialect")
    return {name: getattr(schema, name) for name in names}


def test_a_view_is_frozen_and_takes_descriptions_by_name_only() -> None:
    with pytest.raises(FrozenInstanceError):
        VIEW.descriptions = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        SchemaView(SCHEMA, PromptSettings(), True)  # type: ignore[misc]
