"""What the sandbox lets SQL do: read, call functions, recurse. Everything else is refused in one sentence.

`mode=ro` alone is not enough: ATTACH opens any file on the machine, VACUUM INTO writes one, and a PRAGMA can
switch the protection off.
"""

import sqlite3

REFUSED_FUNCTIONS = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "sqlite_log"}
)
"""Functions that reach beyond the database: into files, programs or the process."""

REFUSED_TABLES = frozenset({"sqlite_stmt", "sqlite_dbpage", "dbstat"})
"""Virtual tables of some builds of SQLite that show the process or the file, not the data."""

INTERNAL_PRAGMAS = frozenset({"page_size", "data_version"})
"""Read, never set, by SQLite itself when a query uses a full-text table."""

_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"})
_WRITES = {
    sqlite3.SQLITE_INSERT: "INSERT into",
    sqlite3.SQLITE_UPDATE: "UPDATE of",
    sqlite3.SQLITE_DELETE: "DELETE from",
}
_OTHERS = {
    sqlite3.SQLITE_ATTACH: "opening another file (ATTACH, VACUUM)",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
}


def refusal(action: int, first: str | None, second: str | None) -> str | None:
    """Return why an action is refused, None when it is allowed.

    UPDATE of `sqlite_master` has to be let through: SQLite asks for it, and then writes nothing, when a
    query first touches a virtual table (full-text search, `json_each`). A statement that really updates it
    is refused by SQLite itself, and creating anything is already refused as an INSERT.

    Args:
        action: SQLite's action code.
        first: its first argument (the table read, the pragma, ...).
        second: its second argument (the column read, the function called, the pragma's new value, ...).
    """
    name = (first or "").lower()
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
        return None
    if action == sqlite3.SQLITE_READ:
        return _sentence(f"reading {first}") if name in REFUSED_TABLES else None
    if action == sqlite3.SQLITE_FUNCTION:
        return _sentence(f"the function {second}") if (second or "").lower() in REFUSED_FUNCTIONS else None
    if action == sqlite3.SQLITE_PRAGMA:
        return None if name in INTERNAL_PRAGMAS and second is None else _sentence(f"PRAGMA {first}")
    if action == sqlite3.SQLITE_UPDATE and name == "sqlite_master":
        return None
    if action in _WRITES and name not in _SCHEMA_TABLES:
        return _sentence(f"{_WRITES[action]} {first}")
    return _sentence(_OTHERS.get(action, "changing the schema"))


def _sentence(what: str) -> str:
    return f"The sandbox only lets a query read this database: {what} is not allowed."
