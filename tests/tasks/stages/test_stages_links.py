"""Reading the names that a model gives, and combining links."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.records import ColumnName, Link, Question
from tasks.database.dialects import quoted
from tasks.database.schema import Column, ForeignKey, Schema, Table, united
from tasks.stages.links import (
    hinted_link,
    make_link,
    merge,
    read_link,
    shown_columns,
    shown_tables,
    with_join_keys,
)


def schema_of(**tables: str) -> Schema:
    """A schema from `table="column, column"`; a double underscore in a table's name stands for a dot."""
    return Schema(
        "d",
        tuple(
            Table(name.replace("__", "."), tuple(Column(column.strip()) for column in columns.split(",")))
            for name, columns in tables.items()
        ),
        dialect="sqlite",
    )


SCHEMA = schema_of(
    Schools="CDSCode, School Name, size [cm], no`te, Low.Grade",
    frpm="CDSCode, Percent (%), 'quoted', a\"b",
    my__table="id, x",
    my="table.x, other",
)


@pytest.mark.parametrize(("written", "found"), [
    ("Schools.CDSCode", "Schools.CDSCode"),
    ("schools.cdscode", "Schools.CDSCode"),
    ("`Schools`.`CDSCode`", "Schools.CDSCode"),
    ('"Schools"."CDSCode"', "Schools.CDSCode"),
    ("[Schools].[CDSCode]", "Schools.CDSCode"),
    ("`Schools.CDSCode`", "Schools.CDSCode"),
    ("`Schools`.CDSCode", "Schools.CDSCode"),
    (" Schools . CDSCode ", "Schools.CDSCode"),
    ("Schools.School Name", "Schools.School Name"),
    ("schools.`school name`", "Schools.School Name"),
    ("School Name", "Schools.School Name"),
    ("`School Name`", "Schools.School Name"),
    ("Schools.size [cm]", "Schools.size [cm]"),
    ("Schools.[size [cm]]]", "Schools.size [cm]"),
    ("size [cm]", "Schools.size [cm]"),
    ("Schools.no`te", "Schools.no`te"),
    ("Schools.`no``te`", "Schools.no`te"),
    ("`no``te`", "Schools.no`te"),
    ("Schools.Low.Grade", "Schools.Low.Grade"),
    ("`Schools`.`low.grade`", "Schools.Low.Grade"),
    ("Low.Grade", "Schools.Low.Grade"),
    ("frpm.Percent (%)", "frpm.Percent (%)"),
    ("frpm.'quoted'", "frpm.'quoted'"),
    ('frpm."a""b"', 'frpm.a"b'),
    ("`frpm`.`Percent (%)", "frpm.Percent (%)"),
    ("my.table.id", "my.table.id"),
    ("`my.table`.x", "my.table.x"),
    ("other", "my.other"),
])  # fmt: skip
def test_a_column_is_found_however_it_is_written(written: str, found: str) -> None:
    link = read_link(SCHEMA, (), (written,))
    assert [str(column) for column in link.columns] == [found]
    assert link.dropped == ()


@pytest.mark.parametrize(
    "written",
    ["CDSCode", "schools.nonsense", "nonsense.CDSCode", "Schools", "Schools.*", "COUNT(frpm.CDSCode)", "", ".", "``"],
)  # fmt: skip
def test_an_ambiguous_or_invented_column_is_dropped_as_it_was_written(written: str) -> None:
    assert read_link(SCHEMA, (), (written,)) == Link(dropped=(written,))


def test_names_that_read_two_ways_are_of_the_table_that_comes_first_or_was_named() -> None:
    # `my`.`table.x` and `my.table`.`x`: the shorter table name is tried first, quotes tell them apart.
    assert read_link(SCHEMA, (), ("my.table.x",)).columns == (ColumnName("my", "table.x"),)
    assert read_link(SCHEMA, (), ("`my.table`.`x`",)).columns == (ColumnName("my.table", "x"),)
    link = read_link(SCHEMA, ["FRPM"], ["CDSCode"])
    assert link == Link(("frpm",), (ColumnName("frpm", "CDSCode"),))
    assert read_link(SCHEMA, ["frpm", "schools"], ["CDSCode"]).dropped == ("CDSCode",)


def test_a_link_is_in_schema_order_each_name_once_with_the_tables_of_its_columns() -> None:
    link = read_link(SCHEMA, ["my"], ["frpm.CDSCode", "Schools.CDSCode", "FRPM.cdscode", "x.y", "x.y"])
    assert link.tables == ("Schools", "frpm", "my")
    assert link.columns == (ColumnName("Schools", "CDSCode"), ColumnName("frpm", "CDSCode"))
    assert link.dropped == ("x.y",)
    assert read_link(SCHEMA, ["`frpm`", '"schools"', "my.table", "nope", "frpm"], ()) == Link(
        ("Schools", "frpm", "my.table"), (), ("nope",)
    )


