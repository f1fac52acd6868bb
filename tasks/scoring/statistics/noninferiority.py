"""Is B not worse than A by more than a margin: an exact non-inferiority test on paired outcomes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import computed_field

from tasks.core.wording import p_value
from tasks.scoring.significance import LEVEL

if TYPE_CHECKING:
    import numpy as np

_GRID = 64
"""Rates of fixed questions at which the maximum of the p-value is searched, and again around the highest."""
_PRECISION = 1e-4


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
        if self.largest_loss is not None:
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
    p = exact_p(fixed, broken, questions, margin)
    low, high = max(0.0, (broken - fixed) / questions), 1 - _PRECISION
    if exact_p(fixed, broken, questions, high) >= LEVEL:
        return NonInferiority(margin, p, None)
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if exact_p(fixed, broken, questions, middle) < LEVEL:
            high = middle
        else:
            low = middle
    return NonInferiority(margin, p, high)


def exact_p(fixed: int, broken: int, questions: int, margin: float) -> float:
    """Return the exact unconditional p-value of the hypothesis that B is worse than A by the margin."""
    import numpy as np
    from scipy.stats import binom

    fixes = np.arange(questions + 1)
    most = _most_broken(fixes, questions, margin, float(score(fixed, broken, questions, margin)))
    tested = fixes[most >= 0]

    def probability(rate: float) -> float:
        conditional = min(1.0, (rate + margin) / (1 - rate))
        tail = binom.cdf(most[tested], questions - tested, conditional)
        return float(binom.pmf(tested, questions, rate) @ tail)

    end = (1 - margin) / 2
    rates = np.sort(
        np.concatenate([np.linspace(0.0, end, _GRID), np.geomspace(end / 1e5, end / _GRID, _GRID // 2)])
    )
    for _ in range(2):
        p_values = np.array([probability(float(rate)) for rate in rates])
        best = int(p_values.argmax())
        rates = np.linspace(rates[max(0, best - 1)], rates[min(len(rates) - 1, best + 1)], _GRID // 4)
    return min(1.0, float(p_values.max()))


def score(fixed: Any, broken: Any, questions: int, margin: float) -> "np.ndarray[Any, Any]":
    """Return Tango's score statistic of a difference of minus the margin; numbers or arrays of them.

    It is (fixed - broken + n margin) / sqrt(n (2 q - margin (1 + margin))), with the maximum likelihood estimate q of
    the rate of broken questions if B is worse by exactly the margin.
    """
    import numpy as np

    difference = -margin
    a = 2 * questions
    b = -fixed - broken + (2 * questions - fixed + broken) * difference
    c = -broken * difference * (1 - difference)
    q = (np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = questions * (2 * q + difference * (1 - difference))
    deviation = np.sqrt(np.maximum(variance, 1e-300))
    statistic: np.ndarray[Any, Any] = (fixed - broken - questions * difference) / deviation
    return statistic


def _most_broken(
    fixes: "np.ndarray[Any, Any]", questions: int, margin: float, observed: float
) -> "np.ndarray[Any, Any]":
    """Return for each number of fixed questions the most broken ones whose statistic reaches the observed; -1: none.

    The statistic falls with each broken question, so the number is found by bisection.
    """
    import numpy as np

    low, high = np.full_like(fixes, -1), questions - fixes
    tolerance = 1e-9 * max(1.0, abs(observed))
    while (low < high).any():
        middle = (low + high + 1) // 2
        reached = score(fixes, np.maximum(middle, 0), questions, margin) >= observed - tolerance
        low, high = np.where(reached, middle, low), np.where(reached, high, middle - 1)
    return low
