"""Repeated runs: tests of B against A where either was run several times, and how much identical runs differ.

Questions are clusters. Flip rate, pass^k and what a comparison can prove beside the noise are computed from the number
of right answers of each question in k identical runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, exp, lcm, log, sqrt
from statistics import NormalDist

from tasks.core.wording import counted, p_value, points
from tasks.scoring.scores import CONFIDENCE
from tasks.scoring.significance import LEVEL, Conclusion, NonInferiority, bootstrap_interval

POWER = 0.8
"""Share of the cases in which a provable loss is proven."""
UNCERTAINTY = 0.001
"""Part of a level that is spent on the uncertainty of a measured flip rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedTest(Conclusion):
    """What several runs of A and of B answer differently, and how likely that is by chance (sign-flip test)."""

    runs_a: int
    runs_b: int
    # mean_a, mean_b: mean execution accuracy of each, as shares
    mean_a: float
    mean_b: float
    better_on: int  # questions that B has right more often than A, relative to the number of runs
    worse_on: int  # questions that B has right less often

    @property
    def differing(self) -> int:
        """Questions that B has right more or less often than A."""
        return self.better_on + self.worse_on

    @property
    def numbers(self) -> str:
        """Interval, questions on which the sides differ, and p."""
        return (
            f"{points(self.difference)} points ({100 * self.confidence:g} % interval {points(self.low)} to "
            f"{points(self.high)}), {counted(self.better_on, 'question')} more often right in B and {self.worse_on:,} "
            f"less often, of {self.questions:,}; p = {p_value(self.p_value)} (sign-flip test over questions)."
        )


