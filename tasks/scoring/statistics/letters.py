"""Compact letter display: systems that share a letter do not differ significantly."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from string import ascii_lowercase

from tasks.scoring.significance import LEVEL, holm, mcnemar

LETTERS = "share a letter do not differ significantly"
"""What letters mean, as a clause without its subject."""


def letters_of(right: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Return the letters of systems by exact McNemar tests of all pairs, adjusted for their number (Holm).

    Args:
        right: by system and question, whether the answer is right.
    """
    won = {
        name: {question for question, is_right in found.items() if is_right} for name, found in right.items()
    }
    pairs = list(combinations(right, 2))
    p_values = []
    for one, other in pairs:
        common = right[one].keys() & right[other].keys()
        fixed, broken = ((won[a] - won[b]) & common for a, b in ((other, one), (one, other)))
        p_values.append(mcnemar(len(fixed), len(broken)))
    different = {
        frozenset(pair) for pair, p_value in zip(pairs, holm(p_values), strict=True) if p_value < LEVEL
    }
    return compact_letters(sorted(right, key=lambda name: -len(won[name])), different)


def compact_letters(names: Sequence[str], different: Collection[frozenset[str]]) -> dict[str, str]:
    """Return letters such that two names share one if, and only if, they are not significantly different.

    The algorithm is insert-and-absorb of Piepho (2004), "An Algorithm for a Letter-Based Representation of All-Pairwise
    Comparisons"; letters that say nothing new are left out. Letters are given in the order of the names, so the first
    name has an "a".

    >>> compact_letters(["x", "y", "z"], {frozenset("xz")})
    {'x': 'a', 'y': 'ab', 'z': 'b'}

    Args:
        names: different names, the best system first.
        different: pairs of them that differ significantly.
    """
    groups: list[frozenset[str]] = [frozenset(names)]
    for pair in sorted(different, key=sorted):
        one, other = sorted(pair)
        split = [
            part for group in groups for part in (_parts(group, one, other) if pair <= group else (group,))
        ]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < larger for larger in distinct)]
    for group in tuple(groups):  # a group is left out if the others cover its pairs
        others = [other for other in groups if other != group]
        if all(any({one, name} <= other for other in others) for one in group for name in group):
            groups = others
    groups.sort(key=lambda group: [name not in group for name in names])
    return {
        name: "".join(letter_of(place) for place, group in enumerate(groups) if name in group)
        for name in names
    }


def _parts(group: frozenset[str], one: str, other: str) -> tuple[frozenset[str], frozenset[str]]:
    return group - {one}, group - {other}


def letter_of(place: int) -> str:
    """Return the letter of a group: a to z, then a1, b1 and so on.

    >>> letter_of(0), letter_of(25), letter_of(26)
    ('a', 'z', 'a1')
    """
    more, letter = divmod(place, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(more) if more else "")
