"""Is B better than A: one run or several on each side; the object of `crosscheck compare --json`, and its gate."""

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal

from pydantic import computed_field

from tasks.core.errors import ConfigurationError
from tasks.core.wording import DASH, MINUS, agreeing, counted, counts, percent, points, signed
from tasks.documents.model import Table
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost
from tasks.scoring.metric import HEADLINE, SHARE, Better, Metric, find_metrics
from tasks.scoring.repeated import RepeatedTest
from tasks.scoring.scores import Accuracy, QuestionScore, Ratio, Score, Value
from tasks.scoring.significance import NonInferiority, PairedTest, needed_net

CAPTION = "over all scored questions, and not tested against chance"
DESCRIPTIVE = frozenset({"title", "unit", "better", HEADLINE})


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One value of one metric in both runs."""

    name: str  # of the metric
    part: str  # which of its values; "" for the metric's own
    words: str  # the part as a person reads it
    title: str  # the metric's title
    unit: str  # its unit; of its own value only
    better: Better  # which way is better; None where neither is
    # a, b: the values; None where the metric does not apply to a run, or the run has no summary
    a: Value | None
    b: Value | None

    @computed_field
    @property
    def difference(self) -> float | None:
        """Value of B minus value of A; of shares, as a share; None where one is unknown."""
        a, b = (value.value if isinstance(value, Ratio) else value for value in (self.a, self.b))
        return None if a is None or b is None else b - a

    @property
    def is_share(self) -> bool:
        """Whether it is a share in 0..1."""
        values = [value for value in (self.a, self.b) if value is not None]
        return (bool(self.part) or self.unit == SHARE) and all(isinstance(value, Ratio) for value in values)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text: what, A, B, B minus A, which way is better."""
        change = DASH
        if self.difference is not None and self.is_share:
            change = points(self.difference)
        elif self.difference is not None:
            integers = isinstance(self.a, int) and isinstance(self.b, int)
            change = signed(self.difference, "d" if integers else ".2f")
        title = f"{self.title}: {self.words}" if self.part else self.title
        return title, self._text(self.a), self._text(self.b), change, self.better or ""

    def _text(self, value: Value | None) -> str:
        if isinstance(value, Ratio):
            if self.is_share:
                return f"{percent(value)} ({counts(value)})"
            value = value.value
        if value is None:
            return DASH
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def metric_rows(a: RunRecord, b: RunRecord) -> tuple[MetricRow, ...]:
    """Return the values of every registered metric, and of a user's own metrics that a run has.

    () if the runs scored different questions: their values are then over all questions of each run. A value has no row
    if it is missing in both runs, 0, or a share whose denominator is 0. The `part` of a row is the path of its value in
    the metric's object, such as "by_hardness easy".
    """
    if a.scored_rows.keys() != b.scored_rows.keys():
        return ()
    rows = []
    for metric in _metrics(a, b):
        values_a, values_b = (dict(_values(run.metrics.get(metric.name))) for run in (a, b))
        rows += [
            MetricRow(
                name=metric.name,
                part=part,
                words=" ".join(metric.words.get(key, key) for key in part.split(" ")),
                title=metric.title,
                unit=metric.unit,
                better=metric.better,
                a=values_a.get(part),
                b=values_b.get(part),
            )
            for part in dict.fromkeys([*values_a, *values_b])
            if _is_informative(values_a.get(part)) or _is_informative(values_b.get(part))
        ]
    return tuple(rows)


def as_table(rows: Sequence[MetricRow], *, equal: bool = True) -> Table:
    """Return the rows as a table; those without a difference are in it if `equal`, else the caption counts them."""
    listed = [row for row in rows if equal or row.difference != 0]
    equal_rows = len(rows) - len(listed)
    left_out = f"; {counted(equal_rows, 'value')} equal in both" if equal_rows else ""
    header = ("", "A", "B", f"B\N{NO-BREAK SPACE}{MINUS}\N{NO-BREAK SPACE}A", "better")
    return Table("Metrics", header, tuple(row.cells for row in listed), f"{CAPTION}{left_out}", keep=4)


def _is_informative(value: Value | None) -> bool:
    """Return whether a value says anything: no count of 0, no share of nothing."""
    return bool(value.total if isinstance(value, Ratio) else value)


def _metrics(a: RunRecord, b: RunRecord) -> Iterable[Metric]:
    """Return metrics in the summary's order; of those of a user's file, which is not imported, what the runs say."""
    metrics = {metric.name: metric for metric in find_metrics()}
    for run in (a, b):
        for reference in run.settings_of("benchmark").get("metrics") or ():
            name = str(reference).rpartition(":")[2]
            facts: dict[str, Any] = {"title": name, "unit": SHARE, "better": None}
            for data in (a.metrics.get(name), b.metrics.get(name)):
                facts |= data if isinstance(data, Mapping) else {}
            declared = {key: facts[key] for key in ("title", "unit", "better")}
            metrics.setdefault(name, Metric(name, measure=lambda run: None, **declared))
    return metrics.values()


