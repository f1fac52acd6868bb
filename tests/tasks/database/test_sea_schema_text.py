"""The format `values` of SEA-SQL, and values in place of sample rows."""

from tasks.core.records import ColumnName, ColumnValues, Link
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import PromptParts
from tests.support.schema_text import render

SCHEMA = Schema(
    "zoo",
    (
        Table(
            "cage",
            (Column("id", "INTEGER", samples=(1, 2)), Column("si`ze", "REAL", samples=(2.5, None))),
            ("id",),
        ),
        Table(
            "animal",
            (
                Column("name", "TEXT", "Its name.", samples=("O'Leo", "a" * 100, "line\nbreak")),
                Column("cage id", "INTEGER", samples=(b"\x00",)),
                Column("born"),
            ),
        ),
    ),
    (
        ForeignKey("animal", ("cage id",), "cage", ("id",)),
        ForeignKey("animal", ("name", "born"), "cage", ("id", "si`ze")),
    ),
    dialect="sqlite",
)


def shown(schema: Schema = SCHEMA, sample_rows: int = 3, **more: bool) -> PromptParts:
    options = {"foreign_keys": True, "descriptions": False, **more}
    return render(schema, "values", sample_rows=sample_rows, **options)


def test_a_table_is_a_line_with_examples_behind_its_columns() -> None:
    assert shown().schema.split("\n") == [
        "`cage`(`id`: 1 | 2, `si``ze`: 2.5)",
        "`animal`(`name`: 'O''Leo' | 'line break', `cage id`, `born`)",
    ]


def test_keys_are_equations_on_a_line_each() -> None:
    assert shown().foreign_keys.split("\n") == [
        "`animal`.`cage id` = `cage`.`id`",
        "`animal`.`name` = `cage`.`id` AND `animal`.`born` = `cage`.`si``ze`",
    ]


def test_what_is_switched_off_does_not_show() -> None:
    assert shown(sample_rows=0, foreign_keys=False) == PromptParts(
        "`cage`(`id`, `si``ze`)\n`animal`(`name`, `cage id`, `born`)"
    )
    assert shown(descriptions=True).descriptions == "# `animal`.`name`: Its name."


def test_values_take_the_place_of_sample_rows_everywhere() -> None:
    found = [
        ColumnValues(ColumnName("animal", "name"), ("Leo",)),
        ColumnValues(ColumnName("cage", "si`ze"), (7, 2.5)),
    ]
    schema = SCHEMA.with_values(found)
    assert (
        shown(schema).schema == "`cage`(`id`, `si``ze`: 7 | 2.5)\n`animal`(`name`: 'Leo', `cage id`, `born`)"
    )
    assert (
        "animal(name: 'Leo')"
        in render(schema, "comment", sample_rows=3, foreign_keys=False, descriptions=False).samples
    )
    assert schema.digest != SCHEMA.digest
    assert schema.with_values(found).digest == schema.digest
    assert (schema.column_names, schema.foreign_keys) == (SCHEMA.column_names, SCHEMA.foreign_keys)
    reduced = schema.reduced_to(Link(("animal",), (ColumnName("animal", "name"),)))
    assert shown(reduced).schema == "`animal`(`name`: 'Leo')"