def compare_repeated(
    a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int, *, confidence: float = CONFIDENCE
) -> RepeatedTest:
    """Compare several runs of A with several of B: `a` and `b` say, by question id, in how many runs it is right.

    Both have the same questions. With a single run on each side, the test is the exact McNemar test, and the interval
    is that of a comparison of two runs.
    """
    scale = lcm(runs_a, runs_b)  # differences of shares times this number are whole numbers
    differences = [b[name] * (scale // runs_b) - a[name] * (scale // runs_a) for name in a]
    counts = Counter(differences)
    distinct = sorted(counts)
    frequencies = [counts[difference] for difference in distinct]
    low, high = bootstrap_interval(distinct, frequencies, confidence, scale)
    questions = len(a)
    mean_a, mean_b = sum(a.values()) / (runs_a * questions), sum(b.values()) / (runs_b * questions)
    return RepeatedTest(
        questions=questions,
        difference=mean_b - mean_a,
        runs_a=runs_a,
        runs_b=runs_b,
        mean_a=mean_a,
        mean_b=mean_b,
        better_on=sum(difference > 0 for difference in differences),
        worse_on=sum(difference < 0 for difference in differences),
        p_value=sign_flip_p(differences),
        low=low / scale,
        high=high / scale,
        confidence=confidence,
    )


def sign_flip_p(differences: Sequence[int]) -> float:
    """Return the exact two-sided p-value of the sum of differences; there is one difference per question.

    Without a difference between the sides, each question's difference has either sign with the same probability
    (Fisher's randomization test of paired observations; Pitman, JRSS Supplement 4, 1937, 119-130). The p-value is the
    share of all choices of signs whose sum is at least as far from 0, computed by convolution. If all differences are 1
    or -1, this is the exact McNemar test. If the sides have different numbers of runs, the signs are only nearly
    exchangeable.

    >>> sign_flip_p([1] * 6), round(sign_flip_p([2, 1, -1, 0, 3]), 3)
    (0.03125, 0.375)
    """
    import numpy as np

    sizes = [abs(difference) for difference in differences if difference]
    largest = sum(sizes)
    observed = abs(sum(differences))
    shares = np.ones(1)  # of the choices of signs, by their sum; in the end from -largest to largest
    for size in sizes:  # adding -size and adding +size are equally likely
        shares = (np.pad(shares, (0, 2 * size)) + np.pad(shares, (2 * size, 0))) / 2
    return min(1.0, 2 * float(shares[largest + observed :].sum())) if observed else 1.0


def noninferiority_of_repeated(
    a: Mapping[str, int], runs_a: int, b: Mapping[str, int], runs_b: int, margin: float
) -> NonInferiority:
    """Test whether B is not worse than A by a margin or more; `a` and `b` say in how many runs each question is right.

    The one-sided t test of the questions' differences (questions as clusters: Miller, arXiv 2411.00640). Their variance
    counts as at least margin (1 - margin), its smallest value for single runs at the margin, so that equal answers to
    few questions prove nothing.
    """
    from scipy.stats import t

    shares = [b[name] / runs_b - a[name] / runs_a for name in a]
    questions = len(shares)
    mean = sum(shares) / questions
    variance = sum((share - mean) ** 2 for share in shares) / max(1, questions - 1)

    def p_if_worse_by(loss: float) -> float:
        error = sqrt(max(variance, loss * (1 - loss)) / questions)
        return float(t.sf((mean + loss) / error, questions - 1)) if questions > 1 else 1.0

    # the observed loss is -mean: smaller losses have a p of 0.5 or more
    losses = (step / 10_000 for step in range(1, 10_000) if step / 10_000 > -mean)
    largest_loss = next((loss for loss in losses if p_if_worse_by(loss) < LEVEL), None)
    return NonInferiority(margin, p_if_worse_by(margin), largest_loss, method="t test")


def flip_rate(counts: Sequence[int], runs: int) -> float:
    """Return the share of questions whose verdict differs between two of the identical runs, over all pairs of runs.

    >>> flip_rate([3, 0, 2, 1], 3)
    0.3333333333333333
    """
    return sum(2 * right * (runs - right) for right in counts) / (runs * (runs - 1) * len(counts))


def pass_hat(counts: Sequence[int], runs: int, k: int) -> float:
    """Return pass^k: the mean probability that k runs are all right (Yao et al., tau-bench, arXiv 2406.12045).

    C(right, k) / C(runs, k) of a question is its estimate without bias.

    >>> pass_hat([3, 0, 2, 1], 3, 1), pass_hat([3, 0, 2, 1], 3, 3)
    (0.5, 0.25)
    """
    return sum(comb(right, k) for right in counts) / (comb(runs, k) * len(counts))


def flip_bound(counts: Sequence[int], runs: int, uncertainty: float = UNCERTAINTY) -> float:
    """Return an upper bound of the flip rate: the true rate is above it with a probability of at most `uncertainty`.

    `counts` has the right answers to each question in `runs` identical runs. The questions are independent, and each
    adds between 0 and 1 to a sum s, so that Chernoff's bound holds (Mitzenmacher and Upfal, Probability and Computing,
    2005, theorem 4.5): if the sum is m on average, it is s or less with a probability of at most
    exp(s - m - s log(s / m)). The upper bound is the largest m for which this is above `uncertainty`.
    """
    max_flips = (runs // 2) * (runs - runs // 2)  # of right * wrong answers to a question
    observed = sum(right * (runs - right) for right in counts) / max_flips
    low = observed
    high = observed + 10 * (sqrt(observed) + 1) * (1 - log(uncertainty))  # certainly above the bound
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        exponent = observed - middle + (observed * log(middle / observed) if observed else 0.0)
        low, high = (middle, high) if exp(exponent) > uncertainty else (low, middle)
    pairs_of_runs = runs * (runs - 1) / 2
    return min(0.5, high * max_flips / (pairs_of_runs * len(counts)))


def noise_p(fixed: int, broken: int, questions: int, bound: float) -> float:
    """Return the two-sided p-value of a difference between two runs; `bound` is what `flip_bound` returns.

    Without a change, as many questions are fixed as broken on average, half the flips each, and their difference varies
    at most as that of two Poisson variables (the Skellam distribution). If the smaller of the two numbers is above what
    the bound explains, the noise has grown, and this number is used instead. The p-value includes `UNCERTAINTY`, the
    probability that the bound is too low (Berger and Boos, JASA 89, 1994, 1012-1016).
    """
    from scipy.stats import skellam

    expected = max(questions * bound / 2, float(min(fixed, broken)))
    tail = skellam.sf(abs(broken - fixed) - 1, expected, expected)
    return min(1.0, 2 * float(tail) + UNCERTAINTY)


def least_difference(questions: int, bound: float, level: float) -> int:
    """Return the smallest difference of fixed and broken questions for which `noise_p` is below a level."""
    difference = 1
    while difference <= questions and noise_p(0, difference, questions, bound) >= level:
        difference += 1
    return difference


def provable_by_noise(questions: int, rate: float, bound: float, level: float) -> float | None:
    """Return the smallest true loss, as a share, that one run against another proves in `POWER` of the cases.

    It is the smallest difference that `noise_p` proves, plus the part of a loss that noise may hide in these cases.
    `rate` is the measured flip rate, and `bound` its upper bound. None where the loss is more than all questions.
    """
    hidden_by_noise = NormalDist().inv_cdf(POWER) * sqrt(questions * rate)
    loss = (least_difference(questions, bound, level) + hidden_by_noise) / questions
    return loss if loss <= 1 else None


def provable_by_mcnemar(questions: int, rate: float, level: float) -> float | None:
    """Return the smallest loss, as a share, that the exact McNemar test of two runs proves in `POWER` of the cases.

    The lost questions were always right and are now always wrong. Each other question flips with the probability
    `rate`, as often in one direction as in the other. The power is computed exactly. None where even a loss of all
    questions is not proven.
    """
    import numpy as np
    from scipy.stats import binom

    for lost in range(1, questions + 1):
        flips = np.arange(questions - lost + 1)
        most_fixed = binom.ppf(level / 2, flips + lost, 0.5) - 1  # the loss is proven with up to so many
        p_of_flips = binom.pmf(flips, questions - lost, rate)
        p_proven = binom.cdf(most_fixed, flips, 0.5)  # with each number of flips
        if p_of_flips @ p_proven >= POWER:
            return lost / questions
    return None
