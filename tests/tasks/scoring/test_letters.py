"""Compact letters: two systems share one if, and only if, they do not differ, for every set of differences."""

import random
from itertools import combinations

import pytest

from tasks.scoring.letters import compact_letters


@pytest.mark.parametrize("seed", range(60))
def test_letters_say_exactly_which_pairs_differ(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"system {number}" for number in range(dice.randint(1, 8))]
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    different = {pair for pair in pairs if dice.random() < dice.choice((0.2, 0.5, 0.8))}
    letters = compact_letters(names, different)
    for pair in pairs:
        one, other = pair
        assert bool(set(letters[one]) & set(letters[other])) == (pair not in different)
    assert letters[names[0]].startswith("a") and all(letters.values())
    # No letter can be left out: each is the only one that some pair of equals shares, or that a system has.
    for letter in {each for found in letters.values() for each in found}:
        there = [name for name in names if letter in letters[name]]
        assert any(set(letters[a]) & set(letters[b]) == {letter} for a in there for b in there)
