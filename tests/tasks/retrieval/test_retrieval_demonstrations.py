"""Demonstrations are the nearest training questions, by words or by embedding; none comes from the evaluated split."""

import itertools
import logging
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.benchmark import load_benchmark, question_fingerprint, sql_fingerprint
from tasks.core.errors import ConfigurationError
from tasks.core.records import Demonstration, Question
from tasks.retrieval.demonstrations import (
    best,
    fold,
    mask,
    nearest_by_meaning,
    nearest_by_words,
    nearest_demonstrations,
    schema_words,
)
from tasks.retrieval.encoder_files import Encoder
from tasks.retrieval.leaks import without_leaks
from tasks.settings.home import CHECKOUT
from tasks.settings.load import load_benchmark_settings
from tasks.settings.pipeline import DemonstrationSettings
from tests.support.pairs import read_pairs

TEXTS = (
    "How many cows are there?",
    "List all farms.",
    "What is the name of the oldest animal?",
    "List all farms.",
    "What is the average age of pigs in each farm?",
)
POOL = tuple(Demonstration(text, f"SELECT {n}", "farm") for n, text in enumerate(TEXTS))


def ask(text, database="farm", number="0"):
    return Question(number, text, database)


def by_words(*questions, **settings):
    return nearest_demonstrations(POOL, questions, DemonstrationSettings(retriever="bm25", **settings))


def by_meaning(encoder, *questions, cache=None, **settings):
    settings = DemonstrationSettings(retriever="embedding", encoder=str(encoder), **settings)
    return nearest_demonstrations(POOL, questions or [ask("cows")], settings, cache=cache)


class TestIndex:
    def test_gives_the_k_most_similar_first_and_of_equal_ones_the_first_of_the_pool(self):
        assert by_words(ask("the average age of pigs"), k=2)[0] == (POOL[4], POOL[2])
        assert by_words(ask("all farms"), k=2)[0] == (POOL[1], POOL[3])
        assert len(by_words(ask("cows"), k=9)[0]) == 5

    def test_gives_nothing_for_k_0_which_needs_no_encoder_and_from_an_empty_pool(self):
        settings = DemonstrationSettings(k=0, retriever="embedding", encoder="nobody/nothing")
        assert nearest_demonstrations(POOL, [ask("cows")], settings) == ((),)
        assert nearest_demonstrations((), [ask("cows")], DemonstrationSettings(k=3)) == ((),)

    def test_gives_many_questions_theirs_in_their_order(self):
        questions = [ask("farms", number="a"), ask("cows", number="b"), ask("farms", number="c")]
        assert by_words(*questions, k=1) == ((POOL[1],), (POOL[0],), (POOL[1],))
        assert by_words(k=1) == ()

    def test_does_not_look_at_evidence(self):
        asked = Question("0", "cows", "farm", evidence="average age of pigs in each farm")
        assert by_words(asked, k=1)[0] == (POOL[0],)


class TestMasking:
    POOL = (
        Demonstration("How many horses have the colour 'brown'?", "SELECT 1", "stable"),
        Demonstration("Show the colour of cars made in 1999", "SELECT 2", "cars"),
    )
    NAMES = {"stable": ("horses", "colour"), "cars": ("cars", "colour"), "shop": ("pens", "ink_colour")}  # noqa: RUF012

    def nearest(self, mask, names):
        settings = DemonstrationSettings(k=1, mask=mask)
        asked = ask("How many cars were made with the colour 'red' in 1999?", "cars")
        return nearest_demonstrations(self.POOL, [asked], settings, schema_names=names)[0][0].sql

    def test_compares_what_is_asked_instead_of_what_about(self):
        assert self.nearest(mask=False, names=self.NAMES) == "SELECT 2"
        assert self.nearest(mask=True, names=self.NAMES) == "SELECT 1"

    def test_uses_the_names_of_each_questions_own_database(self):
        settings = DemonstrationSettings(k=1, mask=True)
        pool = (Demonstration("pens", "SELECT 1", "cars"), Demonstration("pens", "SELECT 2", "shop"))
        asked = [ask("horses", "stable"), ask("pens", "stable")]
        horses, pens = nearest_demonstrations(pool, asked, settings, schema_names=self.NAMES)
        assert (horses[0].sql, pens[0].sql) == ("SELECT 2", "SELECT 1")


