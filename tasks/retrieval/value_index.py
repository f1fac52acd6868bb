"""Retrieves the values of each column of a database that a question most likely means (SEA-SQL, section 1).

For each column the texts are ranked by BM25 against the question; of the best 1,000, those that the question
mentions (`tasks.retrieval.bridging`) move to the front; the first k are kept. Ties are broken by value. A
number in the question comes before others of its column. Two deviations: BM25 looks up no stop words, and where the
question finds fewer than k values, the column's most frequent ones follow instead of arbitrary ones: texts before
numbers, ties by value, punctuation alone last.

There is one index per database, kept on disk under the database's digest: a changed database gets a new one. FTS5
finds the texts that share a word with the question; a word that too many share is left out. What the question mentions
is found all the same, by its length and beginning.
"""

import asyncio
import json
import logging
import math
import re
import sqlite3
import sys
import threading
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Indel
from rapidfuzz.process import extract

from tasks.core.records import ColumnName, ColumnValues, Value
from tasks.database.database import Database
from tasks.database.sqlite_files import damage, read_only_uri, tolerant_text
from tasks.retrieval import value_index_builder as builder
from tasks.retrieval.bridging import (
    LIKENESS,
    BridgedQuestion,
    WordSpan,
    column_requires,
    like_lengths,
    without_stop_words,
)
from tasks.retrieval.value_index_builder import LAST_BUCKET

K1, B = 1.5, 0.75
"""Parameters of BM25."""


@dataclass(frozen=True, slots=True)
class ValueMatches:
    """What the index found for a question."""

    question: BridgedQuestion  # the question, as bridging compares it
    holders: Mapping[int, Sequence[str]]  # by id of a text, the question's words that it holds
    complete: bool  # whether all of the question's words were looked up
    values: Mapping[int, str]  # the texts that hold a word or may be mentioned, by id


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of the index."""

    name: ColumnName  # the column
    first_id: int  # id of its first text; the others follow in their order
    texts: int  # how many texts it has
    blanks: int  # how many blanks they hold together
    first: tuple[Value, ...]  # what is shown when the question mentions none of its values

    def choose(self, ids: Sequence[int], matches: ValueMatches, top: int) -> list[str]:
        """Return the texts of this column that a question mentions, then those that share a word with it.

        `ids` are the matching texts of this column, ascending. Only the `top` best by BM25 can count as mentioned, and
        texts without a word of the question come last, in the order of ids. But if a word was not looked up, all texts
        without a known word can count.
        """
        holding = [number for number in ids if number in matches.holders]
        ranked = dict.fromkeys(self._rank(holding, matches)[:top])
        max_wordless = top - len(ranked) if matches.complete else self.texts

        def can_count(number: int) -> bool:
            if number in matches.holders:
                return number in ranked
            wordless_before = number - self.first_id - bisect(holding, number)
            return wordless_before < max_wordless

        looked_at = filter(can_count, ids)
        bridged = ((number, matches.question.bridge(matches.values[number])) for number in looked_at)
        required = column_requires(self.name.column)
        mentioned = sorted(
            (-bridge.score, -bridge.length, number)
            for number, bridge in bridged
            if bridge and bridge.score >= required
        )
        best_first = dict.fromkeys(number for *_, number in mentioned) | ranked
        return [matches.values[number] for number in best_first]

    def _rank(self, ids: Sequence[int], matches: ValueMatches) -> list[int]:
        """Return texts that hold a word of the question, best first by BM25, equally good ones in their order.

        Lucene's variant, whose weights are never negative; a word counts once per text, and blanks are a text's length.
        """
        holding = Counter(word for number in ids for word in matches.holders[number])
        weights = {word: math.log(1 + (self.texts - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
        average = 1 + self.blanks / max(self.texts, 1)

        def score(number: int) -> float:
            length = (1 + matches.values[number].count(" ")) / average
            weight = sum(weights[word] for word in matches.holders[number])
            return round(weight * (K1 + 1) / (1 + K1 * (1 - B + B * length)), 9)

        scores = {number: score(number) for number in ids}
        return sorted(ids, key=lambda number: (-scores[number], number))


_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
MAX_INTEGER = 2**63 - 1
"""SQLite's largest whole number."""


def numbers(text: str) -> tuple[int | float, ...]:
    """Return the numbers in a text, each once, whole ones as `int`.

    >>> numbers("In 1990 over 1,250 of 3.50 or -2.0, not 7th or v2")
    (1990, 1250, 3.5, -2)
    """
    every = (_number(match.replace(",", "")) for match in _NUMBER.findall(text))
    return tuple(dict.fromkeys(number for number in every if number is not None))


def _number(text: str) -> int | float | None:
    value = float(text)
    if not math.isfinite(value):
        return None
    whole = int(value) if "." in text else int(text)
    return whole if value.is_integer() and abs(whole) <= MAX_INTEGER else value


