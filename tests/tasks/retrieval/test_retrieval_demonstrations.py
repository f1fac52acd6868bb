"""Demonstrations are the nearest training questions, by words or by embedding."""

import itertools
import logging
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from tasks.core.errors import ConfigurationError
from tasks.core.records import Demonstration, Question
from tasks.retrieval.demonstrations import nearest_by_meaning, nearest_demonstrations
from tasks.retrieval.encoder_files import Encoder
from tasks.settings.pipeline import DemonstrationSettings

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
    def test_gives_the_k_most_similar_with_the_most_similar_first(self):
        assert by_words(ask("the average age of pigs"), k=2)[0] == (POOL[4], POOL[2])

    def test_breaks_ties_by_the_order_of_the_pool(self):
        assert by_words(ask("all farms"), k=2)[0] == (POOL[1], POOL[3])

    def test_gives_the_whole_pool_when_k_is_larger(self):
        assert len(by_words(ask("cows"), k=9)[0]) == 5

    def test_gives_nothing_for_k_0_and_needs_no_encoder_for_it(self):
        settings = DemonstrationSettings(k=0, retriever="embedding", encoder="nobody/nothing")
        assert nearest_demonstrations(POOL, [ask("cows")], settings) == ((),)

    def test_gives_nothing_from_an_empty_pool(self):
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

    def test_keeps_one_file_for_the_pool_and_leaves_no_other(self, encoder, tmp_path):
        by_meaning(encoder, cache=tmp_path)
        (file,) = tmp_path.iterdir()
        assert file.suffix == ".npy"
        assert np.load(file).shape == (4, 32)  # TEXTS has one text twice

    def test_another_pool_or_encoder_gets_a_file_of_its_own(self, encoder, make_encoder, tmp_path):
        by_meaning(encoder, cache=tmp_path)
        by_meaning(make_encoder(1), cache=tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        Encoder(str(encoder), tmp_path).embed(["another text", "and one more"])
        assert len(list(tmp_path.iterdir())) == 3

    def test_the_same_weights_in_another_folder_are_the_same_encoder(self, encoder, tmp_path):
        copy = shutil.copytree(encoder, tmp_path / "copy")
        for folder in (encoder, copy):
            by_meaning(folder, cache=tmp_path / "cache")
        assert len(list((tmp_path / "cache").iterdir())) == 1

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
