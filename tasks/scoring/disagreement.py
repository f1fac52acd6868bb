"""Questions on which the comparison rules disagree: where a score depends on who counts."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.scoring.report import QuestionScore


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One question whose final SQL is right under some rules and wrong under others."""

    question_id: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def disagreements(scores: Iterable[QuestionScore]) -> tuple[Disagreement, ...]:
    """Return the questions on which the rules disagree, in the order given."""
    found = []
    for score in scores:
        correct = score.final.correct
        right = tuple(rule for rule in correct if correct[rule])
        wrong = tuple(rule for rule in correct if not correct[rule])
        if right and wrong:
            found.append(Disagreement(score.question.id, right, wrong))
    return tuple(found)