class TestEmbedding:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_puts_the_same_question_first_and_ranks_as_the_encoder_says(self, encoder, metric):
        from sentence_transformers import SentenceTransformer

        vectors = SentenceTransformer(str(encoder)).encode([*TEXTS, "How many pigs are there?"])
        pool, query = vectors[:-1], vectors[-1]
        cosines = pool @ query / np.linalg.norm(pool, axis=1) / np.linalg.norm(query)
        expected = sorted(range(5), key=lambda n: (-round(float(cosines[n]), 4), n))
        pigs, same = by_meaning(encoder, ask("How many pigs are there?"), ask(TEXTS[4]), k=5, metric=metric)
        assert pigs == tuple(POOL[n] for n in expected)
        assert same[0] == POOL[4]

    def test_breaks_ties_by_the_order_of_the_pool(self, encoder):
        assert by_meaning(encoder, ask(TEXTS[1]), k=2) == ((POOL[1], POOL[3]),)

    def test_gives_the_same_alone_and_among_others(self, encoder):
        questions = [ask(text) for text in (*TEXTS, "How many farms?", "the oldest pigs", "each age")]
        together = by_meaning(encoder, *questions, k=5)
        assert together == tuple(by_meaning(encoder, question, k=5)[0] for question in questions)

    def test_draws_and_logs_nothing_on_the_terminal(self, encoder, capfd, caplog):
        by_meaning(encoder, ask("cows"), ask("pigs"), k=1)
        printed = capfd.readouterr()
        assert (printed.out, printed.err) == ("", "")
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    def test_a_second_run_needs_no_encoder_for_what_it_has_seen(self, encoder, tmp_path, monkeypatch):
        questions = [ask("How many pigs?"), ask("all animals")]
        first = by_meaning(encoder, *questions, cache=tmp_path, k=3)
        monkeypatch.setattr(Encoder, "_model", property(lambda self: pytest.fail("loaded the encoder")))
        assert by_meaning(encoder, *questions, cache=tmp_path, k=3) == first

    def test_keeps_one_file_for_each_pool_and_encoder_wherever_it_lies(self, encoder, make_encoder, tmp_path):
        cache, copy = tmp_path / "cache", shutil.copytree(encoder, tmp_path / "copy")
        for folder in (encoder, copy):
            by_meaning(folder, cache=cache)
        (file,) = cache.iterdir()
        assert file.suffix == ".npy"
        assert np.load(file).shape == (4, 32)  # TEXTS has one text twice
        by_meaning(make_encoder(1), cache=cache)
        assert len(list(cache.iterdir())) == 2
        Encoder(str(encoder), cache).embed(["another text", "and one more"])
        assert len(list(cache.iterdir())) == 3

    def test_a_zero_vector_is_no_trouble(self, encoder):
        for metric in ("euclidean", "cosine"):
            vectors = Encoder(str(encoder)).embed([*dict.fromkeys(TEXTS)])
            vectors[1] = 0  # what a bag of words makes of a text without known words
            made = SimpleNamespace(embed=lambda texts, vectors=vectors: vectors[: len(texts)])
            (found,) = nearest_by_meaning(TEXTS, ["How many cows?"], 5, made, metric)
            assert sorted(found) == [0, 1, 2, 3, 4]

    def test_says_what_takes_long(self, encoder):
        said = []
        texts = ["".join(pair) for pair in itertools.product("abcdefghijklmnopqrst", repeat=2)]
        Encoder(str(encoder), progress=said.append).embed(texts)
        assert said == [f"Loading the encoder {encoder}", f"Encoding 400 questions with {encoder}"]

    def test_a_damaged_encoder_is_an_error_that_names_the_way_out(self, encoder, tmp_path):
        broken = shutil.copytree(encoder, tmp_path / "broken")
        (broken / "model.safetensors").write_bytes(b"not a model")
        with pytest.raises(ConfigurationError, match=r"pipeline\.demonstrations\.retriever=bm25"):
            by_meaning(broken)


