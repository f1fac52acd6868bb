"""From the scores of single questions to the report of an evaluation, and to groups by difficulty."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tasks.core.outcome import TURN, StageRecord, is_turn
from tasks.database.schema import Schema
from tasks.scoring.candidates import bill_line, is_candidate
from tasks.scoring.cost import reported_cost, total_cost
from tasks.scoring.degradation import find_degradation
from tasks.scoring.linking import score_links
from tasks.scoring.report import (
    NO_GOLD,
    UNGRADED,
    Accuracy,
    QuestionScore,
    Report,
    StageScore,
    flips,
    is_right,
)
from tasks.scoring.variants import scores as scores_of

NO_ANSWER = "no_answer"
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})
DIFFICULTIES = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra", "extra hard")


def build_report(
    scores: Sequence[QuestionScore],
    *,
    rule: str,
    schemas: Mapping[str, Schema],
    benchmark: Mapping[str, Any] = NO_SETTINGS,
) -> Report:
    """Summarise an evaluation.

    Every share is over the scored questions, those whose database is available; a question that failed, or did not get
    as far as a stage, is wrong there. `failures` counts the scored questions without SQL: one whose pipeline reports no
    failure is counted as "no_answer". There is one score per selected question, in benchmark order.
    `benchmark` has its settings, as plain JSON: they say which score variants apply.
    """
    scored = [score for score in scores if score.executable]
    rules = tuple(dict.fromkeys([rule, *(name for score in scored for name in score.final.correct)]))
    unanswered = [score for score in scored if score.outcome.sql is None]
    failures = [score.outcome.failure for score in unanswered]
    without_gold = [score for score in scores if not score.executable and score.status == NO_GOLD]
    missing = Counter(s.question.database_id for s in scores if not s.executable and s.status != NO_GOLD)
    stage_records = [record for score in scores for record in score.outcome.stages]
    grades = by_grade(scored)
    by_database: dict[str, list[QuestionScore]] = defaultdict(list)
    for score in scored:
        by_database[score.question.database_id].append(score)
    by_label: dict[str, list[StageRecord]] = defaultdict(list)
    for record in stage_records:
        by_label[bill_line(record.label)].append(record)
    return Report(
        rule=rule,
        questions=len(scores),
        scored=len(scored),
        answered=sum(score.outcome.sql is not None for score in scores),
        scores=scores_of(scored, rules, benchmark),
        by_difficulty={grade: _share(group, rule) for grade, group in grades.items()},
        by_database={name: _share(by_database[name], rule) for name in sorted(by_database)},
        stages=_stage_scores(scored, rule),
        links=score_links(scored, schemas),
        cost=total_cost(stage_records),
        stage_costs={label: total_cost(records) for label, records in by_label.items()},
        failures=dict(Counter(failure.kind if failure else NO_ANSWER for failure in failures)),
        retryable=sum(failure.retryable for failure in failures if failure),
        missing_databases=dict(sorted(missing.items())),
        without_gold=len(without_gold),
        gold_faults={s.question.id: s.final.gold_status for s in scored if s.final.gold_status != "ok"},
        degradation=find_degradation(score.outcome for score in scores),
        rows=tuple(scores),
    )


def as_reported(report: Report) -> Report:
    """Return the report of answers that were made elsewhere, with what their file says of their cost."""
    records = [record for row in report.rows for record in row.outcome.stages]
    cost = reported_cost(records)
    return replace(report, cost=cost, stage_costs={TURN: cost} if records else {})


def _share(scored: Sequence[QuestionScore], rule: str) -> Accuracy:
    return Accuracy(sum(is_right(score.final, rule) for score in scored), len(scored))


def _stage_scores(scored: Sequence[QuestionScore], rule: str) -> tuple[StageScore, ...]:
    result: list[StageScore] = []
    right_before: list[bool] | None = None
    for name in stage_names(scored):
        right = [is_right(score.stages.get(name), rule) for score in scored]
        fixed, broken = (None, None) if right_before is None else flips(right_before, right)
        result.append(StageScore(sum(right), len(scored), name=name, fixed=fixed, broken=broken))
        right_before = right
    return tuple(result)


def stage_names(scored: Sequence[QuestionScore]) -> list[str]:
    """Return the stages in pipeline order, although no question need have reached all of them.

    Candidates are no stages of each other: of several, the first one's steps are there, and the selection. Turns are
    not there: the metric `turns` has their curve.
    """
    names: list[str] = []
    for score in scored:
        position = 0
        for name in score.stages:
            if is_candidate(name) or is_turn(name):
                continue
            if name not in names:
                names.insert(position, name)
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
