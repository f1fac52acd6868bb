"""Builds the index of a database's values: one SQLite file.

    place    every column that holds a value: its name, its texts' first id, their number and their blanks, and the
             values that are shown when a question mentions none
    text     every distinct text of a column, in the order of columns and texts, so that a column is a range of ids, and
             how many rows hold it
    word     FTS5 index over the words of the texts
    whole, trimmed   indexes over the texts by length and beginning: as they are, and, of those with punctuation
             around them, without it
    number   the distinct numbers, by column

Texts of `MAX_CHARACTERS` or more are left out: no prompt shows them, so they shall not take the place of one that
it shows. Numbers are no texts: they cannot be bridged, and finding one is a look-up. A column with more than
`MAX_NUMBERS` different ones holds measures or keys; only the first so many, in the table's order, are kept.
Of a SQLite database SQLite does all the work, without a row in Python. Other engines are read column by column.
"""

import json
import sqlite3
import string
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tasks.core.errors import DataError, StoreError, first_problem
from tasks.core.files import atomic_write
from tasks.core.records import ColumnName
from tasks.core.registry import of_type
from tasks.database.database import Database, require_content
from tasks.database.engine import Values, engine_of
from tasks.database.limits import Limits
from tasks.database.location import Location, unreadable
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.session import SqlSession
from tasks.database.sqlite_files import tolerant_text

FORMAT = 3
"""Raise it with every change of what the file holds."""
MAX_CHARACTERS = 100
MAX_NUMBERS = 50_000
FIRST = 10
"""First values kept per column: what a question that mentions none of them is shown."""
LAST_BUCKET = 14
"""Length from which texts share one bucket of an index by length: their beginnings tell them apart."""
CACHE_KIB = 16_000
"""Memory that SQLite keeps pages in while building, for each of its files."""
BUILDING = Limits(memory_mb=1024, writes_files=True)
BUILDING_S = 3600.0
"""Seconds of building the index of one database."""

_UNREADABLE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_NOTADB,
)
TOKENIZER = "\"unicode61 remove_diacritics 2 tokenchars '#$%&*+-./:=@\\^_|~'\""
WORDS = (
    "CASE WHEN instr({0}, '.') OR instr({0}, ':') "
    "THEN replace(replace({0} || ' ', '. ', ' '), ': ', ' ') ELSE {0} END"
)
"""Words come in lower case and without accents. Symbols are part of them, and so are full stops and colons but at
their end; other punctuation is not."""
_TABLES = f"""
CREATE TABLE place (id INTEGER PRIMARY KEY, "table" TEXT, "column" TEXT,
    first_id INTEGER, texts INTEGER, blanks INTEGER, first TEXT);
CREATE TABLE text (id INTEGER PRIMARY KEY, value TEXT NOT NULL, uses INTEGER NOT NULL);
CREATE VIRTUAL TABLE word USING fts5 (value, content='', detail=none, columnsize=0, tokenize={TOKENIZER});
CREATE TABLE number (place INTEGER, value, PRIMARY KEY (place, value)) WITHOUT ROWID;
"""
_PUNCTUATION = (string.punctuation + " ").replace("'", "''")
_TRIMMED = f"trim(value, '{_PUNCTUATION}')"
_FREQUENT_TEXTS = (
    f"SELECT value FROM (SELECT * FROM text WHERE id >= ? ORDER BY uses DESC, id LIMIT {2 * FIRST}) "
    f"ORDER BY {_TRIMMED} = '', uses DESC, id LIMIT {FIRST}"
)
WHOLE = f"min(length(value), {LAST_BUCKET})", "lower(value)"
TRIMMED = f"min(length({_TRIMMED}), {LAST_BUCKET})", f"lower({_TRIMMED})"
"""A text's bucket, and the text as bridging compares it, but for capitals that are not ASCII."""
HAS_ENDS = f"value <> {_TRIMMED}"
# trimming every text for one index would take a quarter of the time of a build
_INDEXES = (
    f"CREATE INDEX whole ON text ({', '.join(WHOLE)})",
    f"CREATE INDEX trimmed ON text ({', '.join(TRIMMED)}) WHERE {HAS_ENDS}",
)


