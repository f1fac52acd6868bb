"""Compact letter display: systems that share a letter do not differ significantly."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from string import ascii_lowercase

from tasks.core.wording import counted
from tasks.scoring.significance import LEVEL, holm, mcnemar

LETTERS = "share a letter do not differ significantly"
"""What letters mean, as a clause without its subject."""
ALONE = "crosscheck compare tests two runs alone: it may find a difference between two that share a letter."
"""Why a comparison may contradict the letters."""
_LETTER = re.compile(r"[a-z]\d*")


def pairwise_p_values(right: Mapping[str, Mapping[str, bool]]) -> dict[frozenset[str], float]:
    """Return the p-value of each pair of systems: exact McNemar tests, adjusted for the number of pairs (Holm)."""
    questions = {question for answers in right.values() for question in answers}
    # one bit per question: sets of questions of all pairs would take a hundred times as long
    asked = {name: _bits(question in answers for question in questions) for name, answers in right.items()}
    right_bits = {
        name: _bits(answers.get(question, False) for question in questions) for name, answers in right.items()
    }
    pairs = list(combinations(right, 2))
    p_values = []
    for a, b in pairs:
        common = asked[a] & asked[b]
        only_a_right = common & right_bits[a] & ~right_bits[b]
        only_b_right = common & right_bits[b] & ~right_bits[a]
        p_values.append(_mcnemar(only_b_right.bit_count(), only_a_right.bit_count()))
    return {frozenset(pair): p_value for pair, p_value in zip(pairs, holm(p_values), strict=True)}


def _bits(flags: Iterable[bool]) -> int:
    return int("".join("1" if flag else "0" for flag in flags) or "0", 2)


_mcnemar = cache(mcnemar)


def letters_of(names: Sequence[str], p_values: Mapping[frozenset[str], float]) -> dict[str, str]:
    """Return the letters of systems, the best first, by the p-value of each pair; {} of fewer than two systems."""
    if len(names) < 2:
        return {}
    different = {pair for pair, p_value in p_values.items() if p_value < LEVEL and pair <= set(names)}
    return compact_letters(names, different)


def family_in_words(tests: int) -> str:
    """Return what is tested on a page whose rows have letters, as the beginning of a sentence."""
    return (
        f"{counted(tests, 'exact McNemar test')} on the same questions, one of each pair, p adjusted for their number "
        "(Holm)"
    )


def letters_overlap(first: str, second: str) -> bool:
    """Return whether two systems share a letter.

    >>> letters_overlap("bc", "ab"), letters_overlap("a", "a1")
    (True, False)
    """
    return not set(_LETTER.findall(first)).isdisjoint(_LETTER.findall(second))


def compact_letters(names: Sequence[str], different: Collection[frozenset[str]]) -> dict[str, str]:
    """Return letters such that two names share a letter if, and only if, they are no pair of `different`.

    The algorithm is insert-and-absorb of Piepho (2004), "An Algorithm for a Letter-Based Representation of All-Pairwise
    Comparisons"; letters that say nothing new are left out. Letters are given in the order of the names, the best
    system first, so the first name has an "a".

    >>> compact_letters(["x", "y", "z"], {frozenset("xz")})
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups: list[frozenset[str]] = [frozenset(names)]
    for pair in sorted(different, key=sorted):
        split: list[frozenset[str]] = []
        for group in groups:
            without_pair = [group - {name} for name in sorted(pair)]  # the two must not share a letter
            split += without_pair if pair <= group else [group]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < larger for larger in distinct)]
    for group in tuple(groups):  # a group, which becomes a letter, is left out if the others cover its pairs
        others = [other for other in groups if other != group]
        if all(any({a, b} <= other for other in others) for a in group for b in group):
            groups = others
    groups.sort(key=lambda group: [name not in group for name in names])  # those with the first name first
    return {
        name: "".join(letter_of(number) for number, group in enumerate(groups) if name in group)
        for name in names
    }


def letter_of(number: int) -> str:
    """Return the letter of a group: a to z, then a1, b1 and so on.

    >>> letter_of(0), letter_of(25), letter_of(26)
    ('a', 'z', 'a1')
    """
    more, letter = divmod(number, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(more) if more else "")
