"""From two stored runs to what their comparison found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tasks.core.errors import ConfigurationError
from tasks.scoring.cost import reported_cost, total_cost
from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.score import CONFIDENCE, Accuracy
from tasks.scoring.significance import compare_runs
from tasks.scoring.statistics.noninferiority import noninferiority
from tasks.tracking.comparison.comparability import common_rule, left_out, warnings
from tasks.tracking.comparison.contrasts import by_database, by_difficulty, by_stage
from tasks.tracking.comparison.metric_rows import metric_rows
from tasks.tracking.comparison.ranking import ranked, why_not_ranked
from tasks.tracking.comparison.run_comparison import (
    Answered,
    Change,
    Flip,
    Pair,
    RunComparison,
    SettingChange,
    Side,
)
from tasks.tracking.comparison.variants import compare_variants
from tasks.tracking.evaluation import GENERATED_DESCRIPTIONS, EvaluationRun
from tasks.tracking.parameters import flatten
from tasks.tracking.predictions import answer_in_words
from tasks.tracking.warehouse.stored import StoredRun

_PROSE = {"description", "source"}


def compare(
    a: StoredRun,
    b: StoredRun,
    *,
    rule: str | None = None,
    confidence: float = CONFIDENCE,
    margin: float | None = None,
) -> RunComparison:
    """Compare two runs on the questions that both scored.

    Differences are B minus A. Answers are right by `rule`, or else by the headline rule of both. `confidence` is that
    of the intervals, and 1 - the level of the tests. With a `margin`, as a share, it is also tested whether B is not
    worse by that much or more.

    Raises:
        ConfigurationError: the runs are not comparable: other questions, no common rule, nothing in common; or
            the margin is not a share.
    """
    if margin is not None and not 0 < margin < 1:
        raise ConfigurationError(f"A margin of {100 * margin:g} points: write one above 0 and below 100.")
    chosen = common_rule(a, b, rule)
    rows_a, rows_b = _scored(a), _scored(b)
    right_a, right_b = (
        {id_: is_right(row.final, chosen) for id_, row in rows.items()} for rows in (rows_a, rows_b)
    )
    for stored, rows in ((a, rows_a), (b, rows_b)):
        if not rows:
            raise ConfigurationError(
                f"The run {stored.run.run_id} ({stored.run.name}, {stored.status}) has scored no question, so there "
                'is nothing to compare. "crosscheck runs" lists the runs there are.'
            )
    pairs = [
        Pair(row, rows_b[id_], right_a[id_], right_b[id_]) for id_, row in rows_a.items() if id_ in rows_b
    ]
    scores, why_not = [(pair.a, pair.b) for pair in pairs], why_not_ranked(a, b)
    names = _names(a.run, b.run)
    test = replace(compare_runs(right_a, right_b, confidence=confidence), name_a=names[0], name_b=names[1])
    result = ranked(test, why_not, scores)
    sides = (
        _side("A", a, [pair.a for pair in pairs], Accuracy(result.right_a, result.questions), result.only_a),
        _side("B", b, [pair.b for pair in pairs], Accuracy(result.right_b, result.questions), result.only_b),
    )
    candidates = {
        letter: found
        for letter, each in (("a", a), ("b", b))
        if (found := each.record.metrics.get("candidates"))
    }
    return RunComparison(
        a.run.benchmark,
        a.run.revision,
        a.run.question_sha256,
        chosen,
        *sides,
        result,
        same_sql=sum(pair.same_sql for pair in pairs),
        by_difficulty=by_difficulty(pairs, hardness="spider" in (chosen, a.run.rule)),
        by_database=by_database(pairs),
        stages=by_stage(pairs, chosen),
        metrics=metric_rows(a, b),
        settings=_settings(a.run, b.run),
        left_out=left_out(sides, result.questions),
        warnings=warnings(a, b, pairs, chosen),
        noninferiority=None if margin is None else noninferiority(*_differing(pairs), len(pairs), margin),
        variants={each.name: each for each in compare_variants(a, b, scores, chosen, confidence, why_not)},
        candidates=candidates,
        flips=tuple(_flip(pair, pair.change, chosen) for pair in pairs if pair.change),
    )


def _differing(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Count fixed and broken questions. One that A could not answer for a retryable reason counts as right in A."""
    rights = [(pair.right_a or pair.a.outcome.retryable, pair.right_b) for pair in pairs]
    return sum(b and not a for a, b in rights), sum(a and not b for a, b in rights)