def build(database: Database, path: Path) -> None:
    """Write the index of a database to `path` atomically; other processes may do the same at the same time.

    A file is read in the sandbox, a server's database in this process. The content must be the same before and after.
    """
    location = database.location
    require_fts5()
    require_content(location, database.content)
    # a view's values are those of tables, and reading them may take long
    views = {table.name for table in database.schema.tables if table.view}
    names = enumerate(database.schema.column_names)
    columns = {position: name for position, name in names if name.table not in views}
    try:
        with atomic_write(path) as draft:
            if engine_of(location).server:
                _write(location, columns, draft)
            else:
                in_sandbox(write, location, columns, draft, timeout_s=BUILDING_S, limits=BUILDING)
            require_content(location, database.content)
    except DataError as error:
        raise unreadable(location, error) from error
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorcode", None) in _UNREADABLE:  # the draft has not been read yet
            raise unreadable(location, error) from error
        raise StoreError(
            f'Database "{database.id}": the index of its values cannot be built in {path.parent} '
            f'({first_problem(error)}). Make room there, or do without values ("--set pipeline.prompt.values=rows").'
        ) from error


def require_fts5() -> None:
    """Check that Python's SQLite has the full-text index FTS5."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (value)")
        except sqlite3.OperationalError as error:
            raise DataError(
                f"Python's SQLite {sqlite3.sqlite_version} was compiled without the full-text index FTS5, which finds "
                "values for prompts. Use a Python whose SQLite has it (python.org's and conda's do), or do without "
                'values ("--set pipeline.prompt.values=rows").'
            ) from error


def write(session: SqlSession, columns: Mapping[int, ColumnName], draft: Path) -> None:
    """Write the index of the columns of a file, in a worker process."""
    _write(session.location, columns, draft)


def _write(location: Location, columns: Mapping[int, ColumnName], draft: Path) -> None:
    engine = engine_of(location)
    opened: Values = of_type(Values, engine.values(location), f"{type(engine).__name__}.values returned")
    with closing(opened) as values:
        try:
            with closing(_open_draft(draft, values)) as index:
                _fill(index, columns, values)
        except values.errors as error:
            raise unreadable(location, error) from error


def _open_draft(draft: Path, values: Values) -> sqlite3.Connection:
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
    values.prepare(connection)
    return connection


def _fill(connection: sqlite3.Connection, columns: Mapping[int, ColumnName], values: Values) -> None:
    """Create the tables of the index, copy each column's texts and numbers into them, and index the texts."""
    connection.executescript(_TABLES)
    connection.execute("INSERT INTO word (word, rank) VALUES ('hashsize', ?)", (CACHE_KIB * 1024,))
    connection.execute("BEGIN")
    for column_id, name in columns.items():
        first_id = connection.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM text").fetchone()[0]
        values.copy_texts(connection, name.table, name.column, MAX_CHARACTERS - 1)
        values.copy_numbers(connection, column_id, name.table, name.column, MAX_NUMBERS)
        texts, blanks = connection.execute(
            "SELECT count(*), TOTAL(length(value) - length(replace(value, ' ', ''))) FROM text WHERE id >= ?",
            (first_id,),
        ).fetchone()
        first = [value for (value,) in connection.execute(_FREQUENT_TEXTS, (first_id,))]
        if len(first) < FIRST:
            first += values.frequent_numbers(
                name.table, name.column, among=MAX_NUMBERS, most=FIRST - len(first)
            )
        if first:
            connection.execute(
                "INSERT INTO place VALUES (?, ?, ?, ?, ?, ?, ?)",
                (column_id, name.table, name.column, first_id, texts, int(blanks), json.dumps(first)),
            )
    connection.execute(f"INSERT INTO word (rowid, value) SELECT id, {WORDS.format('value')} FROM text")
    for index in _INDEXES:
        connection.execute(index)
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
