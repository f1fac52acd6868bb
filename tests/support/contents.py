"""What is in a file, with what is compressed or packed in it: cells of databases, blobs, data of HTML pages."""

import base64
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import duckdb

_PACKED = re.compile(rb'<script type="text/plain"[^>]*>([^<]*)</script>')


def contents(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, and what they hold."""
    raw = path.read_bytes()
    yield raw
    if raw.startswith(b"SQLite format 3\0"):
        yield from _sqlite(path)
    elif raw[8:12] == b"DUCK":
        with duckdb.connect(str(path), read_only=True) as connection:
            names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            for (name,) in names:
                yield repr(connection.execute(f'SELECT * FROM "{name}"').fetchall()).encode()
    elif raw.startswith(b"PAR1"):
        yield repr(duckdb.sql(f"SELECT * FROM read_parquet('{path}')").fetchall()).encode()
    for packed in _PACKED.findall(raw):
        yield zlib.decompress(base64.b64decode(packed))


def _sqlite(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        names = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'").fetchall()
        for (name,) in names:
            for row in connection.execute(f'SELECT * FROM "{name.decode()}"'):
                for cell in row:
                    if isinstance(cell, bytes):
                        yield cell
                        with suppress(zlib.error):
                            yield zlib.decompress(cell)
