"""Whether databases have kept their content, read anew and in full."""

from collections.abc import Iterable

from tasks.core.files import remembered_digest
from tasks.database.database import Database
from tasks.database.engine import engine_of


def verify_unchanged(databases: Iterable[Database]) -> tuple[str, ...]:
    """Return the ids of databases whose content has changed since it was opened, or that are missing."""
    remembered_digest.cache_clear()
    return tuple(database.id for database in databases if _digest(database) != database.digest)


def _digest(database: Database) -> str:
    engine = engine_of(database.location)
    if not engine.exists(database.location):
        return ""
    return engine.current_digest(database.location)
