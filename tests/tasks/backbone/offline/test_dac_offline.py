"""The offline model on DAC's prompts: what each word means, a query without a database, correction by feedback."""

from collections.abc import Sequence
from typing import Any

import pytest

from tasks.backbone.protocol import Message
from tasks.core.records import Demonstration
from tasks.sql.skeleton import skeleton
from tasks.stages.dac.examples import ShownExample
from tests.tasks.backbone.offline.prompts import PARTS, ask, preliminary, question, rows, sql_for
from tests.tasks.backbone.offline.prompts import messages as rendered

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
    messages = rendered(
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
    messages = rendered(
        "skeleton_parsing", question=question(text), dialect="SQLite", demonstrations=demonstrations
    )
    return str(ask(messages)["sql"])


def corrected(
    text: str, sql: str, kind: str, *, error: str = "", missing: Sequence[str] = (), skeleton: str = ""
) -> str:
    messages = rendered(
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


def test_words_are_aligned_with_columns_and_tables() -> None:
    meanings = {one["token"]: (one["schema"], one["type"]) for one in aligned(KETTLE)}
    assert meanings["names"] == ("baker.Name", "col")
    assert meanings["bakers"] == ("baker", "tbl")
    assert meanings["What"] == meanings["of"] == (None, None)


def test_examples_with_schemas_do_not_change_what_the_model_writes() -> None:
    def initial(examples: Sequence[Any]) -> tuple[Message, ...]:
        return rendered(
            "initial_sql", question=question(KETTLE), dialect="SQLite", examples=examples, parts=PARTS
        )

    assert ask(initial(()))["sql"] == sql_for(KETTLE)
    plain = [Demonstration(one.question, one.sql, "", one.evidence) for one in EXAMPLES]
    assert ask(initial(EXAMPLES))["sql"] == ask(preliminary(KETTLE, demonstrations=plain))["sql"]
    assert rows(ask(initial(EXAMPLES))["sql"]) == [("Ben Spelt",), ("Cleo Oat",)]


def test_a_query_without_a_database_is_the_simplest_one() -> None:
    assert skeleton(invented("Name all trains."), "sqlite") == skeleton("SELECT a FROM t", "sqlite")


def test_an_execution_error_brings_a_query_that_runs() -> None:
    sql = corrected(KETTLE, "SELECT nam FROM baker", "execution", error="Error: no such column: nam")
    assert rows(sql) == [("Ben Spelt",), ("Cleo Oat",)]
    assert rows(corrected(KETTLE, "", "execution", error="There is no query.")) == rows(sql)


def test_missing_entities_change_nothing() -> None:
    before = "SELECT Name FROM baker"
    assert corrected(KETTLE, before, "entities", missing=["the column baker.`Home Town`"]) == before


def test_a_skeleton_changes_nothing() -> None:
    before = "SELECT Name FROM baker"
    assert corrected(KETTLE, before, "skeleton", skeleton="select _ from _ where _ = _") == before


@pytest.mark.parametrize("text", ["", "?", "###", '"', "naïve 🎂 " * 500])
def test_no_question_makes_it_raise(text: str) -> None:
    aligned(text)
    invented(text)
    corrected(text, "SELECT 1", "skeleton", skeleton="")
    corrected(text, "", "entities", missing=["the table x"])
