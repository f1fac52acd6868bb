"""Execution accuracy: right answers of a number of questions, with their interval, and what a variant changes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist

from tasks.core.wording import shorten

CONFIDENCE = 0.95
"""Confidence of intervals where nothing else is asked for."""


def wilson(right: float, total: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of one share, as shares; the whole of 0..1 of nothing."""
    if not total:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2)
    share, spread = right / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return middle - half if right else 0.0, middle + half if right < total else 1.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Execution accuracy of some questions."""

    correct: int  # right answers
    total: int  # questions, those without an answer included
    # the share in 0..1; None of no questions. It follows from the counts, like the interval.
    ex: float | None = None
    # low, high: Wilson's interval of the share at 95 %; None of no questions
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Compute the share and its interval."""
        low, high = wilson(self.correct, self.total) if self.total else (None, None)
        ex = self.correct / self.total if self.total else None
        for name, value in (("ex", ex), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval; None of no questions."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Differs:
    """Ids of scored questions on which a variant's verdict is another than the official one, by what it is now."""

    now_right: tuple[str, ...] = ()
    now_wrong: tuple[str, ...] = ()
    # not counted: left out by the variant; with another text than the one that the model saw; without an answer
    withdrawn: tuple[str, ...] = ()
    other_text: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(getattr(self, name)) for name in DIFFERENCES)

    def in_words(self, most: int = 10) -> str:
        """List them, `right now: 3, 4; withdrawn: 7`; "" where there is none."""
        named = ((title, getattr(self, name)) for name, title in DIFFERENCES.items())
        return "; ".join(f"{title}: {shorten(ids, most)}" for title, ids in named if ids)


DIFFERENCES = {
    "now_right": "right now",
    "now_wrong": "wrong now",
    "withdrawn": "withdrawn",
    "other_text": "another text",
    "absent": "not in the key",
}
"""The fields of `Differs` in words."""


@dataclass(frozen=True, slots=True)
class Score(Accuracy):
    """Score of a run under a rule, by the official golds or by a variant (`tasks.scoring.variants`)."""

    rule: str = ""  # comparison rule
    variant: str = ""  # name of the variant; "" for the official score
    title: str = ""  # of the variant, for displays; "" for the official score
    # questions on which the variant's verdict is another than the official one
    differs: Differs = field(default_factory=Differs)
    # what the variant changes of single golds, by question id ("replaced", "withdrawn")
    changes: Mapping[str, str] = field(default_factory=dict)
    # the official score of the questions that the variant counts; None for the official score itself
    official: Accuracy | None = None
