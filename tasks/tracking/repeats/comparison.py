"""Several runs against several others: the object of `crosscheck compare --json` where a side has several runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import stdev
from typing import Any, Literal

from pydantic import TypeAdapter

from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted, shorten
from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.score import Accuracy
from tasks.scoring.statistics.noninferiority import NonInferiority
from tasks.scoring.statistics.repeated import RepeatedTest, compare_repeated, noninferiority_of_repeated
from tasks.tracking.comparison.comparability import common_rule
from tasks.tracking.comparison.gate import decided
from tasks.tracking.comparison.run_comparison import GateResult
from tasks.tracking.parameters import flatten
from tasks.tracking.warehouse.stored import StoredRun


@dataclass(frozen=True, slots=True)
class SideRun:
    """One run of a side, over the questions that are compared."""

    run_id: str
    ex: Accuracy
    status: str  # how it ended


@dataclass(frozen=True, slots=True)
class RepeatedSide:
    """The runs of one side."""

    letter: Literal["A", "B"]
    backbone: str
    pipeline: str
    runs: tuple[SideRun, ...]
    sd: float | None  # standard deviation of EX between the runs (n - 1), as a share; None of a single run

    @property
    def name(self) -> str:
        """Backbone and pipeline."""
        return f"{self.backbone} | {self.pipeline}"


@dataclass(frozen=True, slots=True)
class QuestionChange:
    """A question that one side has right more often than the other."""

    question_id: str
    database: str
    difficulty: str | None
    question: str
    # right_a, right_b: runs with a right answer
    right_a: int
    right_b: int


@dataclass(frozen=True, slots=True)
class RepeatedComparison:
    """What a comparison of several runs found."""

    # benchmark, revision, question_sha256: of all runs
    benchmark: str
    revision: str
    question_sha256: str
    rule: str  # by which answers are right
    a: RepeatedSide
    b: RepeatedSide
    result: RepeatedTest
    warnings: tuple[str, ...]  # what a reader must know before trusting the numbers
    noninferiority: NonInferiority | None = None  # None where no margin was given
    gate: GateResult | None = None  # None where no condition was given
    # questions that one side has right more often, those with the largest difference first
    changes: tuple[QuestionChange, ...] = field(default=(), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return found


@cache
def _adapter() -> TypeAdapter[RepeatedComparison]:
    return TypeAdapter(RepeatedComparison)


def compare_sides(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    *,
    rule: str | None = None,
    margin: float | None = None,
) -> RepeatedComparison:
    """Compare several runs of A with several of B, on the questions that all of them scored.

    Differences are B minus A. Answers are right by `rule`, or else by the headline rule of all. With a `margin`, as a
    share, it is also tested whether B is not worse by that much or more.

    Raises:
        ConfigurationError: the runs are not comparable, a run is on both sides, or the margin is not a share.
    """
    if margin is not None and not 0 < margin < 1:
        raise ConfigurationError(f"A margin of {100 * margin:g} points: write one above 0 and below 100.")
    first, runs = a[0], (*a, *b)
    if both := {each.run.run_id for each in a} & {each.run.run_id for each in b}:
        raise ConfigurationError(f"The run {min(both)} is on both sides. Name each run on one side.")
    chosen, *_ = [common_rule(first, each, rule) for each in runs]
    tables = [{row.question.id: row for row in each.rows if row.executable} for each in runs]
    common = [name for name in tables[0] if all(name in table for table in tables)]
    if not common:
        raise ConfigurationError("These runs have no scored question in common, so they cannot be compared.")
    rights = [{name: is_right(table[name].final, chosen) for name in common} for table in tables]
    counts_a, counts_b = (
        {name: sum(each[name] for each in group) for name in common}
        for group in (rights[: len(a)], rights[len(a) :])
    )
    result = compare_repeated(counts_a, len(a), counts_b, len(b))
    not_ranked = _why_not_ranked(a, b, common)
    return RepeatedComparison(
        first.run.benchmark,
        first.run.revision,
        first.run.question_sha256,
        chosen,
        _side("A", a, rights[: len(a)]),
        _side("B", b, rights[len(a) :]),
        replace(result, not_ranked=not_ranked),
        tuple(_warnings(a, b, tables, len(common))),
        None if margin is None else noninferiority_of_repeated(counts_a, len(a), counts_b, len(b), margin),
        changes=_changes(tables[0], counts_a, len(a), counts_b, len(b)),
    )


def gated_sides(found: RepeatedComparison) -> RepeatedComparison:
    """Return the comparison with the result of its gate, which fails if B is worse than A, as `gated` does.

    Raises:
        ConfigurationError: the runs do not allow a decision.
    """
    test, margin = found.result, found.noninferiority
    ended = [each for side in (found.a, found.b) for each in side.runs if each.status != "complete"]
    if why := test.not_ranked or (f"the run {ended[0].run_id} is {ended[0].status}." if ended else ""):
        raise ConfigurationError(f"The gate cannot decide: {why}")
    if margin is not None:
        return replace(found, gate=GateResult(not margin.proven, margin.verdict))
    return replace(found, gate=decided(test, "sign-flip test", test.better == "A"))


def _side(
    letter: Literal["A", "B"], runs: Sequence[StoredRun], rights: Sequence[Mapping[str, bool]]
) -> RepeatedSide:
    scores = [Accuracy(sum(each.values()), len(each)) for each in rights]
    shares = [score.ex or 0.0 for score in scores]
    return RepeatedSide(
        letter,
        runs[0].run.backbone,
        runs[0].run.pipeline,
        tuple(SideRun(each.run.run_id, score, each.status) for each, score in zip(runs, scores, strict=True)),
        stdev(shares) if len(shares) > 1 else None,
    )


def _changes(
    rows: Mapping[str, QuestionScore], a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int
) -> tuple[QuestionChange, ...]:
    found = [
        QuestionChange(
            name,
            rows[name].question.database_id,
            rows[name].question.difficulty,
            rows[name].question.text,
            a[name],
            b[name],
        )
        for name in a
        if a[name] * runs_b != b[name] * runs_a
    ]
    return tuple(sorted(found, key=lambda each: -abs(each.right_b / runs_b - each.right_a / runs_a)))


def _why_not_ranked(a: Sequence[StoredRun], b: Sequence[StoredRun], common: Sequence[str]) -> str:
    """Return why no side may be called better, as a sentence; "" where the test decides."""
    compared = set(common)
    for letter, runs in (("A", a), ("B", b)):
        for each in runs:
            if why := each.run.why_unranked:
                return f"{each.run.run_id} in {letter} {why}, so no side wins."
            lost = sum(row.outcome.retryable for row in each.rows if row.question.id in compared)
            if lost:
                return (
                    f"{each.run.run_id} in {letter} has no answer to {counted(lost, 'question')} because of retryable "
                    f'failures, so no side wins. "crosscheck rerun {each.run.run_id}" answers them.'
                )
    return ""


def _warnings(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    tables: Sequence[Mapping[str, QuestionScore]],
    compared: int,
) -> Iterator[str]:
    for letter, runs in (("A", a), ("B", b)):
        differing = _differing_settings(runs)
        if differing:
            yield (
                f"The runs of {letter} are not identical: {shorten(differing, 5)} differ. Its deviation is then not "
                "that of one system."
            )
    if len(a) != len(b):
        yield (
            f"A has {counted(len(a), 'run')} and B {len(b)}: the signs of the differences are only nearly "
            "exchangeable. The same number on both sides makes the test exact."
        )
    largest = max(len(table) for table in tables)
    if largest > compared:
        yield f"{counted(largest - compared, 'question')} that not every run scored are left out."
    for each in (*a, *b):
        if each.status != "complete":
            yield f"The run {each.run.run_id} is {each.status}."


def _differing_settings(runs: Sequence[StoredRun]) -> tuple[str, ...]:
    """Return the settings in which runs differ, the epoch and those of single runs left out."""
    tables = [flatten(dict(each.run.settings)) for each in runs]
    ignored = {"backbone.epoch"}
    names = dict.fromkeys(name for table in tables for name in table if name not in ignored)
    return tuple(name for name in names if len({table.get(name) for table in tables}) > 1)