def test_hints_are_substrings_without_regard_to_case_and_word_boundaries() -> None:
    schema = schema_of(t="id, School Name, zip", u="ID, name")
    found = hinted(schema, "They PROVIDE school names")
    assert [str(name) for name in found] == ["t.id", "t.School Name", "u.ID", "u.name"]
    assert hinted(schema, "") == ()
    assert hinted(Schema("d", (Table("t", (Column(""), Column("a"))),), dialect="sqlite"), "b") == ()


def hinted(schema: Schema, evidence: str) -> tuple[ColumnName, ...]:
    return hinted_link(Question("1", "", schema.database_id, evidence), schema, "evidence").columns


def test_the_bidirectional_link_has_the_tables_of_its_columns_only() -> None:
    forward = read_link(SCHEMA, ["my", "frpm"], ["frpm.CDSCode", "invented"])
    backward = make_link(SCHEMA, [ColumnName("Schools", "CDSCode")])
    both = merge(SCHEMA, forward, backward)
    assert both.tables == ("Schools", "frpm")
    assert both.columns == (ColumnName("Schools", "CDSCode"), ColumnName("frpm", "CDSCode"))
    assert both.dropped == ("invented",)


KEYED = Schema(
    "d",
    (
        Table("a", (Column("id"), Column("x"))),
        Table("B", (Column("A1"), Column("A2"), Column("y"))),
        Table("c", (Column("p"), Column("q"), Column("b1"))),
    ),
    (
        ForeignKey("B", ("A1",), "a", ("id",)),
        ForeignKey("c", ("p", "q"), "B", ("A1", "A2")),
    ),
    dialect="sqlite",
)


def test_join_keys_are_added_between_surviving_tables_whole_and_in_the_schemas_spelling() -> None:
    link = make_link(KEYED, [ColumnName("a", "x"), ColumnName("B", "y")])
    assert [str(name) for name in with_join_keys(KEYED, link).columns] == ["a.id", "a.x", "B.A1", "B.y"]
    alone = make_link(KEYED, [ColumnName("a", "x")])
    assert with_join_keys(KEYED, alone) == alone
    assert with_join_keys(KEYED, Link()) == Link()
    link = read_link(KEYED, ["B"], ["a.x"])
    assert with_join_keys(KEYED, link) == link
    keys = united(KEYED.tables, [ForeignKey("C", ("P", "Q"), "b", ("a1", "a2"))])
    other_case = Schema("d", KEYED.tables, keys, dialect="sqlite")
    link = make_link(other_case, [ColumnName("c", "b1"), ColumnName("B", "y")])
    assert [str(name) for name in with_join_keys(other_case, link).columns] == [
        "B.A1", "B.A2", "B.y", "c.p", "c.q", "c.b1",
    ]  # fmt: skip


# Names of every kind that SQLite takes; a space at either end is the one thing a model cannot be held to.
NAMES = st.text(st.sampled_from("abAB01_ .`\"'[](),%é-"), min_size=1, max_size=8).filter(
    lambda n: n == n.strip()
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    def distinct(most: int) -> list[str]:
        return draw(st.lists(NAMES, min_size=1, max_size=most, unique_by=str.lower))

    tables = tuple(Table(name, tuple(Column(column) for column in distinct(4))) for name in distinct(3))
    return Schema("d", tables, dialect="sqlite")


@given(schemas(), st.data())
def test_every_name_is_found_when_it_is_written_as_the_prompts_show_it(
    schema: Schema, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(schema.column_names))
    link = make_link(schema, [name])
    found = read_link(schema, shown_tables(schema, link), shown_columns(schema, link))
    assert name in found.columns
    assert name.table in found.tables
    assert found.dropped == ()


@given(schemas(), st.data())
def test_quotes_around_both_parts_leave_no_doubt(schema: Schema, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(schema.column_names))
    shouted = f"{quoted(name.table.upper(), 'sqlite')}.{quoted(name.column.upper(), 'sqlite')}"
    clear = all("`" not in n.table + n.column and "." not in n.table + n.column for n in schema.column_names)
    found = read_link(schema, (), (shouted,)).columns
    assert len(found) == 1
    if clear:
        assert found == (name,)


@given(schemas(), st.lists(st.text(max_size=12)), st.lists(st.text(max_size=12)))
def test_whatever_a_model_writes_a_link_holds_only_names_of_the_schema(
    schema: Schema, tables: list[str], columns: list[str]
) -> None:
    link = read_link(schema, tables, columns)
    assert set(link.columns) <= set(schema.column_names)
    assert {column.table for column in link.columns} <= set(link.tables) <= {t.name for t in schema.tables}
    assert len(set(link.columns)) == len(link.columns)
    assert set(link.dropped) <= {*tables, *columns}
