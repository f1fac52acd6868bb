"""BM25 finds what shares rare words, the same way every time."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.benchmark import load_benchmark
from tasks.retrieval.demonstrations import best, nearest_by_words, nearest_demonstrations
from tasks.settings.home import CHECKOUT
from tasks.settings.load import load_benchmark_settings
from tasks.settings.pipeline import DemonstrationSettings

POOL = ["How many cows are there?", "How many pigs are there?", "List all farms.", "How many pigs are there?"]


def test_the_text_with_the_rarest_common_words_is_first_and_equal_texts_in_the_order_of_the_pool():
    assert nearest_by_words(POOL, ["all the farms", "pigs"], 3) == [[2, 0, 1], [1, 3, 0]]


@pytest.mark.parametrize("query", ["", "?!", "zebra"])
def test_a_query_without_a_common_word_gets_the_first_of_the_pool(query):
    assert nearest_by_words(POOL, [query], 2) == [[0, 1]]


def test_a_pool_without_words_and_a_pool_smaller_than_k_are_no_trouble():
    assert nearest_by_words(["?", ""], ["cows"], 3) == [[0, 1]]
    assert nearest_by_words([], ["cows"], 3) == [[]]


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


def test_every_question_of_bird_is_served(shared_data, tmp_path):
    conf = CHECKOUT / "conf"
    benchmark = load_benchmark(
        load_benchmark_settings(conf, "bird-dev"), data=shared_data, home=tmp_path, conf=conf
    )
    found = nearest_demonstrations(benchmark.demonstrations, benchmark.questions, DemonstrationSettings(k=3))
    assert len(found) == 1534
    assert {len(examples) for examples in found} == {3}
