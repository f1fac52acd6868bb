"""Interface of the retrievers: the k best texts of a pool, ties in the pool's order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Ranker(Protocol):
    """Finds, in a pool of texts that it was built on, those most like a query."""

    def rank(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Return for each query the positions of the k most similar texts, the most similar first.

        Fewer than k where the pool is smaller. Ties are broken by the pool's order.
        """
        ...


def best(scores: "npt.NDArray[np.floating[Any]]", k: int) -> list[int]:
    """Return the positions of the k highest scores, highest first, ties by position."""
    import numpy as np

    k = min(k, scores.size)
    if k <= 0:
        return []
    threshold = np.partition(scores, scores.size - k)[scores.size - k]
    candidates = np.flatnonzero(scores >= threshold)
    order = np.argsort(-scores[candidates], kind="stable")[:k]
    return [int(position) for position in candidates[order]]
