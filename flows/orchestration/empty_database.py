"""Prefect's SQLite database without content."""

import asyncio
from pathlib import Path

from tasks.core.files import atomic_create
from tasks.database.sqlite.template import Template

TEMPLATE = Template("prefect")


class NoTemplate(Exception):  # noqa: N818 - a signal, not an error
    """Signal that the installed release of Prefect has not made a database yet."""


def create_database(path: Path) -> bool:
    """Create Prefect's database from the template if there is none; return whether there is one now.

    If another process creates it meanwhile, that one stays; one that is killed leaves none.
    """
    if not path.exists():
        try:
            with atomic_create(path) as draft:
                if not TEMPLATE.copy(draft):
                    raise NoTemplate
        except NoTemplate:
            return False
    return True


def migrate(path: Path) -> None:
    """Create the database by Prefect's migrations if there is none, and keep the template.

    Args:
        path: the file that Prefect's settings name.
    """
    if not path.exists():
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
        if path.exists():  # the user's settings may name another database
            TEMPLATE.keep(path)
