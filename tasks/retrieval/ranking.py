"""Ranks texts of a pool: the interface of the retrievers, and BM25 over the words of questions."""

import re
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


_WORD = re.compile(r"\w+")


class Bm25Ranker:
    """Ranks a pool by BM25 (Lucene's variant, k1 1.5, b 0.75) on lower-cased words.

    Neither stop words nor endings are removed: "how many", "which", "highest" indicate the SQL.
    A query that shares no word with the pool gets the pool's first texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        documents = [_words(text) for text in texts]
        self._size = len(documents)
        self._index: bm25s.BM25 | None = None
        if any(documents):
            self._index = bm25s.BM25()
            self._index.index(documents, show_progress=False)

    def rank(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Return the positions of the k best texts per query; see `Ranker.rank`."""
        return [self._rank(query, k) for query in queries]

    def _rank(self, query: str, k: int) -> list[int]:
        words = _words(query)
        if self._index is None or not words:
            return list(range(min(k, self._size)))
        return best(self._index.get_scores(words), k)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
