"""What identifies the content of a server's database, which has no file to take a digest of.

Schema, comments, number of rows of every table, and the server's version. An UPDATE that leaves the number of rows is
missed; so is a DELETE with as many INSERTs. Then name the data's version (`benchmark.database_version`).
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict

from tasks.database.engine import Structure


def fingerprint(structure: Structure, server: str, version: str, count: Callable[[str], int]) -> str:
    """Return a sha256 of schema and row counts, or of schema and the user's version.

    Samples do not count. Rows are counted where the user names no version.
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
