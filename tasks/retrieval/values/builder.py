"""Builds the index of a database's values: one SQLite file.

    place    every column that holds a value: its name, its texts' first id, their number and their blanks, and the
             values that are shown when a question mentions none
    text     every distinct text of a column, in the order of columns and texts, so that a column is a range of ids
    word     FTS5 index over the words of the texts
    mention  index over the texts as bridging compares them, by length and beginning
    number   the distinct numbers, by column

Texts of `LONGEST` characters or more are left out: no prompt shows them, so they shall not take the place of one that
it shows. Numbers are no texts: they cannot be bridged, and finding one is a look-up. A column with more than
`MOST_NUMBERS` different ones holds measures or keys; only the first so many, in the table's order, are kept.
Python sees no single value: SQLite does all the work.
"""

import json
import os
import sqlite3
import string
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tasks.database.database import Database
from tasks.database.files import read_only_uri, require_database
from tasks.database.identifiers import quoted
from tasks.database.restraint import tolerant_text
from tasks.errors import DataError

Progress = Callable[[str], None]

FORMAT = 2
"""Raise it with every change of what the file holds."""
APPLICATION = 0x43435649
"""SQLite's `application_id` of an index: "CCVI"."""
LONGEST = 100
MOST_NUMBERS = 50_000
FIRST = 10
"""First values kept per column: what a question that mentions none of them is shown."""
LONGEST_BUCKET = 14
"""Length from which texts share one bucket of `mention`: their beginnings tell them apart."""
CACHE_KIB = 16_000
"""Memory that SQLite keeps pages in while building, for each of its files."""

TOKENIZER = "\"unicode61 remove_diacritics 2 tokenchars '#$%&*+-./:=@\\^_|~'\""
WORDS = "replace(replace({} || ' ', '. ', ' '), ': ', ' ')"
"""Words come in lower case and without accents. Symbols are part of them, and so are full stops and colons but at
their end; other punctuation is not."""
_TABLES = f"""
CREATE TABLE place (id INTEGER PRIMARY KEY, "table" TEXT, "column" TEXT,
    first_id INTEGER, texts INTEGER, blanks INTEGER, first TEXT);
CREATE TABLE text (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE word USING fts5 (value, content='', detail=none, columnsize=0, tokenize={TOKENIZER});
CREATE TABLE number (place INTEGER, value, PRIMARY KEY (place, value)) WITHOUT ROWID;
"""
_PUNCTUATION = (string.punctuation + " ").replace("'", "''")
CORE = f"trim(lower(value), '{_PUNCTUATION}')"
"""A text as bridging compares it, but for capitals that are not ASCII."""
BUCKET = f"min(length(trim(value, '{_PUNCTUATION}')), {LONGEST_BUCKET})"
_MENTION = f"CREATE INDEX mention ON text ({BUCKET}, {CORE})"


def build(database: Database, path: Path, progress: Progress | None = None) -> None:
    """Write the index of a database to `path`, whole or not at all; other processes may do the same meanwhile.

    Raises:
        DataError: the database cannot be read, the file cannot be written, or SQLite lacks FTS5.
    """
    require_database(database.path, database.id)
    require_fts5()
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


def require_fts5() -> None:
    """Make sure that Python's SQLite has the full-text index FTS5.

    Raises:
        DataError: it was compiled without.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (value)")
        except sqlite3.OperationalError as error:
            raise DataError(
                f"Python's SQLite {sqlite3.sqlite_version} was compiled without the full-text index FTS5, which finds "
                "values for prompts. Use a Python whose SQLite has it (python.org's and conda's do), or do without "
                'values ("--set pipeline.prompt.values=rows").'
            ) from error


def _opened(draft: Path, database: Database) -> sqlite3.Connection:
    connection = sqlite3.connect(draft, isolation_level=None, uri=True)
    connection.text_factory = tolerant_text
    with closing(sqlite3.connect(read_only_uri(database.path), uri=True)) as source:
        ((encoding,),) = source.execute("PRAGMA encoding")
    for pragma in (
        f"encoding = '{encoding}'",  # SQLite attaches no database of another encoding
        "journal_mode = OFF",  # a draft that fails is thrown away
        "synchronous = OFF",
        "locking_mode = EXCLUSIVE",
        "threads = 2",
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
    connection.execute("INSERT INTO word (word, rank) VALUES ('hashsize', ?)", (CACHE_KIB * 1024,))
    connection.execute("BEGIN")
    for place, name in enumerate(database.schema.column_names):
        column, table = quoted(name.column), f"source.{quoted(name.table)}"
        first_id = connection.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM text").fetchone()[0]
        connection.execute(
            f"INSERT INTO text (value) SELECT {column} FROM {table} WHERE typeof({column}) = 'text' "
            # the second length counts what is behind a NUL as well
            f"AND length({column}) BETWEEN 1 AND ? AND length(CAST({column} AS BLOB)) < ? "
            f"GROUP BY {column} COLLATE BINARY",
            (LONGEST - 1, 4 * LONGEST),
        )
        connection.execute(
            f"INSERT OR IGNORE INTO number SELECT DISTINCT ?, {column} FROM {table} "
            f"WHERE typeof({column}) IN ('integer', 'real') AND {column} NOT IN (9e999, -9e999) LIMIT ?",
            (place, MOST_NUMBERS),
        )
        texts, blanks = connection.execute(
            "SELECT count(*), TOTAL(length(value) - length(replace(value, ' ', ''))) FROM text WHERE id >= ?",
            (first_id,),
        ).fetchone()
        if first := _first_values(connection, place, first_id):
            connection.execute(
                "INSERT INTO place VALUES (?, ?, ?, ?, ?, ?, ?)",
                (place, name.table, name.column, first_id, texts, int(blanks), json.dumps(first)),
            )
    connection.execute(f"INSERT INTO word (rowid, value) SELECT id, {WORDS.format('value')} FROM text")
    connection.execute(_MENTION)
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _first_values(connection: sqlite3.Connection, place: int, first_id: int) -> list[int | float | str]:
    """Return what is shown of a column when the question mentions none of its values: the first, texts before numbers.

    The place to choose others, such as the most frequent ones, which the paper leaves open.
    """
    rows = connection.execute(
        "SELECT * FROM (SELECT value FROM text WHERE id >= ? ORDER BY id LIMIT ?) UNION ALL "
        "SELECT * FROM (SELECT value FROM number WHERE place = ? ORDER BY value LIMIT ?) LIMIT ?",
        (first_id, FIRST, place, FIRST, FIRST),
    )
    return [value for (value,) in rows]