def _flip(pair: Pair, change: Change, rule: str) -> Flip:
    question = pair.a.question
    return Flip(
        question.id,
        change,
        question.database_id,
        question.difficulty,
        question.text,
        question.evidence,
        pair.a.gold_sql,
        _answered(pair.a, rule),
        _answered(pair.b, rule),
    )


def _answered(score: QuestionScore, rule: str) -> Answered:
    final, failure = score.final, score.outcome.failure
    return Answered(
        score.outcome.sql,
        is_right(final, rule),
        final.status,
        final.error or None,
        final.row_count,
        failure.message if failure else None,
        {stage: is_right(verdict, rule) for stage, verdict in score.stages.items()},
        answer_in_words(score, rule),
    )


def _names(a: EvaluationRun, b: EvaluationRun) -> tuple[str, str]:
    """Return what distinguishes two runs: their backbones, pipelines or both; their letters if these are equal."""
    if (a.backbone, a.pipeline) == (b.backbone, b.pipeline):
        return "A", "B"
    if a.pipeline == b.pipeline:
        return a.backbone, b.backbone
    if a.backbone == b.backbone:
        return a.pipeline, b.pipeline
    return f"{a.backbone} | {a.pipeline}", f"{b.backbone} | {b.pipeline}"


def _scored(stored: StoredRun) -> dict[str, QuestionScore]:
    return {row.question.id: row for row in stored.rows if row.executable}


def _side(
    letter: Literal["A", "B"],
    stored: StoredRun,
    rows: Sequence[QuestionScore],
    ex: Accuracy,
    only: tuple[str, ...],
) -> Side:
    run, records = stored.run, [record for row in rows for record in row.outcome.stages]
    unknown = reported_cost(records) if run.made_elsewhere else None
    uncached = unknown or total_cost(
        [
            replace(record, restored=False, calls=tuple(replace(call, cached=False) for call in record.calls))
            for record in records
        ]
    )
    return Side(
        letter,
        run.run_id,
        run.backbone,
        run.pipeline,
        stored.status,
        run.tags,
        run.started,
        run.engine,
        ex,
        unknown or total_cost(records),
        uncached.input_tokens,
        uncached.output_tokens,
        only,
        sum(not row.executable for row in stored.rows),
    )


def _settings(a: EvaluationRun, b: EvaluationRun) -> tuple[SettingChange, ...]:
    """Return what differs in the settings of two runs, and in the code that ran: first what both have."""
    one, other = flatten(dict(a.settings)), flatten(dict(b.settings))
    for known, run in ((one, a), (other, b)):
        code = {"crosscheck.version": run.version, "crosscheck.git_commit": _short(run.git_commit)}
        generated = {f"benchmark.{GENERATED_DESCRIPTIONS}": run.tags.get(GENERATED_DESCRIPTIONS)}
        known.update({key: value for key, value in {**code, **generated}.items() if value})
    changes = [
        SettingChange(key, one.get(key), other.get(key))
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key) and key.rpartition(".")[2] not in _PROSE
    ]
    return tuple(sorted(changes, key=lambda change: change.a is None or change.b is None))


def _short(commit: str | None) -> str | None:
    """Return the beginning of a commit's hash, and whether it was changed."""
    if commit is None:
        return None
    digest, dash, dirty = commit.partition("-")
    return digest[:12] + dash + dirty
