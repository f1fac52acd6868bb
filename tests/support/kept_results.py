"""Stage results in a working folder's database, as a test looks at them and damages them."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from tasks.database.keyed_store import unpacked
from tasks.settings.home import Home


def kept_results(home: Home) -> dict[str, Any]:
    """Return what is persisted, by key; nothing if there is no database."""
    if not home.stage_results.exists():
        return {}
    with closing(sqlite3.connect(home.stage_results)) as connection:
        rows = connection.execute("SELECT key, content FROM entry ORDER BY key").fetchall()
    return {key: json.loads(unpacked(content) or "") for key, content in rows}


def replace_result(home: Home, key: str, content: str | bytes) -> None:
    """Replace what is persisted under a key."""
    with closing(sqlite3.connect(home.stage_results)) as connection, connection:
        connection.execute("UPDATE entry SET content = ? WHERE key = ?", (content, key))
