"""Opens the reply cache in a SQLite file or in a PostgreSQL database."""

from pathlib import Path

from tasks.backbone.cache.base import ReplyCache

__all__ = ["ReplyCache", "open_reply_cache"]


def open_reply_cache(location: Path | str) -> ReplyCache:
    """Open the reply cache in a file, or at the address of a PostgreSQL database (`find_replies`).

    Raises:
        CrosscheckError: it cannot be used; the message holds no password.
    """
    if isinstance(location, Path):
        from tasks.backbone.cache.sqlite import SqliteReplyCache

        return SqliteReplyCache(location)
    from tasks.backbone.cache.postgres import PostgresReplyCache

    return PostgresReplyCache(location)
