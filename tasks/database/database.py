"""A database of a benchmark or of a user, opened by its path or URL."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tasks.core.errors import (
    ConfigurationError,
    CrosscheckError,
    DatabaseUnavailableError,
    DataError,
    did_you_mean,
)
from tasks.core.files import require_file
from tasks.core.registry import of_type
from tasks.database.engine import ENGINES, engine_of
from tasks.database.location import Content, Location, unreadable
from tasks.database.schema import Descriptions, ForeignKey, Schema, united


@dataclass(frozen=True)
class Database:
    """One database, read once."""

    id: str  # the benchmark's name of it
    location: Location  # its engine, and where it is
    schema: Schema  # tables, columns, keys, sample rows
    # what identified its content when it was opened: sha256 of a file, or of a server's schema and row counts; ""
    # when it is absent and only the schema is known
    digest: str
    state: tuple[Any, ...] = field(default=(), repr=False)  # of its files when it was opened (`Engine.state`)

    @property
    def content(self) -> Content:
        """Its content when it was opened."""
        return Content(self.digest, self.state)

    @property
    def executable(self) -> bool:
        """Whether SQL can be executed on it; otherwise only the schema is known."""
        return bool(self.digest)

    @property
    def dialect(self) -> str:
        """Name of its SQL dialect, as sqlglot spells it."""
        return self.schema.dialect

    @property
    def path(self) -> Path:
        """Its file or folder; only for a database that is one."""
        return self.location.path


def open_database(
    where: Location | Path,
    database_id: str,
    *,
    sample_rows: int = 3,
    descriptions: Descriptions | None = None,
    foreign_keys: Iterable[ForeignKey] = (),
) -> Database:
    """Read a database's schema and digest, without changing or creating anything.

    The descriptions of columns take precedence over the database's own comments. `foreign_keys` are added to those that
    the database declares; names are compared without case, and a key with an unknown table or column is dropped.
    """
    location = locate(str(where)) if isinstance(where, Path) else where
    engine = engine_of(location)
    if not engine.server and location.path.exists():
        try:
            require_file(location.path)
        except OSError as error:
            raise DataError(
                f'Database "{database_id}": {location} cannot be read: {error.strerror}.'
            ) from error
    engine.require(location, database_id)
    state = engine.state(location)
    origin = type(engine).__name__  # may be of a package
    schema = of_type(Schema, engine.read(location, database_id, sample_rows), f"{origin}.read returned")
    if not schema.tables and engine.server:
        raise DataError(
            f'Database "{database_id}": {location} has no tables that its role may read. Check the name of the '
            "database, and what the role was granted; tables of another schema need ?schema=NAME at the end."
        )
    if not schema.tables:
        raise DataError(
            f'Database "{database_id}": {location} has no tables. It may have been created by a program that '
            "opened a wrong path; fetch the file again, or check the benchmark's `databases` folder."
        )
    keys = united(schema.tables, schema.foreign_keys, foreign_keys)
    schema = replace(schema, foreign_keys=keys).described(descriptions or {})
    digest = of_type(str, engine.digest(location), f"{origin}.digest returned")
    return Database(database_id, location, schema, digest, state)


def require_content(location: Location, content: Content) -> None:
    """Make sure that a database can be read, and holds what it held when it was opened.

    Its digest is computed again only where the state of its files differs. A server has no state: it is not checked.
    """
    engine = engine_of(location)
    if not content.state or engine.state(location) == content.state:
        return
    try:
        engine.require(location, location.path.stem)
        same = engine.digest(location) == content.digest
    except (OSError, CrosscheckError) as error:
        raise unreadable(location, error) from error
    if not same:
        raise DatabaseUnavailableError(
            f"{location} has changed since this command read it. Run the same command again: it reads the new content."
        )


def digests_of(databases: Mapping[str, Database]) -> dict[str, str]:
    """Return what identifies the content of each database, by its name; absent ones are left out."""
    return {name: database.digest for name, database in sorted(databases.items()) if database.digest}


def changed_on_servers(databases: Iterable[Database]) -> tuple[str, ...]:
    """Return the ids of databases on servers whose schema or row counts have changed since they were opened.

    Files are checked before each query. A database that cannot be read now is left out.
    """
    changed = []
    for database in databases:
        engine = engine_of(database.location)
        if database.digest and engine.server:
            with suppress(CrosscheckError):
                if engine.current_digest(database.location) != database.digest:
                    changed.append(database.id)
    return tuple(changed)


def product_of(databases: Mapping[str, Database]) -> str:
    """Return name and version of what executes SQL on the databases of a benchmark; "" without any."""
    first = next(iter(databases.values()), None)
    if first is None:
        return ""
    engine = engine_of(first.location)
    product: str = of_type(str, engine.product(first.location), f"{type(engine).__name__}.product returned")
    return product


def locate(text: str, *, writable: bool = False, version: str = "") -> Location:
    """Return the location that a user names: a path, or a URL such as `postgresql://reader@host/shop`.

    The engine of a path is the one that recognizes the file or folder; if none does, or nothing is there, it is SQLite,
    whose message says what is wrong.
    """
    scheme, separator, rest = text.partition("://")
    engines = ENGINES.usable()
    # what is before "://" may be part of a path: a scheme has letters, digits, "+" and "-" only
    is_url = separator and scheme.replace("+", "").replace("-", "").isalnum()
    if not is_url:
        path = Path(text).expanduser().absolute()
        chosen = next((name for name, engine in engines.items() if engine.has_file(path)), "sqlite")
        return Location(chosen, str(path), writable=writable, version=version)
    scheme = scheme.lower()
    for name, engine in engines.items():
        if scheme in engine.schemes:
            if engine.server:
                address, password = _without_password(text)
                return Location(name, address, password or engine.password(), writable, version)
            # sqlite:///relative.db, sqlite:////absolute.db
            path = Path(rest.removeprefix("/")).expanduser().absolute()
            return Location(name, str(path), writable=writable, version=version)
    schemes = [scheme for engine in engines.values() for scheme in engine.schemes]
    similar = get_close_matches(scheme, schemes, n=1)
    hint = f'Did you mean "{similar[0]}://"? ' if similar else ""
    known = ", ".join(f"{name}://" for name in sorted(schemes))
    raise ConfigurationError(
        f'There is no engine for "{scheme}://" databases. {hint}Known: {known}, and the path of a SQLite or DuckDB '
        "file, or of a folder of Parquet or CSV files."
    )


def database_name(location: Location) -> str:
    """Return the name of a database: of its file without the ending, or the last part of its URL's path.

    >>> database_name(locate("postgresql://reader@host/shop"))
    'shop'
    """
    path = urlsplit(location.address).path if "://" in location.address else location.address
    return unquote(Path(path).stem) or location.engine


def _without_password(url: str) -> tuple[str, str]:
    """Return a URL without its password, and the password, "" where it has none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # to read it raises an error if it is no number
    except ValueError as error:
        scheme, _, _ = url.partition("://")
        raise ConfigurationError(
            f"The database's URL {scheme}://... cannot be read: {error}. "
            f"Write it as {scheme}://user@host:port/database; what is special in a password as %40 (@), %2F (/)."
        ) from None
    user_and_password, at, host = parts.netloc.rpartition("@")
    user, _, password = user_and_password.partition(":")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{host}")), unquote(password)


def dialect_named(name: str) -> str:
    """Return sqlglot's name of a dialect that a user names: an engine, its dialect, or a beginning of its URLs."""
    engines = ENGINES.usable()
    for engine_name, engine in engines.items():
        if name.lower() in (engine_name, engine.dialect, *engine.schemes):
            return engine.dialect
    raise ConfigurationError(f'There is no dialect "{name}". {did_you_mean(name, engines)}')
