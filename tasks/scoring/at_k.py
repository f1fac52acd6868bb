"""What k of n candidates of a question come to: pass@k and majority@k, each over all choices of k.

Both are exact expectations over the subsets of k candidates, every subset as likely as any other, so that n candidates
estimate any smaller number without bias and without drawing.
"""

from collections.abc import Sequence
from functools import cache
from math import comb

from tasks.scoring.candidates import VOTING, Ballot

Polynomial = tuple[int, ...]
"""Number of subsets by their size: the coefficient of x^s counts those of s candidates."""


def pass_at_k(right: Sequence[bool], k: int) -> float:
    """Return the probability that at least one of k candidates is right (Chen et al., arXiv 2107.03374, equation 1).

    That is 1 - C(n - c, k) / C(n, k) with c of n candidates right.

    >>> pass_at_k([True, False, False, False], 1), pass_at_k([True, False, False, False], 2)
    (0.25, 0.5)
    """
    n, wrong = len(right), sum(not one for one in right)
    return 1.0 - comb(wrong, k) / comb(n, k)


def majority_at_k(ballot: Ballot, right: Sequence[bool], k: int) -> float:
    """Return the probability that the vote among k candidates chooses a right one.

    Of the C(n, k) subsets those in which the vote (`Ballot.winner`) chooses a candidate are counted, for each
    candidate, without going through them.

    >>> ballot = Ballot(("ok",) * 3, (0, 1, 1))
    >>> majority_at_k(ballot, [True, False, False], 1), majority_at_k(ballot, [True, False, False], 3)
    (0.3333333333333333, 0.0)
    """
    chosen = chosen_at_k(ballot, k)
    return sum(count for count, good in zip(chosen, right, strict=True) if good) / comb(len(right), k)


def chosen_at_k(ballot: Ballot, k: int) -> tuple[int, ...]:
    """Return, for each candidate, in how many subsets of k candidates the vote chooses it."""
    return tuple(_at(subsets, k) for subsets in _chosen(ballot.classes, ballot.leaders))


@cache
def _chosen(classes: tuple[int, ...], leaders: tuple[int, ...]) -> tuple[Polynomial, ...]:
    """Return, for each candidate, the number of subsets in which the vote chooses it, by their size."""
    places = range(len(leaders))
    groups: dict[int, list[int]] = {}
    for place in places:
        if classes[place] == VOTING:
            groups.setdefault(leaders[place], []).append(place)
    found = []
    for place in places:
        below = sum(classes[other] < classes[place] for other in places)
        if classes[place] == VOTING:
            found.append(_times(_elected(place, tuple(groups.values())), _any_of(below)))
        else:  # chosen only where nothing better is there, and nothing like it comes before
            later = sum(classes[other] == classes[place] for other in places if other > place)
            found.append(_times((0, 1), _any_of(below + later)))
    return tuple(found)


def _elected(place: int, groups: Sequence[Sequence[int]]) -> Polynomial:
    """Return the number of subsets of voting candidates in which one is chosen, by their size.

    It is the first chosen of its group, which has m votes; each other group has fewer, or as many that all come later.
    """
    own = next(group for group in groups if place in group)
    later = sum(other > place for other in own)
    total: Polynomial = ()
    for votes in range(1, later + 2):
        subsets: Polynomial = (*(0,) * votes, comb(later, votes - 1))
        for group in groups:
            if group is not own:
                behind = sum(other > place for other in group)
                fewer = tuple(comb(len(group), size) for size in range(votes))
                subsets = _times(subsets, (*fewer, comb(behind, votes)))
        total = _plus(total, subsets)
    return total


def _any_of(count: int) -> Polynomial:
    """Return the number of subsets of so many candidates, by their size."""
    return tuple(comb(count, size) for size in range(count + 1))


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    product = [0] * (len(one) + len(other) - 1)
    for size, count in enumerate(one):
        for more, others in enumerate(other):
            product[size + more] += count * others
    return tuple(product)


def _plus(one: Polynomial, other: Polynomial) -> Polynomial:
    return tuple(_at(one, size) + _at(other, size) for size in range(max(len(one), len(other))))


def _at(subsets: Polynomial, size: int) -> int:
    return subsets[size] if size < len(subsets) else 0
