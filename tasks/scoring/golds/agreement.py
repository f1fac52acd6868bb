"""Agreement of people who judge the same golds: Cohen's kappa of two, Fleiss' kappa of more."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far reviewers agree on the questions that all of them judged."""

    statistic: Literal["Cohen's kappa", "Fleiss' kappa", ""]  # "" of fewer than two reviewers
    reviewers: tuple[str, ...]
    questions: int  # questions that every reviewer judged
    unanimous: int  # of those, the ones on which all agree
    kappa: float | None  # None where it is not defined: no such question, or only one verdict was given


def agreement(verdicts: Mapping[str, Mapping[str, str]]) -> Agreement:
    """Return the agreement of reviewers, given their verdicts by question and reviewer."""
    names = tuple(dict.fromkeys(name for given in verdicts.values() for name in given))
    common = [[given[name] for name in names] for given in verdicts.values() if len(given) == len(names)]
    if len(names) < 2:
        return Agreement("", names, len(common), len(common), None)
    unanimous = sum(len(set(given)) == 1 for given in common)
    if len(names) == 2:
        kappa = cohen_kappa([given[0] for given in common], [given[1] for given in common])
        return Agreement("Cohen's kappa", names, len(common), unanimous, kappa)
    return Agreement("Fleiss' kappa", names, len(common), unanimous, fleiss_kappa(common))


def cohen_kappa(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Return Cohen's kappa of two raters (Cohen, 1960); None where chance alone agrees always.

    >>> round(cohen_kappa(["x", "x", "y", "y"], ["x", "y", "y", "y"]), 3)
    0.5
    """
    count = len(a)
    if not count:
        return None
    observed = sum(one == other for one, other in zip(a, b, strict=True)) / count
    of_a, of_b = Counter(a), Counter(b)
    chance = sum(of_a[name] * of_b[name] for name in of_a) / count**2
    return None if chance == 1 else (observed - chance) / (1 - chance)


def fleiss_kappa(ratings: Sequence[Sequence[str]]) -> float | None:
    """Return Fleiss' kappa (Fleiss, 1971) of questions that as many raters judged each; None likewise.

    >>> round(fleiss_kappa([["x", "x", "x"], ["x", "y", "y"]]), 3)
    0.25
    """
    if not ratings:
        return None
    raters, count = len(ratings[0]), len(ratings)
    totals = Counter(name for given in ratings for name in given)
    pairs = [sum(number * (number - 1) for number in Counter(given).values()) for given in ratings]
    observed = sum(pairs) / (count * raters * (raters - 1))
    chance = sum((number / (count * raters)) ** 2 for number in totals.values())
    return None if chance == 1 else (observed - chance) / (1 - chance)
