"""The noise of an evaluation, measured on identical runs: the object `noise` of `evaluate --repeats N --json`."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from statistics import mean, stdev
from typing import Any

from pydantic import computed_field

from tasks.core.errors import DataError
from tasks.core.wording import counted, shorten
from tasks.results.parameters import flatten
from tasks.results.run_record import NOISE, REPEAT, RunHeader, RunRecord
from tasks.results.warehouse.run_names import find_run
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring import repeated as statistics
from tasks.scoring.repeated import (
    Components,
    flip_bound,
    flip_rate,
    noise_p,
    provable_by_noise,
    provable_loss,
)
from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.score import Accuracy
from tasks.scoring.significance import LEVEL
from tasks.settings.evaluation import HARMLESS, Gate

MIN_REPEATS = 2
"""Repeats that a measurement needs."""
REPEATS = (1, 2, 3, 5, 10)
"""Numbers of runs on either side for which the smallest provable loss is computed."""


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
    texts: int  # different SQL texts among the answers


@dataclass(frozen=True, slots=True)
class ProvableLoss:
    """The smallest loss of execution accuracy that a comparison proves in most cases."""

    # runs on either side; 1 is one night against one run
    runs: int
    level: float  # of the two-sided test
    loss: float  # as a share
    measured: bool = False  # whether the test uses the measured flip rate, as nightly runs do


@dataclass(frozen=True, slots=True)
class Noise:
    """How much identical runs differ."""

    # run_id, benchmark, revision, backbone, pipeline, rule: of the run that was repeated
    run_id: str
    benchmark: str
    revision: str
    backbone: str
    pipeline: str
    rule: str
    repeats: tuple[Repeat, ...]
    questions: int  # questions that all repeats answered, or failed for a reason that no re-run corrects
    # ids of scored questions to which a repeat has no answer for a retryable reason
    left_out: tuple[str, ...]
    ex_mean: float  # mean execution accuracy of the repeats, as a share
    ex_sd: float  # its standard deviation between the repeats (n - 1), as a share
    # the standard deviation that the flip rate explains: of independent questions
    expected_sd: float
    # share of the questions whose verdict differs between two repeats, over all pairs of repeats
    flip_rate: float
    flip_bound: float  # upper bound of the flip rate, wrong in one of 1,000 cases
    text_rate: float  # share of the questions whose SQL text differs between two repeats, over all pairs
    pass_k: Mapping[int, float]  # by k: mean probability that k runs are all right
    majority: Accuracy  # questions that are right in more than half of the repeats
    always_right: int  # questions that every repeat has right
    always_wrong: int
    components: Components
    provable: tuple[ProvableLoss, ...]
    original: Accuracy  # the run that was repeated, on the same questions; it is in no other figure
    warnings: tuple[str, ...] = ()
    unstable: tuple[Stability, ...] = field(default=(), repr=False)  # the other questions, least stable first

    @property
    def runs(self) -> int:
        """Number of repeats."""
        return len(self.repeats)

    @property
    def night_loss(self) -> float:
        """The smallest loss that one night proves in most cases, as a share: by the test that nightly runs use."""
        return min(
            loss.loss for loss in self.provable if loss.runs == 1 and loss.level == self.provable[0].level
        )

    @computed_field
    @property
    def model_share(self) -> float | None:
        """The model's share of the variance of single verdicts; the rest is the questions'."""
        return self.components.model_share


def measure(parent: RunRecord, repeats: Sequence[RunRecord]) -> Noise:
    """Return how much the repeats of a run differ, by its headline rule.

    The smallest provable loss of a night is that of the default gate.
    """
    if len(repeats) < MIN_REPEATS:
        raise DataError(
            f"{counted(len(repeats), 'repeat')} of {parent.run_id}: {MIN_REPEATS} are the least to compare."
        )
    rule = parent.rule
    tables = [repeat.scored_rows for repeat in repeats]
    scored = [name for name in tables[0] if all(name in table for table in tables)]
    common = [name for name in scored if not any(table[name].outcome.retryable for table in tables)]
    if not common:
        raise DataError(f"The repeats of {parent.run_id} have no answered question in common.")
    rights = {name: [is_right(table[name].final, rule) for table in tables] for name in common}
    counts, runs, total = [sum(rights[name]) for name in common], len(repeats), len(common)
    scores = [Accuracy(sum(rights[name][place] for name in common), total) for place in range(runs)]
    rate, bound = statistics.flip_rate(counts, runs), statistics.flip_bound(counts, runs)
    shares = [score.correct / total for score in scores]
    original = {row.question.id: is_right(row.final, rule) for row in parent.rows}
    return Noise(
        run_id=parent.run_id,
        benchmark=parent.benchmark,
        revision=parent.revision,
        backbone=parent.backbone,
        pipeline=parent.pipeline,
        rule=rule,
        repeats=tuple(
            Repeat(
                repeat.run_id,
                repeat.started,
                score,
                repeat.cost.calls,
                repeat.cost.cost_usd,
                repeat.cost.from_scratch_usd,
            )
            for repeat, score in zip(repeats, scores, strict=True)
        ),
        questions=total,
        left_out=tuple(name for name in scored if name not in rights),
        ex_mean=mean(shares),
        ex_sd=stdev(shares),
        expected_sd=sqrt(rate / 2 / total),
        flip_rate=rate,
        flip_bound=bound,
        text_rate=_text_rate([[table[name].outcome.sql for table in tables] for name in common]),
        pass_k={k: statistics.pass_hat(counts, runs, k) for k in range(1, runs + 1)},
        majority=Accuracy(sum(2 * count > runs for count in counts), total),
        always_right=sum(count == runs for count in counts),
        always_wrong=sum(count == 0 for count in counts),
        components=statistics.components(counts, runs),
        provable=tuple(_provable(total, rate, bound)),
        original=Accuracy(sum(original.get(name, False) for name in common), total),
        warnings=tuple(_warnings(repeats)),
        unstable=_unstable([[table[name] for table in tables] for name in common], rights),
    )


def _text_rate(answers: Sequence[Sequence[str | None]]) -> float:
    pairs = [one != other for answer in answers for one, other in combinations(answer, 2)]
    return sum(pairs) / len(pairs)


def _provable(questions: int, rate: float, bound: float) -> Iterator[ProvableLoss]:
    level = Gate().level
    yield ProvableLoss(1, level, statistics.provable_by_noise(questions, rate, bound, level), measured=True)
    yield ProvableLoss(1, level, statistics.provable_loss(questions, rate, 1, level))
    for runs in REPEATS:
        yield ProvableLoss(runs, LEVEL, statistics.provable_loss(questions, rate, runs, LEVEL))


def _unstable(
    rows: Sequence[Sequence[QuestionScore]], rights: Mapping[str, Sequence[bool]]
) -> tuple[Stability, ...]:
    unstable = []
    for repeats in rows:
        question, right = repeats[0].question, sum(rights[repeats[0].question.id])
        if 0 < right < len(repeats):
            texts = len({row.outcome.sql for row in repeats})
            names = (question.id, question.database_id, question.difficulty, question.text)
            unstable.append(Stability(*names, right, texts))
    return tuple(sorted(unstable, key=lambda question: abs(2 * question.right - len(rows[0]))))


def _warnings(repeats: Sequence[RunRecord]) -> Iterator[str]:
    versions = dict.fromkeys((repeat.version, repeat.git_commit) for repeat in repeats)
    if len(versions) > 1:
        yield f"The repeats ran with {len(versions)} versions of Crosscheck: some differences may be due to its code."
    engines = dict.fromkeys(repeat.engine for repeat in repeats)
    if len(engines) > 1:
        yield f"The SQL was executed by {shorten(tuple(engines), 3)}: some differences may be due to it."
    cached = [repeat.run_id for repeat in repeats if repeat.cost.calls == 0 and repeat.cost.cached_calls]
    kinds = {str(repeat.settings_of("backbone").get("kind")) for repeat in repeats}
    if cached and kinds != {"offline"}:
        yield (
            f"{counted(len(cached), 'repeat')} paid for no call: an earlier attempt of the same repeat had paid "
            f"({shorten(cached, 3)})."
        )


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


def read_side(names: str, warehouse: Warehouse) -> tuple[RunRecord, ...]:
    """Return the runs that a user names on one side of a comparison.

    Args:
        names: a run; several, separated by commas; or "RUN:repeats", the repeats that `--repeats` made of a run.
        warehouse: where they are.
    """
    runs, run_ids = warehouse.runs(), list[str]()
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


MIN_MEASURED = 3
"""Repeats that a measurement needs to be used."""
_OTHER = (
    "backbone.epoch",
    "backbone.prices",
    "backbone.description",
    "pipeline.description",
    "pipeline.source",
)


@dataclass(frozen=True, slots=True)
class MeasuredNoise:
    """A flip rate that was measured on repeats of a run."""

    run_id: str  # of the run that was repeated
    runs: int  # repeats
    questions: int  # questions that all of them answered
    flip_rate: float  # share of the questions whose verdict differs between two repeats
    flip_bound: float  # its upper bound
    # by_rate, by_mcnemar: the loss that one run against another proves in most cases, as a share: by this rate, and by
    # the exact McNemar test
    by_rate: float
    by_mcnemar: float

    @property
    def decides(self) -> bool:
        """Whether a comparison is judged by this rate, which depends on the measurement alone: it proves more."""
        return self.by_rate < self.by_mcnemar

    def p_value(self, fixed: int, broken: int) -> float:
        """Return the p-value of a difference between two runs, if answers flip at the measured rate at most."""
        return noise_p(fixed, broken, self.questions, self.flip_bound)


def measured_noise(
    current: RunHeader,
    settings: Mapping[str, Any],
    runs: Sequence[RunHeader],
    warehouse: Warehouse,
    level: float,
) -> MeasuredNoise | None:
    """Return the latest measurement that applies to a run, for tests at a level; None where there is none.

    It was made on at least `MIN_MEASURED` repeats of a run of the same benchmark, questions, backbone, pipeline and
    settings; settings that do not influence an answer may differ. Runs are given newest first.
    """
    parents = dict.fromkeys(
        run.tags[NOISE] for run in runs if NOISE in run.tags and run.combination == current.combination
    )
    for parent in parents:
        repeats = repeats_of(parent, runs)
        if len(repeats) < MIN_MEASURED:
            continue
        read = [warehouse.read_run(repeat.run_id) for repeat in repeats]
        if _relevant(read[0].settings) != _relevant(settings):
            continue
        rule = current.rule
        tables = [stored.answered_rights(rule) for stored in read]
        common = [name for name in tables[0] if all(name in table for table in tables)]
        if common:
            return measured_rate(
                parent, [sum(table[name] for table in tables) for name in common], len(read), level
            )
    return None


def measured_rate(run_id: str, counts: Sequence[int], runs: int, level: float) -> MeasuredNoise:
    """Return the flip rate of questions, given how many of the repeats of a run have each one right."""
    questions, rate, bound = len(counts), flip_rate(counts, runs), flip_bound(counts, runs)
    return MeasuredNoise(
        run_id=run_id,
        runs=runs,
        questions=questions,
        flip_rate=rate,
        flip_bound=bound,
        by_rate=provable_by_noise(questions, rate, bound, level),
        by_mcnemar=provable_loss(questions, rate, 1, level),
    )


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that can influence an answer or its verdict, by their keys."""
    return {
        key: value
        for key, value in flatten(dict(settings)).items()
        if not key.startswith((*_OTHER, *HARMLESS))
    }
