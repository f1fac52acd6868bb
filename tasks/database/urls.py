"""What a user writes for a database, a path or a URL, as a location."""

from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.database.engine import ENGINES
from tasks.database.location import Location


def locate(text: str, *, writable: bool = False, version: str = "") -> Location:
    """Return the location that a user names: a path, or a URL such as `postgresql://reader@host/shop`.

    A path belongs to the engine whose endings or beginning it has; one that does not exist yet to SQLite's, whose
    message says so.

    Raises:
        ConfigurationError: no engine has such URLs, or the URL is malformed; the message holds no password.
    """
    scheme, separator, rest = text.partition("://")
    engines = [ENGINES.get(name) for name in ENGINES.names()]
    if not separator or not scheme.replace("+", "").replace("-", "").isalnum():
        path = Path(text).expanduser().absolute()
        chosen = next((one for one in engines if one.has_file(path)), None) or ENGINES.get("sqlite")
        return Location(chosen.name, str(path), writable=writable, version=version)
    scheme = scheme.lower()
    for engine in engines:
        if scheme in engine.schemes:
            if engine.server:
                address, password = _without_password(text)
                return Location(engine.name, address, password or engine.password(), writable, version)
            # sqlite:///relative.db, sqlite:////absolute.db
            path = Path(rest[1:] if rest.startswith("/") else rest).expanduser().absolute()
            return Location(engine.name, str(path), writable=writable, version=version)
    known = [scheme for engine in engines for scheme in engine.schemes]
    near = get_close_matches(scheme, known, n=1)
    raise ConfigurationError(
        f'There is no engine for "{scheme}://" databases. '
        + (f'Did you mean "{near[0]}://"? ' if near else "")
        + f"Known: {', '.join(f'{one}://' for one in sorted(known))}, and the path of a SQLite or DuckDB file, or "
        "of a folder of Parquet or CSV files."
    )


def database_name(location: Location) -> str:
    """Return the name of a database: of its file without the ending, or the last part of its URL's path.

    >>> database_name(locate("postgresql://reader@host/shop"))
    'shop'
    """
    path = urlsplit(location.address).path if "://" in location.address else location.address
    return unquote(Path(path).stem) or location.engine


def _without_password(url: str) -> tuple[str, str]:
    """Return a URL without its password, and the password.

    Raises:
        ConfigurationError: the URL is malformed.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        scheme, _, _ = url.partition("://")
        raise ConfigurationError(
            f"The database's URL {scheme}://... cannot be read: {error}. "
            f"Write it as {scheme}://user@host:port/database; what is special in a password as %40 (@), %2F (/)."
        ) from None
    user, at, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=f"{name}{at}{host}")), unquote(password)


def dialect_named(name: str) -> str:
    """Return sqlglot's name of a dialect that a user names: an engine, its dialect, or a beginning of its URLs.

    Raises:
        ConfigurationError: no engine has such a dialect.
    """
    engines = [ENGINES.get(each) for each in ENGINES.names()]
    for engine in engines:
        if name.lower() in (engine.name, engine.dialect, *engine.schemes):
            return engine.dialect
    known = [engine.name for engine in engines]
    raise ConfigurationError(f'There is no dialect "{name}". {did_you_mean(name, known)}')
