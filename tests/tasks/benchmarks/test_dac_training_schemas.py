"""Schemas of training databases, from a script of CREATE TABLE statements or from the tables file."""

import pytest

from tasks.benchmarks.schemas import names_in_schema, schema_from_ddl
from tasks.database.schema import ForeignKey

SCRIPT = """
CREATE TABLE "head office" (id INTEGER PRIMARY KEY, "born state" TEXT default NULL, age INT not null);
CREATE TABLE pair (a INT, b INT, PRIMARY KEY (a, b));
CREATE TABLE IF NOT EXISTS child
(
    pair_a INT, pair_b INT, office INTEGER references "head office",
    boss INT REFERENCES child (pair_a),
    constraint k FOREIGN KEY (pair_a, pair_b) REFERENCES pair (a, b) ON DELETE CASCADE,
    foreign key (office) references nowhere (id)
);
CREATE TRIGGER t AFTER INSERT ON child BEGIN DELETE FROM pair; END;
CREATE INDEX i ON pair (a);
CREATE TABLE PAIR (other INT);
"""


def test_a_script_gives_tables_types_and_keys() -> None:
    schema = schema_from_ddl("d", SCRIPT)
    assert [table.name for table in schema.tables] == ["head office", "pair", "child"]
    office, pair, child = schema.tables
    assert [(column.name, column.type) for column in office.columns] == [
        ("id", "INTEGER"), ("born state", "TEXT"), ("age", "INTEGER"),
    ]  # fmt: skip
    assert office.primary_key == ("id",)
    assert pair.primary_key == ("a", "b")
    assert child.primary_key == ()
    assert schema.foreign_keys == (
        ForeignKey("child", ("office",), "head office", ("id",)),
        ForeignKey("child", ("boss",), "child", ("pair_a",)),
        ForeignKey("child", ("pair_a", "pair_b"), "pair", ("a", "b")),
    )


@pytest.mark.parametrize("script", ["", "not SQL", "CREATE TABLE", "SELECT 1", "CREATE TABLE t AS SELECT 1"])
def test_what_is_no_script_makes_no_table(script: str) -> None:
    assert schema_from_ddl("d", script).tables == ()


def test_the_names_of_a_script_are_those_of_its_tables_and_columns() -> None:
    names = names_in_schema(schema_from_ddl("d", SCRIPT))
    assert names[:5] == ("head office", "pair", "child", "id", "born state")
