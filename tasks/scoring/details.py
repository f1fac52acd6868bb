"""What lies behind a score: causes of errors, where rules disagree, what selection did. Plain records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.scoring.disagreement import Disagreement
from tasks.scoring.errors import DacCounts, ErrorClass
from tasks.scoring.execution.efficiency import Efficiency
from tasks.scoring.papers.figures import Figure
from tasks.scoring.report import LinkingScore, Ratio


@dataclass(frozen=True, slots=True)
class SelectionScore:
    """What the selection between two candidates did, under the headline rule.

    Attributes:
        candidates: the stages it chose between.
        oracle: questions that either candidate has right, of all scored.
        chosen_right: questions it got right, of those that exactly one candidate has right.
        new_queries: questions for which it wrote a query of its own, of those it was asked about; None where
            the records do not say.
    """

    candidates: tuple[str, str]
    oracle: Ratio
    chosen_right: Ratio
    new_queries: Ratio | None = None


@dataclass(frozen=True, slots=True)
class RecallOrCorrect:
    """What the RSL-SQL paper prints as SRR: every gold column linked, or the SQL made from the link right.

    Attributes:
        link: name of the link.
        stage: the stage whose SQL was made from it; "" for the final answer.
        ratio: such questions of all scored.
    """

    link: str
    stage: str
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class ExactMatchScore:
    """Exact set match of the final SQL.

    Attributes:
        total: matching questions of all scored.
        by_hardness: the same by Spider's hardness of the gold, easiest first.
        matched: ids of the matching questions.
    """

    total: Ratio
    by_hardness: Mapping[str, Ratio]
    matched: frozenset[str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SoftF1Score:
    """Soft-F1 as published; a question whose gold does not finish counts 0.

    Attributes:
        total: the sum over the scored questions, and their number.
        by_question: by question id, None where the gold does not finish.
    """

    total: Ratio
    by_question: Mapping[str, float | None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WithoutQuarantine:
    """The score without the questions whose gold is known to be wrong.

    Attributes:
        left_out: ids of the scored questions that are on the benchmark's quarantine list.
        rules: final execution accuracy of all others under each rule.
    """

    left_out: tuple[str, ...]
    rules: Mapping[str, Ratio]


@dataclass(frozen=True, slots=True)
class Details:
    """What lies behind a score; None where it was not asked for, or does not apply.

    Attributes:
        errors: how many scored questions are wrong for each cause of the closed list; one may have several.
        errors_by_question: the causes of each wrong question, by id.
        dac: the same by DAC's four kinds.
        disagreements: questions on which the comparison rules disagree.
        unanswered: ids of questions that were asked, or handed in, without a SQL.
        selection: what selection did.
        strict_recall_or_correct: for the link that the SQL was made from.
        linking_resolved: linking scores against the alias-resolved gold elements.
        exact_match: on Spider.
        soft_f1: where asked for.
        without_quarantine: where a selected question is on the list.
        efficiency: where asked for.
        figures: what DAC and SEA-SQL report of themselves, where they took part.
    """

    errors: Mapping[ErrorClass, int]
    errors_by_question: Mapping[str, tuple[ErrorClass, ...]] = field(repr=False)
    dac: DacCounts
    disagreements: tuple[Disagreement, ...]
    unanswered: tuple[str, ...] = ()
    selection: SelectionScore | None = None
    strict_recall_or_correct: RecallOrCorrect | None = None
    linking_resolved: tuple[LinkingScore, ...] = ()
    exact_match: ExactMatchScore | None = None
    soft_f1: SoftF1Score | None = None
    without_quarantine: WithoutQuarantine | None = None
    efficiency: Efficiency | None = None
    figures: tuple[Figure, ...] = ()
