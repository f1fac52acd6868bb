"""BM25 over the texts of one column, from those that hold a word of the question."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log

K1, B = 1.5, 0.75


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """What BM25 needs to know of a column: how many texts it has, and how many words they have together."""

    texts: int
    words: int


def rank_texts(
    column: ColumnTexts, matched: Mapping[int, Sequence[str]], query: Collection[str]
) -> list[int]:
    """Return the texts that hold a word of the query, best first, equally good ones by number.

    Lucene's variant, whose weights are never negative. Texts are numbered in their own order, so that ties are
    broken by value.

    Args:
        column: the column.
        matched: by number of the text, its words; only texts that hold a word of the query.
        query: words of the question, each once.
    """
    counts = {
        number: {word: words.count(word) for word in query if word in words}
        for number, words in matched.items()
    }
    holders = dict.fromkeys(query, 0)
    for found in counts.values():
        for word in found:
            holders[word] += 1
    weights = {word: log(1 + (column.texts - n + 0.5) / (n + 0.5)) for word, n in holders.items()}
    average = column.words / column.texts

    def score(number: int) -> float:
        length = K1 * (1 - B + B * len(matched[number]) / average)
        # summed in the order of the words, not of a set: floating-point sums depend on it
        return sum(
            weights[word] * times * (K1 + 1) / (times + length)
            for word, times in sorted(counts[number].items())
        )

    scores = {number: score(number) for number, found in counts.items() if found}
    return sorted(scores, key=lambda number: (-round(scores[number], 9), number))
