"""Two runs on the same questions: is one better (exact McNemar test, paired bootstrap), is B not worse by a margin.

Successive scores: do they decline (Mann-Kendall test).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any, Literal

from pydantic import computed_field

from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted, p_value, points
from tasks.scoring.scores import CONFIDENCE

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.05
"""Default significance level of tests."""
SAMPLES = 10_000
"""Samples of the bootstrap, which are the same for the same numbers."""
MIN_SCORES = 7
"""Scores that a test needs: of fewer, the normal approximation of its p-value is poor."""
_GRID = 64
"""Rates of fixed questions at which the maximum of the p-value is searched, and again around the highest."""
_PRECISION = 1e-4
"""Precision of the largest loss, as a share: one that is not above it is no loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What follows from a test of B against A."""

    questions: int  # questions that every run scored
    difference: float  # accuracy of B minus accuracy of A, as a share; of several runs, of their means
    p_value: float  # of an exact two-sided test that neither is better
    # low, high: bootstrap interval of the difference B - A, drawn by questions, as shares
    low: float
    high: float
    confidence: float  # of the interval
    # why neither is better, whatever the test finds, as a sentence; "" where the test decides
    not_ranked: str = ""

    @property
    def differing(self) -> int:
        """Questions on which A and B differ."""
        raise NotImplementedError

    @property
    def numbers(self) -> str:
        """The numbers of the test, in a sentence."""
        raise NotImplementedError

    @property
    def reason(self) -> str:
        """Reason of the conclusion, with its numbers."""
        if not self.not_ranked:
            return self.numbers
        return f"{self.not_ranked} {self.numbers[0].upper()}{self.numbers[1:]}"

    @property
    def names(self) -> tuple[str, str]:
        """What A and B are called in the conclusion."""
        return ("A", "B")

    @property
    def level(self) -> float:
        """The p-value below which the test rejects chance: 0.05 for an interval of 95 %."""
        return round(1 - self.confidence, 12)

    @computed_field
    @property
    def significant(self) -> bool:
        """Whether the test rejects chance at the confidence of the interval."""
        return self.p_value < self.level

    @computed_field
    @property
    def better(self) -> Literal["A", "B"] | None:
        """The better one; None where the difference is inside the noise, and where they must not be ranked."""
        if self.not_ranked or not self.significant:
            return None
        return "B" if self.difference > 0 else "A"

    @property
    def headline(self) -> str:
        """Conclusion in a few words; no ranking if the difference is not significant."""
        if self.not_ranked:
            return "Not ranked"
        if not self.differing:
            return "No difference"
        if self.better is None:
            return "Inside the noise"
        first, second = reversed(self.names) if self.better == "B" else self.names
        return f"{first} beats {second} by {100 * abs(self.difference):.2f} points"

    @computed_field
    @property
    def verdict(self) -> str:
        """Headline and reason in one line."""
        return f"{self.headline}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest(Conclusion):
    """What two runs answer differently, B against A, and how likely that is by chance (exact McNemar test)."""

    right_a: int
    right_b: int
    fixed: tuple[str, ...]  # ids that are wrong in A and right in B
    broken: tuple[str, ...]  # ids that are right in A and wrong in B
    # only_a, only_b: ids that only one of the runs scored, left out
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    # name_a, name_b: what the runs are called in the conclusion
    name_a: str = "A"
    name_b: str = "B"

    @property
    def names(self) -> tuple[str, str]:
        """What the runs are called in the conclusion."""
        return (self.name_a, self.name_b)

    @property
    def differing(self) -> int:
        """Questions that one run has right and the other wrong."""
        return len(self.fixed) + len(self.broken)

    @computed_field
    @property
    def both_right(self) -> int:
        """Questions that both runs have right."""
        return self.right_a - len(self.broken)

    @computed_field
    @property
    def both_wrong(self) -> int:
        """Questions that both runs have wrong."""
        return self.questions - self.right_a - len(self.fixed)

    @property
    def numbers(self) -> str:
        """Interval, fixed and broken questions, and p."""
        if not self.differing:
            return (
                f"both runs are right on the same {self.both_right:,} and wrong on the same {self.both_wrong:,} of "
                f"{counted(self.questions, 'question')}."
            )
        counts = (
            f"{len(self.fixed):,} fixed and {len(self.broken):,} broken of {counted(self.questions, 'question')}, "
            f"p = {p_value(self.p_value)}."
        )
        if self.better:  # the interval of how much better it is
            low, high = (self.low, self.high) if self.better == "B" else (-self.high, -self.low)
            return f"{100 * self.confidence:g} % interval {points(low)} to {points(high)}, {counts}"
        difference = (
            f"{points(self.difference)} points ({100 * self.confidence:g} % interval {points(self.low)} to "
            f"{points(self.high)}), {counts}"
        )
        return difference if self.significant else f"{difference} {self._needed_for_significance()}"

    @computed_field
    @property
    def needed_net(self) -> int | None:
        """The least difference of fixed and broken that would be significant; None where none would be."""
        return needed_net(self.differing, self.level)

    def stands_without(self, unanswered: Collection[str]) -> bool:
        """Return whether the better run is better even if the other had these of its questions right."""
        won, lost = (self.fixed, self.broken) if self.better == "B" else (self.broken, self.fixed)
        still_won = sum(question not in unanswered for question in won)
        lost_then = len(lost) + len(set(unanswered).difference(won))
        return still_won > lost_then and mcnemar(still_won, lost_then) < self.level

    def _needed_for_significance(self) -> str:
        """Return, in words, how many more questions must be fixed than broken, or the reverse, to be significant."""
        differing = f"{self.differing:,} answer{'s differ' if self.differing > 1 else ' differs'}"
        net = self.needed_net
        if net is None:
            return f"Only {differing}: too few for p < {self.level:g}, however they fall."
        return (
            f"{differing.capitalize()}, so p < {self.level:g} needs a net of {net:,} "
            f"({100 * net / self.questions:.2f} points); this is {abs(len(self.fixed) - len(self.broken)):,}."
        )


def compare_runs(
    a: Mapping[str, bool], b: Mapping[str, bool], *, confidence: float = CONFIDENCE
) -> PairedTest:
    """Compare two runs question by question; `a` and `b` say whether each question is right, by its id.

    `confidence` is that of the interval, and 1 - the level of the test.
    """
    common = [question for question in a if question in b]
    if not common:
        raise ConfigurationError(
            "The two runs have no scored question in common, so they cannot be compared. "
            "Choose two runs of the same benchmark, split and revision."
        )
    fixed = tuple(question for question in common if b[question] and not a[question])
    broken = tuple(question for question in common if a[question] and not b[question])
    unchanged = len(common) - len(fixed) - len(broken)
    counts = (len(fixed), len(broken), unchanged)
    low, high = bootstrap_interval((1, -1, 0), counts, confidence)  # by the difference of B and A
    return PairedTest(
        questions=len(common),
        difference=(len(fixed) - len(broken)) / len(common),
        right_a=sum(a[question] for question in common),
        right_b=sum(b[question] for question in common),
        fixed=fixed,
        broken=broken,
        p_value=mcnemar(len(fixed), len(broken)),
        low=low,
        high=high,
        confidence=confidence,
        only_a=tuple(question for question in a if question not in b),
        only_b=tuple(question for question in b if question not in a),
    )


def mcnemar(fixed: int, broken: int) -> float:
    """Return the exact two-sided p-value: how likely so uneven a split of the differing questions is by chance.

    >>> round(mcnemar(27, 13), 4), mcnemar(0, 0)
    (0.0385, 1.0)
    """
    differing = fixed + broken
    tail = term = 1  # the term is comb(differing, fewer), made from the one before it
    for fewer in range(min(fixed, broken)):
        term = term * (differing - fewer) // (fewer + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << differing))


def needed_net(differing: int, level: float = LEVEL) -> int | None:
    """Return the smallest significant difference of fixed and broken questions if `differing` questions differ.

    None if no split of so few questions is significant. It is the test of `mcnemar`, for one split after the other.

    >>> needed_net(40), needed_net(150), needed_net(5)
    (14, 26, None)
    """
    net = None
    tail, term = 0, 1  # as in `mcnemar`
    for fewer in range(differing // 2 + 1):
        tail += term
        if min(1.0, 2 * tail / (1 << differing)) >= level:
            break
        net = differing - 2 * fewer
        term = term * (differing - fewer) // (fewer + 1)
    return net


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust the p-values of several tests for their number (Holm, 1979), in the order given.

    Without the adjustment, one of eleven tests is below 0.05 by chance in 43 of 100 cases.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0  # so far: adjusted values never fall
    smallest_first = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(smallest_first):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def holm_of_known(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust the p-values of the tests that were made, as `holm`; None stays for those that were not."""
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return tuple(None if p_value is None else next(adjusted) for p_value in p_values)


