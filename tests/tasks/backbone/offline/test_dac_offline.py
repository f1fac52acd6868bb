"""The offline model on DAC's prompts: what each word means, a query without a database, correction by feedback."""

from collections.abc import Sequence
from typing import Any

import pytest

from tasks import prompts
from tasks.backbone.protocol import Message
from tasks.records import Demonstration
from tasks.sql.skeleton import skeleton
from tasks.stages.dac.examples import ShownExample
from tests.tasks.backbone.offline.prompts import PARTS, ask, preliminary, question, rows, sql_for

KETTLE = "What are the names of bakers from Kettle?"
EXAMPLES = (
    ShownExample(
        "What are the names of painters from Ghent?",
        "SELECT name FROM painter\nWHERE town = 'Ghent'",
        "CREATE TABLE painter (\n  name TEXT,\n  town TEXT\n);",
        '{"alignment": [{"token": "names", "schema": "painter.name", "type": "col"}]}',
        "",
    ),
    ShownExample(
        "How many trains are there?", "SELECT COUNT(*) FROM train", "", '{"alignment": []}', "a hint"
    ),
)


def aligned(text: str) -> list[dict[str, str | None]]:
    messages = prompts.messages(
        "entity_linking",
        question=question(text),
        dialect="SQLite",
        examples=EXAMPLES,
        parts=PARTS,
        sql="SELECT 1",
    )
    found: list[dict[str, str | None]] = ask(messages)["alignment"]
    return found


def invented(text: str, *demonstrations: Demonstration) -> str:
    messages = prompts.messages(
        "skeleton_parsing", question=question(text), dialect="SQLite", demonstrations=demonstrations
    )
    return str(ask(messages)["sql"])


def corrected(
    text: str, sql: str, kind: str, *, error: str = "", missing: Sequence[str] = (), skeleton: str = ""
) -> str:
    messages = prompts.messages(
        "dac_correction",
        question=question(text),
        dialect="SQLite",
        parts=PARTS,
        alignment=(),
        sql=sql,
        kind=kind,
        error=error,
        missing=missing,
        skeleton=skeleton,
    )
    return str(ask(messages)["sql"])


def test_words_are_aligned_with_columns_tables_and_values() -> None:
    meanings = {one["token"]: (one["schema"], one["type"]) for one in aligned(KETTLE)}
    assert meanings["names"] == ("baker.Name", "col")
    assert meanings["bakers"] == ("baker", "tbl")
    assert meanings["Kettle"] == ("baker.Home Town", "val")
    assert meanings["What"] == meanings["of"] == (None, None)


def test_examples_with_schemas_do_not_change_what_the_model_writes() -> None:
    def initial(examples: Sequence[Any]) -> tuple[Message, ...]:
        return prompts.messages(
            "initial_sql", question=question(KETTLE), dialect="SQLite", examples=examples, parts=PARTS
        )

    assert ask(initial(()))["sql"] == sql_for(KETTLE)
    plain = [Demonstration(one.question, one.sql, "", one.evidence) for one in EXAMPLES]
    assert ask(initial(EXAMPLES))["sql"] == ask(preliminary(KETTLE, demonstrations=plain))["sql"]
    assert rows(ask(initial(EXAMPLES))["sql"]) == [("Ben Spelt",), ("Cleo Oat",)]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("How many trains are there?", "SELECT count(*) FROM t"),
        ("Which train is the longest?", "SELECT a FROM t ORDER BY b DESC LIMIT 1"),
        ("Number of trains for each station", "SELECT a, count(*) FROM t GROUP BY b"),
        ("Name all trains to Ghent.", "SELECT a FROM t WHERE b = 'x'"),
        ("Name all trains.", "SELECT a FROM t"),
    ],
)
def test_a_query_without_a_database_follows_from_cue_words(text: str, sql: str) -> None:
    assert skeleton(invented(text), "sqlite") == skeleton(sql, "sqlite")


def test_a_question_much_like_an_examples_is_built_like_its_query() -> None:
    example = Demonstration(
        "List the names of pilots older than 30.", "SELECT DISTINCT n FROM p WHERE a > 30", ""
    )
    assert invented("List the names of bakers older than 40.", example) == example.sql
    assert invented("Which train is the longest?", example) != example.sql


def test_an_execution_error_brings_a_query_that_runs() -> None:
    sql = corrected(KETTLE, "SELECT nam FROM baker", "execution", error="Error: no such column: nam")
    assert rows(sql) == [("Ben Spelt",), ("Cleo Oat",)]
    assert rows(corrected(KETTLE, "", "execution", error="There is no query.")) == rows(sql)


def test_missing_entities_are_put_in_where_the_model_finds_them_itself() -> None:
    before = "SELECT Name FROM baker"
    sql = corrected(KETTLE, before, "entities", missing=["the column baker.`Home Town`"])
    assert rows(sql) == [("Ben Spelt",), ("Cleo Oat",)]
    unknown = ["the table market", "the column market.District"]
    assert corrected(KETTLE, before, "entities", missing=unknown) == before


def test_what_the_given_query_uses_is_not_given_up() -> None:
    before = "SELECT Name, phone FROM baker"
    assert corrected(KETTLE, before, "entities", missing=["the column baker.`Home Town`"]) == before


def test_another_structure_is_taken_where_the_model_has_it_itself() -> None:
    before = "SELECT Name FROM baker"
    assert rows(corrected(KETTLE, before, "skeleton", skeleton="select _ from _ where _ = _")) == [
        ("Ben Spelt",), ("Cleo Oat",),
    ]  # fmt: skip
    assert (
        corrected(KETTLE, before, "skeleton", skeleton="select count ( * ) from _ group by _ asc") == before
    )


@pytest.mark.parametrize("text", ["", "?", "###", '"', "naïve 🎂 " * 500])
def test_no_question_makes_it_raise(text: str) -> None:
    aligned(text)
    invented(text)
    corrected(text, "SELECT 1", "skeleton", skeleton="")
    corrected(text, "", "entities", missing=["the table x"])
