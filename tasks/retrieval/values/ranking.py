"""Ranks the texts of a column for a question: those that it mentions, then the best by BM25."""

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from tasks.core.records import ColumnName, Value
from tasks.retrieval.values.bridging import BridgedQuestion, column_requires

K1, B = 1.5, 0.75


@dataclass(frozen=True, slots=True)
class ValueMatches:
    """What the index found for a question."""

    question: BridgedQuestion  # the question, as bridging compares it
    holders: Mapping[int, Sequence[str]]  # by id of a text, the question's words that it holds
    complete: bool  # whether all of the question's words were looked up
    values: Mapping[int, str]  # the texts that hold a word or may be mentioned, by id


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the index."""

    name: ColumnName  # the column
    first_id: int  # id of its first text; the others follow in their order
    texts: int  # how many texts it has
    blanks: int  # how many blanks they hold together
    first: tuple[Value, ...]  # what is shown when the question mentions none of its values

    def choose(self, ids: Sequence[int], found: ValueMatches, top: int) -> list[str]:
        """Return the texts of this column that a question mentions, then those that share a word with it.

        Args:
            ids: texts of this column that were found, ascending.
            found: what was found in all columns.
            top: texts that may count as mentioned, the best by BM25; texts without a word of the question are
                equally bad. All count where a word was left out.
        """
        holding = [number for number in ids if number in found.holders]
        ranked = self._rank(holding, found)[:top]
        best, rest = set(ranked), top - len(ranked) if found.complete else self.texts
        bridges = {
            number: bridge
            for number in ids
            if (
                number in best
                if number in found.holders
                else number - self.first_id - bisect(holding, number) < rest
            )
            and (bridge := found.question.bridge(found.values[number]))
            and bridge.score >= column_requires(self.name.column)
        }
        mentioned = sorted(
            bridges, key=lambda number: (-bridges[number].score, -bridges[number].length, number)
        )
        return [found.values[number] for number in dict.fromkeys((*mentioned, *ranked))]

    def _rank(self, ids: Sequence[int], found: ValueMatches) -> list[int]:
        """Return texts that hold a word of the question, best first by BM25, equally good ones in their order.

        Lucene's variant, whose weights are never negative; a word counts once per text, and blanks are a text's length.
        """
        holding = Counter(word for number in ids for word in found.holders[number])
        weights = {word: log(1 + (self.texts - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
        average = 1 + self.blanks / max(self.texts, 1)

        def score(number: int) -> float:
            length = (1 + found.values[number].count(" ")) / average
            weight = sum(weights[word] for word in found.holders[number])
            return round(weight * (K1 + 1) / (1 + K1 * (1 - B + B * length)), 9)

        scores = {number: score(number) for number in ids}
        return sorted(ids, key=lambda number: (-scores[number], number))


_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
LARGEST = 2**63 - 1
"""SQLite's largest whole number."""


def numbers(text: str) -> tuple[int | float, ...]:
    """Return the numbers in a text, each once, whole ones as `int`.

    >>> numbers("In 1990 over 1,250 of 3.50 or -2.0, not 7th or v2")
    (1990, 1250, 3.5, -2)
    """
    found = (_number(match.replace(",", "")) for match in _NUMBER.findall(text))
    return tuple(dict.fromkeys(number for number in found if number is not None))


def _number(text: str) -> int | float | None:
    value = float(text)
    if not math.isfinite(value):
        return None
    whole = int(value) if "." in text else int(text)
    return whole if value.is_integer() and abs(whole) <= LARGEST else value
