"""Two runs on parts of the questions and after each stage."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from tasks.core.trajectory import is_turn
from tasks.scoring.build_report import DIFFICULTIES
from tasks.scoring.candidates import is_candidate
from tasks.scoring.report import UNGRADED, QuestionScore, is_right
from tasks.scoring.score import Accuracy
from tasks.scoring.significance import holm_of_known, mcnemar
from tasks.tracking.comparison.run_comparison import Contrast, Pair


def by_database(pairs: Sequence[Pair]) -> tuple[Contrast, ...]:
    """Compare the runs on each database."""
    groups = _grouped(pairs, lambda pair: pair.a.question.database_id)
    return _adjusted([_contrast(name, groups[name]) for name in sorted(groups)])


def by_difficulty(pairs: Sequence[Pair], *, hardness: bool) -> tuple[Contrast, ...]:
    """Compare the runs on each grade of the questions, easiest first; () where no question has one.

    `hardness`: questions without a grade have Spider's hardness of their gold.
    """
    groups = _grouped(pairs, lambda pair: _grade(pair.a, hardness=hardness))
    if set(groups) == {UNGRADED}:
        return ()
    known = [grade for grade in DIFFICULTIES if grade in groups]
    others = sorted(grade for grade in groups if grade not in known and grade != UNGRADED)
    last = [UNGRADED] if UNGRADED in groups else []
    return _adjusted([_contrast(grade, groups[grade]) for grade in (*known, *others, *last)])


def by_stage(pairs: Sequence[Pair], rule: str) -> tuple[Contrast, ...]:
    """Compare the runs after each stage of A, then after those that only B has.

    A question that did not get as far as a stage is wrong there.
    """
    in_a = dict.fromkeys(stage for pair in pairs for stage in pair.a.stages)
    in_b = dict.fromkeys(stage for pair in pairs for stage in pair.b.stages)
    contrasts = []
    only_b = [stage for stage in in_b if stage not in in_a]
    for stage in (*sorted(in_a, key=_stage_order), *sorted(only_b, key=_stage_order)):
        if is_candidate(stage) or is_turn(stage):
            continue
        rights_a = [is_right(pair.a.stages.get(stage), rule) for pair in pairs]
        rights_b = [is_right(pair.b.stages.get(stage), rule) for pair in pairs]
        if stage in in_a and stage in in_b:
            contrasts.append(_contrast(stage, list(zip(rights_a, rights_b, strict=True))))
        elif stage in in_a:
            contrasts.append(Contrast(stage, Accuracy(sum(rights_a), len(pairs)), None))
        else:
            contrasts.append(Contrast(stage, None, Accuracy(sum(rights_b), len(pairs))))
    return _adjusted(contrasts)


def _contrast(name: str, rights: Sequence[tuple[bool, bool]]) -> Contrast:
    fixed = sum(right_b and not right_a for right_a, right_b in rights)
    broken = sum(right_a and not right_b for right_a, right_b in rights)
    total = len(rights)
    return Contrast(
        name,
        Accuracy(sum(right_a for right_a, _ in rights), total),
        Accuracy(sum(right_b for _, right_b in rights), total),
        fixed,
        broken,
        mcnemar(fixed, broken),
    )


def _adjusted(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    adjusted = holm_of_known([contrast.p_value for contrast in contrasts])
    return tuple(
        replace(contrast, adjusted_p=p_value) for contrast, p_value in zip(contrasts, adjusted, strict=True)
    )


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[tuple[bool, bool]]]:
    groups: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for pair in pairs:
        groups[key(pair)].append((pair.right_a, pair.right_b))
    return groups


def _grade(row: QuestionScore, *, hardness: bool) -> str:
    """Return the benchmark's grade; where there is none and `hardness` is set, the hardness of the gold.

    Hardness is worked out without the schema, which the warehouse does not have: it gives every query of Spider's
    dev split the grade that it has with its schema.
    """
    if row.question.difficulty is None and hardness:
        from tasks.database.dialects import SQLITE
        from tasks.database.schema import Schema
        from tasks.sql.hardness import hardness as hardness_of

        return hardness_of(row.gold_sql, Schema(row.question.database_id, (), dialect=SQLITE)) or UNGRADED
    return row.question.difficulty or UNGRADED


def _stage_order(stage: str) -> tuple[int, str]:
    number, _, _ = stage.partition("_")
    return (int(number) if number.isdigit() else 1_000, stage)