TOP = 1000
"""Texts of a column that bridging looks at."""
MAX_MATCHES = 1000
"""Texts of the whole database that BM25 scores. The question's rarest words come first; a common one whose texts
would be too many is left out as uninformative."""
log = logging.getLogger(__name__)

_SUFFIX = re.compile(r"(?<=\w)['’]\w{1,2}\b")
_QUESTION = f"""
PRAGMA temp_store = MEMORY;
CREATE VIRTUAL TABLE temp.question USING fts5 (text, tokenize={builder.TOKENIZER});
CREATE VIRTUAL TABLE temp.question_word USING fts5vocab (temp, question, row);
"""
_TOKENIZE = f"INSERT INTO question VALUES ({builder.WORDS.format('?1')})"
# a JSON array is read in half the time of as many rows
_HOLDERS = "SELECT json_group_array(rowid) FROM (SELECT rowid FROM word WHERE word MATCH ? LIMIT ?)"
_SIMILAR = " UNION ALL ".join(
    f"SELECT id, {core} FROM text WHERE {bucket} = ?1 AND {core} BETWEEN ?2 AND ?3 AND {condition}"
    for (bucket, core), condition in ((builder.WHOLE, "TRUE"), (builder.TRIMMED, builder.HAS_ENDS))
)


class ValueIndex:
    """The values of one database; several threads may ask at once.

    `open` it; the constructor takes a file that is known to be whole.
    """

    def __init__(self, path: Path) -> None:
        builder.require_fts5()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            read_only_uri(path), uri=True, check_same_thread=False, isolation_level=None
        )
        self._connection.text_factory = tolerant_text
        self._connection.executescript(_QUESTION)
        self._columns = {
            position: IndexedColumn(
                ColumnName(table, column), first_id, texts, blanks, tuple(json.loads(first))
            )
            for position, table, column, first_id, texts, blanks, first in self._connection.execute(
                "SELECT * FROM place ORDER BY id"
            )
        }
        self._with_texts = [position for position, column in self._columns.items() if column.texts]
        self._first_ids = [self._columns[position].first_id for position in self._with_texts]

    @classmethod
    def open(cls, database: Database, folder: Path) -> "ValueIndex":
        """Open the index of a database, building it first where there is none, or none of this format.

        A million values take some three seconds.
        """
        path = folder / f"{database.digest}.sqlite"
        if not _is_whole(path):
            builder.build(database, path)
        with suppress(OSError):
            path.touch()  # `crosscheck clean` removes what was not used for long
        return cls(path)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_connection"):
            self._connection.close()

    def retrieve(
        self, question_text: str, k: int = 2, bm25_top_k: int = TOP, *, fill: bool = True
    ) -> Mapping[ColumnName, tuple[Value, ...]]:
        """Return the `k` values of each column that a question most likely means, the likeliest first.

        `k` is at most 10. Of each column, the `bm25_top_k` best texts by BM25 are looked at, at least `k`. Columns are
        in schema order; those without a value are absent. With `fill`, a column's most frequent values follow if the
        question finds fewer than `k`.
        """
        if k < 1:
            return {}
        question_text = question_text.encode("utf-8", "replace").decode()  # SQLite takes no lone surrogates
        with self._lock:
            matches = self._find(question_text)
            mentioned = self._find_numbers(question_text)
        by_column: dict[int, list[int]] = {}
        for number in sorted(matches.values):
            position = self._with_texts[bisect(self._first_ids, number) - 1]
            by_column.setdefault(position, []).append(number)
        result = {}
        for position, column in self._columns.items():
            ids = by_column.get(position)
            chosen = column.choose(ids, matches, bm25_top_k) if ids else ()
            every = dict.fromkeys((*chosen, *mentioned.get(position, ()), *(column.first if fill else ())))
            if every or fill:
                result[column.name] = tuple(every)[:k]
        return result

    def _find(self, question_text: str) -> ValueMatches:
        """Find the texts that hold a word of the question, up to `MAX_MATCHES`, and those that are like its words."""
        question = BridgedQuestion(question_text)
        texts = {word: self._find_word(word) for word in self._words(question_text)}
        holders: dict[int, list[str]] = {}
        complete = True
        for word in sorted(texts, key=lambda word: (len(texts[word]), word)):
            if len(holders) + len(texts[word]) > MAX_MATCHES:
                complete = False
                break
            for number in texts[word]:
                holders.setdefault(number, []).append(word)
        return ValueMatches(
            question, holders, complete, self._read(holders.keys() | self._find_similar(question))
        )

    def _words(self, text: str) -> list[str]:
        """Return the words of a question, by the tokenizer of the index, without stop words and apostrophes' ends."""
        self._connection.execute("DELETE FROM question")
        self._connection.execute(_TOKENIZE, (without_stop_words(_SUFFIX.sub("", text)),))
        return [word for (word,) in self._connection.execute("SELECT term FROM question_word")]

    def _find_word(self, word: str) -> list[int]:
        ((numbers_of_texts,),) = self._connection.execute(_HOLDERS, (f'"{word}"', MAX_MATCHES + 1))
        return list(json.loads(numbers_of_texts))

    def _find_similar(self, question: BridgedQuestion) -> set[int]:
        """Return ids of the texts that are similar, as a whole, to words of the question and begin as they do."""
        similar: set[int] = set()
        absent_beginning: str | None = None
        for span in question.spans(builder.MAX_CHARACTERS):
            # a bucket has the texts of one length, the last one those of all greater lengths
            for bucket, beginning in _ranges(span):
                if bucket == LAST_BUCKET and absent_beginning and beginning.startswith(absent_beginning):
                    continue  # a longer span that starts at the same word
                end = beginning + chr(sys.maxunicode)
                rows = self._connection.execute(_SIMILAR, (bucket, beginning, end)).fetchall()
                if bucket == LAST_BUCKET and not rows:
                    absent_beginning = beginning
                cores = [core.lower() for _, core in rows]
                like = extract(
                    span.text, cores, scorer=Indel.normalized_similarity, score_cutoff=LIKENESS, limit=None
                )
                similar.update(rows[position][0] for _, _, position in like)
        return similar

    def _read(self, ids: Collection[int]) -> dict[int, str]:
        query = "SELECT id, value FROM text WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self._connection.execute(query, (json.dumps(sorted(ids)),)).fetchall())

    def _find_numbers(self, question: str) -> Mapping[int, Sequence[int | float]]:
        """Return by column the numbers of the question that it holds, in the question's order."""
        by_column: dict[int, list[int | float]] = {}
        for number in numbers(question):
            rows = self._connection.execute(
                "SELECT number.place, number.value FROM place CROSS JOIN number ON number.place = place.id "
                "WHERE number.value = ?",
                (number,),
            )
            for position, value in rows:
                by_column.setdefault(position, []).append(value)
        return by_column


