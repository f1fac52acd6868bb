"""BM25 over the words of questions: deterministic, fast, without a model."""

import re
from collections.abc import Sequence

from tasks.retrieval.ranking import best

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
