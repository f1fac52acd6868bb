"""Masking takes away what ties a question to its database, and nothing else."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.demonstrations import fold, mask, schema_words
from tests.support.pairs import read_pairs

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
