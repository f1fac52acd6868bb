"""Demonstrations of entity linking: training questions aligned with their SQL, grounded in their schema."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.benchmark import load_benchmark
from tasks.core.records import AlignedToken, Demonstration
from tasks.database.schema import Column, Schema, Table
from tasks.retrieval.alignment import (
    QuestionLinks,
    align,
    best_covered,
    ground,
    question_tokens,
)
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings
from tasks.stages.stage import cache_key
from tests.support.pairs import Pair, read_pairs

CASES = read_pairs(Path(__file__).parent / "fixtures" / "dac_alignment.txt")


def table(name: str, *columns: str) -> Table:
    return Table(name, tuple(Column(column) for column in columns))


SCHEMA = Schema(
    "concerts",
    (
        table("singer", "id", "first_name", "name", "country", "age"),
        table("concert", "id", "singer_id", "stadium_name", "year"),
    ),
    dialect="sqlite",
)


def shown(tokens: Iterable[AlignedToken]) -> str:
    runs = [list(run) for _, run in groupby(tokens, key=lambda one: (one.schema, one.type))]
    return " | ".join(
        f"{' '.join(one.token for one in run)}: {run[0].schema} {run[0].type}" for run in runs if run[0].type
    )


@pytest.mark.parametrize("pair", CASES, ids=[case.title for case in CASES])
def test_questions_are_aligned_with_what_their_sql_uses(pair: Pair) -> None:
    question, _, sql = pair.given.partition("\n")
    tokens = align(question, sql, SCHEMA)
    assert tuple(one.token for one in tokens) == question_tokens(question)
    assert shown(tokens) == pair.expected


def test_a_demonstration_is_grounded_in_the_tables_of_its_sql_and_in_its_evidence() -> None:
    known = Demonstration("How old are singers?", "SELECT age FROM singer", "concerts", "hint")
    lost = Demonstration("Who?", "SELECT x FROM y", "lost")
    first, second = ground([known, lost], {"concerts": SCHEMA})
    assert [one.name for one in first.schema.tables] == ["singer"]
    assert first.evidence == "hint"
    assert shown(first.tokens) == "singers: singer tbl"
    assert second.schema is None
    assert second.tokens == ()
    (one,) = ground(
        [Demonstration("How old?", "SELECT age FROM singer", "concerts", "old refers to age")],
        {"concerts": SCHEMA},
    )
    assert shown(one.tokens) == "age: singer.age col" and one.coverage == 1
    assert shown(replace(one, evidence="").tokens) == ""


def test_a_demonstration_is_known_by_what_its_alignment_follows_from_and_not_aligned_for_that() -> None:
    known = Demonstration("How old are singers?", "SELECT age FROM singer", "concerts", "hint")
    (first,) = ground([known], {"concerts": SCHEMA})
    key = cache_key("entity_linking", 1, "", {"demonstrations": (first,)})
    assert not {"schema", "tokens"} & set(vars(first)), "working out a key aligns nothing"
    assert (
        cache_key("entity_linking", 1, "", {"demonstrations": ground([known], {"concerts": SCHEMA})}) == key
    )
    others = [
        replace(first, question="?"),
        replace(first, sql="SELECT 1"),
        replace(first, evidence=""),
        replace(first, database=None),
        replace(first, database=Schema("concerts", SCHEMA.tables[:1], dialect="sqlite")),
    ]
    assert (
        len({cache_key("entity_linking", 1, "", {"demonstrations": (one,)}) for one in [first, *others]}) == 6
    )


def test_demonstrations_that_name_their_columns_come_first_and_the_others_fill_up() -> None:
    half = Demonstration("Show names.", "SELECT name, country FROM singer", "concerts")
    whole = Demonstration("Show ages.", "SELECT age FROM singer", "concerts")
    counted = Demonstration("How many singers?", "SELECT COUNT(*) FROM singer", "concerts")
    lost = Demonstration("Show ages.", "SELECT age FROM singer", "lost")
    every = ground([half, lost, whole, counted], {"concerts": SCHEMA})
    assert [one.coverage for one in every] == [0.5, 0.0, 1.0, 1.0]
    assert best_covered(every, 3) == (every[2], every[3], every[0])
    assert best_covered(every, 1) == (every[2],)
    assert best_covered(every, 9) == (every[2], every[3], every[0], every[1])
    assert best_covered(every, 0) == ()


def test_no_known_table_leaves_the_whole_schema() -> None:
    assert SCHEMA.limited_to(["CONCERT"]).column_names == SCHEMA.column_names[5:]
    assert SCHEMA.limited_to(["band"]) == SCHEMA
    assert SCHEMA.limited_to([]) == SCHEMA


@pytest.mark.parametrize(("question", "name", "found"), [
    ("the first name", "first_name", "first name"),
    ("the First-Names", "first_name", None),
    ("all airlines", "Airline", "airlines"),
    ("the airport name", "airportname", "airport name"),
    ("the airportname", "airport_name", "airportname"),
    ("blue refers to skin_colour_id = colour.id", "skin_colour_id", "skin_colour_id"),
    ("skin_colour_id", "colour_id", None),
    ("gender . id", "gender_id", None),
    ("singer's age", "singer", "singer's"),
    ("countries", "country", "countries"),
    ("the race id", "raceId", "race id"),
    ("the http server", "HTTPServer", "http server"),
    ("free meal count k-12", "Free Meal Count (K-12)", None),
    ("the größe", "größe", "größe"),
    ("the ?", "___", None),
    ("from a to b", "to", None),
    ("from a to b", "from", None),
    ("in 2013", "2013", "2013"),
    ("", "name", None),
    ("name", "", None),
    ("renamed", "name", None),
    ("in it", "ins", None),
])  # fmt: skip
def test_a_name_is_found_by_the_stems_of_its_words(question: str, name: str, found: str | None) -> None:
    links = QuestionLinks(map(AlignedToken, question_tokens(question)))
    stands = links.link_names(name, AlignedToken("", "t", name, "col"), once=True)
    assert (" ".join(token.token for token in links.linked if token.type) if stands else None) == found


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_aligning_raise(question: str, sql: str) -> None:
    for text in (sql, f"SELECT name FROM singer WHERE name = {sql}"):
        assert tuple(one.token for one in align(question, text, SCHEMA)) == question_tokens(question)


@pytest.mark.parametrize(("name", "databases"), [("bird-dev", 69), ("spider-dev", 140)])
def test_real_training_questions_find_their_schemas_and_meanings(
    shared_data: Path, tmp_path: Path, name: str, databases: int
) -> None:
    settings = load_benchmark_settings(find_conf(), name)
    benchmark = load_benchmark(settings, data=shared_data, home=tmp_path, conf=find_conf())
    pool = benchmark.demonstrations
    schemas = benchmark.training_schemas(one.database_id for one in pool)
    assert len(schemas) == databases
    grounded = ground(pool[::40], schemas)
    assert all(one.schema is not None for one in grounded)
    aligned = sum(any(token.type for token in one.tokens) for one in grounded)
    assert aligned / len(grounded) > 0.97
