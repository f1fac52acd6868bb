"""From a report to what lies behind its score."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tasks.database.schema import Schema
from tasks.scoring.build_report import UNGRADED, is_right
from tasks.scoring.details import (
    Details,
    ExactMatchScore,
    RecallOrCorrect,
    SelectionScore,
    SoftF1Score,
    WithoutQuarantine,
)
from tasks.scoring.disagreement import disagreements
from tasks.scoring.errors import ERROR_CLASSES, ErrorClass, classify, dac_counts
from tasks.scoring.exact_match import compare_clauses
from tasks.scoring.execution.efficiency import Efficiency
from tasks.scoring.linking import LinkedQuestion, score_links, strict_recall_or_correct
from tasks.scoring.papers.dac import dac_statistics
from tasks.scoring.papers.figures import figures_of
from tasks.scoring.papers.sea_sql import sea_statistics
from tasks.scoring.report import QuestionScore, Ratio, Report
from tasks.sql.clauses import clauses
from tasks.sql.hardness import grade

SELECTION = "selection"
FROM_LINK = "augmented_sql"
"""The stage that writes its SQL from the linked schema alone."""
NOT_ASKED = "missing_database"
"""The failure of a question that nobody asked."""
HARDNESS = ("easy", "medium", "hard", "extra")


def build_details(
    report: Report,
    schemas: Mapping[str, Schema],
    *,
    with_exact_match: bool = False,
    quarantine: Collection[str] = (),
    soft_f1: Mapping[str, float | None] | None = None,
    efficiency: Efficiency | None = None,
    link_rows: Sequence[QuestionScore] | None = None,
) -> Details:
    """Work out what lies behind a score, from the rows of its report.

    Args:
        report: the report, with its rows.
        schemas: full schema by database.
        with_exact_match: also match clause by clause, as Spider does.
        quarantine: ids of questions whose gold is known to be wrong.
        soft_f1: by question id; None: not asked for.
        efficiency: as measured; None: not asked for.
        link_rows: the questions that the report's linking scores are about; None: the scored ones.
    """
    scored = [row for row in report.rows if row.executable]
    causes = _causes(scored, report.rule, schemas)
    counted = Counter(name for names in causes.values() for name in names)
    return Details(
        errors={name: counted[name] for name in ERROR_CLASSES},
        errors_by_question=causes,
        dac=dac_counts(causes.values()),
        disagreements=disagreements(scored),
        unanswered=tuple(
            row.question.id
            for row in report.rows
            if not row.outcome.sql and not (row.outcome.failure and row.outcome.failure.kind == NOT_ASKED)
        ),
        selection=_selection(scored, report),
        strict_recall_or_correct=_recall_or_correct(scored, report, schemas),
        linking_resolved=score_links(
            scored if link_rows is None else link_rows, schemas, gold_elements="resolved"
        ),
        exact_match=_exact_match(scored, schemas) if with_exact_match else None,
        soft_f1=_soft_f1(scored, soft_f1),
        without_quarantine=_without(scored, report, quarantine),
        efficiency=efficiency,
        figures=figures_of(
            dac_statistics(report.rows, report.rule, schemas), sea_statistics(report.rows, report.rule)
        ),
    )


def _causes(
    scored: Sequence[QuestionScore], rule: str, schemas: Mapping[str, Schema]
) -> dict[str, tuple[ErrorClass, ...]]:
    return {
        row.question.id: causes
        for row in scored
        if row.question.database_id in schemas
        and (causes := classify(row, rule, schemas[row.question.database_id]))
    }


def _selection(scored: Sequence[QuestionScore], report: Report) -> SelectionScore | None:
    names = [stage.name for stage in report.stages]
    place = next((place for place, name in enumerate(names) if name.endswith(SELECTION)), 0)
    if place < 2:
        return None
    first, second, chosen = names[place - 2 : place + 1]
    right = [
        tuple(is_right(row.stages.get(name), report.rule) for name in (first, second, chosen))
        for row in scored
    ]
    differing = [won for one, other, won in right if one != other]
    choices = [choice for row in scored if (choice := _choice(row)) is not None]
    return SelectionScore(
        candidates=(first, second),
        oracle=Ratio(sum(one or other for one, other, _ in right), len(scored)),
        chosen_right=Ratio(sum(differing), len(differing)),
        new_queries=Ratio(choices.count("new"), len(choices)) if choices else None,
    )


def _choice(row: QuestionScore) -> Any:
    """Return which candidate selection chose; None where it did not run or does not say."""
    for record in row.outcome.stages:
        if record.stage.endswith(SELECTION) and isinstance(record.value, Mapping):
            return record.value.get("choice")
    return None


def _recall_or_correct(
    scored: Sequence[QuestionScore], report: Report, schemas: Mapping[str, Schema]
) -> RecallOrCorrect | None:
    links = [link.name for link in report.linking]
    if not links:
        return None
    link = "both" if "both" in links else links[-1]
    stage = next((s.name for s in report.stages if s.name.endswith(FROM_LINK)), "")
    rows = [row for row in scored if row.question.database_id in schemas]
    return RecallOrCorrect(
        link,
        stage,
        strict_recall_or_correct(
            [
                LinkedQuestion(row.gold_sql, schemas[row.question.database_id], row.outcome.links.get(link))
                for row in rows
            ],
            [is_right(row.stages.get(stage) if stage else row.final, report.rule) for row in rows],
        ),
    )


def _exact_match(scored: Sequence[QuestionScore], schemas: Mapping[str, Schema]) -> ExactMatchScore:
    """Match clause by clause; a question whose gold cannot be parsed matches nothing, and has no grade."""
    matched: set[str] = set()
    by_hardness: dict[str, list[str]] = defaultdict(list)
    for row in scored:
        schema = schemas.get(row.question.database_id)
        gold = clauses(row.gold_sql, schema) if schema else None
        by_hardness[grade(gold) if gold else UNGRADED].append(row.question.id)
        predicted = clauses(row.outcome.sql, schema) if gold and schema and row.outcome.sql else None
        if gold and predicted and compare_clauses(predicted, gold).matched:
            matched.add(row.question.id)
    return ExactMatchScore(
        Ratio(len(matched), len(scored)),
        {
            name: Ratio(len(matched.intersection(by_hardness[name])), len(by_hardness[name]))
            for name in (*HARDNESS, UNGRADED)
            if name in by_hardness
        },
        frozenset(matched),
    )


def _soft_f1(
    scored: Sequence[QuestionScore], by_question: Mapping[str, float | None] | None
) -> SoftF1Score | None:
    if by_question is None:
        return None
    total = sum(by_question.get(row.question.id) or 0.0 for row in scored)
    return SoftF1Score(Ratio(total, len(scored)), by_question)


def _without(
    scored: Sequence[QuestionScore], report: Report, quarantine: Collection[str]
) -> WithoutQuarantine | None:
    left_out = tuple(row.question.id for row in scored if row.question.id in quarantine)
    if not left_out:
        return None
    kept = [row for row in scored if row.question.id not in quarantine]
    return WithoutQuarantine(
        left_out,
        {rule: Ratio(sum(is_right(row.final, rule) for row in kept), len(kept)) for rule in report.rules},
    )
