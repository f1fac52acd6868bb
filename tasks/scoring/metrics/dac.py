"""The figures that DAC and SEA-SQL report of themselves where they took part, and the recall that RSL-SQL prints."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from tasks.core.outcome import split_label
from tasks.core.records import (
    DAC_STEP,
    Alignment,
    Correction,
    Elimination,
    Entities,
    ParsedSkeleton,
    Revision,
)
from tasks.core.wording import counted, counts, percent
from tasks.database.schema import Schema
from tasks.documents.model import Table
from tasks.scoring.breakdown import stage_names
from tasks.scoring.linking import gold_skeleton, link_names, printed_recall, score_links
from tasks.scoring.metric import SHARE, ScoredRun, in_words, metric
from tasks.scoring.metrics.causes import ErrorClass, classify, classify_sql, dac_counts
from tasks.scoring.scores import Measurement, QuestionScore, Ratio, Value, Verdict, flips, is_right
from tasks.sql.elements import used_elements
from tasks.sql.skeleton import skeleton

T = TypeVar("T")
_ALIGNMENT: TypeAdapter[Alignment] = TypeAdapter(Alignment)
_PARSED: TypeAdapter[ParsedSkeleton] = TypeAdapter(ParsedSkeleton)
_REVISION: TypeAdapter[Revision] = TypeAdapter(Revision)


@dataclass(frozen=True, slots=True)
class _Row:
    """One scored question, with what DAC did on it."""

    score: QuestionScore
    schema: Schema
    entities: Entities  # of the gold
    skeleton: str | None  # of the gold; None where it has none
    alignment: Alignment | None  # what entity linking returned; None where it did not
    parsed: ParsedSkeleton | None  # what skeleton parsing returned; None where it did not


class _Answer(NamedTuple):
    """The SQL of a question at one point of the correction; `causes` are those of a wrong one."""

    sql: str | None
    right: bool
    causes: tuple[ErrorClass, ...]


def dac_figures(
    scores: Sequence[QuestionScore], rule: str, schemas: Mapping[str, Schema]
) -> dict[str, Value]:
    """Compute DAC's figures by name; {} where DAC's correction ran on no question.

    - `dac/linking_tables/`, `dac/linking_columns/`: `precision`, `recall` and `f1` of the linked entities, against
      those that the gold uses, over all questions together. `macro_...`: their means over questions, as in the paper
      (Table 5, which compares with people's labels and not with the gold SQL); a question counts 1 if nothing was to be
      linked and nothing was. Absent if entity linking did not run.
    - `dac/parsed_skeleton`: share of questions whose parsed skeleton is the gold's. Absent if no skeleton was parsed.
    - `dac/right_of_right_subtasks`: share of right final answers among the questions whose linked entities and parsed
      skeleton are the gold's. Absent if either sub-task did not run.
    - `dac/before/`, `dac/after/`: figures of the SQL before and after the correction, see `_parts`.
    - `dac/corrections/KIND_OUTCOME`: number of corrections of this kind with this outcome.

    A question that failed before a sub-task, or whose reply was unreadable, counts as linked or parsed to nothing.
    Questions without a database are left out.
    """
    scored = [score for score in scores if score.executable and score.question.database_id in schemas]
    if not any(_first_correction(score) is not None for score in scored):
        return {}
    rows = [_row(score, schemas[score.question.database_id]) for score in scored]
    figures: dict[str, Value] = {}
    linked = any(row.alignment is not None for row in rows)
    parsed = any(row.parsed is not None for row in rows)
    if linked:
        figures |= _entities("tables", rows, lambda entities: set(entities.tables))
        figures |= _entities("columns", rows, lambda entities: set(entities.columns))
    if parsed:
        figures["dac/parsed_skeleton"] = Ratio(sum(map(_right_skeleton, rows)), len(rows))
    if linked and parsed:
        right_subtasks = [
            row
            for row in rows
            if _right_skeleton(row) and row.alignment and row.alignment.entities == row.entities
        ]
        right_answers = sum(is_right(row.score.final, rule) for row in right_subtasks)
        figures["dac/right_of_right_subtasks"] = Ratio(right_answers, len(right_subtasks))
    figures |= _parts("before", rows, [_before(row, rule) for row in rows])
    answers = [
        _Answer(row.score.outcome.sql, is_right(row.score.final, rule), classify(row.score, rule, row.schema))
        for row in rows
    ]
    figures |= _parts("after", rows, answers)
    corrections = Counter(
        (revision.kind, revision.outcome)
        for row in rows
        for revision in stage_values(row.score, "dac_correction", _REVISION)
    )
    return figures | {
        f"dac/corrections/{kind}_{outcome}": count for (kind, outcome), count in sorted(corrections.items())
    }


def _row(score: QuestionScore, schema: Schema) -> _Row:
    return _Row(
        score=score,
        schema=schema,
        entities=used_elements(score.gold_sql, schema),
        skeleton=gold_skeleton(score.gold_sql, schema.dialect).skeleton,
        alignment=_first_value(score, "entity_linking", _ALIGNMENT),
        parsed=_first_value(score, "skeleton_parsing", _PARSED),
    )


def _entities(kind: str, rows: Sequence[_Row], of_kind: Callable[[Entities], set[Any]]) -> dict[str, Value]:
    """Return precision, recall and F1 of linked "tables" or "columns", over all questions and as means of questions."""
    golds = [of_kind(row.entities) for row in rows]
    links = [of_kind(row.alignment.entities) if row.alignment else set() for row in rows]
    pairs = list(zip(golds, links, strict=True))
    right = sum(len(gold & linked) for gold, linked in pairs)
    precision = Ratio(right, sum(len(linked) for _, linked in pairs))
    recall = Ratio(right, sum(len(gold) for gold, _ in pairs))
    figures: dict[str, Value] = {"precision": precision, "recall": recall}
    if precision.value is not None and recall.value is not None:
        figures["f1"] = _f1(precision.value, recall.value)
    precisions = [_share(len(gold & linked), len(linked), empty=not gold) for gold, linked in pairs]
    recalls = [_share(len(gold & linked), len(gold), empty=not linked) for gold, linked in pairs]
    macro = {"precision": precisions, "recall": recalls, "f1": list(map(_f1, precisions, recalls))}
    figures |= {f"macro_{figure}": Ratio(sum(values), len(rows)) for figure, values in macro.items()}
    return {f"dac/linking_{kind}/{figure}": value for figure, value in figures.items()}


def _f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _share(part: int, whole: int, *, empty: bool) -> float:
    """Return a share of one question; of nothing, 1 if the other side is empty as well, else 0."""
    return part / whole if whole else float(empty)


def _right_skeleton(row: _Row) -> bool:
    return row.skeleton is not None and row.parsed is not None and row.parsed.skeleton == row.skeleton


def _first_correction(score: QuestionScore) -> int | None:
    """Return the index of the first candidate of the correction; None where it was not reached."""
    names = [candidate.stage.partition("_")[2] for candidate in score.outcome.candidates]
    return next((number for number, name in enumerate(names) if name.startswith(DAC_STEP)), None)


def _before(row: _Row, rule: str) -> _Answer:
    """Return the SQL that came in; of a question that failed on the way there, the last that stood."""
    earlier = row.score.outcome.candidates[: _first_correction(row.score)]
    sql = earlier[-1].sql if earlier else None
    verdict = row.score.stages.get(earlier[-1].stage) if earlier else None
    verdict = verdict or Verdict({}, "no_answer", gold_status=row.score.final.gold_status)
    right = is_right(verdict, rule)
    return _Answer(sql, right, () if right else classify_sql(sql, row.score.gold_sql, verdict, row.schema))


def _parts(when: str, rows: Sequence[_Row], answers: Sequence[_Answer]) -> dict[str, Value]:
    """Return the figures of the answers "before" or "after" the correction (`when`).

    They are the share with the gold's skeleton, the share of right answers among those with the gold's skeleton and
    entities (`right_of_right_parts`), and the number of wrong answers by DAC's kinds of error.
    """
    right_skeletons = right_parts = right_answers = 0
    for row, answer in zip(rows, answers, strict=True):
        sql = answer.sql
        if sql is not None and row.skeleton is not None and skeleton(sql, row.schema.dialect) == row.skeleton:
            right_skeletons += 1
            if used_elements(sql, row.schema) == row.entities:
                right_parts += 1
                right_answers += answer.right
    errors = dac_counts(answer.causes for answer in answers if not answer.right)
    return {
        f"dac/{when}/skeleton": Ratio(right_skeletons, len(rows)),
        f"dac/{when}/right_of_right_parts": Ratio(right_answers, right_parts),
        **{f"dac/{when}/errors_{kind}": count for kind, count in errors.items()},
    }


def stage_values(score: QuestionScore, stage: str, adapter: TypeAdapter[T]) -> list[T]:
    """Return what a stage returned on a question, each time that it did not fail; of several candidates, the first."""
    values = (
        record.value
        for record in score.outcome.stages
        if record.stage == stage and not record.error and split_label(record.label)[1] in (None, 1)
    )
    return [adapter.validate_python(value) for value in values if value is not None]


def _first_value(score: QuestionScore, stage: str, adapter: TypeAdapter[T]) -> T | None:
    return next(iter(stage_values(score, stage, adapter)), None)


EXECUTES = ("ok", "empty")
ELIMINATION, ADJUSTMENT = "bias_elimination", "execution_adjustment"
_ELIMINATION, _CORRECTION = TypeAdapter(Elimination), TypeAdapter(Correction)
HEADLINE = {
    "dac/linking_tables/macro_f1": "DAC: tables linked, macro F1",
    "dac/linking_columns/macro_f1": "columns linked, macro F1",
    "dac/parsed_skeleton": "skeletons parsed right",
    "sea/execution_adjustment/failing_before": "SEA-SQL: SQL that failed to execute, before",
    "sea/execution_adjustment/failing_after": "after adjustment",
}
"""The figures of every summary; `--details` has all."""


@metric("What the systems report of themselves", better=None, order=40)
def figures(run: ScoredRun) -> Measurement:
    """Report DAC's and SEA-SQL's own figures; what does not apply is absent."""
    rows = run.rows
    values = dac_figures(rows, run.rule, run.schemas) | sea_figures(rows, run.rule)
    return Measurement(
        further=values,
        data={name: asdict(value) if isinstance(value, Ratio) else value for name, value in values.items()},
        lines=tuple(_lines(values)),
        tables=(_table(values),) if values else (),
    )


def _lines(values: Mapping[str, Value]) -> Iterator[str]:
    for system in ("dac/", "sea/"):
        parts = [
            f"{text} {_written(name, values[name])}"
            for name, text in HEADLINE.items()
            if name.startswith(system) and name in values
        ]
        if parts:
            yield ", ".join(parts)


def _written(name: str, value: Value) -> str:
    if isinstance(value, Ratio):  # the numerator of a macro figure is a sum of shares, no count
        mean = f"{percent(value)} (mean over {counted(int(value.total), 'question')})"
        return mean if "/macro_" in name else counts(value)
    return f"{value:.2f}"


def _table(values: Mapping[str, Value]) -> Table:
    def cells(value: Value) -> tuple[str, str]:
        if isinstance(value, Ratio):
            return percent(value), counts(value)
        return ("", f"{value:,}") if isinstance(value, int) else (f"{value:.3f}", "")

    return Table(
        "What the systems report of themselves",
        ("figure", "value", "questions"),
        tuple((name, *cells(value)) for name, value in values.items()),
    )


def sea_figures(scores: Sequence[QuestionScore], rule: str) -> dict[str, Value]:
    """Compute SEA-SQL's figures by name; there is none of a stage that no question reached.

    - `sea/bias_elimination/`: numbers of questions: `asked` of the eliminator; `changed` by it, or `kept` as they were
      because it gave no usable answer; `fixed` and `broken` by it.
    - `sea/execution_adjustment/`: shares of questions whose SQL fails to execute, `failing_before` and `failing_after`;
      numbers of questions `adjusted` in at least one round, `fixed`, `broken`, and adjusted in N rounds, `rounds_N`.

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
    """Count the questions for which SEA-SQL called its eliminator, and those whose SQL this changed."""
    eliminations = [_first_value(score, ELIMINATION, _ELIMINATION) for score in scored]
    outcomes = Counter(elimination.outcome for elimination in eliminations if elimination is not None)
    if not outcomes:
        return {}
    counts = {"asked": outcomes.total(), "changed": outcomes["changed"], "kept": outcomes["kept"]}
    return counts | _flips(scored, ELIMINATION, rule)


def _adjustment(scored: Sequence[QuestionScore], rule: str) -> dict[str, Value]:
    """Return how often SQL failed before and after SEA-SQL's execution adjustment, and the rounds that it took."""
    by_question = [_first_value(score, ADJUSTMENT, _CORRECTION) for score in scored]
    corrections = [correction for correction in by_question if correction is not None]
    if not corrections:
        return {}
    executing_before = sum(correction.before in EXECUTES for correction in corrections)
    executing_after = sum(correction.after in EXECUTES for correction in corrections)
    rounds = Counter(correction.rounds for correction in corrections if correction.rounds)
    return {
        "failing_before": Ratio(len(scored) - executing_before, len(scored)),
        "failing_after": Ratio(len(scored) - executing_after, len(scored)),
        "adjusted": rounds.total(),
        **_flips(scored, ADJUSTMENT, rule),
        **{f"rounds_{number}": questions for number, questions in sorted(rounds.items())},
    }


def _flips(scored: Sequence[QuestionScore], stage: str, rule: str) -> dict[str, Value]:
    """Count the questions that a stage fixed and broke, of those on which it ran after another stage."""
    before, after = [], []
    for score in scored:
        numbered = list(score.stages)  # "3_execution_adjustment"
        names = [name.partition("_")[2] for name in numbered]
        position = names.index(stage) if stage in names else 0
        if position > 0:  # it ran, and after another stage
            before.append(is_right(score.stages[numbered[position - 1]], rule))
            after.append(is_right(score.stages[numbered[position]], rule))
    fixed, broken = flips(before, after)
    return {"fixed": fixed, "broken": broken}


FROM_LINK = "augmented_sql"
"""The stage that writes its SQL from the linked schema alone."""


@metric("Strict recall, or right (RSL-SQL's printed SRR)", order=45)
def strict_recall_or_correct(run: ScoredRun) -> Measurement | None:
    """Count the questions with every gold column linked, or the SQL made from the link right; None without linking.

    The link is the one named "both" (the union of both directions) if there is one, else the last one. Without a stage
    `augmented_sql`, the SQL made from the link is the final answer.
    """
    links = link_names(run.link_rows, run.schemas)
    if not links:
        return None
    link = "both" if "both" in links else links[-1]
    stage = next((name for name in stage_names(run.scored) if name.endswith(FROM_LINK)), "")
    ratio = printed_recall(run.scored, run.schemas, link=link, stage=stage, rule=run.rule)
    return Measurement(
        further={f"linking/{link}/strict_recall_or_correct": ratio},
        data={"link": link, "stage": stage, **asdict(ratio)},
        lines=(),
    )


@metric(
    "Linking, gold resolved through aliases", order=45, words={"nsr": "NSR", "strict_recall": "strict recall"}
)
def links_resolved(run: ScoredRun) -> Measurement:
    """Report non-strict recall, strict recall and precision of every link."""
    shares: dict[str, dict[str, Ratio]] = {
        link.name: {"nsr": link.nsr, "strict_recall": link.strict_recall, "precision": link.precision}
        for link in score_links(run.link_rows, run.schemas, gold_elements="resolved")
    }
    return Measurement(
        data={
            link: {name: asdict(share) for name, share in by_name.items()} for link, by_name in shares.items()
        },
        lines=(),
        tables=(_link_table(shares, strict_recall_or_correct.of(run)),) if shares else (),
    )


def _link_table(shares: dict[str, dict[str, Ratio]], recall: Measurement | None) -> Table:
    caption = ""
    if recall:
        stage = recall.data["stage"] or "the final answer"
        caption = (
            f"{recall.data['link']}: strict recall or {stage} right (RSL-SQL's printed SRR) "
            f"{in_words(Ratio.of(recall.data), SHARE)}"
        )
    return Table(
        "Linking, gold resolved through aliases",
        ("link", "NSR", "strict recall", "precision"),
        tuple(
            (link, *(in_words(share, SHARE) for share in by_name.values()))
            for link, by_name in shares.items()
        ),
        caption,
    )
