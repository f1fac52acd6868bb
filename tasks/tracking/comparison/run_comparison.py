"""What a comparison of two runs found, as plain records: the source of its text, JSON and page."""

from dataclasses import dataclass, field
from typing import Literal

from tasks.core.records import Question
from tasks.scoring.cost import Cost
from tasks.scoring.report import QuestionScore, Ratio
from tasks.scoring.significance import PairedTest
from tasks.tracking.comparison.corrected import CorrectedComparison
from tasks.tracking.comparison.metric_rows import MetricRow
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.pages.candidate_curve import CurveChart

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
    def question(self) -> Question:
        """The question."""
        return self.a.question

    @property
    def gold_sql(self) -> str:
        """Its gold SQL."""
        return self.a.gold_sql

    @property
    def same_sql(self) -> bool:
        """Whether both runs answered with the same SQL."""
        return self.a.outcome.sql is not None and self.a.outcome.sql == self.b.outcome.sql


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs, over the questions that are compared.

    Attributes:
        letter: "A" or "B".
        run: the evaluation.
        status: how it ended.
        ex: right answers, of the questions that are compared.
        low, high: Wilson's interval of that share.
        cost: the bill of these questions: what this run paid for; what the cache served is counted apart.
        input_tokens, output_tokens: of these questions with what the cache served, as a run without a cache
            would use them; None if unknown for a call.
        only: ids that this run scored and the other did not: left out.
        not_executable: questions that this run could not score: their database was missing, or they have no gold.
    """

    letter: Literal["A", "B"]
    run: EvaluationRun
    status: str
    ex: Ratio
    low: float
    high: float
    cost: Cost
    input_tokens: int | None
    output_tokens: int | None
    only: tuple[str, ...]
    not_executable: int

    @property
    def name(self) -> str:
        """Backbone and pipeline."""
        return self.run.name


@dataclass(frozen=True, slots=True)
class Contrast:
    """Both runs on a part of the questions, or after one stage.

    Attributes:
        name: of the part: a difficulty, a database, a stage.
        a, b: right answers; None for a stage that the run does not have.
        fixed: wrong in A and right in B; None where a run lacks the stage.
        broken: right in A and wrong in B; None likewise.
        p_value: exact McNemar test; None likewise.
        adjusted_p: that, for the number of parts beside which it stands (Holm); None likewise.
    """

    name: str
    a: Ratio | None
    b: Ratio | None
    fixed: int | None = None
    broken: int | None = None
    p_value: float | None = None
    adjusted_p: float | None = None

    @property
    def difference(self) -> float | None:
        """Accuracy of B minus accuracy of A, as a share; None where one is missing."""
        if self.a is None or self.b is None or self.a.value is None or self.b.value is None:
            return None
        return self.b.value - self.a.value


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that the runs do not share; None where a run does not have it."""

    key: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Everything that a comparison of two runs found.

    Attributes:
        rule: by which answers are right.
        a, b: the runs; differences are B minus A.
        result: the paired test and its verdict.
        by_difficulty, by_database: parts of the questions; empty where there are no grades.
        stages: after each stage.
        flips: questions that one run has right and the other wrong, in benchmark order.
        same_sql: questions that both runs answered with the same SQL.
        settings: what differs in the settings of the runs.
        warnings: what a reader must know before trusting the numbers.
        quarantined: ids of compared questions whose gold is known to be wrong.
        without_quarantine: the test without these; None where there are none, or nothing else.
        metrics: the values of every metric that applies to one of the runs.
        candidates: accuracy against cost over the number of candidates; None where neither run has several.
        corrected: both runs on corrected golds; None where neither was scored with any.
    """

    rule: str
    a: Side
    b: Side
    result: PairedTest
    by_difficulty: tuple[Contrast, ...]
    by_database: tuple[Contrast, ...]
    stages: tuple[Contrast, ...]
    flips: tuple[Pair, ...] = field(repr=False)
    same_sql: int
    settings: tuple[SettingChange, ...]
    warnings: tuple[str, ...]
    quarantined: tuple[str, ...] = ()
    without_quarantine: PairedTest | None = None
    metrics: tuple[MetricRow, ...] = ()
    candidates: CurveChart | None = None
    corrected: CorrectedComparison | None = None
