"""Verdicts on single questions, and the figures that an evaluation counts from them, as plain records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist
from typing import Any, Literal

from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.core.wording import counted, shorten
from tasks.documents.model import Table

CONFIDENCE = 0.95
"""Default confidence level of intervals."""


def wilson(right: float, total: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of one share, as shares; (0, 1) if there is nothing to count."""
    if not total:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2)
    share = right / total
    spread = z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    low, high = middle - half, middle + half
    return low if right else 0.0, high if right < total else 1.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Execution accuracy of some questions."""

    correct: int  # right answers
    total: int  # questions, those without an answer included
    # the share in 0..1; None of no questions. It follows from the counts, like the interval.
    ex: float | None = None
    # low, high: Wilson's interval of the share at 95 %; None of no questions
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        low, high = wilson(self.correct, self.total) if self.total else (None, None)
        ex = self.correct / self.total if self.total else None
        for name, value in (("ex", ex), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval; None of no questions."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Differs:
    """Ids of scored questions on which a variant's verdict is another than the official one, by what it is now."""

    now_right: tuple[str, ...] = ()
    now_wrong: tuple[str, ...] = ()
    # not counted: left out by the variant; with another text than the one that the model saw; without an answer
    withdrawn: tuple[str, ...] = ()
    other_text: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(getattr(self, name)) for name in DIFFERENCES)

    def in_words(self, most: int = 10) -> str:
        """List them, `right now: 3, 4; withdrawn: 7`; "" where there is none."""
        questions = ((title, getattr(self, name)) for name, title in DIFFERENCES.items())
        return "; ".join(f"{title}: {shorten(ids, most)}" for title, ids in questions if ids)


DIFFERENCES = {
    "now_right": "right now",
    "now_wrong": "wrong now",
    "withdrawn": "withdrawn",
    "other_text": "another text",
    "absent": "not in the key",
}
"""The fields of `Differs` in words."""


@dataclass(frozen=True, slots=True)
class Score(Accuracy):
    """Score of a run under a rule, by the official golds or by a variant (`tasks.scoring.variants`)."""

    rule: str = ""  # comparison rule
    variant: str = ""  # name of the variant; "" for the official score
    title: str = ""  # of the variant, for displays; "" for the official score
    # questions on which the variant's verdict is another than the official one
    differs: Differs = field(default_factory=Differs)
    # what the variant changes of single golds, by question id ("replaced", "withdrawn")
    changes: Mapping[str, str] = field(default_factory=dict)
    # the official score of the questions that the variant counts; None for the official score itself
    official: Accuracy | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A share with its numerator and denominator; `value` follows from them: None of nothing."""

    correct: float
    total: float
    value: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.correct / self.total if self.total else None)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Ratio":
        """Return the share that was written as plain JSON."""
        return cls(plain["correct"], plain["total"])


UNGRADED = "ungraded"
"""Stands for the difficulty of a question that has none."""

NO_GOLD = "no_gold"
"""The gold's status for a question that has neither a gold SQL nor an accepted result."""

Change = Literal["replaced", "added", "withdrawn", "other_text", "absent"]
"""What an answer key does to a question: other SQL in the gold's place, further SQL beside it, or it is not counted:
because the key withdraws it, has another text than the one that the model saw, or has no answer to it."""

CHANGES_IN_WORDS: Mapping[Change, str] = {
    "replaced": "other SQL",
    "added": "further SQL",
    "withdrawn": "withdrawn",
    "other_text": "another text than the model saw",
    "absent": "not in the key",
}

Value = Ratio | int | float
"""What a metric comes to: a share with numerator and denominator, a count, or a number that is neither."""


Difference = Literal[
    "", "missing_columns", "extra_columns", "missing_rows", "extra_rows", "row_order", "other_rows"
]
"""How a wrong result differs from the gold's; "" for a right result, and without a result."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one SQL compares with the gold of its question."""

    # per rule, whether it is right; empty when it could not be judged (no database, or no gold)
    correct: Mapping[str, bool]
    # the execution's status ("ok", "error", "timeout", "too_large"), or "no_answer" without a SQL
    status: str
    error: str = ""  # the database's message, "" when there is none
    row_count: int | None = None  # rows it returned; None when it did not finish
    gold_status: str = "ok"  # the gold's status; anything but "ok" is a fault of the benchmark
    seconds: float = 0.0  # time the SQL took
    gold_rows: int | None = None  # rows that the gold returned; None when it did not finish
    difference: Difference = ""  # how the result differs from the gold's if it is wrong under any rule

    @property
    def difference_in_words(self) -> str:
        """How the result differs from the gold's, in words; "" where there is nothing to compare."""
        rows, gold = self.row_count or 0, self.gold_rows or 0
        return {
            "": "",
            "missing_columns": "columns of the gold are missing",
            "extra_columns": "columns that the gold does not have",
            "missing_rows": f"{rows:,} of the gold's {counted(gold, 'row')}",
            "extra_rows": f"the gold's {counted(gold, 'row')}, and {rows - gold:,} more",
            "row_order": "the gold's rows in another order",
            "other_rows": f"other rows than the gold's ({counted(rows, 'row')}, gold {gold:,})",
        }[self.difference]


