"""What the gold SQL uses: schema linking is scored against it (RSL-SQL, section 4), and an oracle is made of it.

An oracle has right answers to sub-tasks: DAC's entities and skeleton (section 5), RSL-SQL's schema link. Scoring is the
only reader of gold, so they are made here; a flow hands them to the pipeline in `Context.oracle`, for an analysis that
is tagged "oracle" and never ranked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from tasks.core.records import Link, Oracle, ParsedSkeleton
from tasks.database.schema import Schema
from tasks.scoring.scores import LinkingScore, QuestionScore, Ratio, is_right
from tasks.sql.elements import GoldElements, elements, resolved_elements, used_elements
from tasks.sql.skeleton import read_skeleton

if TYPE_CHECKING:
    from tasks.settings.pipeline import PipelineSettings


def make_oracle(gold_sql: str, schema: Schema, settings: "PipelineSettings") -> Oracle | None:
    """Return the right answers to sub-tasks that the settings give to the pipeline; None where they give none."""
    from tasks.settings.pipeline import dac_of, has_oracle

    if not has_oracle(settings):
        return None
    dac = dac_of(settings)
    linking = getattr(settings, "linking", None)
    return Oracle(
        entities=used_elements(gold_sql, schema) if dac and dac.oracle_entities else None,
        skeleton=gold_skeleton(gold_sql, schema.dialect) if dac and dac.oracle_skeleton else None,
        link=gold_link(gold_sql, schema) if linking and linking.directions == "gold" else None,
    )


def gold_link(gold_sql: str, schema: Schema) -> Link:
    """Return the tables and columns that the gold reads, joins included; of a table without a named column, all."""
    used = resolved_elements(gold_sql, schema)
    whole = set(used.tables) - {column.table for column in used.columns}
    columns = (name for name in schema.column_names if name.table in whole or name in used.columns)
    return Link(used.tables, tuple(columns))


def gold_skeleton(gold_sql: str, dialect: str) -> ParsedSkeleton:
    """Return the gold's skeleton, or why it has none."""
    reading = read_skeleton(gold_sql, dialect)
    return ParsedSkeleton(reading.text, note=reading.reason)


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """One question for the linking metrics; `link` is None where the question failed before linking."""

    gold_sql: str
    schema: Schema
    link: Link | None


def score_links(
    scores: Iterable[QuestionScore], schemas: Mapping[str, Schema], *, gold_elements: GoldElements = "cross"
) -> tuple[LinkingScore, ...]:
    """Score every link that any of the questions has, in order of first appearance.

    Questions whose database has no schema here, or that have no gold SQL, are left out.
    """
    scored = _with_gold(scores, schemas)
    return tuple(
        score_link(name, _with_link(scored, schemas, name), gold_elements=gold_elements)
        for name in link_names(scored, schemas)
    )


def link_names(scores: Iterable[QuestionScore], schemas: Mapping[str, Schema]) -> tuple[str, ...]:
    """Return the names of the links that `score_links` scores."""
    names = (name for score in _with_gold(scores, schemas) for name in score.outcome.links)
    return tuple(dict.fromkeys(names))


def score_link(
    name: str, questions: Sequence[LinkedQuestion], *, gold_elements: GoldElements = "cross"
) -> LinkingScore:
    """Score one link over questions.

    In `nsr` and `strict_recall`, a question without the link counts as having linked nothing. The averages and
    `reduction` are over the questions with the link. An empty link reduces nothing, because the full schema is then
    shown.
    """
    gold_total = linked_total = right_total = complete = 0
    links: list[Link] = []
    left_out = []  # per link, the share of the schema's columns that it leaves out
    for question in questions:
        gold = set(elements(question.gold_sql, question.schema, gold_elements).columns)
        gold_total += len(gold)
        if question.link is None:
            continue
        links.append(question.link)
        linked = set(question.link.columns)
        linked_total += len(linked)
        right_total += len(gold & linked)
        complete += gold <= linked
        if columns := len(question.schema.column_names):
            left_out.append(1 - len(question.link.columns) / columns if linked else 0.0)
    return LinkingScore(
        name=name,
        nsr=Ratio(right_total, gold_total),
        strict_recall=Ratio(complete, len(questions)),
        precision=Ratio(right_total, linked_total),
        avg_tables=fmean(len(link.tables) for link in links) if links else 0.0,
        avg_columns=fmean(len(link.columns) for link in links) if links else 0.0,
        reduction=fmean(left_out) if left_out else None,
        linked=len(links),
    )


def strict_recall_or_correct(questions: Sequence[LinkedQuestion], correct: Sequence[bool]) -> Ratio:
    """Return the share of questions with every gold column linked, or with a right SQL generated from the link.

    The RSL-SQL paper prints this share as SRR, although its equation for SRR is that of `strict_recall`.
    """
    complete_or_right = 0
    for question, right in zip(questions, correct, strict=True):
        gold = set(elements(question.gold_sql, question.schema).columns)
        complete = question.link is not None and gold <= set(question.link.columns)
        complete_or_right += complete or right
    return Ratio(complete_or_right, len(questions))


def printed_recall(
    scores: Iterable[QuestionScore], schemas: Mapping[str, Schema], *, link: str, stage: str, rule: str
) -> Ratio:
    """Return `strict_recall_or_correct` of a link, over the questions that `score_links` counts.

    `stage` is the stage that writes the SQL from the link, "" for the final answer; SQL is judged under `rule`.
    """
    scored = _with_gold(scores, schemas)
    correct = [is_right(score.stages.get(stage) if stage else score.final, rule) for score in scored]
    return strict_recall_or_correct(_with_link(scored, schemas, link), correct)


def _with_gold(scores: Iterable[QuestionScore], schemas: Mapping[str, Schema]) -> list[QuestionScore]:
    return [score for score in scores if score.question.database_id in schemas and score.gold_sql]


def _with_link(
    scored: Sequence[QuestionScore], schemas: Mapping[str, Schema], link: str
) -> list[LinkedQuestion]:
    return [
        LinkedQuestion(score.gold_sql, schemas[score.question.database_id], score.outcome.links.get(link))
        for score in scored
    ]
