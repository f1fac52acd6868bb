"""DAC's stages one by one: lenient replies, repaired alignments, names, values, comparison, correction."""

import json
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.backbone.replies.format import read_reply
from tasks.core.records import AlignedToken, ColumnName, Entities, Feedback, Question
from tasks.database.database import open_database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Column, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import question_tokens
from tasks.settings.stages import Names
from tasks.sql.elements import Elements, used_elements
from tasks.stages.dac import missing_entities, other_skeleton
from tasks.stages.dac_entities import (
    AlignedItem,
    AlignmentReply,
    entities_of,
    entity_linking,
    link_by_name,
    question_values,
    resolve_given,
    with_mentioned_values,
)
from tests.support.pairs import Pair, read_pairs
from tests.support.stage_bench import PLAIN, QUESTION, Bench, build

REPLIES = read_pairs(Path(__file__).parent / "fixtures" / "alignment_reply.txt")


def table(name: str, *columns: str) -> Table:
    return Table(name, tuple(Column(column) for column in columns))


CONCERTS = Schema(
    "concerts",
    (
        table("singer", "singer_id", "first_name", "name", "country"),
        table("concert", "concert_id", "singer_id", "name", "stadiumName", "year"),
        table("song list", "song title", "order", "to"),
    ),
    dialect="sqlite",
)
SINGER = CONCERTS.limited_to(["singer"])


def meanings(tokens: tuple[AlignedToken, ...]) -> list[str]:
    return [f"{one.token}={one.schema}:{one.type}" for one in tokens if one.type]


