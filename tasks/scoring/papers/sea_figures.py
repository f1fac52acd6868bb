"""Figures that SEA-SQL reports of its two refinements, beside execution accuracy (SEA-SQL, sections 3 and 4)."""

from collections import Counter
from collections.abc import Sequence

from pydantic import TypeAdapter

from tasks.core.records import Correction, Elimination
from tasks.scoring.papers.stage_values import stage_values
from tasks.scoring.report import QuestionScore, Ratio, Value, is_right

EXECUTES = ("ok", "empty")
ELIMINATION, ADJUSTMENT = "bias_elimination", "execution_adjustment"
_ELIMINATION, _CORRECTION = TypeAdapter(Elimination), TypeAdapter(Correction)


def sea_figures(scores: Sequence[QuestionScore], rule: str) -> dict[str, Value]:
    """Compute SEA-SQL's figures by name; none of a refinement that no question met.

    - `sea/bias_elimination/`: questions that the eliminator was `asked` about; of those, `changed` and `kept` (it gave
      no usable answer); of all, `fixed` and `broken`.
    - `sea/execution_adjustment/`: questions whose SQL failed to execute, `failing_before` and `failing_after`, of all;
      questions `adjusted` in at least one round, `fixed`, `broken`, and by `rounds_N`.

    A question that failed before the adjustment counts as one whose SQL does not execute. Questions without a database
    are left out.
    """
    scored = [score for score in scores if score.executable]
    return {
        f"sea/{stage}/{name}": value
        for stage, figures in ((ELIMINATION, _elimination), (ADJUSTMENT, _adjustment))
        for name, value in figures(scored, rule).items()
    }


def _elimination(scored: Sequence[QuestionScore], rule: str) -> dict[str, Value]:
    found = [value for score in scored for value in stage_values(score, ELIMINATION, _ELIMINATION)[:1]]
    if not found:
        return {}
    outcomes = Counter(one.outcome for one in found)
    counts = {"asked": len(found), "changed": outcomes["changed"], "kept": outcomes["kept"]}
    return counts | _flips(scored, ELIMINATION, rule)


def _adjustment(scored: Sequence[QuestionScore], rule: str) -> dict[str, Value]:
    found = [next(iter(stage_values(score, ADJUSTMENT, _CORRECTION)), None) for score in scored]
    if not any(found):
        return {}
    failing_before = sum(one is None or one.before not in EXECUTES for one in found)
    failing_after = sum(one is None or one.after not in EXECUTES for one in found)
    rounds = Counter(one.rounds for one in found if one and one.rounds)
    return {
        "failing_before": Ratio(failing_before, len(scored)),
        "failing_after": Ratio(failing_after, len(scored)),
        "adjusted": rounds.total(),
        **_flips(scored, ADJUSTMENT, rule),
        **{f"rounds_{number}": questions for number, questions in sorted(rounds.items())},
    }


def _flips(scored: Sequence[QuestionScore], stage: str, rule: str) -> dict[str, Value]:
    """Count the questions that a stage fixed, and those that it broke."""
    fixed = broken = 0
    for score in scored:
        names = list(score.stages)
        place = next((i for i, name in enumerate(names) if name.partition("_")[2] == stage), 0)
        if place:
            before, after = (is_right(score.stages[names[i]], rule) for i in (place - 1, place))
            fixed += after and not before
            broken += before and not after
    return {"fixed": fixed, "broken": broken}
