"""Questions by difficulty: the benchmark's own grade, or Spider's hardness of the gold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tasks.database.schema import Schema
from tasks.scoring.report import UNGRADED, QuestionScore
from tasks.sql.hardness import hardness

DIFFICULTIES = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra", "extra hard")


def by_grade(
    scored: Sequence[QuestionScore], rule: str, schemas: Mapping[str, Schema]
) -> dict[str, list[QuestionScore]]:
    """Group questions by difficulty, easiest first; {} where none has a grade.

    Questions without a grade have Spider's hardness of their gold if the headline rule is "spider".
    """
    groups: dict[str, list[QuestionScore]] = defaultdict(list)
    for score in scored:
        grade = score.question.difficulty
        schema = schemas.get(score.question.database_id)
        if grade is None and rule == "spider" and schema is not None:
            grade = hardness(score.gold_sql, schema)
        groups[grade or UNGRADED].append(score)
    if set(groups) == {UNGRADED}:
        return {}
    known = [grade for grade in DIFFICULTIES if grade in groups]
    others = [grade for grade in groups if grade not in (*DIFFICULTIES, UNGRADED)]
    last = [UNGRADED] if UNGRADED in groups else []
    return {grade: groups[grade] for grade in (*known, *others, *last)}
