"""No demonstration comes from the evaluated split."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.benchmark import load_benchmark, question_fingerprint, sql_fingerprint
from tasks.core.records import Demonstration, Question
from tasks.retrieval.demonstrations import without_leaks
from tasks.settings.home import CHECKOUT
from tasks.settings.load import load_benchmark_settings

CONF = CHECKOUT / "conf"
EVALUATED = (
    Question("0", "How many singers do we have?", "concert"),
    Question("1", "Who is the oldest?", "concert"),
)
GOLD = {sql_fingerprint("SELECT count(*) FROM singer"), sql_fingerprint("SELECT name FROM singer LIMIT 1")}


def example(question="Something else?", sql="SELECT 1", database="farm"):
    return Demonstration(question, sql, database)


def test_what_is_not_in_the_evaluated_split_stays_in_order():
    pool = [example(f"Question {n}?", f"SELECT {n}") for n in range(5)]
    guarded = without_leaks(pool, EVALUATED, GOLD)
    assert guarded.pool == tuple(pool)
    assert guarded.removed == 0
    assert guarded.sentence == "No demonstration comes from the evaluated questions (5 checked)."


def test_a_question_of_the_split_is_removed_whatever_its_database_and_spelling():
    for text in (
        "How many singers do we have?",
        "how many  SINGERS do we have ?",
        "'How many singers do we have'",
    ):
        assert without_leaks([example(text)], EVALUATED, GOLD).by_question == 1


def test_a_gold_sql_is_removed_whatever_its_spelling():
    for sql in (
        "SELECT count(*) FROM singer",
        "select COUNT( * )\n\tfrom `singer` ;",
        'SELECT count(*) FROM "singer";;',
        "SELECT count(*) FROM [singer] ; ;",
    ):
        assert without_leaks([example(sql=sql)], EVALUATED, GOLD).by_sql == 1


def test_removals_are_counted_once_and_said():
    pool = [
        example("Who is the oldest?", "SELECT count(*) FROM singer"),
        example(sql="select name from singer limit 1"),
        *[example(f"Question {n}?", f"SELECT {n}") for n in range(1000)],
    ]
    guarded = without_leaks(pool, EVALUATED, GOLD)
    assert (guarded.by_question, guarded.by_sql, guarded.removed, len(guarded.pool)) == (1, 1, 2, 1000)
    assert guarded.sentence == (
        "2 of 1,002 demonstrations come from the evaluated questions and are not used: "
        "1 by their question, 1 by their SQL alone."
    )


questions = st.text(max_size=20)
statements = st.text("SELECT FROM ab'\"`;()=1", max_size=20)
pools = st.lists(st.builds(Demonstration, questions, statements, st.just("db")), max_size=8)


@given(pools, st.lists(questions, max_size=4), st.lists(statements, max_size=4))
def test_nothing_evaluated_survives_and_nothing_else_is_lost(pool, asked, gold):
    evaluated = [Question(str(n), text, "db") for n, text in enumerate(asked)]
    prints = {sql_fingerprint(sql) for sql in gold}
    guarded = without_leaks(pool, evaluated, prints)
    asked_prints = {question_fingerprint(text) for text in asked}
    assert guarded.pool == tuple(
        item
        for item in pool
        if question_fingerprint(item.question) not in asked_prints and sql_fingerprint(item.sql) not in prints
    )
    assert len(guarded.pool) + guarded.removed == len(pool)
    assert not {item.question for item in guarded.pool} & set(asked)
    assert not {item.sql for item in guarded.pool} & set(gold)


@given(pools, st.lists(questions, max_size=3), st.lists(questions, max_size=3))
def test_more_evaluated_questions_never_let_more_through(pool, some, more):
    few = [Question(str(n), text, "db") for n, text in enumerate(some)]
    many = [Question(str(n), text, "db") for n, text in enumerate(some + more)]
    assert set(without_leaks(pool, many, ()).pool) <= set(without_leaks(pool, few, ()).pool)


@given(st.text("SELECT FROMab'\"`;() =1\n", max_size=30))
def test_sql_has_one_fingerprint_in_every_dress(sql):
    dressed = re.sub(" ", "\n\t ", sql.swapcase()).replace("'", '"') + " ;"
    assert sql_fingerprint(dressed) == sql_fingerprint(sql)


def test_a_fingerprint_does_not_give_its_sql_away():
    assert re.fullmatch("[0-9a-f]{64}", sql_fingerprint("SELECT 1"))
    assert sql_fingerprint("SELECT 1") != sql_fingerprint("SELECT 2")


def test_the_published_splits_leak_as_measured(shared_data, tmp_path):
    for name, removed in (("bird-dev", (0, 0)), ("spider-dev", (6, 8))):
        benchmark = load_benchmark(
            load_benchmark_settings(CONF, name), data=shared_data, home=tmp_path, conf=CONF
        )
        guarded = without_leaks(benchmark.demonstrations, benchmark.questions, benchmark.gold_fingerprints)
        assert (guarded.by_question, guarded.by_sql) == removed