def bootstrap_interval(
    differences: Sequence[float], counts: Sequence[int], confidence: float, scale: int = 1
) -> tuple[float, float]:
    """Return the percentile interval of the mean difference when questions are drawn again with replacement.

    `counts` says how many questions have each of the differences, which are from -scale to scale. If all questions have
    the same difference, draws do not vary; it is then Tango's score interval (as in `noninferiority`).
    """
    import numpy as np

    questions = sum(counts)
    only, frequency = max(zip(differences, counts, strict=True), key=lambda pair: pair[1])
    if frequency == questions:  # it is the only difference
        z_squared = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
        others = z_squared / (questions + z_squared)  # the largest share of questions with another difference
        return only - others * (only + scale), only + others * (scale - only)
    shares = [count / questions for count in counts]
    drawn = np.random.default_rng(0).multinomial(questions, shares, size=SAMPLES)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn @ np.array(differences) / questions, [tail, 1 - tail])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """Test of the hypothesis that B is worse than A by the margin or more."""

    margin: float  # the largest loss of execution accuracy that is accepted, as a share
    p_value: float  # one-sided: how likely so good a result of B is if it is worse by the margin
    # the smallest margin for which the test proves that B is not worse by more, as a share; None: none up to 1
    largest_loss: float | None
    level: float = LEVEL  # p-value below which it is proven
    method: str = "exact"  # name of the test: "exact", of repeated runs "t test"

    @computed_field
    @property
    def proven(self) -> bool:
        """Whether it is proven that B is not worse than A by the margin or more."""
        return self.p_value < self.level

    @computed_field
    @property
    def verdict(self) -> str:
        """Conclusion with its numbers."""
        margin = f"{100 * self.margin:g} point{'' if self.margin == 0.01 else 's'}"
        excluded = "excluded" if self.proven else "not excluded"
        bound = ""
        if self.largest_loss is not None and self.largest_loss <= _PRECISION:
            bound = " The data allow no loss."
        elif self.largest_loss is not None:
            bound = f" The largest loss that the data allow is {100 * self.largest_loss:.2f} points."
        return (
            f"B losing {margin} or more is {excluded}, p = {p_value(self.p_value)} (one-sided "
            f"non-inferiority test, {self.method}, level {self.level:g}).{bound}"
        )


