"""Column values: of every column of a database, the ones that a question most likely means (SEA-SQL, section 1).

For each column the texts are ranked by BM25 against the question; of the best 1,000, those that the question
mentions (`tasks.retrieval.values.bridging`) move to the front; the first k are kept. Ties are broken by value. A number
that the question says comes before others of its column.

There is one index per database, kept on disk under the database's digest: a changed database gets a new one.
"""

import asyncio
import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.database.database import Database
from tasks.database.files import read_only_uri
from tasks.records import ColumnName, ColumnValues, Value
from tasks.retrieval.values.bm25_texts import ColumnTexts, rank_texts
from tasks.retrieval.values.bridging import Bridge, BridgedQuestion, column_requires
from tasks.retrieval.values.builder import FIRST, FORMAT, build, ranks
from tasks.retrieval.values.candidates import RunIndex
from tasks.retrieval.values.words import numbers, words

Progress = Callable[[str], None]

TOP = 1000
"""Texts of a column that bridging looks at."""
MOST_MATCHES = 3000
"""Texts of the whole database that BM25 scores. The question's rarest words come first; a common one whose texts
would be too many is left out: finding it says little. What the question mentions is found all the same."""
MOST_OPEN = 16
"""Indexes that a process keeps open."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A row of the index: a text, and by place its rank among the texts of that place."""

    value: str
    ranks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Place:
    """A column of the index."""

    name: ColumnName
    texts: ColumnTexts
    first: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _Matched:
    """The texts that hold a word of the question.

    Attributes:
        query: words that were looked up; left_out: words that too many texts hold.
        words: by place and number of the text, its words.
    """

    query: frozenset[str]
    left_out: frozenset[str]
    words: Mapping[int, Mapping[int, Sequence[str]]]


