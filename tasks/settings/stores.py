"""The stores that several machines may share: replies that were paid for, and persisted results of stages."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tasks.core.errors import ConfigurationError
from tasks.settings.home import Home

REPLIES = "CROSSCHECK_REPLIES"
STAGES = "CROSSCHECK_STAGES"

_POSTGRES = re.compile(r"(postgres|postgresql|postgresql\+psycopg)://")
_SLUG = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class StorageUrl:
    """A folder that fsspec reads and writes: `s3://bucket/stages`."""

    url: str


@dataclass(frozen=True, slots=True)
class StorageBlock:
    """A storage block that is saved on Prefect's server: `s3-bucket/stages`."""

    slug: str


def find_replies(home: Home) -> Path | str:
    """Return the place of the reply cache: a SQLite file, or the address of a PostgreSQL database.

    It is the value of CROSSCHECK_REPLIES, or else a file in the working folder.

    Raises:
        ConfigurationError: it names a database of another kind. The message does not repeat the address.
    """
    named = os.environ.get(REPLIES, "")
    if not named:
        return home.replies
    if _POSTGRES.match(named):
        return named
    if "://" in named:
        raise ConfigurationError(
            f"{REPLIES} starts with {named.partition('://')[0]}://, and replies are kept in PostgreSQL "
            "(postgresql://user@host/database) or in a SQLite file (its path, without a scheme)."
        )
    return Path(named).expanduser().resolve()


def find_stages(home: Home) -> Path | StorageUrl | StorageBlock:
    """Return where results of stages are persisted: a folder, a folder for fsspec, or a block of Prefect's.

    It is the value of CROSSCHECK_STAGES, or else a SQLite file in the working folder. `type/name` is the slug of a
    block: write a relative folder of that form with `./` before it.

    Raises:
        ConfigurationError: the URL lacks a bucket or host, or has a password in it.
    """
    named = os.environ.get(STAGES, "")
    if not named:
        return home.stage_results
    if "://" not in named:
        return StorageBlock(named) if _SLUG.fullmatch(named) else Path(named).expanduser().resolve()
    parts = urlsplit(named)
    if parts.scheme in ("file", "local"):
        return Path(unquote(parts.path)).resolve()
    if parts.password is not None:
        raise ConfigurationError(
            f"{STAGES} has a password in it, which all users of Prefect's UI could read. Leave it to the "
            "environment or files that the storage's own library reads, or save a storage block in Prefect and name "
            "it here: block-type/name."
        )
    if not parts.netloc:
        raise ConfigurationError(
            f"{STAGES}: {named} names no bucket or host. Write for example s3://bucket/stages."
        )
    return StorageUrl(named.rstrip("/"))
