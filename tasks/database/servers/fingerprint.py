"""What identifies the content of a server's database, which has no file to take a digest of.

Schema, comments, number of rows of every table, and the server's version. An UPDATE that leaves the number of rows is
missed; so is a DELETE with as many INSERTs. Then name the data's version (`benchmark.database_version`).
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache

from tasks.database.engine import Structure
from tasks.database.location import Location


def fingerprint(structure: Structure, server: str, version: str, count: Callable[[str], int]) -> str:
    """Return a sha256 of schema and row counts, or of schema and the user's version.

    Args:
        structure: tables and keys; samples do not count.
        server: name and version of the server.
        version: the user's name of the data's version; "" to count rows.
        count: returns the number of rows of a table.
    """
    tables = [
        [
            table.name,
            [[column.name, column.type, column.description] for column in table.columns],
            table.primary_key,
            table.description,
            None if version else count(table.name),
        ]
        for table in structure.tables
    ]
    content = [server, version, tables, [asdict(key) for key in structure.foreign_keys]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


class Remembered:
    """Fingerprints by location, each computed once per process until it is asked for again."""

    def __init__(self, compute: Callable[[Location], str]) -> None:
        self._compute = compute
        self._cached = lru_cache(maxsize=1024)(compute)

    def of(self, location: Location, *, again: bool) -> str:
        """Return the fingerprint of a location; `again` computes it anew."""
        return self._compute(location) if again else self._cached(location)
