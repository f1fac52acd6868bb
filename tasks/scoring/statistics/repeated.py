"""Is B better than A, where either was run several times: tests with questions as clusters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, sqrt

from pydantic import computed_field

from tasks.core.wording import p_value, points
from tasks.scoring.score import CONFIDENCE
from tasks.scoring.significance import LEVEL, Conclusion, NonInferiority, bootstrap_interval


@dataclass(frozen=True, slots=True)
class RepeatedTest(Conclusion):
    """What several runs of A and of B answer differently, and how likely that is by chance."""

    questions: int  # questions that every run scored
    # runs_a, runs_b: runs of each
    runs_a: int
    runs_b: int
    # mean_a, mean_b: mean execution accuracy of each, as shares
    mean_a: float
    mean_b: float
    better_on: int  # questions that B has right more often than A, relative to the number of runs
    worse_on: int  # questions that B has right less often
    p_value: float  # exact two-sided sign-flip test over questions
    # low, high: bootstrap interval of the difference, drawn by questions, as shares
    low: float
    high: float
    confidence: float  # of the interval
    # why no side is better, whatever the test finds, as a sentence; "" where the test decides
    not_ranked: str = ""

    @computed_field
    @property
    def difference(self) -> float:
        """Mean accuracy of B minus that of A, as a share."""
        return self.mean_b - self.mean_a

    @property
    def differing(self) -> int:
        """Questions that B has right more or less often than A."""
        return self.better_on + self.worse_on

    @property
    def reason(self) -> str:
        """Reason of the conclusion, with its numbers."""
        found = (
            f"{points(self.difference)} points ({100 * self.confidence:g} % interval {points(self.low)} to "
            f"{points(self.high)}), {self.better_on:,} questions more often right in B and {self.worse_on:,} less "
            f"often, of {self.questions:,}; p = {p_value(self.p_value)} (sign-flip test over questions)."
        )
        return f"{self.not_ranked} {found}".strip()


def compare_repeated(
    a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int, *, confidence: float = CONFIDENCE
) -> RepeatedTest:
    """Compare several runs of A with several of B, given how often each question is right, by its id.

    Both have the same questions. Of a single run on either side it is the exact McNemar test and the same interval.
    """
    scale = lcm(runs_a, runs_b)
    differences = [b[name] * (scale // runs_b) - a[name] * (scale // runs_a) for name in a]
    counts = Counter(differences)
    distinct = sorted(counts)
    low, high = bootstrap_interval(distinct, [counts[difference] for difference in distinct], confidence)
    questions = len(a)
    return RepeatedTest(
        questions,
        runs_a,
        runs_b,
        sum(a.values()) / (runs_a * questions),
        sum(b.values()) / (runs_b * questions),
        sum(difference > 0 for difference in differences),
        sum(difference < 0 for difference in differences),
        sign_flip_p(differences),
        low / scale,
        high / scale,
        confidence,
    )


def sign_flip_p(differences: Sequence[int]) -> float:
    """Return the exact two-sided p-value of the sum of differences, one of each question.

    Without a difference between the sides, each question's difference has either sign with the same probability
    (Fisher's randomization test of paired observations; Pitman, JRSS Supplement 4, 1937, 119-130). The p-value is the
    share of all choices of signs with a sum as far from 0 or further, computed by convolution. Of differences of 1 and
    -1 it is the exact McNemar test. If the sides have different numbers of runs, the signs are only nearly
    exchangeable.

    >>> sign_flip_p([1] * 6), round(sign_flip_p([2, 1, -1, 0, 3]), 3)
    (0.03125, 0.25)
    """
    import numpy as np

    sizes = [abs(difference) for difference in differences if difference]
    whole, reached = sum(sizes), abs(sum(differences))
    shares, half = np.zeros(2 * whole + 1), 0
    shares[whole] = 1.0
    for size in sizes:
        part = shares[whole - half : whole + half + 1] / 2
        shares[whole - half : whole + half + 1] = 0.0
        shares[whole - half - size : whole + half - size + 1] += part
        shares[whole - half + size : whole + half + size + 1] += part
        half += size
    return min(1.0, float(2 * shares[whole + reached :].sum())) if reached else 1.0


def noninferiority_of_repeated(
    a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int, margin: float
) -> NonInferiority:
    """Test whether B is not worse than A by a margin or more, from how often each question is right.

    The one-sided t test of the questions' differences (questions as clusters: Miller, arXiv 2411.00640). Their variance
    counts as at least margin (1 - margin), its smallest value for single runs at the margin, so that equal answers to
    few questions prove nothing.
    """
    from scipy.stats import t

    shares = [b[name] / runs_b - a[name] / runs_a for name in a]
    questions = len(shares)
    mean = sum(shares) / questions
    variance = sum((share - mean) ** 2 for share in shares) / max(1, questions - 1)

    def p_of(loss: float) -> float:
        error = sqrt(max(variance, loss * (1 - loss)) / questions)
        return float(t.sf((mean + loss) / error, questions - 1)) if questions > 1 else 1.0

    losses = (step / 10_000 for step in range(1, 10_000) if step / 10_000 > -mean)
    return NonInferiority(
        margin, p_of(margin), next((loss for loss in losses if p_of(loss) < LEVEL), None), method="t test"
    )
