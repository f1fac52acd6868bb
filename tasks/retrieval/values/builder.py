"""Builds the index of a database's values: one SQLite file.

    place   every column that holds a value: its name, how many texts and words they have, its first values
    text    every distinct text of any column, numbered in the order of the texts, with the columns that hold it
    word    full-text index over the words of the texts
    run     what finds the texts that a question may mention, for bridging (`tasks.retrieval.values.candidates`)
    number  the distinct numbers, by column

Texts of `LONGEST` characters or more are left out: no prompt shows them, so they shall not take the place of one that
it shows. Numbers are no texts: they cannot be bridged, and finding one is a look-up. A column with more than
`MOST_NUMBERS` different ones holds measures or keys; only the first so many, in the table's order, are kept.
"""

import json
import os
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tasks.database.database import Database
from tasks.database.files import read_only_uri, require_database
from tasks.database.identifiers import SQLITE, quoted
from tasks.database.restrictions import tolerant_text
from tasks.errors import DataError
from tasks.retrieval.values.candidates import RunWriter
from tasks.retrieval.values.words import words

Progress = Callable[[str], None]

FORMAT = 1
"""Raise it with every change of what the file holds."""
LONGEST = 100
MOST_NUMBERS = 50_000
FIRST = 10
"""First values kept per column: what a question that mentions none of them is shown."""
BATCH = 10_000
CACHE_KIB = 16_000
"""Memory that SQLite keeps pages in while building, for each of its files."""

_PLACE = struct.Struct("<II")
_TABLES = """
CREATE TABLE place (id INTEGER PRIMARY KEY, "table" TEXT, "column" TEXT, texts INTEGER, words INTEGER, first TEXT);
CREATE TABLE text (id INTEGER PRIMARY KEY, value TEXT NOT NULL, places BLOB NOT NULL);
CREATE TABLE run (starts BLOB NOT NULL, characters BLOB NOT NULL);
CREATE TABLE number (value, place INTEGER, PRIMARY KEY (value, place)) WITHOUT ROWID;
CREATE TEMP TABLE raw_text (value, place);
CREATE TEMP TABLE raw_number (value, place);
"""
_SYMBOLS = "".join(chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum())
_WORD_TABLE = (
    "CREATE VIRTUAL TABLE word USING fts5 (words, content='', detail=none, columnsize=0, tokenize=\"ascii tokenchars '"
    + _SYMBOLS.replace("'", "''").replace('"', '""')
    + "'\")"
)
"""Words come ready-made: only a blank separates them."""