@pytest.mark.parametrize("pair", REPLIES, ids=[case.title for case in REPLIES])
def test_alignment_lists_are_read_however_they_are_written(pair: Pair) -> None:
    found = read_reply(pair.given, AlignmentReply).value
    shown = "unreadable"
    if found is not None:
        shown = " ".join(
            one.token + (f"={one.entity}" if one.entity else "") + (f":{one.type}" if one.type else "")
            for one in found.alignment
        )
    assert shown == pair.expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["alignment", "token", "schema", "type", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_makes_reading_an_alignment_raise(value: object) -> None:
    read_reply(json.dumps(value), AlignmentReply)


@pytest.mark.parametrize(("question", "items", "expected"), [
    ("Name of singers?", ["Name=singer.name:col", "of", "singers=singer:tbl", "?"], "Name singers"),
    ("Name of singers?", ["singers=singer:tbl"], "singers"),
    ("Name of singers?", ["Show", "name=singer.name:col", "SINGERS=singer:tbl"], "Name singers"),
    ("the first name of all", ["the", "first name=singer.first_name:col", "all"], "first name"),
    ("Show name and name", ["name", "and", "name=concert.name:col"], "name"),
    ("first-name of it", ["first-name=singer.first_name:col"], "first name"),
    ("a b c", ["c=singer.name:col", "b=singer.name:col", "a=singer.name:col"], "c"),
    ("Which ones?", ["?=singer:tbl"], ""),
    ("Which ones?", [], ""),
    ("", ["a=singer:tbl"], ""),
])  # fmt: skip
def test_lists_are_put_at_the_questions_own_tokens(question: str, items: list[str], expected: str) -> None:
    given_items = []
    for item in items:
        token, _, meaning = item.partition("=")
        entity, _, kind = meaning.partition(":")
        given_items.append(AlignedItem.model_validate((token, entity or None, kind or None)))
    found = resolve_given(question, given_items, CONCERTS, CONCERTS)
    assert [one.token for one in found.tokens] == list(question_tokens(question))
    assert " ".join(one.token for one in found.tokens if one.type) == expected


@pytest.mark.parametrize(("entity", "kind", "expected"), [
    ("singer.name", "col", "singer.name:col"),
    ('`Singer`."NAME"', "col", "singer.name:col"),
    ("singer.country", "val", "singer.country:val"),
    ("singer", "tbl", "singer:tbl"),
    ("song list", None, "song list:tbl"),
    ("song list.song title", None, "song list.song title:col"),
    ("country", "col", "singer.country:col"),
    ("singer", "col", "singer:tbl"),
    ("singer.name", "tbl", "singer.name:col"),
    ("concert.year", "col", "concert.year:col"),
    ("name", "col", "singer.name:col"),
    ("singer.salary", "col", None),
    ("band", "tbl", None),
])  # fmt: skip
def test_entities_are_found_as_models_write_them_the_shown_tables_first(
    entity: str, kind: str | None, expected: str | None
) -> None:
    found = resolve_given("x", [AlignedItem.model_validate(("x", entity, kind))], SINGER, CONCERTS)
    assert [text.removeprefix("x=") for text in meanings(found.tokens)] == ([expected] if expected else [])
    assert found.dropped == (() if expected else (entity,))


@pytest.mark.parametrize(
    ("question", "sql", "expected"),
    [
        ("The first names of singers", "singer", ["first names: singer.first_name", "singers: singer"]),
        ("Which countries?", "singer", ["countries: singer.country"]),
        # a shown table wins over the others; of these, a name that several have is nobody's
        ("its name", "singer", ["name: singer.name"]),
        ("its name", "`song list`", []),
        ("its year", "singer", ["year: concert.year"]),
        ("name and name", "singer", ["name: singer.name", "name: singer.name"]),
        ("stadium name", "concert", ["stadium name: concert.stadiumName"]),
        ("stadiumname", "concert", ["stadiumname: concert.stadiumName"]),
        ("song titles of song lists", "singer", ["song titles: song list.song title", "song lists: song list"]),
        ("from here to there", "`song list`", []),
        ("its order", "singer", ["order: song list.order"]),
        ("", "singer", []),
    ],
)  # fmt: skip
def test_unlinked_tokens_are_compared_with_names(question: str, sql: str, expected: list[str]) -> None:
    found = link_by_name(*named(question, f"SELECT 1 FROM {sql}"))
    runs = [list(run) for _, run in groupby(found, key=lambda one: one.schema)]
    assert [
        f"{' '.join(one.token for one in run)}: {run[0].schema}" for run in runs if run[0].type
    ] == expected


def named(question: str, sql: str) -> tuple[tuple[AlignedToken, ...], Schema, Schema, Elements]:
    used = used_elements(sql, CONCERTS)
    tokens = tuple(AlignedToken(token) for token in question_tokens(question))
    return tokens, CONCERTS.limited_to(used.tables), CONCERTS, used


def test_names_do_not_touch_what_the_backbone_linked_and_a_column_of_the_sql_comes_first() -> None:
    tokens = (AlignedToken("name", "concert", "name", "col"), AlignedToken("country"))
    found = link_by_name(tokens, SINGER, CONCERTS, used_elements("SELECT 1 FROM singer", CONCERTS))
    assert meanings(found) == ["name=concert.name:col", "country=singer.country:col"]
    assert entities_of(found, CONCERTS) == Entities(
        ("singer", "concert"), (ColumnName("singer", "country"), ColumnName("concert", "name"))
    )
    found = link_by_name(*named("its name", "SELECT concert.name FROM singer JOIN concert"))
    assert meanings(found) == ["name=concert.name:col"]


@pytest.mark.parametrize(("names", "linked"), [("all", 1), ("unlisted", 0)])
async def test_a_word_that_the_reply_says_means_nothing_is_compared_with_names_only_by_default(
    bench: Bench, names: Names, linked: int
) -> None:
    nothing = [{"token": token, "schema": None, "type": None} for token in question_tokens("museum")]
    bench.says(json.dumps({"alignment": nothing}))
    question = Question("1", "museum", "museum")
    view = SchemaView(bench.schema)
    found = await bench.run(
        entity_linking(question, view, (), "SELECT name FROM museum", names, bench.backbone)
    )
    assert (found.by_name, len(found.entities.tables)) == (linked, linked)


@pytest.mark.parametrize(("joins_count", "missing"), [(False, True), (True, False)])
def test_a_column_that_only_joins_is_used_where_joins_count(joins_count: bool, missing: bool) -> None:
    sql = "SELECT s.name FROM singer s JOIN concert c ON s.singer_id = c.singer_id"
    linked = Entities((), (ColumnName("singer", "singer_id"),))
    assert bool(missing_entities(sql, linked, CONCERTS, joins_count=joins_count)) == missing


@pytest.mark.parametrize(("sql", "tables", "columns"), [
    ("SELECT country FROM singer", "", ""),
    ("SELECT name FROM singer", "", "singer.country"),
    ("SELECT s.name FROM singer s JOIN concert c ON s.singer_id = c.singer_id", "", "singer.country"),
    ("SELECT * FROM concert", "singer", "singer.country"),
    (None, "singer", "singer.country"),
    ("SELECT country, first_name FROM singer", "", ""),
    ("SELECT name FROM singer WHERE WHERE country", "", ""),
])  # fmt: skip
def test_missing_entities_are_those_that_are_linked_and_not_used(
    sql: str | None, tables: str, columns: str
) -> None:
    linked = Entities(("singer",), (ColumnName("singer", "country"),))
    found = missing_entities(sql, linked, CONCERTS)
    missing = found.missing if found else Entities()
    assert " ".join(missing.tables) == tables
    assert " ".join(map(str, missing.columns)) == columns


@pytest.mark.parametrize(
    ("sql", "expected", "never_longer", "fed_back"),
    [
        ("SELECT a FROM t", "select _ from _", True, False),
        ("SELECT a FROM t", "select count ( * ) from _", True, False),
        ("SELECT a FROM t", "select count ( * ) from _", False, True),
        ("SELECT a FROM t WHERE b = 1", "select _ from _", True, True),
        ("SELECT a FROM t ORDER BY b DESC", "select _ from _ order by _ asc", True, True),
        ("SELECT a FROM t", None, False, False),
        (None, "select _ from _", False, False),
        ("SELECT FROM", "select _ from _", False, False),
        ("SELECT COUNT(id) FROM t", "select count ( * ) from _", False, False),
        ("SELECT COUNT(*) FROM t", "select count ( _ ) from _", False, False),
        ("SELECT COUNT(id) FROM t", "select count ( _ ) from _ where _ = _", False, True),
        ("SELECT COUNT(DISTINCT id) FROM t", "select count ( * ) from _", False, True),
        ("SELECT SUM(id) FROM t", "select count ( _ ) from _", False, True),
        (
            "SELECT a FROM t GROUP BY a HAVING COUNT(b) > 1",
            "select _ from _ group by _ having count ( * ) > _",
            True,
            False,
        ),
    ],
)
def test_a_skeleton_is_fed_back_where_it_differs_apart_from_what_is_counted(
    sql: str | None, expected: str | None, never_longer: bool, fed_back: bool
) -> None:
    found = other_skeleton(sql, expected, "sqlite", never_longer=never_longer)
    assert found == (Feedback("skeleton", skeleton=expected or "") if fed_back else None)


async def values_in(
    bench: Bench, text: str, evidence: str = "", most: int = 3
) -> dict[str, tuple[object, ...]]:
    question = Question("1", text, "museum", evidence)
    found = await bench.run(question_values(question, bench.schema, most, bench.runner))
    assert found.left_out == ()
    return {str(one.column): one.values for one in found.columns}


async def test_values_are_found_as_whole_words_without_regard_to_case(bench: Bench) -> None:
    assert await values_in(bench, "Is the GLASS HOUSE in Lyon or in Ghent?") == {
        "museum.name": ("Glass House",),
        "museum.city": ("Lyon", "Ghent"),
    }
    assert await values_in(bench, "Lyonnais glasshouses", "") == {}
    assert await values_in(bench, "", "it refers to city = 'Lyon'") == {"museum.city": ("Lyon",)}
    assert await values_in(bench, "What was it's late?") == {"order.no`te": ("it's late",)}
    assert await values_in(bench, "Ghent or Lyon?", most=1) == {"museum.city": ("Ghent",)}
    assert await values_in(bench, "Lyon", most=0) == {}


async def test_a_table_that_takes_too_long_keeps_its_samples(tmp_path: Path, bench: Bench) -> None:
    script = (
        "CREATE TABLE big (word TEXT); CREATE TABLE small (word TEXT); INSERT INTO small VALUES ('lyon');"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        "INSERT INTO big SELECT 'word ' || i FROM n;"
    )
    build(tmp_path / "big.sqlite", script, {})
    database = open_database(tmp_path / "big.sqlite", "big")
    runner = DatabaseRunner(database, bench.runner.workers, 0.002)
    found = await bench.run(question_values(Question("1", "Lyon", "big"), database.schema, 3, runner))
    assert found.left_out == ("big",)
    shown = with_mentioned_values(database.schema, found, 3)
    assert shown.tables[0].columns[0].samples == ("word 1", "word 2", "word 3")


async def test_linking_notes_what_the_schema_does_not_have(bench: Bench) -> None:
    bench.says(json.dumps({"alignment": [{"token": "Lyon", "schema": "museum.town", "type": "val"}]}))
    found = await bench.run(
        entity_linking(
            QUESTION, SchemaView(bench.schema), (), "SELECT name FROM museum", "all", bench.backbone
        )
    )
    assert found.dropped == ("museum.town",)
    assert "not in the schema: museum.town" in bench.notes
    assert found.by_name == 3
    assert found.entities == Entities(("museum", "order"), (ColumnName("museum", "city"),)), (
        "in the evidence too"
    )


async def test_linking_without_a_sql_or_with_one_that_reads_no_table_shows_everything(bench: Bench) -> None:
    for sql in (None, "SELECT 1", "no SQL at all"):
        bench.says('{"alignment": []}')
        await bench.run(entity_linking(PLAIN, SchemaView(bench.schema), (), sql, "all", bench.backbone))
        prompt = bench.conversations[-1][-1]["content"]
        assert "# `museum`" in prompt
        assert "# `guide`" in prompt