def noninferiority(fixed: int, broken: int, questions: int, margin: float) -> NonInferiority:
    """Test whether B is not worse than A by a margin or more, from the questions on which they differ.

    The test is exact and unconditional (Hsueh, Liu and Chen, Biometrics 57, 2001, 478-483): outcomes are ordered by
    the score statistic of Tango (Statistics in Medicine 17, 1998, 891-908), and the p-value is the largest probability
    of an outcome as good for B or better, over all rates of fixed questions at which B is worse by exactly the margin.
    The maximum is searched on a grid of rates. `margin` is the largest loss of B that is accepted, as a share, above 0
    and below 1.
    """
    p_of_margin = exact_p(fixed, broken, questions, margin)
    # the largest loss that the data allow, by bisection: from the observed one to a loss of nearly everything
    low = max(0.0, (broken - fixed) / questions)
    high = 1 - _PRECISION
    if exact_p(fixed, broken, questions, high) >= LEVEL:
        return NonInferiority(margin, p_of_margin, largest_loss=None)
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if exact_p(fixed, broken, questions, middle) < LEVEL:
            high = middle
        else:
            low = middle
    return NonInferiority(margin, p_of_margin, largest_loss=high)


def exact_p(fixed: int, broken: int, questions: int, margin: float) -> float:
    """Return the exact unconditional p-value of the hypothesis that B is worse than A by the margin.

    It is the largest probability of a score of at least the observed one, over all rates of fixed questions at which B
    is worse by exactly the margin. The grid of rates is refined once around the rate with the largest probability.
    """
    import numpy as np
    from scipy.stats import binom

    observed = float(tango_score(fixed, broken, questions, margin))
    fixes = np.arange(questions + 1)
    most_broken = _most_broken(fixes, questions, margin, observed)
    as_good = fixes[most_broken >= 0]  # numbers of fixed questions that allow the observed score

    def probability(rate: float) -> float:  # of a score of at least the observed one
        broken_of_others = min(1.0, (rate + margin) / (1 - rate))
        few_broken = binom.cdf(most_broken[as_good], questions - as_good, broken_of_others)
        return float(binom.pmf(as_good, questions, rate) @ few_broken)

    highest = (1 - margin) / 2  # rate with which every question is fixed or broken
    small_rates = np.geomspace(highest / 1e5, highest / _GRID, _GRID // 2)
    rates = np.sort(np.concatenate([np.linspace(0.0, highest, _GRID), small_rates]))
    for _ in range(2):
        p_values = np.array([probability(float(rate)) for rate in rates])
        best = int(p_values.argmax())
        rates = np.linspace(rates[max(0, best - 1)], rates[min(len(rates) - 1, best + 1)], _GRID // 4)
    return min(1.0, float(p_values.max()))


def tango_score(fixed: Any, broken: Any, questions: int, margin: float) -> "np.ndarray[Any, Any]":
    """Return Tango's score statistic for B worse by the margin; `fixed` and `broken` are numbers or arrays of them.

    It is (fixed - broken + n margin) / sqrt(n (2 q - margin (1 + margin))), with the maximum likelihood estimate q of
    the rate of broken questions if B is worse by exactly the margin.
    """
    import numpy as np

    difference = -margin
    a = 2 * questions  # q solves a q^2 + b q + c = 0
    b = -fixed - broken + (2 * questions - fixed + broken) * difference
    c = -broken * difference * (1 - difference)
    q = (np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = questions * (2 * q + difference * (1 - difference))
    deviation = np.sqrt(np.maximum(variance, 1e-300))  # not 0
    statistic: np.ndarray[Any, Any] = (fixed - broken - questions * difference) / deviation
    return statistic


def _most_broken(
    fixes: "np.ndarray[Any, Any]", questions: int, margin: float, observed: float
) -> "np.ndarray[Any, Any]":
    """Return for each number of fixed questions with how many broken ones at most the score is as good as observed.

    -1: with no number of broken questions. The score falls with each broken question, so bisection finds the number.
    """
    import numpy as np

    low = np.full_like(fixes, -1)
    high = questions - fixes
    tolerance = 1e-9 * max(1.0, abs(observed))
    while (low < high).any():
        middle = (low + high + 1) // 2
        reached = tango_score(fixes, np.maximum(middle, 0), questions, margin) >= observed - tolerance
        low, high = np.where(reached, middle, low), np.where(reached, high, middle - 1)
    return low


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of successive scores."""

    scores: int  # how many there are
    slope: float  # Sen's slope, as a share per score: the median of the slopes between all pairs
    p_value: float  # one-sided Mann-Kendall test that the scores do not decline

    @property
    def change(self) -> float:
        """What the slope makes from the first score to the last, as a share."""
        return self.slope * (self.scores - 1)


def trend_of(scores: Sequence[float]) -> Trend | None:
    """Return the trend of successive scores, the oldest first; None of fewer than MIN_SCORES.

    The test (Mann, 1945; Kendall, 1975) counts the pairs in which the later score is lower, so one bad score does not
    make a trend; its one-sided p-value is the normal approximation with the corrections for continuity and ties, 1.0
    where no more pairs fall than rise. The slope is Sen's (1968).

    >>> trend = trend_of([0.60, 0.61, 0.59, 0.60, 0.57, 0.58, 0.56, 0.55])
    >>> round(trend.slope, 4), round(trend.p_value, 4)
    (-0.0075, 0.0063)
    """
    count = len(scores)
    if count < MIN_SCORES:
        return None
    pairs = [(later, earlier) for later in range(count) for earlier in range(later)]
    rises = sum(scores[later] > scores[earlier] for later, earlier in pairs)
    falls = sum(scores[later] < scores[earlier] for later, earlier in pairs)
    ties = Counter(scores).values()
    variance = (_variance_times_18(count) - sum(map(_variance_times_18, ties))) / 18
    p_value = NormalDist().cdf((rises - falls + 1) / sqrt(variance)) if rises < falls else 1.0
    slope = median((scores[later] - scores[earlier]) / (later - earlier) for later, earlier in pairs)
    return Trend(count, slope, p_value)


def _variance_times_18(count: int) -> int:
    """Return 18 times the variance of the difference of rising and falling pairs of `count` scores without ties."""
    return count * (count - 1) * (2 * count + 5)