@pytest.mark.parametrize("query", ["", "?!", "zebra"])
def test_a_query_without_a_common_word_gets_the_first_of_the_pool(query):
    assert nearest_by_words(TEXTS, [query], 2) == [[0, 1]]
    assert nearest_by_words(["?", ""], ["cows"], 3) == [[0, 1]], "a pool without words"


def test_scores_are_bm25():
    texts = ["a b b", "a c", "c c c d"]
    average, k1, b = 3, 1.5, 0.75

    def score(word, text):
        words = text.split()
        df = sum(word in other.split() for other in texts)
        tf = words.count(word)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        return idf * tf / (tf + k1 * (1 - b + b * len(words) / average))

    for query in ("a c", "b d", "c", "d a"):
        sums = [sum(score(word, text) for word in query.split()) for text in texts]
        expected = sorted(range(3), key=lambda n: (-round(sums[n], 5), n))
        assert nearest_by_words(texts, [query], 3) == [expected]


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 12))
def test_the_best_are_those_of_a_full_stable_sort(scores, k):
    expected = sorted(range(len(scores)), key=lambda n: (-scores[n], n))[:k]
    assert best(np.asarray(scores, np.float32), k) == expected


def test_the_ranking_does_not_depend_on_the_hash_seed():
    code = (
        "from tasks.retrieval.demonstrations import nearest_by_words\n"
        "texts = [f'w{n % 7} w{n % 5} w{n % 3} common' for n in range(200)]\n"
        "print(nearest_by_words(texts, ['w1 w2 w4 common', 'w6 w0'], 20))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(answers) == 1


PAIRS = read_pairs(Path(__file__).parent / "fixtures" / "mask.txt")


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.title for pair in PAIRS])
def test_a_question_is_masked_by_the_names_of_its_schema(pair):
    names, question = pair.given.split("\n")
    assert mask(question, schema_words(names.split() if names != "-" else ())) == pair.expected


@given(st.text("abrs 12,.?'_", max_size=30), st.lists(st.text("abrs_ ", max_size=6), max_size=4))
def test_no_standing_number_and_no_word_of_the_schema_is_left(question, names):
    words = schema_words(names) - {"mask", "unk"}
    masked = mask(question, words)
    assert not re.search(r"(?<![\w.])\d+(?!\w)", masked)
    assert not {fold(word) for word in re.findall(r"(?<!\w)[^\W\d_]+(?!\w)", masked)} & words


@given(st.text("abc XY", max_size=30))
def test_a_question_without_values_and_schema_words_stays_as_it_is(question):
    assert mask(question, schema_words(["race", "driver"])) == question


CONF = CHECKOUT / "conf"
EVALUATED = (
    Question("0", "How many singers do we have?", "concert"),
    Question("1", "Who is the oldest?", "concert"),
)
GOLD = {sql_fingerprint("SELECT count(*) FROM singer"), sql_fingerprint("SELECT name FROM singer LIMIT 1")}


def example(question="Something else?", sql="SELECT 1", database="farm"):
    return Demonstration(question, sql, database)


def test_what_is_evaluated_is_removed_whatever_its_spelling():
    for text in (
        "How many singers do we have?",
        "how many  SINGERS do we have ?",
        "'How many singers do we have'",
    ):
        assert without_leaks([example(text)], EVALUATED, GOLD).by_question == 1
    for sql in (
        "SELECT count(*) FROM singer",
        "select COUNT( * )\n\tfrom `singer` ;",
        'SELECT count(*) FROM "singer";;',
        "SELECT count(*) FROM [singer] ; ;",
    ):
        assert without_leaks([example(sql=sql)], EVALUATED, GOLD).by_sql == 1


def test_removals_are_counted_once_and_said_and_the_rest_stays_in_order():
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
    pool = [example(f"Question {n}?", f"SELECT {n}") for n in range(5)]
    guarded = without_leaks(pool, EVALUATED, GOLD)
    assert guarded.pool == tuple(pool)
    assert guarded.removed == 0
    assert guarded.sentence == "No demonstration comes from the evaluated questions (5 checked)."


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