class ValueIndex:
    """The values of one database; several threads may ask at once.

    `open` it; the constructor takes a file that is known to be whole.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False)
        self._places = {
            place: _Place(ColumnName(table, column), ColumnTexts(texts, said), tuple(json.loads(first)))
            for place, table, column, texts, said, first in self._connection.execute(
                "SELECT * FROM place ORDER BY id"
            )
        }

    @classmethod
    def open(cls, database: Database, folder: Path, progress: Progress | None = None) -> "ValueIndex":
        """Open the index of a database, building it first where there is none.

        Args:
            database: the database; only its file is read.
            folder: where indexes are kept.
            progress: told in words when one is built: a million values take some ten seconds.

        Raises:
            DataError: the database cannot be read, or the index cannot be written.
        """
        path = folder / f"{database.digest}.sqlite"
        if not _is_whole(path):
            build(database, path, progress)
        return cls(path)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if hasattr(self, "_connection"):
            self._connection.close()

    def retrieve(
        self, question_text: str, k: int = 2, bm25_top_k: int = TOP
    ) -> Mapping[ColumnName, tuple[Value, ...]]:
        """Return the k values of each column that a question most likely means, the likeliest first.

        Args:
            question_text: the question.
            k: values per column, at most 10; fewer where a column has fewer.
            bm25_top_k: texts of a column that are looked at; at least k.

        Returns:
            By column in schema order; columns without a value are absent.
        """
        if k > FIRST:
            raise ValueError(f"k is {k}, but an index keeps no more than {FIRST} first values of a column")
        if k < 1:
            return {}
        question_text = question_text.encode("utf-8", "replace").decode()  # half a character is none
        with self._lock:
            matched, texts = self._match(words(question_text))
            bridges = self._bridge(BridgedQuestion(question_text), texts)
            said = self._find_numbers(question_text)
        found: dict[int, dict[int, Bridge]] = {}
        for number, bridge in bridges.items():
            for place in texts[number].ranks:
                found.setdefault(place, {})[number] = bridge
        result = {}
        for place, column in self._places.items():
            chosen: Iterable[Value] = ()
            if place in matched.words or place in found:
                order = self._order(place, matched, found.get(place, {}), texts, bm25_top_k)
                chosen = (texts[number].value for number in order[:k])
            every = dict.fromkeys((*chosen, *said.get(place, ()), *column.first))
            result[column.name] = tuple(every)[:k]
        return result

    def _order(
        self,
        place: int,
        matched: _Matched,
        bridges: Mapping[int, Bridge],
        texts: Mapping[int, _Text],
        top: int,
    ) -> list[int]:
        """Return the texts of a column that hold or are what the question says, the likeliest first."""
        column, own = self._places[place], matched.words.get(place, {})
        ranked = rank_texts(column.texts, own, matched.query)[:top]
        required, among_best = column_requires(column.name.column), set(ranked)

        def is_candidate(number: int) -> bool:
            if number in own:
                return number in among_best
            text = texts[number]
            if not matched.left_out.isdisjoint(words(text.value)):
                return True
            # The rest of the best are the column's first texts that hold no word of the question.
            rank = text.ranks[place]
            return rank - sum(texts[other].ranks[place] < rank for other in own) < top - len(ranked)

        kept = {n: b for n, b in bridges.items() if b.score >= required and is_candidate(n)}
        front = sorted(kept, key=lambda number: (-kept[number].score, -kept[number].length, number))
        return [*front, *(number for number in ranked if number not in kept)]

    def _match(self, said: Sequence[str]) -> tuple[_Matched, dict[int, _Text]]:
        holders = {}
        for word in dict.fromkeys(said):
            phrase = '"' + word.replace('"', '""') + '"'
            rows = self._connection.execute(
                "SELECT rowid FROM word WHERE word MATCH ? LIMIT ?", (phrase, MOST_MATCHES + 1)
            )
            holders[word] = [number for (number,) in rows]
        wanted: set[int] = set()
        query, left_out = set(), set()
        for word in sorted(holders, key=lambda word: (len(holders[word]), word)):
            if len(wanted) + len(holders[word]) <= MOST_MATCHES:
                wanted.update(holders[word])
                query.add(word)
            else:
                left_out.add(word)
        texts = dict(self._read(wanted))
        by_place: dict[int, dict[int, Sequence[str]]] = {}
        for number, text in texts.items():
            said_there = words(text.value)
            for place in text.ranks:
                by_place.setdefault(place, {})[number] = said_there
        return _Matched(frozenset(query), frozenset(left_out), by_place), texts

    def _bridge(self, question: BridgedQuestion, texts: dict[int, _Text]) -> dict[int, Bridge]:
        """Return the texts that the question mentions by number, and add them to `texts`."""
        numbers_found = self._runs.find(question)
        looked_at = {number: texts[number] for number in numbers_found if number in texts}
        looked_at.update(self._read(number for number in numbers_found if number not in texts))
        found = {}
        for number, text in looked_at.items():
            if bridge := question.bridge(text.value):
                found[number] = bridge
                texts[number] = text
        return found

    @cached_property
    def _runs(self) -> RunIndex:
        return RunIndex(*self._connection.execute("SELECT starts, characters FROM run").fetchone())

    def _read(self, wanted: Iterable[int]) -> Iterator[tuple[int, _Text]]:
        rows = self._connection.execute(
            "SELECT id, value, places FROM text WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(wanted)),),
        )
        for number, value, places in rows:
            yield number, _Text(value, ranks(places))

    def _find_numbers(self, question: str) -> Mapping[int, Sequence[int | float]]:
        """Return by place the numbers of the question that the column holds, in the question's order."""
        found: dict[int, list[int | float]] = {}
        for number in numbers(question):
            rows = self._connection.execute("SELECT place, value FROM number WHERE value = ?", (number,))
            for place, value in rows:
                found.setdefault(place, []).append(value)
        return found


@dataclass(frozen=True, slots=True)
class DatabaseValues:
    """A database whose values a stage can ask for; the index is opened, or built, when the first question asks.

    Attributes:
        database: the database.
        folder: where indexes are kept.
    """

    database: Database
    folder: Path

    @property
    def identity(self) -> Mapping[str, Any]:
        """What an answer depends on beside the question: the database's content and how it is indexed."""
        return {"database": self.database.digest, "format": FORMAT}

    def open(self, progress: Progress | None = None) -> ValueIndex:
        """Return the index, building it first where there is none; it stays open for other questions.

        Raises:
            DataError: the database cannot be read, or the index cannot be written.
        """
        path = self.folder / f"{self.database.digest}.sqlite"
        with _opening:
            index = _open.pop(path, None) or ValueIndex.open(self.database, self.folder, progress)
            _open[path] = index
            if len(_open) > MOST_OPEN:
                _open.popitem(last=False)  # closed once nobody uses it
        return index

    async def retrieve(self, question_text: str, k: int, bm25_top_k: int) -> tuple[ColumnValues, ...]:
        """Return the likeliest values of each column without keeping the event loop waiting; see `ValueIndex`."""

        def ask() -> tuple[ColumnValues, ...]:
            found = self.open().retrieve(question_text, k, bm25_top_k)
            return tuple(ColumnValues(name, values) for name, values in found.items())

        return await asyncio.to_thread(ask)


_open: OrderedDict[Path, ValueIndex] = OrderedDict()
_opening = threading.Lock()


def _is_whole(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        connection = sqlite3.connect(read_only_uri(path), uri=True)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            return bool(version == FORMAT and connection.execute("SELECT 1 FROM run").fetchone())
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False
