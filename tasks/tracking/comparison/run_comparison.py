"""What a comparison of two runs found, as records: the object of `crosscheck compare --json`."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, computed_field

from tasks.scoring.cost import Cost
from tasks.scoring.report import QuestionScore
from tasks.scoring.score import Accuracy, Score
from tasks.scoring.significance import PairedTest
from tasks.scoring.statistics.noninferiority import NonInferiority
from tasks.tracking.comparison.metric_rows import MetricRow

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
class Answered:
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
    a: Answered
    b: Answered


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs, over the questions that are compared."""

    letter: Literal["A", "B"]  # "A" or "B"
    run_id: str
    backbone: str
    pipeline: str
    status: str  # how the run ended
    tags: Mapping[str, str]
    started: datetime.datetime
    engine: str
    ex: Accuracy  # right answers, of the questions that are compared
    cost: Cost  # the bill of these questions: what this run paid for; what the cache served is counted apart
    # input_tokens, output_tokens: of these questions with what the cache served, as a run without a cache would use
    # them; None if unknown for a call
    input_tokens: int | None
    output_tokens: int | None
    left_out: tuple[str, ...]  # ids that this run scored and the other did not
    # questions that this run could not score: their database was missing, or they have no gold
    not_executable: int

    @property
    def name(self) -> str:
        """Backbone and pipeline."""
        return f"{self.backbone} | {self.pipeline}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """Both runs on a part of the questions, or after one stage."""

    name: str  # of the part: a difficulty, a database, a stage
    # a, b: right answers; None for a stage that the run does not have
    a: Accuracy | None
    b: Accuracy | None
    fixed: int | None = None  # wrong in A and right in B; None where a run lacks the stage
    broken: int | None = None  # right in A and wrong in B; None likewise
    p_value: float | None = None  # exact McNemar test; None likewise
    # that, for the number of parts beside which it stands (Holm); None likewise
    adjusted_p: float | None = None

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

    # name, title: of the variant
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


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Everything that a comparison of two runs found."""

    # benchmark, revision, question_sha256: of both runs
    benchmark: str
    revision: str
    question_sha256: str
    rule: str  # by which answers are right
    # a, b: the runs; differences are B minus A
    a: Side
    b: Side
    result: PairedTest  # the paired test and its verdict
    same_sql: int  # questions that both runs answered with the same SQL
    # by_difficulty, by_database: parts of the questions; empty where there are no grades
    by_difficulty: tuple[Contrast, ...]
    by_database: tuple[Contrast, ...]
    stages: tuple[Contrast, ...]  # after each stage
    # the values of every metric that applies to one of the runs; empty where the runs scored different questions
    metrics: tuple[MetricRow, ...]
    settings: tuple[SettingChange, ...]  # what differs in the settings of the runs
    left_out: tuple[str, ...]  # which questions are not compared, in sentences
    warnings: tuple[str, ...]  # what a reader must know before trusting the numbers
    # whether B is not worse by more than a margin; None where no margin was given
    noninferiority: NonInferiority | None = None
    gate: GateResult | None = None  # None where no condition was given
    # the score variants that one of the runs has, by name
    variants: Mapping[str, VariantContrast] = field(default_factory=dict)
    # the object "candidates" of a run's summary by its letter; {} where no run has several candidates
    candidates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    # questions that one run has right and the other wrong, in benchmark order
    flips: tuple[Flip, ...] = field(default=(), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON; what is not known is null, never 0."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return found


@cache
def _adapter() -> TypeAdapter[RunComparison]:
    return TypeAdapter(RunComparison)
