"""What SEA-SQL reports of its two refinements, beside execution accuracy (SEA-SQL, sections 3 and 4)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from tasks.records import Correction, Elimination
from tasks.scoring.report import QuestionScore, Ratio, is_right

T = TypeVar("T")

EXECUTES = ("ok", "empty")
_ELIMINATION, _ADJUSTMENT = TypeAdapter(Elimination), TypeAdapter(Correction)


@dataclass(frozen=True, slots=True)
class EliminationStatistics:
    """What bias elimination did.

    Attributes:
        asked: questions that the eliminator was asked about.
        changed: of those, the ones for which it wrote another SQL.
        kept: of those, the ones for which it gave no usable answer.
        fixed: questions wrong before it and right after it.
        broken: questions right before it and wrong after it.
    """

    asked: int
    changed: int
    kept: int
    fixed: int
    broken: int


@dataclass(frozen=True, slots=True)
class RoundCount:
    """How many questions took so many rounds of adjustment."""

    rounds: int
    questions: int


@dataclass(frozen=True, slots=True)
class AdjustmentStatistics:
    """What execution adjustment did. A question that failed before it counts as one whose SQL does not execute.

    Attributes:
        failing_before: questions whose SQL failed to execute before it, of all.
        failing_after: questions whose SQL fails to execute after it, of all.
        rounds: questions by the rounds they took, fewest first; those that took none are not listed.
        fixed: questions wrong before it and right after it.
        broken: questions right before it and wrong after it.
    """

    failing_before: Ratio
    failing_after: Ratio
    rounds: tuple[RoundCount, ...]
    fixed: int
    broken: int

    @property
    def adjusted(self) -> int:
        """Questions that took at least one round."""
        return sum(one.questions for one in self.rounds)


@dataclass(frozen=True, slots=True)
class SeaStatistics:
    """SEA-SQL's own figures.

    Attributes:
        questions: the scored questions: the denominator of every share.
        elimination: None where no question met an eliminator.
        adjustment: None where it was switched off.
    """

    questions: int
    elimination: EliminationStatistics | None
    adjustment: AdjustmentStatistics | None


def sea_statistics(scores: Sequence[QuestionScore], rule: str) -> SeaStatistics | None:
    """Work out SEA-SQL's figures; None where no question met one of its refinements.

    Args:
        scores: one per question; those without a database are left out.
        rule: the headline rule, which says what is right.
    """
    scored = [score for score in scores if score.executable]
    elimination, adjustment = _elimination(scored, rule), _adjustment(scored, rule)
    if elimination is None and adjustment is None:
        return None
    return SeaStatistics(len(scored), elimination, adjustment)


def _elimination(scored: Sequence[QuestionScore], rule: str) -> EliminationStatistics | None:
    found = [value for score in scored if (value := _value(score, "bias_elimination", _ELIMINATION))]
    if not found:
        return None
    outcomes = Counter(one.outcome for one in found)
    fixed, broken = _flips(scored, "bias_elimination", rule)
    return EliminationStatistics(len(found), outcomes["changed"], outcomes["kept"], fixed, broken)


def _adjustment(scored: Sequence[QuestionScore], rule: str) -> AdjustmentStatistics | None:
    found = [_value(score, "execution_adjustment", _ADJUSTMENT) for score in scored]
    if not any(found):
        return None
    failing_before = sum(one is None or one.before not in EXECUTES for one in found)
    failing_after = sum(one is None or one.after not in EXECUTES for one in found)
    rounds = Counter(one.rounds for one in found if one and one.rounds)
    fixed, broken = _flips(scored, "execution_adjustment", rule)
    return AdjustmentStatistics(
        Ratio(failing_before, len(scored)),
        Ratio(failing_after, len(scored)),
        tuple(RoundCount(number, questions) for number, questions in sorted(rounds.items())),
        fixed,
        broken,
    )


def _value(score: QuestionScore, stage: str, adapter: TypeAdapter[T]) -> T | None:
    """Return what a stage returned on a question; None where it did not run to its end."""
    for record in score.outcome.stages:
        if record.stage == stage and not record.error and record.value is not None:
            return adapter.validate_python(record.value)
    return None


def _flips(scored: Sequence[QuestionScore], stage: str, rule: str) -> tuple[int, int]:
    """Return how many questions a stage fixed, and how many it broke."""
    fixed = broken = 0
    for score in scored:
        names = list(score.stages)
        place = next((i for i, name in enumerate(names) if name.partition("_")[2] == stage), 0)
        if place:
            before, after = (is_right(score.stages[names[i]], rule) for i in (place - 1, place))
            fixed += after and not before
            broken += before and not after
    return fixed, broken