@dataclass(frozen=True, slots=True)
class DatabaseValues:
    """A database whose values a stage can ask for; the index is opened, or built, when the first question asks."""

    database: Database
    folder: Path  # where indexes are kept

    def __hash__(self) -> int:
        """Return the hash of the path, which names the content; that of a whole schema takes milliseconds."""
        return hash(self._path)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What an answer depends on beside the question: the database's content and how it is indexed."""
        return {"database": self.database.digest, "format": builder.FORMAT}

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.database.digest}.sqlite"

    def open(self) -> ValueIndex:
        """Return the index, building it first where there is none; it stays open for other questions."""
        with _opening:
            return _open_index(self)

    async def retrieve(
        self, question_text: str, k: int, bm25_top_k: int, *, fill: bool = True
    ) -> tuple[ColumnValues, ...]:
        """Call `ValueIndex.retrieve` in a thread; return the likeliest values of each column.

        An index whose file is found to be damaged is built again.
        """

        def ask() -> Mapping[ColumnName, tuple[Value, ...]]:
            try:
                return self.open().retrieve(question_text, k, bm25_top_k, fill=fill)
            except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
                log.warning("The index of values %s is damaged (%s) and is built again.", self._path, error)
                builder.build(self.database, self._path)
                _open_index.cache_clear()  # otherwise the next search would use the open index
                return self.open().retrieve(question_text, k, bm25_top_k, fill=fill)

        values_by_column = await asyncio.to_thread(ask)
        return tuple(ColumnValues(name, values) for name, values in values_by_column.items())


_opening = threading.Lock()
MAX_OPEN_INDEXES = 16
"""Indexes that a process keeps open."""


@lru_cache(maxsize=MAX_OPEN_INDEXES)
def _open_index(values: DatabaseValues) -> ValueIndex:
    """Return an index that stays open; one that makes way for another is closed once no question uses it."""
    return ValueIndex.open(values.database, values.folder)


def _ranges(span: WordSpan) -> list[tuple[int, str]]:
    """Return the buckets (lengths of texts) and beginnings under which texts similar to a span are indexed."""
    length = len(span.text)
    shortest, longest = (min(limit, LAST_BUCKET) for limit in like_lengths(length))
    first = span.beginning[0]
    # the index has capitals that are not ASCII: SQLite does not change them into small letters
    first_letters = (first,) if first.isascii() else {first, first.upper()}
    ranges: list[tuple[int, str]] = []
    for bucket in range(shortest, longest + 1):
        # a text as long as a short span is similar only if it is equal: another letter would be two edits
        beginning = span.text if bucket == length <= 6 else span.beginning
        ranges += [(bucket, letter + beginning[1:]) for letter in first_letters]
    return ranges


def _is_whole(path: Path) -> bool:
    """Return whether a file is an index of this format and not truncated."""
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            ((version,),) = connection.execute("PRAGMA user_version")
    except sqlite3.DatabaseError:
        return False
    return version == builder.FORMAT and not damage(path)
