"""Two runs on corrected golds, beside their comparison on the official ones."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.core.wording import counts, percent
from tasks.documents.model import Table
from tasks.scoring.metrics.corrected import Differing, corrected_ex, differing
from tasks.scoring.report import QuestionScore, Ratio, is_right_corrected
from tasks.scoring.significance import PairedTest, compare_runs
from tasks.tracking.comparison.ranking import ranked
from tasks.tracking.warehouse.stored import StoredRun


@dataclass(frozen=True, slots=True)
class CorrectedComparison:
    """Both runs on corrected golds, over the questions that both scored.

    Attributes:
        official_a, official_b: right answers by the official golds.
        a, b: right answers by the corrected golds; None for a run that was scored without them.
        differing_a, differing_b: questions on which the two verdicts of a run differ.
        result: the paired test on corrected golds; None where they are not the same for both runs.
        problem: why there is no test, in a sentence; "" where there is one.
    """

    official_a: Ratio
    official_b: Ratio
    a: Ratio | None
    b: Ratio | None
    differing_a: Differing
    differing_b: Differing
    result: PairedTest | None = None
    problem: str = ""

    @property
    def lines(self) -> Iterator[str]:
        """Sentences: the outcome of the test, or why there is none, and the questions that differ."""
        yield f"On corrected golds: {self.result.verdict if self.result else self.problem}"
        for letter, found in (("A", self.differing_a), ("B", self.differing_b)):
            if found.count:
                yield f"Corrected golds differ in {letter}: {found.in_words()}"

    @property
    def table(self) -> Table:
        """Both scores of both runs."""
        rows = tuple(
            (letter, percent(official), counts(official), percent(corrected), counts(corrected))
            for letter, official, corrected in (
                ("A", self.official_a, self.a),
                ("B", self.official_b, self.b),
            )
        )
        return Table(
            "Official and corrected golds", ("", "official EX", "right", "corrected EX", "right"), rows
        )

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            side: {
                "official": official.as_object(),
                "corrected": corrected.as_object() if corrected else None,
                **asdict(found),
            }
            for side, official, corrected, found in (
                ("a", self.official_a, self.a, self.differing_a),
                ("b", self.official_b, self.b, self.differing_b),
            )
        } | {
            "verdict": self.result.verdict if self.result else None,
            "difference": self.result.difference if self.result else None,
            "p_value": self.result.p_value if self.result else None,
            "fixed": list(self.result.fixed) if self.result else None,
            "broken": list(self.result.broken) if self.result else None,
            "problem": self.problem or None,
        }


def compare_corrected(
    a: StoredRun,
    b: StoredRun,
    rows: Sequence[tuple[QuestionScore, QuestionScore]],
    rule: str,
    confidence: float,
    why_not: str = "",
) -> CorrectedComparison | None:
    """Compare two runs on corrected golds, on questions that both scored; None where neither was scored with any.

    `why_not`: why the runs must not be ranked; "" if they may be.
    """
    one, other = a.run.golds_sha256, b.run.golds_sha256
    if not one and not other:
        return None
    rows_a, rows_b = [row for row, _ in rows], [row for _, row in rows]
    rights = [{row.question.id: is_right_corrected(row, rule) for row in side} for side in (rows_a, rows_b)]
    known = [{id_: right for id_, right in side.items() if right is not None} for side in rights]
    both = known[0].keys() & known[1].keys()
    problem = ""
    if one != other:
        problem = (
            f"not tested: the runs have different corrected golds (sha256 {_short(one)} and {_short(other)}). The "
            "same command with the same benchmark.golds scores a run again; what was paid for is reused."
        )
    elif not both:
        problem = "not tested: every question that both runs scored is withdrawn."
    return CorrectedComparison(
        _official(rows_a, rule),
        _official(rows_b, rule),
        corrected_ex(rows_a, rule) if one else None,
        corrected_ex(rows_b, rule) if other else None,
        differing(rows_a, rule),
        differing(rows_b, rule),
        None
        if problem
        else ranked(
            compare_runs(known[0], known[1], confidence=confidence),
            why_not,
            [pair for pair in rows if pair[0].question.id in both],
        ),
        problem,
    )


def _official(rows: Sequence[QuestionScore], rule: str) -> Ratio:
    return Ratio(sum(row.final.correct.get(rule, False) for row in rows), len(rows))


def _short(sha256: str) -> str:
    return sha256[:12] or "none"
