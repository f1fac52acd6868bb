"""The noise of an evaluation, measured on identical runs: the object `noise` of `evaluate --repeats N --json`."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any

from tasks.core.errors import DataError
from tasks.core.wording import counted, shorten
from tasks.results.comparability import changed_sources
from tasks.results.parameters import flatten
from tasks.results.run_record import NOISE, REPEAT, RunHeader, RunRecord
from tasks.results.warehouse.runs import Warehouse, find_run
from tasks.scoring.repeated import (
    POWER,
    flip_bound,
    flip_rate,
    noise_p,
    pass_hat,
    provable_by_mcnemar,
    provable_by_noise,
)
from tasks.scoring.scores import Accuracy
from tasks.settings.choices import HARMLESS, Gate

MIN_REPEATS = 2
MIN_MEASURED = 3
"""Repeats that a measurement needs for nightly runs to be judged by it."""
_WITHOUT_INFLUENCE = (
    "backbone.epoch", "backbone.prices", "backbone.description", "pipeline.description", "pipeline.source"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNoise:
    """A flip rate that was measured on repeats of a run, and the loss that one run against another proves."""

    run_id: str  # of the run that was repeated
    runs: int  # repeats
    questions: int  # questions that all of them answered, or failed for a reason that no re-run corrects
    # share of the questions whose verdict differs between two repeats, over all pairs of repeats
    flip_rate: float
    flip_bound: float  # its upper bound, wrong in one of 1,000 cases
    # by_rate, by_mcnemar: the loss that one run against another proves in most cases, as a share: by this rate, and by
    # the exact McNemar test; None where it would be more than the execution accuracy, or than all questions
    by_rate: float | None
    by_mcnemar: float | None

    @property
    def decides(self) -> bool:
        """Whether a comparison is judged by this rate, which depends on the measurement alone: it proves more."""
        return self.provable_loss == self.by_rate != self.by_mcnemar

    @property
    def provable_loss(self) -> float | None:
        """The smallest loss that one run against another proves in most cases, as a share, by the better test."""
        return min((loss for loss in (self.by_rate, self.by_mcnemar) if loss is not None), default=None)

    @property
    def proves(self) -> str:
        """What one run against another proves, in a sentence."""
        cases = f"in {100 * POWER:g} % of the cases"
        if self.provable_loss is None:
            return f"The right answers are too few for one night to prove any loss {cases}."
        return f"One night proves a loss of {100 * self.provable_loss:.2f} points or more {cases}."

    def p_value(self, fixed: int, broken: int) -> float:
        """Return the p-value of a difference between two runs, if answers flip at the measured rate at most."""
        return noise_p(fixed, broken, self.questions, self.flip_bound)


@dataclass(frozen=True, slots=True)
class Repeat:
    """One of the identical runs."""

    run_id: str
    started: datetime.datetime
    ex: Accuracy  # over the questions that all repeats answered
    calls: int | None  # calls that it paid for; None if unknown
    cost_usd: float | None  # None if unknown
    from_scratch_usd: float | None  # cost without its cached replies; None if unknown


@dataclass(frozen=True, slots=True)
class Stability:
    """How often the answers to one question are right."""

    question_id: str
    database: str
    difficulty: str | None
    question: str
    right: int  # runs with a right answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise(MeasuredNoise):
    """How much the repeats of a run differ. No figure includes the repeated run: it may have been chosen."""

    benchmark: str
    revision: str
    backbone: str
    pipeline: str
    rule: str
    repeats: tuple[Repeat, ...]
    # ids of scored questions to which a repeat has no answer for a retryable reason
    left_out: tuple[str, ...]
    ex_mean: float  # mean execution accuracy of the repeats, as a share
    ex_sd: float  # its standard deviation between the repeats (n - 1), as a share
    pass_k: Mapping[int, float]  # by k: mean probability that k runs are all right
    always_right: int  # questions that every repeat has right
    always_wrong: int
    warnings: tuple[str, ...] = ()
    unstable: tuple[Stability, ...] = field(default=(), repr=False)  # the other questions, least stable first


def measure(parent: RunRecord, repeats: Sequence[RunRecord]) -> Noise:
    """Return how much the repeats of a run differ, by its headline rule.

    The provable losses are those at the level of the default gate.
    """
    if len(repeats) < MIN_REPEATS:
        raise DataError(
            f"{counted(len(repeats), 'repeat')} of {parent.run_id}: {MIN_REPEATS} are the least to compare."
        )
    rule = parent.rule
    runs = len(repeats)
    right = _right_counts(repeats, rule)
    if not right:
        raise DataError(f"The repeats of {parent.run_id} have no answered question in common.")
    counts = list(right.values())
    measured = tuple(_repeat(repeat, rule, right) for repeat in repeats)
    shares = [repeat.ex.correct / repeat.ex.total for repeat in measured]
    return Noise(
        **asdict(measured_rate(parent.run_id, counts, runs, Gate().level)),
        benchmark=parent.benchmark,
        revision=parent.revision,
        backbone=parent.backbone,
        pipeline=parent.pipeline,
        rule=rule,
        repeats=measured,
        left_out=tuple(id_ for id_ in repeats[0].scored_rows if id_ not in right),
        ex_mean=mean(shares),
        ex_sd=stdev(shares),
        pass_k={k: pass_hat(counts, runs, k) for k in range(1, runs + 1)},
        always_right=counts.count(runs),
        always_wrong=counts.count(0),
        warnings=tuple(_warnings(repeats)),
        unstable=_unstable(repeats[0], right, runs),
    )


def measured_rate(run_id: str, counts: Sequence[int], runs: int, level: float) -> MeasuredNoise:
    """Return the flip rate of questions, given how many of the repeats of a run have each one right."""
    questions = len(counts)
    rate = flip_rate(counts, runs)
    bound = flip_bound(counts, runs)
    ex = pass_hat(counts, runs, 1)

    def possible(loss: float | None) -> float | None:
        return None if loss is None or loss > ex else loss

    return MeasuredNoise(
        run_id=run_id,
        runs=runs,
        questions=questions,
        flip_rate=rate,
        flip_bound=bound,
        by_rate=possible(provable_by_noise(questions, rate, bound, level)),
        by_mcnemar=possible(provable_by_mcnemar(questions, rate, level)),
    )


def _right_counts(runs: Sequence[RunRecord], rule: str) -> dict[str, int]:
    """Return how many runs have each question right, of the questions that all runs answered, by id."""
    first, *others = [run.answered_rights(rule) for run in runs]
    return {
        id_: right + sum(rights[id_] for rights in others)
        for id_, right in first.items()
        if all(id_ in rights for rights in others)
    }


def _repeat(run: RunRecord, rule: str, ids: Collection[str]) -> Repeat:
    rights = run.rights(rule)
    ex = Accuracy(sum(rights[id_] for id_ in ids), len(ids))
    cost = run.cost
    return Repeat(run.run_id, run.started, ex, cost.calls, cost.cost_usd, cost.from_scratch_usd)


def _unstable(run: RunRecord, right: Mapping[str, int], runs: int) -> tuple[Stability, ...]:
    questions = [run.scored_rows[id_].question for id_, count in right.items() if 0 < count < runs]
    unstable = [
        Stability(question.id, question.database_id, question.difficulty, question.text, right[question.id])
        for question in questions
    ]
    return tuple(sorted(unstable, key=lambda question: abs(2 * question.right - runs)))


def _warnings(repeats: Sequence[RunRecord]) -> Iterator[str]:
    versions = dict.fromkeys((repeat.version, repeat.git_commit) for repeat in repeats)
    if len(versions) > 1:
        yield f"The repeats ran with {len(versions)} versions of Crosscheck: some differences may be due to its code."
    engines = dict.fromkeys(repeat.engine for repeat in repeats)
    if len(engines) > 1:
        yield f"The SQL was executed by {shorten(tuple(engines), 3)}: some differences may be due to it."


SUFFIX = ":repeats"
"""After the name of a run: its repeats are meant."""


def repeated_run(reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    """Return the run that a user refers to; a repeat stands for the run that it repeats."""
    run = find_run(reference, runs)
    parent = run.tags.get(NOISE)
    return find_run(parent, runs) if parent else run


def repeats_of(run_id: str, runs: Sequence[RunHeader]) -> tuple[RunHeader, ...]:
    """Return the repeats of a run that ended with an answer to every question that can be answered, by their number.

    Of several with one number it is the latest. Runs are given newest first.
    """
    repeats: dict[int, RunHeader] = {}
    for run in runs:
        whole = run.status == "complete" and not run.retryable and not run.rows_removed
        if run.tags.get(NOISE) == run_id and whole:
            repeats.setdefault(int(run.tags[REPEAT]), run)
    return tuple(repeats[number] for number in sorted(repeats))


def read_side(names: str, runs: Sequence[RunHeader], warehouse: Warehouse) -> tuple[RunRecord, ...]:
    """Return the runs that a user names on one side of a comparison, in the order in which they are named.

    `names`: a run; several, separated by commas; or "RUN:repeats", the repeats that `--repeats` made of a run. `runs`:
    all runs that there are, newest first.
    """
    run_ids: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        if name.endswith(SUFFIX):
            run = repeated_run(name.removesuffix(SUFFIX), runs)
            repeats = [repeat.run_id for repeat in repeats_of(run.run_id, runs)]
            if not repeats:
                raise DataError(
                    f"{name}: the run {run.run_id} has no repeats. Its command with --repeats 5 makes them."
                )
            run_ids += repeats
        else:
            run_ids.append(find_run(name, runs).run_id)
    if twice := next((run_id for run_id in run_ids if run_ids.count(run_id) > 1), None):
        raise DataError(f"{names}: the run {twice} is named twice. Name each run once.")
    return tuple(warehouse.read_run(run_id) for run_id in run_ids)


def measured_noise(
    current: RunRecord, runs: Sequence[RunHeader], warehouse: Warehouse, level: float
) -> MeasuredNoise | None:
    """Return the latest measurement that applies to a run, for tests at a level; None where there is none.

    It was made on at least `MIN_MEASURED` repeats of a run of the same benchmark, questions, backbone and pipeline, and
    with the same settings as far as these can influence an answer (`_relevant`), prompts and own code. Runs are given
    newest first.
    """
    parents = dict.fromkeys(
        run.tags[NOISE] for run in runs if NOISE in run.tags and run.combination == current.combination
    )
    for parent in parents:
        repeats = repeats_of(parent, runs)
        if len(repeats) < MIN_MEASURED:
            continue
        records = [warehouse.read_run(repeat.run_id) for repeat in repeats]
        if _relevant(records[0].settings) != _relevant(current.settings):
            continue
        if changed_sources(records[0], current):
            continue
        # Without a question that all repeats answered, they measure nothing.
        if right_counts := _right_counts(records, current.rule):
            return measured_rate(parent, list(right_counts.values()), len(records), level)
    return None


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that can influence an answer or its verdict, by their keys."""
    flat = flatten(dict(settings))
    return {key: value for key, value in flat.items() if not key.startswith((*_WITHOUT_INFLUENCE, *HARMLESS))}