def _values(data: Any, part: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the values in a metric's object of the summary, by their path: shares, numbers, the length of a list."""
    if isinstance(data, bool):
        return
    if isinstance(data, int | float):
        yield part, data
    elif isinstance(data, list) and not part:
        yield part, len(data)
    elif isinstance(data, Mapping):
        inner = {key: value for key, value in data.items() if key not in DESCRIPTIVE}
        if {"total", "value"} <= inner.keys():
            correct = inner.pop("correct", None)  # a mean has "sum" instead
            yield part, Ratio(inner.pop("sum", correct), inner.pop("total"))
            del inner["value"]  # it follows from the others
        for key, value in inner.items():
            yield from _values(value, part if key == "value" else f"{part} {key}".strip())


Change = Literal["fixed", "broken"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One question in both runs, and whether it is right in each."""

    a: QuestionScore
    b: QuestionScore
    right_a: bool
    right_b: bool

    @property
    def change(self) -> Change | None:
        """Whether B fixed or broke it; None where both are right or both are wrong."""
        if self.right_a == self.right_b:
            return None
        return "fixed" if self.right_b else "broken"

    @property
    def same_sql(self) -> bool:
        """Whether both runs answered with the same SQL."""
        return self.a.outcome.sql is not None and self.a.outcome.sql == self.b.outcome.sql


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """What one run answered to a question; null for what there is not."""

    sql: str | None
    correct: bool
    status: str
    error: str | None
    row_count: int | None
    failure: str | None
    stages: Mapping[str, bool]
    in_words: str


@dataclass(frozen=True, slots=True)
class Flip:
    """A question that one run has right and the other wrong."""

    question_id: str
    change: Change
    database: str
    difficulty: str | None
    question: str
    evidence: str
    gold_sql: str
    a: ComparedAnswer
    b: ComparedAnswer


@dataclass(frozen=True, slots=True)
class SideRun:
    """One run of a side."""

    run_id: str
    ex: Accuracy  # right answers, of the questions that are compared
    status: str  # how the run ended
    why_unranked: str  # why it must not be ranked, as a clause without its subject; "" where it may be


@dataclass(frozen=True, slots=True)
class Side:
    """One run, or several runs of one system, over the questions that are compared."""

    letter: Literal["A", "B"]
    run_id: str  # of several runs, their ids, separated by commas
    backbone: str
    pipeline: str
    status: str  # how the run ended; of several, how the first one ended that is not complete
    tags: Mapping[str, str]  # of several runs, those of the first
    started: datetime.datetime  # of several runs, when the first began
    engine: str
    ex: Accuracy | None  # right answers; None of several runs, whose mean the test has
    cost: Cost  # what was paid for these questions; what the cache served is counted apart
    # tokens of these questions as without a cache; None if unknown for a call
    input_tokens: int | None
    output_tokens: int | None
    left_out: tuple[str, ...]  # ids that only this run scored; () of several runs
    not_executable: int  # questions that were not scored: their database was missing, or they have no gold
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
    # runs with a right answer
    right_a: int
    right_b: int


@dataclass(frozen=True, slots=True)
class Contrast:
    """Both runs on a part of the questions, or after one stage."""

    name: str  # of the part: a difficulty, a database, a stage
    # a, b: right answers; None for a stage that the run does not have
    a: Accuracy | None
    b: Accuracy | None
    # None where a run lacks the stage
    fixed: int | None = None  # questions that are wrong in A and right in B
    broken: int | None = None  # questions that are right in A and wrong in B
    p_value: float | None = None  # of the exact McNemar test
    adjusted_p: float | None = None  # p_value, adjusted for the number of parts in the table (Holm)

    @computed_field
    @property
    def difference(self) -> float | None:
        """Accuracy of B minus accuracy of A, as a share; None where one is missing."""
        if self.a is None or self.b is None or self.a.ex is None or self.b.ex is None:
            return None
        return self.b.ex - self.a.ex


@dataclass(frozen=True, slots=True)
class VariantContrast:
    """Both runs by a score variant, over the questions that both scored."""

    name: str
    title: str
    # a, b: scores; None for a run that has no such score
    a: Score | None
    b: Score | None
    # the paired test; None where the variant does not mean the same in both runs
    result: PairedTest | None = None
    problem: str = ""  # why there is no test, in a sentence; "" where there is one


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that the runs do not share; None where a run does not have it."""

    key: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a comparison passes the condition of `--fail-if`."""

    failed: bool
    reason: str  # in a sentence


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """What a comparison found; differences are B minus A."""

    benchmark: str
    revision: str
    question_sha256: str
    rule: str  # by which answers are right
    a: Side
    b: Side
    result: PairedTest | RepeatedTest  # the test, of one run on each side or of several, and its verdict
    warnings: tuple[str, ...]  # what a reader must know before trusting the numbers
    # whether B is not worse by more than a margin; None without one
    noninferiority: NonInferiority | None = None
    gate: GateResult | None = None  # None where no condition was given
    # of several runs on a side: questions that one side has right more often, largest difference first
    changes: tuple[QuestionChange, ...] = ()

    # The rest is of one run on each side; with several it is empty.
    same_sql: int | None = None  # questions that both runs answered with the same SQL
    # parts of the questions; empty where there are no grades
    by_difficulty: tuple[Contrast, ...] = ()
    by_database: tuple[Contrast, ...] = ()
    stages: tuple[Contrast, ...] = ()  # after each stage
    # the values of every metric that applies to one of the runs; empty where the runs scored different questions
    metrics: tuple[MetricRow, ...] = ()
    settings: tuple[SettingChange, ...] = ()  # what differs in the settings of the runs
    left_out: tuple[str, ...] = ()  # which questions are not compared, in sentences
    # the score variants that one of the runs has, by name
    variants: Mapping[str, VariantContrast] = field(default_factory=dict)
    # the object "candidates" of a run's summary by its letter; {} where no run has several candidates
    candidates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # questions that one run has right and the other wrong, in benchmark order
    flips: tuple[Flip, ...] = ()

    def __str__(self) -> str:
        return self.verdict

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        names = ("question_id", "change", "database", "question")
        questions = [{name: getattr(flip, name) for name in names} for flip in self.flips]
        table = str(DataFrame(questions).to_html(index=False)) if questions else ""
        return f"<p>{escape(self.verdict)}</p>{table}"

    @property
    def difference(self) -> float:
        """Accuracy of B minus accuracy of A, as a share."""
        return self.result.difference

    @property
    def p_value(self) -> float:
        """The test's p-value."""
        return self.result.p_value

    @property
    def better(self) -> Literal["A", "B"] | None:
        """The side that is significantly better; None where the test proves no difference."""
        return self.result.better

    @property
    def verdict(self) -> str:
        """The conclusion, as a sentence."""
        return self.result.verdict

    @property
    def same_system(self) -> bool:
        """Whether both sides have the same backbone and pipeline."""
        return self.a.name == self.b.name

    @property
    def paired(self) -> PairedTest:
        """The test of one run against one run."""
        assert isinstance(self.result, PairedTest)
        return self.result


def gated(comparison: Comparison) -> Comparison:
    """Return the comparison with the result of its gate: it fails if B is worse than A.

    Without a margin, B is worse if the test proves it; a test of few answers proves nothing. With a margin, B counts
    as worse unless the non-inferiority test proves that it is not worse by the margin or more.
    """
    test, margin = comparison.result, comparison.noninferiority
    loses = test.significant and test.difference < 0
    if why := _why_undecided(comparison, loses=loses):
        raise ConfigurationError(f"The gate cannot decide: {why}")
    if margin is not None:
        return replace(comparison, gate=GateResult(not margin.proven, margin.verdict))
    # with fewer differing answers, no split of them would be significant
    min_differing = next(n for n in itertools.count(1) if needed_net(n, test.level) is not None)
    if test.differing >= min_differing:
        name = "exact McNemar test" if isinstance(test, PairedTest) else "sign-flip test"
        basis = f"{name}, level {test.level:g}"
    else:
        differing = counted(test.differing, "answer", "differs")
        basis = f"{differing}; at least {min_differing} must for p < {test.level:g}"
    left_out = [
        f"{counted(len(side.left_out), 'question')} that only {side.letter} scored left out"
        for side in (comparison.a, comparison.b)
        if side.left_out
    ]
    reason = "B is worse than A" if loses else "no loss is proven"
    return replace(comparison, gate=GateResult(loses, f"{reason} ({'; '.join((basis, *left_out))})."))


def _why_undecided(comparison: Comparison, *, loses: bool) -> str:
    """Return why the test decides nothing, as a sentence; "" if it decides."""
    test = comparison.result
    sides = (comparison.a, comparison.b)
    if sides[0].run_id == sides[1].run_id:
        return f"A and B are the same run, {sides[0].run_id}. Name the run of the release second."
    for side in sides:
        for run in side.runs:
            if run.status != "complete":
                return (
                    f"the run {run.run_id} ({side.letter}) is {run.status}. The command that began it completes it; "
                    "compare again afterwards."
                )
    if why := why_not_ranked(sides):
        return why
    # of two runs, unanswered questions matter only for a proven loss, which right answers to them might undo
    answers_matter = not isinstance(test, PairedTest) or (loses and comparison.noninferiority is None)
    return test.not_ranked if answers_matter else ""


def why_not_ranked(sides: Sequence[Side]) -> str:
    """Return why two sides must not be ranked, whatever the test finds, as a sentence; "" if they may be."""
    runs: dict[str, list[str]] = {}
    for side in sides:
        for run in side.runs:
            if run.why_unranked:
                name = side.letter if len(side.runs) == 1 else f"{run.run_id} in {side.letter}"
                runs.setdefault(run.why_unranked, []).append(name)
    clauses = " and ".join(_of_all(names, why) for why, names in runs.items())
    winner = "run" if all(len(side.runs) == 1 for side in sides) else "side"
    return f"{clauses}, so no {winner} wins." if clauses else ""


def _of_all(names: Sequence[str], clause: str) -> str:
    """Return a clause, which begins with a verb in the singular, with its subjects."""
    verb, _, rest = clause.partition(" ")
    return f"{' and '.join(names)} {agreeing(verb, len(names))} {rest}"
