"""What DAC reports of its sub-tasks and its corrections, beside execution accuracy (DAC, section 5)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tasks.dac_records import (
    CANDIDATE,
    Alignment,
    Entities,
    FeedbackKind,
    ParsedSkeleton,
    Revision,
    RevisionOutcome,
)
from tasks.database.schema import Schema
from tasks.scoring.errors import DacCounts, classify, classify_sql, dac_counts
from tasks.scoring.papers.dac_oracle import gold_entities, gold_skeleton
from tasks.scoring.report import QuestionScore, Ratio, Verdict, is_right
from tasks.sql.elements import used_elements
from tasks.sql.skeleton import skeleton

T = TypeVar("T")
_ALIGNMENT: TypeAdapter[Alignment] = TypeAdapter(Alignment)
_PARSED: TypeAdapter[ParsedSkeleton] = TypeAdapter(ParsedSkeleton)
_REVISION: TypeAdapter[Revision] = TypeAdapter(Revision)


@dataclass(frozen=True, slots=True)
class EntityScore:
    """Entity linking against what the gold SQL uses, over all questions.

    Attributes:
        precision: linked entities that the gold uses, of all linked.
        recall: entities that the gold uses and that were linked, of all that it uses.
    """

    precision: Ratio
    recall: Ratio

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both; None where one is unknown."""
        precision, recall = self.precision.value, self.recall.value
        if precision is None or recall is None:
            return None
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@dataclass(frozen=True, slots=True)
class SqlParts:
    """The SQL at one point of the correction, taken apart.

    Attributes:
        skeleton: questions whose SQL has the gold's skeleton, of all.
        right_of_right_parts: right answers, of the questions whose SQL has the gold's entities and skeleton.
        errors: wrong answers by DAC's kinds; one answer can count in several.
    """

    skeleton: Ratio
    right_of_right_parts: Ratio
    errors: DacCounts


@dataclass(frozen=True, slots=True)
class RevisionCount:
    """How often corrections by one kind of feedback came to one outcome."""

    kind: FeedbackKind
    outcome: RevisionOutcome
    count: int


