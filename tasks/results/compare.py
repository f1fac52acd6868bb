"""Compare runs: one or several on each side, question by question."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Literal

from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.outcome import is_turn
from tasks.core.wording import counted, shorten
from tasks.results.comparability import changed_sources, common_rule, left_out, repeat_warnings, warnings
from tasks.results.comparison import (
    ComparedAnswer,
    Comparison,
    Contrast,
    Flip,
    Pair,
    QuestionChange,
    SettingChange,
    Side,
    SideRun,
    VariantContrast,
    metric_rows,
    why_not_ranked,
)
from tasks.results.parameters import flatten
from tasks.results.predictions_table import answer_in_words
from tasks.results.run_record import GENERATED_DESCRIPTIONS, TRAINING_QUESTIONS, RunRecord
from tasks.results.warehouse.runs import Warehouse, previous_run
from tasks.scoring.breakdown import grades_in_order
from tasks.scoring.candidates import is_candidate
from tasks.scoring.cost import reported_cost, total, total_cost
from tasks.scoring.repeated import compare_repeated, noninferiority_of_repeated
from tasks.scoring.scores import CONFIDENCE, UNGRADED, Accuracy, QuestionScore, flips, is_right
from tasks.scoring.significance import PairedTest, compare_runs, holm_of_known, mcnemar, noninferiority
from tasks.scoring.variants import Variant, find_variants, score_by

Letter = Literal["A", "B"]
_PROSE = {"description", "source"}
_MAX_IDS = 5


def compare(
    a: RunRecord | Sequence[RunRecord],
    b: RunRecord | Sequence[RunRecord],
    *,
    rule: str | None = None,
    confidence: float = CONFIDENCE,
    margin: float | None = None,
) -> Comparison:
    """Compare two runs, or several runs of two systems, on the questions that all of them scored.

    Differences are B minus A. Answers are judged by `rule`; None: by the headline rule, if all runs have the same one.
    `confidence` is that of the intervals, and 1 - the level of the tests. With a `margin`, as a share, it is also
    tested whether B is not worse by that much or more.
    """
    if margin is not None and not 0 < margin < 1:
        raise ConfigurationError(f"A margin of {100 * margin:g} points: write one above 0 and below 100.")
    runs_a, runs_b = ((side,) if isinstance(side, RunRecord) else tuple(side) for side in (a, b))
    first, *others = runs_a + runs_b
    # each call checks that its run has the questions of the first run; all return the same rule
    common, *_ = [common_rule(first, run, rule) for run in others]
    for run in (first, *others):
        if not run.scored_rows:
            raise ConfigurationError(
                f"The run {run.run_id} ({run.name}, {run.status}) has scored no question, so there "
                'is nothing to compare. "crosscheck runs" lists the runs there are.'
            )
    if len(runs_a) == len(runs_b) == 1:
        return _compare_two(runs_a[0], runs_b[0], common, confidence, margin)
    return _compare_several(runs_a, runs_b, common, confidence, margin)


def compare_with_previous(run: RunRecord, warehouse: Warehouse) -> Comparison | None:
    """Compare a run (B) with the last finished run of the same questions before it (A).

    None if there is no such run, if the warehouse cannot read one of the two, or if they cannot be compared.
    """
    try:
        previous = previous_run(run, warehouse.runs())
        if not previous:
            return None
        return compare(warehouse.read_run(previous), run if run.rows else warehouse.read_run(run.run_id))
    except CrosscheckError:  # such as databases that changed between them: `crosscheck compare` says so
        return None


def _compare_two(
    a: RunRecord, b: RunRecord, rule: str, confidence: float, margin: float | None
) -> Comparison:
    scored_b = b.scored_rows
    pairs = [
        Pair(row, scored_b[id_], is_right(row.final, rule), is_right(scored_b[id_].final, rule))
        for id_, row in a.scored_rows.items()
        if id_ in scored_b
    ]
    test = compare_runs(a.rights(rule), b.rights(rule), confidence=confidence)
    ids = [pair.a.question.id for pair in pairs]
    sides = _side("A", (a,), ids, rule, test.only_a), _side("B", (b,), ids, rule, test.only_b)
    why_not = why_not_ranked(sides)
    name_a, name_b = _names(a, b)
    variants = _compare_variants(a, b, pairs, rule, confidence, why_not)
    candidates = {"a": a.metrics.get("candidates"), "b": b.metrics.get("candidates")}
    # a question that A could not answer for a retryable reason counts as right in A
    rights_a = [pair.right_a or pair.a.outcome.retryable for pair in pairs]
    fixed, broken = flips(rights_a, [pair.right_b for pair in pairs])
    return Comparison(
        benchmark=a.benchmark,
        revision=a.revision,
        question_sha256=a.question_sha256,
        rule=rule,
        a=sides[0],
        b=sides[1],
        result=_ranked(replace(test, name_a=name_a, name_b=name_b), why_not, pairs),
        same_sql=sum(pair.same_sql for pair in pairs),
        by_difficulty=by_difficulty(pairs),
        by_database=by_database(pairs),
        stages=by_stage(pairs, rule),
        metrics=metric_rows(a, b),
        settings=_setting_changes(a, b),
        left_out=left_out(sides, len(pairs)),
        warnings=warnings(a, b, pairs, rule),
        noninferiority=None if margin is None else noninferiority(fixed, broken, len(pairs), margin),
        variants={variant.name: variant for variant in variants},
        candidates={letter: curves for letter, curves in candidates.items() if curves},
        flips=tuple(_flips(pairs, rule)),
    )


def _compare_several(
    a: Sequence[RunRecord], b: Sequence[RunRecord], rule: str, confidence: float, margin: float | None
) -> Comparison:
    """Compare two sides of several runs over the questions that every run scored: how often each has them right."""
    if on_both := {run.run_id for run in a} & {run.run_id for run in b}:
        raise ConfigurationError(f"The run {min(on_both)} is on both sides. Name each run on one side.")
    scored = [run.scored_rows for run in (*a, *b)]
    ids = [id_ for id_ in scored[0] if all(id_ in rows for rows in scored)]
    if not ids:
        raise ConfigurationError("These runs have no scored question in common, so they cannot be compared.")
    rights_a, rights_b = ([run.rights(rule) for run in side] for side in (a, b))
    counts_a = {id_: sum(rights[id_] for rights in rights_a) for id_ in ids}
    counts_b = {id_: sum(rights[id_] for rights in rights_b) for id_ in ids}
    sides = _side("A", a, ids, rule), _side("B", b, ids, rule)
    not_ranked = why_not_ranked(sides) or _unanswered("A", a, ids) or _unanswered("B", b, ids)
    counts = (counts_a, len(a), counts_b, len(b))
    return Comparison(
        benchmark=a[0].benchmark,
        revision=a[0].revision,
        question_sha256=a[0].question_sha256,
        rule=rule,
        a=sides[0],
        b=sides[1],
        result=replace(compare_repeated(*counts, confidence=confidence), not_ranked=not_ranked),
        warnings=tuple(repeat_warnings(a, b, left_out=max(map(len, scored)) - len(ids))),
        noninferiority=None if margin is None else noninferiority_of_repeated(*counts, margin),
        changes=_changes(scored[0], *counts),
    )


def _side(
    letter: Letter, runs: Sequence[RunRecord], ids: Sequence[str], rule: str, only: tuple[str, ...] = ()
) -> Side:
    """Return a side over the questions `ids`, which are compared; `only`: questions that the other side did not score.

    A side of one run has its accuracy (`ex`), one of several runs the standard deviation between them (`sd`).
    """
    scored_of_runs = [run.scored_rows for run in runs]
    rows = [[scored[id_] for id_ in ids] for scored in scored_of_runs]
    side_runs = tuple(
        SideRun(
            run_id=run.run_id,
            ex=Accuracy(sum(is_right(row.final, rule) for row in run_rows), len(run_rows)),
            status=run.status,
            why_unranked=run.why_unranked,
        )
        for run, run_rows in zip(runs, rows, strict=True)
    )
    first = runs[0]
    single = len(runs) == 1
    records = [record for run_rows in rows for row in run_rows for record in row.outcome.stages]
    # the answers of a run that was made elsewhere cost what their file says
    cost = reported_cost(records) if first.made_elsewhere else total_cost(records)
    usages = [call.usage for record in records for call in record.calls]
    return Side(
        letter=letter,
        run_id=",".join(run.run_id for run in side_runs),
        backbone=first.backbone,
        pipeline=first.pipeline,
        status=next((run.status for run in side_runs if run.status != "complete"), "complete"),
        tags=first.tags,
        started=first.started,
        engine=first.engine,
        ex=side_runs[0].ex if single else None,
        cost=cost,
        input_tokens=cost.input_tokens if first.made_elsewhere else total([use.input for use in usages]),
        output_tokens=cost.output_tokens if first.made_elsewhere else total([use.output for use in usages]),
        left_out=only,
        not_executable=sum(not row.executable for run in runs for row in run.rows),
        runs=side_runs,
        sd=None if single else stdev(run.ex.ex or 0.0 for run in side_runs),
    )


def _ranked(test: PairedTest, why_not: str, pairs: Sequence[Pair]) -> PairedTest:
    """Return the test of these questions with the reason why no run may be called better, if there is one.

    The reason is `why_not` (of `why_not_ranked`; "" for none), or that the worse run has no answer to some questions
    after retryable failures, and right answers to them might change the result.
    """
    if why_not or test.better is None:
        return replace(test, not_ranked=why_not)
    letter = "A" if test.better == "B" else "B"  # of the worse run
    rows = [pair.a if letter == "A" else pair.b for pair in pairs]
    unanswered = {row.question.id for row in rows if row.outcome.retryable}
    if test.stands_without(unanswered):
        return test
    return replace(
        test,
        not_ranked=f"{letter} has no answer to {counted(len(unanswered), 'question')} because of retryable failures, "
        "and with right answers to them it might not be worse, so no run wins.",
    )


def _unanswered(letter: Letter, runs: Sequence[RunRecord], ids: Sequence[str]) -> str:
    """Return which of several runs lacks answers after retryable failures, as a sentence; "" if none does."""
    compared = set(ids)
    for run in runs:
        unanswered = sum(row.outcome.retryable for row in run.rows if row.question.id in compared)
        if unanswered:
            return (
                f"{run.run_id} in {letter} has no answer to {counted(unanswered, 'question')} because of retryable "
                f'failures, so no side wins. "crosscheck rerun {run.run_id}" answers them.'
            )
    return ""


def _changes(
    rows: Mapping[str, QuestionScore], a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int
) -> tuple[QuestionChange, ...]:
    """Return the questions that one side has right in a larger share of its runs, by the size of the difference."""
    # a / runs_a != b / runs_b, without rounding
    questions = {id_: rows[id_].question for id_ in a if a[id_] * runs_b != b[id_] * runs_a}
    changes = [
        QuestionChange(id_, question.database_id, question.difficulty, question.text, a[id_], b[id_])
        for id_, question in questions.items()
    ]
    return tuple(sorted(changes, key=lambda change: -abs(change.right_b / runs_b - change.right_a / runs_a)))


def by_database(pairs: Sequence[Pair]) -> tuple[Contrast, ...]:
    """Compare the runs on each database."""
    groups = _group_rights(pairs, lambda pair: pair.a.question.database_id)
    return _adjust([_contrast(name, groups[name]) for name in sorted(groups)])


def by_difficulty(pairs: Sequence[Pair]) -> tuple[Contrast, ...]:
    """Compare the runs on each grade of the questions, easiest first; () where no question has one."""
    groups = _group_rights(pairs, lambda pair: pair.a.question.difficulty or UNGRADED)
    if set(groups) == {UNGRADED}:
        return ()
    return _adjust([_contrast(grade, groups[grade]) for grade in grades_in_order(groups)])


def by_stage(pairs: Sequence[Pair], rule: str) -> tuple[Contrast, ...]:
    """Compare the runs after each stage of A, then after those that only B has.

    A question that did not get as far as a stage is wrong there.
    """
    in_a = {stage for pair in pairs for stage in pair.a.stages}
    in_b = {stage for pair in pairs for stage in pair.b.stages}
    contrasts = []
    for stage in (*sorted(in_a, key=_stage_order), *sorted(in_b - in_a, key=_stage_order)):
        if is_candidate(stage) or is_turn(stage):
            continue
        rights_a = [is_right(pair.a.stages.get(stage), rule) for pair in pairs]
        rights_b = [is_right(pair.b.stages.get(stage), rule) for pair in pairs]
        if stage in in_a and stage in in_b:
            contrasts.append(_contrast(stage, list(zip(rights_a, rights_b, strict=True))))
        else:
            a, b = (Accuracy(sum(rights), len(pairs)) for rights in (rights_a, rights_b))
            contrasts.append(Contrast(stage, a if stage in in_a else None, b if stage in in_b else None))
    return _adjust(contrasts)


def _contrast(name: str, rights: Sequence[tuple[bool, bool]]) -> Contrast:
    a, b = ([right[side] for right in rights] for side in (0, 1))
    fixed, broken = flips(a, b)
    score_a, score_b = (Accuracy(sum(side), len(rights)) for side in (a, b))
    return Contrast(name, score_a, score_b, fixed, broken, mcnemar(fixed, broken))


def _adjust(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    adjusted = holm_of_known([contrast.p_value for contrast in contrasts])
    return tuple(
        replace(contrast, adjusted_p=p_value) for contrast, p_value in zip(contrasts, adjusted, strict=True)
    )


def _group_rights(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[tuple[bool, bool]]]:
    groups: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for pair in pairs:
        groups[key(pair)].append((pair.right_a, pair.right_b))
    return groups


def _stage_order(stage: str) -> tuple[int, str]:
    number, _, _ = stage.partition("_")
    return (int(number) if number.isdigit() else 1_000, stage)


def _compare_variants(
    a: RunRecord, b: RunRecord, pairs: Sequence[Pair], rule: str, confidence: float, why_not: str
) -> Iterator[VariantContrast]:
    """Compare two runs by each variant that one of them has, on questions that both scored.

    A variant judges the same answers in another way, as by corrected golds. If only one run has it, its variant judges
    both runs. `why_not`: why the runs must not be ranked; "" if they may be.
    """
    rows_a, rows_b = [pair.a for pair in pairs], [pair.b for pair in pairs]
    of_a = find_variants(a.settings_of("benchmark"), rows_a)
    of_b = find_variants(b.settings_of("benchmark"), rows_b)
    for name in dict.fromkeys((*of_a, *of_b)):
        variant_a, variant_b = of_a.get(name), of_b.get(name)
        variant = variant_a or of_b[name]
        rights_a = _rights(variant_a or variant, rows_a, rule)
        rights_b = _rights(variant_b or variant, rows_b, rule)
        common = rights_a.keys() & rights_b.keys()
        # questions that the variant judges by different golds in the two runs
        unlike = [pair.a.question.id for pair in pairs if variant.basis(pair.a) != variant.basis(pair.b)]
        problem = ""
        result = None
        if not common:
            problem = "not tested: it leaves out every question that both runs scored."
        elif unlike:
            problem = (
                f"not tested: the golds of {counted(len(unlike), 'question')} differ between A and B "
                f"({shorten(unlike, _MAX_IDS)}). Evaluate again with the same settings of the benchmark; paid replies "
                "are reused."
            )
        else:
            both = ({id_: rights[id_] for id_ in rights if id_ in common} for rights in (rights_a, rights_b))
            test = compare_runs(*both, confidence=confidence)
            result = _ranked(test, why_not, [pair for pair in pairs if pair.a.question.id in common])
        yield VariantContrast(
            name=name,
            title=variant.title,
            a=score_by(variant_a, rows_a, rule) if variant_a else None,
            b=score_by(variant_b, rows_b, rule) if variant_b else None,
            result=result,
            problem=problem,
        )


def _rights(variant: Variant, rows: Sequence[QuestionScore], rule: str) -> dict[str, bool]:
    verdicts = {row.question.id: variant.judge(row, rule) for row in rows}
    return {id_: right for id_, right in verdicts.items() if right is not None}


def _flips(pairs: Sequence[Pair], rule: str) -> Iterator[Flip]:
    for pair in pairs:
        if pair.change:
            question = pair.a.question
            yield Flip(
                question_id=question.id,
                change=pair.change,
                database=question.database_id,
                difficulty=question.difficulty,
                question=question.text,
                evidence=question.evidence,
                gold_sql=pair.a.gold_sql,
                a=_compared_answer(pair.a, rule),
                b=_compared_answer(pair.b, rule),
            )


def _compared_answer(score: QuestionScore, rule: str) -> ComparedAnswer:
    final = score.final
    failure = score.outcome.failure
    return ComparedAnswer(
        sql=score.outcome.sql,
        correct=is_right(final, rule),
        status=final.status,
        error=final.error or None,
        row_count=final.row_count,
        failure=failure.message if failure else None,
        stages={stage: is_right(verdict, rule) for stage, verdict in score.stages.items()},
        in_words=answer_in_words(score, rule),
    )


def _names(a: RunRecord, b: RunRecord) -> tuple[str, str]:
    """Return what distinguishes two runs: their backbones, pipelines or both; their letters if these are equal."""
    if (a.backbone, a.pipeline) == (b.backbone, b.pipeline):
        return "A", "B"
    if a.pipeline == b.pipeline:
        return a.backbone, b.backbone
    if a.backbone == b.backbone:
        return a.pipeline, b.pipeline
    return a.name, b.name


def _setting_changes(a: RunRecord, b: RunRecord) -> tuple[SettingChange, ...]:
    """Return what differs in the settings, prompts and code of two runs; settings of both runs come first."""
    settings_a, settings_b = flatten(dict(a.settings)), flatten(dict(b.settings))
    for settings, run in ((settings_a, a), (settings_b, b)):  # adds the code and the generated descriptions
        code = {"crosscheck.version": run.version, "crosscheck.git_commit": _shorten_commit(run.git_commit)}
        generated = {f"benchmark.{GENERATED_DESCRIPTIONS}": run.tags.get(GENERATED_DESCRIPTIONS)}
        settings.update({key: value for key, value in {**code, **generated}.items() if value})
    if TRAINING_QUESTIONS in a.tags and TRAINING_QUESTIONS in b.tags:  # older releases did not note them
        for settings, run in ((settings_a, a), (settings_b, b)):
            settings[f"benchmark.{TRAINING_QUESTIONS}"] = run.tags[TRAINING_QUESTIONS]
    for name in changed_sources(a, b):
        settings_a[name], settings_b[name] = a.sources[name], b.sources[name]
    changes = [
        SettingChange(key, settings_a.get(key), settings_b.get(key))
        for key in dict.fromkeys([*settings_a, *settings_b])
        if settings_a.get(key) != settings_b.get(key) and key.rpartition(".")[2] not in _PROSE
    ]
    return tuple(sorted(changes, key=lambda change: change.a is None or change.b is None))


def _shorten_commit(commit: str | None) -> str | None:
    if commit is None:
        return None
    digest, dash, dirty = commit.partition("-")
    return digest[:12] + dash + dirty
