"""From the scores of single questions to the report of an evaluation."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tasks.core.outcome import StageRecord
from tasks.database.schema import Schema
from tasks.scoring.candidates import bill_line, is_candidate
from tasks.scoring.cost import total_cost
from tasks.scoring.degradation import find_degradation
from tasks.scoring.grades import by_grade
from tasks.scoring.linking import score_links
from tasks.scoring.report import NO_GOLD, QuestionScore, Ratio, Report, StageScore, is_right

NO_ANSWER = "no_answer"


def build_report(
    scores: Sequence[QuestionScore],
    *,
    rule: str,
    schemas: Mapping[str, Schema],
) -> Report:
    """Summarise an evaluation.

    Every share is over the scored questions, those whose database is available; a question that failed, or did not get
    as far as a stage, is wrong there. `failures` counts the scored questions without SQL: one whose pipeline reports no
    failure is counted as "no_answer". Questions without a grade are graded by Spider's hardness of
    their gold if the headline rule is "spider". There is one score per selected question, in benchmark order.
    """
    scored = [score for score in scores if score.executable]
    rules = dict.fromkeys([rule, *(name for score in scored for name in score.final.correct)])
    unanswered = [score for score in scored if score.outcome.sql is None]
    failures = [score.outcome.failure for score in unanswered]
    stage_records = [record for score in scores for record in score.outcome.stages]
    by_label: dict[str, list[StageRecord]] = defaultdict(list)
    for record in stage_records:
        by_label[bill_line(record.label)].append(record)
    return Report(
        rule=rule,
        questions=len(scores),
        scored=len(scored),
        answered=sum(score.outcome.sql is not None for score in scores),
        rules={name: _share(scored, name) for name in rules},
        by_difficulty={
            grade: _share(group, rule) for grade, group in by_grade(scored, rule, schemas).items()
        },
        by_database=_by_database(scored, rule),
        stages=_stage_scores(scored, rule),
        linking=score_links(scored, schemas),
        cost=total_cost(stage_records),
        stage_cost={label: total_cost(records) for label, records in by_label.items()},
        failures=dict(Counter(failure.kind if failure else NO_ANSWER for failure in failures)),
        retryable=sum(failure.retryable for failure in failures if failure),
        missing_databases=dict(
            sorted(
                Counter(
                    s.question.database_id for s in scores if not s.executable and not _no_gold(s)
                ).items()
            )
        ),
        without_gold=sum(_no_gold(score) for score in scores),
        gold_faults={s.question.id: s.final.gold_status for s in scored if s.final.gold_status != "ok"},
        degradation=find_degradation(score.outcome for score in scores),
        rows=tuple(scores),
    )


def _no_gold(score: QuestionScore) -> bool:
    return not score.executable and score.final.gold_status == NO_GOLD


def _share(scored: Sequence[QuestionScore], rule: str) -> Ratio:
    return Ratio(sum(is_right(score.final, rule) for score in scored), len(scored))


def _by_database(scored: Sequence[QuestionScore], rule: str) -> dict[str, Ratio]:
    groups: dict[str, list[QuestionScore]] = defaultdict(list)
    for score in scored:
        groups[score.question.database_id].append(score)
    return {name: _share(groups[name], rule) for name in sorted(groups)}


def _stage_scores(scored: Sequence[QuestionScore], rule: str) -> tuple[StageScore, ...]:
    result: list[StageScore] = []
    before: list[bool] | None = None
    for name in stage_names(scored):
        right = [is_right(score.stages.get(name), rule) for score in scored]
        fixed = broken = None
        if before is not None:
            fixed = sum(now and not then for then, now in zip(before, right, strict=True))
            broken = sum(then and not now for then, now in zip(before, right, strict=True))
        result.append(StageScore(name, Ratio(sum(right), len(scored)), fixed, broken))
        before = right
    return tuple(result)


def stage_names(scored: Sequence[QuestionScore]) -> list[str]:
    """Return the stages in pipeline order, although no question need have reached all of them.

    Candidates are no stages of each other: of several, the first one's steps are there, and the selection.
    """
    names: list[str] = []
    for score in scored:
        place = 0
        for name in score.stages:
            if is_candidate(name):
                continue
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names