@dataclass(frozen=True, slots=True)
class DacStatistics:
    """DAC's own figures.

    Attributes:
        questions: the scored questions whose schema is known: the denominator of every share of "all".
        tables: entity linking of tables; None where no question was linked (switched off, or an oracle).
        columns: entity linking of columns; None likewise.
        parsed_skeleton: questions whose parsed skeleton is the gold's, of all; None where none was parsed.
        right_of_right_subtasks: right final answers, of the questions whose linked entities and parsed skeleton are
            the gold's; None where either was not asked for.
        before: the SQL that came in.
        after: the SQL that went out.
        revisions: outcomes of the corrections that were asked for, in order of kind and outcome.
    """

    questions: int
    tables: EntityScore | None
    columns: EntityScore | None
    parsed_skeleton: Ratio | None
    right_of_right_subtasks: Ratio | None
    before: SqlParts
    after: SqlParts
    revisions: tuple[RevisionCount, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """One scored question, with what DAC did on it."""

    score: QuestionScore
    schema: Schema
    entities: Entities
    skeleton: str | None
    alignment: Alignment | None
    parsed: ParsedSkeleton | None


def dac_statistics(
    scores: Sequence[QuestionScore], rule: str, schemas: Mapping[str, Schema]
) -> DacStatistics | None:
    """Work out DAC's figures; None where no question was corrected by decomposition.

    A question that failed before a sub-task, or whose reply was unreadable, counts as linked or parsed to nothing.

    Args:
        scores: one per question; those without a database are left out.
        rule: the headline rule.
        schemas: full schema by database.
    """
    rows = [_row(one, schemas[one.question.database_id]) for one in scores if _is_scored(one, schemas)]
    if not any(_place(row.score) is not None for row in rows):
        return None
    linked = any(row.alignment is not None for row in rows)
    parsed = any(row.parsed is not None for row in rows)
    before = [_sql_before(row.score) for row in rows]
    after = [row.score.outcome.sql for row in rows]
    return DacStatistics(
        questions=len(rows),
        tables=_entities(rows, lambda entities: set(entities.tables)) if linked else None,
        columns=_entities(rows, lambda entities: set(entities.columns)) if linked else None,
        parsed_skeleton=Ratio(sum(map(_right_skeleton, rows)), len(rows)) if parsed else None,
        right_of_right_subtasks=_subtasks(rows, rule) if linked and parsed else None,
        before=_parts(rows, before, [_verdict_before(row.score) for row in rows], rule, final=False),
        after=_parts(rows, after, [row.score.final for row in rows], rule, final=True),
        revisions=_revisions(rows),
    )


def _is_scored(score: QuestionScore, schemas: Mapping[str, Schema]) -> bool:
    return score.executable and score.question.database_id in schemas


def _row(score: QuestionScore, schema: Schema) -> _Row:
    return _Row(
        score,
        schema,
        gold_entities(score.gold_sql, schema),
        gold_skeleton(score.gold_sql, schema.dialect).skeleton,
        next(iter(_values(score, "entity_linking", _ALIGNMENT)), None),
        next(iter(_values(score, "skeleton_parsing", _PARSED)), None),
    )


def _values(score: QuestionScore, stage: str, adapter: TypeAdapter[T]) -> list[T]:
    """Return what a stage returned on a question, each time that it did not fail."""
    found = (record.value for record in score.outcome.stages if record.stage == stage and not record.error)
    return [adapter.validate_python(value) for value in found if value is not None]


def _entities(rows: Sequence[_Row], part: Callable[[Entities], set[Any]]) -> EntityScore:
    gold_total = linked_total = right = 0
    for row in rows:
        gold = part(row.entities)
        linked = part(row.alignment.entities) if row.alignment else set()
        gold_total += len(gold)
        linked_total += len(linked)
        right += len(gold & linked)
    return EntityScore(Ratio(right, linked_total), Ratio(right, gold_total))


def _right_skeleton(row: _Row) -> bool:
    return row.skeleton is not None and row.parsed is not None and row.parsed.skeleton == row.skeleton


def _subtasks(rows: Sequence[_Row], rule: str) -> Ratio:
    chosen = [
        row
        for row in rows
        if _right_skeleton(row) and row.alignment and row.alignment.entities == row.entities
    ]
    return Ratio(sum(is_right(row.score.final, rule) for row in chosen), len(chosen))


def _place(score: QuestionScore) -> int | None:
    """Return the index of the first candidate of the correction; None where it was not reached."""
    names = [candidate.stage.partition("_")[2] for candidate in score.outcome.candidates]
    return next((place for place, name in enumerate(names) if name.startswith(CANDIDATE)), None)


def _sql_before(score: QuestionScore) -> str | None:
    """Return the SQL that came in; of a question that failed on the way there, the last that stood."""
    candidates = score.outcome.candidates[: _place(score)]
    return candidates[-1].sql if candidates else None


def _verdict_before(score: QuestionScore) -> Verdict:
    candidates = score.outcome.candidates[: _place(score)]
    found = score.stages.get(candidates[-1].stage) if candidates else None
    return found or Verdict({}, "no_answer", gold_status=score.final.gold_status)


def _parts(
    rows: Sequence[_Row],
    sqls: Sequence[str | None],
    verdicts: Sequence[Verdict],
    rule: str,
    *,
    final: bool,
) -> SqlParts:
    right = [is_right(verdict, rule) for verdict in verdicts]
    skeletons = [
        row.skeleton is not None and sql is not None and skeleton(sql, row.schema.dialect) == row.skeleton
        for row, sql in zip(rows, sqls, strict=True)
    ]
    parts = [
        ok and sql is not None and _uses(sql, row) for row, sql, ok in zip(rows, sqls, skeletons, strict=True)
    ]
    wrong = [
        classify(row.score, rule, row.schema)
        if final
        else classify_sql(sql, row.score.gold_sql, verdict, row.schema)
        for row, sql, verdict, ok in zip(rows, sqls, verdicts, right, strict=True)
        if not ok
    ]
    return SqlParts(
        Ratio(sum(skeletons), len(rows)),
        Ratio(sum(ok and whole for ok, whole in zip(right, parts, strict=True)), sum(parts)),
        dac_counts(wrong),
    )


def _uses(sql: str, row: _Row) -> bool:
    used = used_elements(sql, row.schema)
    return Entities(used.tables, used.columns) == row.entities


def _revisions(rows: Sequence[_Row]) -> tuple[RevisionCount, ...]:
    counted = Counter(
        (revision.kind, revision.outcome)
        for row in rows
        for revision in _values(row.score, "dac_correction", _REVISION)
    )
    return tuple(RevisionCount(kind, outcome, count) for (kind, outcome), count in sorted(counted.items()))