def build(database: Database, path: Path, progress: Progress | None = None) -> None:
    """Write the index of a database to `path`, whole or not at all; other processes may do the same meanwhile.

    Raises:
        DataError: the database cannot be read, or the file cannot be written.
    """
    require_database(database.path, database.id)
    if progress:
        progress(f"Indexing the values of {database.id}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".building-", suffix=".sqlite")
        os.close(handle)
        draft = Path(name)
        try:
            with closing(_opened(draft, database)) as connection:
                _fill(connection, database)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except (sqlite3.Error, OSError) as error:
        raise DataError(
            f'Database "{database.id}": the index of its values cannot be built in {path.parent} ({error}). '
            'Make room there, or do without values ("--set pipeline.prompt.values=rows").'
        ) from error


def ranks(places: bytes) -> dict[int, int]:
    """Return, from a row of `text`, the text's rank (from 0) among the texts of each place that holds it."""
    return {place: rank for place, rank in _PLACE.iter_unpack(places)}  # noqa: C416 - dict() loses the types


def _opened(draft: Path, database: Database) -> sqlite3.Connection:
    connection = sqlite3.connect(draft, isolation_level=None, uri=True)
    connection.text_factory = tolerant_text
    for pragma in (
        "journal_mode = OFF",  # a draft that fails is thrown away
        "synchronous = OFF",
        "locking_mode = EXCLUSIVE",
        "temp_store = FILE",
        f"cache_size = -{CACHE_KIB}",
        f"temp.cache_size = -{CACHE_KIB}",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("ATTACH ? AS source", (read_only_uri(database.path),))
    return connection


def _fill(connection: sqlite3.Connection, database: Database) -> None:
    connection.executescript(_TABLES)
    connection.execute(_WORD_TABLE)
    connection.execute("INSERT INTO word (word, rank) VALUES ('hashsize', ?)", (CACHE_KIB * 1024,))
    connection.execute("BEGIN")
    firsts = _gather(connection, database)
    texts = _Texts(len(firsts))
    rows = connection.execute("SELECT value, group_concat(place) FROM raw_text GROUP BY value ORDER BY value")
    while batch := rows.fetchmany(BATCH):
        lines = [texts.line(value, places) for value, places in batch]
        connection.executemany("INSERT INTO text VALUES (?, ?, ?)", lines)
        connection.executemany("INSERT INTO word (rowid, words) VALUES (?, ?)", texts.words_of_batch())
    connection.execute("INSERT INTO run VALUES (?, ?)", texts.runs.finished())
    connection.execute(
        "INSERT OR IGNORE INTO number SELECT value, place FROM raw_number ORDER BY value, place"
    )
    for place, name in enumerate(database.schema.column_names):
        shown = (texts.firsts[place] + firsts[place])[:FIRST]
        if shown:
            connection.execute(
                "INSERT INTO place VALUES (?, ?, ?, ?, ?, ?)",
                (place, name.table, name.column, texts.counts[place], texts.words[place], json.dumps(shown)),
            )
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _gather(connection: sqlite3.Connection, database: Database) -> list[list[int | float]]:
    """Copy the distinct values of every column; return the first numbers of each."""
    firsts = []
    for place, name in enumerate(database.schema.column_names):
        column, table = quoted(name.column, SQLITE), f"source.{quoted(name.table, SQLITE)}"
        connection.execute(
            f"INSERT INTO raw_text SELECT DISTINCT {column}, ? FROM {table} "
            f"WHERE typeof({column}) = 'text' AND length({column}) BETWEEN 1 AND ?",
            (place, LONGEST - 1),
        )
        before = connection.execute("SELECT COALESCE(MAX(rowid), 0) FROM raw_number").fetchone()[0]
        connection.execute(
            f"INSERT INTO raw_number SELECT DISTINCT {column}, ? FROM {table} "
            f"WHERE typeof({column}) IN ('integer', 'real') "
            f"AND {column} NOT IN (9e999, -9e999) LIMIT ?",
            (place, MOST_NUMBERS),
        )
        rows = connection.execute(
            "SELECT value FROM raw_number WHERE rowid > ? ORDER BY value LIMIT ?", (before, FIRST)
        )
        firsts.append([value for (value,) in rows])
    return firsts


class _Texts:
    """What is counted while the texts stream by.

    Attributes:
        counts, words, firsts: by place: texts, their words, the first texts.
        runs: what bridging will look up.
    """

    def __init__(self, places: int) -> None:
        self.counts = [0] * places
        self.words = [0] * places
        self.firsts: list[list[int | float | str]] = [[] for _ in range(places)]
        self.runs = RunWriter()
        self._number = 0
        self._words: list[tuple[int, str]] = []

    def line(self, value: str, places: str) -> tuple[int, str, bytes]:
        """Return the next row of `text`, and remember the rest; the places come as "3" or "3,17"."""
        self._number = number = self._number + 1
        said = words(value)
        self._words.append((number, " ".join(said)))
        packed = b""
        for place in sorted(map(int, places.split(","))) if "," in places else (int(places),):
            rank = self.counts[place]
            packed += _PLACE.pack(place, rank)
            if rank < FIRST:
                self.firsts[place].append(value)
            self.counts[place] = rank + 1
            self.words[place] += len(said)
        self.runs.add(value)
        return number, value, packed

    def words_of_batch(self) -> list[tuple[int, str]]:
        """Return the words of the texts since the last call."""
        batch, self._words = self._words, []
        return batch