def is_right(verdict: Verdict | None, rule: str) -> bool:
    """Return whether a verdict is right under a rule; no verdict, or one that was not judged by it, is wrong."""
    return verdict is not None and verdict.correct.get(rule, False)


def flips(before: Sequence[bool], after: Sequence[bool]) -> tuple[int, int]:
    """Return how many wrong answers became right, and how many right ones wrong."""
    pairs = list(zip(before, after, strict=True))
    return sum(now and not then for then, now in pairs), sum(then and not now for then, now in pairs)


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """What an answer key says of one question, beside the official verdict and never in its place."""

    change: Change  # what the key does to the question
    golds: tuple[str, ...] = ()  # SQL whose results are right; () where the key has none
    # per rule, whether the final SQL is right; {} where the question is not counted
    correct: Mapping[str, bool] = field(default_factory=dict)
    reason: str = ""  # what is wrong with the official gold
    source: str = ""  # who says so
    question: str = ""  # the text under the key, if it is another
    evidence: str = ""  # the evidence under the key, if it is another

    @property
    def counted(self) -> bool:
        """Whether the question is in the denominator of the key's score."""
        return self.change in ("replaced", "added")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model thinks of an answer, beside its verdict: no score depends on it."""

    model: str  # name of the backbone
    right: bool  # whether it calls the answer right
    reason: str = ""  # why, in its words


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """One question, its outcome, and the verdicts on the SQL of each stage."""

    question: Question
    outcome: Outcome  # what the pipeline made of it
    final: Verdict  # verdict on the final SQL
    # verdict per candidate stage, in order; a stage that the question did not reach is absent
    stages: Mapping[str, Verdict]
    gold_sql: str  # the gold, for reports only; "" where there is none
    # False when the database or the gold (status NO_GOLD) is missing: such a question is counted apart, never scored
    executable: bool = True
    # what each answer key says of it, by the key's name; a key that leaves its gold as it is is absent
    keys: Mapping[str, KeyVerdict] = field(default_factory=dict)
    opinion: Opinion | None = None  # what a model thinks of the answer; None where none was asked
    # kinds of alternatives (`tasks.sql.alternatives`) that give the gold another result; () where the data decide it.
    # None: not looked for
    undecided: tuple[str, ...] | None = None

    @property
    def status(self) -> str:
        """Status of the final SQL's execution, or why there is none."""
        if not self.executable:
            return NO_GOLD if self.final.gold_status == NO_GOLD else "missing_database"
        return self.outcome.failure.kind if self.outcome.failure else self.final.status


@dataclass(frozen=True, slots=True)
class StageScore(Accuracy):
    """Execution accuracy of all scored questions after a stage under the headline rule, against the stage before."""

    name: str = ""  # e.g. "2_augmented_sql".
    fixed: int | None = None  # wrong before, right now (the papers' y); None for the first stage
    broken: int | None = None  # right before, wrong now (the papers' x); None for the first stage


@dataclass(frozen=True, slots=True)
class LinkingScore:
    """Schema linking over the scored questions, against gold elements (RSL-SQL, section 4)."""

    name: str  # "forward", "backward" or "both"
    nsr: Ratio  # gold columns linked, of all gold columns
    strict_recall: Ratio  # questions with every gold column linked, of all questions
    precision: Ratio  # linked columns that are gold, of all linked columns
    avg_tables: float  # linked tables per question
    avg_columns: float  # linked columns per question
    # share of the schema's columns left out, averaged over questions; None when unknown
    reduction: float | None = None
    linked: int = 0  # questions that have the link, which the averages are over


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a metric found in a run: everything that the summary, MLflow and the predictions show of it.

    A metric need only give `value`, and `by_question` where it has one value per question.

    Attributes:
        value: the metric's value; None where it has none of its own, only `further` ones.
        by_question: a cell per question id for the table of predictions; a question that is not named has none.
        further: further values by their name in MLflow.
        series: stepped values by their name in MLflow, from step 1 on.
        data: its object in the JSON summary; None: the value, with the metric's unit and which way is better.
        headline: its numbers, by title, on the first screen and the page of a nightly run; a `Ratio` is a mean over
            questions. A metric without `data` and `headline` shows its value there.
        lines: lines of the terminal's summary and of the run's description; None: one with the title and the value.
        tables: what `--details` prints.
    """

    value: Value | None = None
    by_question: Mapping[str, Any] = field(default_factory=dict, repr=False)
    further: Mapping[str, Value] = field(default_factory=dict)
    series: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    data: Any = None
    headline: Mapping[str, Value] = field(default_factory=dict)
    lines: tuple[str, ...] | None = None
    tables: tuple[Table, ...] = ()


def accuracy(scored: Sequence[QuestionScore], rule: str) -> Accuracy:
    """Return the execution accuracy of the final answers under a rule; a question without an answer is wrong."""
    return Accuracy(sum(is_right(score.final, rule) for score in scored), len(scored))
