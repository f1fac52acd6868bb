"""How well a judge tells right answers from wrong ones, beside labels that people gave."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.core.wording import counts, percent
from tasks.scoring.report import Ratio
from tasks.scoring.score import Accuracy


@dataclass(frozen=True, slots=True)
class Labelled:
    """An answer that people labelled, and what a judge says of it."""

    right: bool  # the label
    opinion: bool | None  # whether the judge calls it right; None: it gave no opinion
    kinds: tuple[str, ...] = ()  # kinds of error of a wrong answer


@dataclass(frozen=True, slots=True)
class Detection:
    """Measures of a judge, as NL2SQL-BUGs (arXiv 2503.11984) defines them; positive means right.

    An answer without an opinion stays in the denominators of accuracy and recall, and counts as not found.
    """

    accuracy: Accuracy  # opinions that are the label, of all answers
    positive_precision: Ratio  # right answers, of those called right
    positive_recall: Ratio  # those called right, of the right answers
    negative_precision: Ratio  # wrong answers, of those called wrong
    negative_recall: Ratio  # those called wrong, of the wrong answers
    kinds: Mapping[str, Ratio]  # those called wrong, of the wrong answers with a kind of error, by its name
    without_opinion: int

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)


def detect(answers: Iterable[Labelled]) -> Detection:
    """Measure a judge on labelled answers."""
    known = tuple(answers)
    right = [each for each in known if each.right]
    wrong = [each for each in known if not each.right]
    kinds = sorted({kind for each in wrong for kind in each.kinds})
    agreed = _called(right, as_right=True) + _called(wrong, as_right=False)
    return Detection(
        Accuracy(agreed, len(known)),
        Ratio(_called(right, as_right=True), _called(known, as_right=True)),
        Ratio(_called(right, as_right=True), len(right)),
        Ratio(_called(wrong, as_right=False), _called(known, as_right=False)),
        Ratio(_called(wrong, as_right=False), len(wrong)),
        {kind: _recall([each for each in wrong if kind in each.kinds]) for kind in kinds},
        sum(each.opinion is None for each in known),
    )


def _called(answers: Sequence[Labelled], *, as_right: bool) -> int:
    return sum(each.opinion is as_right for each in answers)


def _recall(wrong: Sequence[Labelled]) -> Ratio:
    return Ratio(_called(wrong, as_right=False), len(wrong))


def accuracy_in_words(accuracy: Ratio | None) -> str:
    """Say how often a judge's opinion was that of people, or that this was not measured.

    It is measured without the gold SQL, which a judge of a run's answers sees.
    """
    if accuracy is None:
        return "its accuracy is not measured (crosscheck judge --measure nl2sql-bugs)"
    return f"its accuracy on NL2SQL-BUGs, without the gold, is {percent(accuracy)} ({counts(accuracy)})"
