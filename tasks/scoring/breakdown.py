"""The score of an evaluation by stage, by difficulty and by database."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from tasks.core.outcome import is_turn
from tasks.scoring.candidates import is_candidate
from tasks.scoring.scores import UNGRADED, QuestionScore, StageScore, flips, is_right

DIFFICULTIES = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra", "extra hard")


def stage_scores(scored: Sequence[QuestionScore], rule: str) -> tuple[StageScore, ...]:
    """Return the score after each stage; a question that did not get as far as a stage is wrong there."""
    result: list[StageScore] = []
    right_before: list[bool] | None = None
    for name in stage_names(scored):
        right = [is_right(score.stages.get(name), rule) for score in scored]
        fixed, broken = (None, None) if right_before is None else flips(right_before, right)
        result.append(
            StageScore(correct=sum(right), total=len(scored), name=name, fixed=fixed, broken=broken)
        )
        right_before = right
    return tuple(result)


def stage_names(scored: Sequence[QuestionScore]) -> list[str]:
    """Return the names of all stages that any question reached, in pipeline order.

    The SQL of single candidates ("candidate_3") is no stage. Turns of an agent are left out: the metric `turns` has
    their curve.
    """
    names: list[str] = []
    for score in scored:
        position = 0
        for name in score.stages:
            if is_candidate(name) or is_turn(name):
                continue
            if name not in names:
                names.insert(position, name)  # behind the stage before it
            position = names.index(name) + 1
    return names


def by_grade(scored: Sequence[QuestionScore]) -> dict[str, list[QuestionScore]]:
    """Group questions by difficulty, easiest first; {} where none has a grade."""
    groups: dict[str, list[QuestionScore]] = defaultdict(list)
    for score in scored:
        groups[score.question.difficulty or UNGRADED].append(score)
    if set(groups) == {UNGRADED}:
        return {}
    return {grade: groups[grade] for grade in grades_in_order(groups)}


def grades_in_order(grades: Collection[str]) -> list[str]:
    """Return grades of difficulty, easiest first: those of BIRD and Spider, a benchmark's own by name, no grade.

    >>> grades_in_order({UNGRADED, "level 2", "simple", "challenging", "level 1"})
    ['simple', 'challenging', 'level 1', 'level 2', 'ungraded']
    """
    further = sorted(set(grades) - {*DIFFICULTIES, UNGRADED})
    return [grade for grade in (*DIFFICULTIES, *further, UNGRADED) if grade in grades]


def by_database(scored: Sequence[QuestionScore]) -> dict[str, list[QuestionScore]]:
    """Group questions by database, in alphabetical order."""
    groups: dict[str, list[QuestionScore]] = defaultdict(list)
    for score in scored:
        groups[score.question.database_id].append(score)
    return {name: groups[name] for name in sorted(groups)}
