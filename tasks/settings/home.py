"""Paths of everything that Crosscheck reads and writes, with their defaults, and the stores that machines share."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tasks.core.errors import ConfigurationError
from tasks.core.files import require_file

CHECKOUT = Path(__file__).resolve().parents[2]

_IN_WHEEL = Path(__file__).resolve().parents[1] / "conf"
"""Where `setup.py` puts conf/ in a wheel."""

SHIPPED_CONF = _IN_WHEEL if _IN_WHEEL.is_dir() else CHECKOUT / "conf"
"""The folder of benchmarks, backbones, pipelines and prompts that came with Crosscheck."""

DEFAULT_BENCHMARK = "demo"
DEFAULT_BACKBONE = "offline"
DEFAULT_PIPELINE = "rsl-sql"
"""Defaults of the command line, of Prefect's forms, and of `answer` and `prepare`."""


class _Below:
    """A path below the working folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: "Home", owner: type) -> Path:
        return home.path / self._name


@dataclass(frozen=True, slots=True)
class Home:
    """The git-ignored working folder; every store's default place is below it."""

    path: Path

    replies = _Below("replies.sqlite")
    """Cache of model replies."""
    prefect = _Below("prefect")
    """Prefect's own home: its database, its log, its profile."""
    stage_results = _Below("stages.sqlite")
    """Persisted results of stages."""
    warehouse = _Below("warehouse.duckdb")
    """Per-question, per-stage rows."""
    verdicts = _Below("verdicts.sqlite")
    """Cache of verdicts on SQL that was executed before."""
    embeddings = _Below("embeddings")
    """Matrices of embedded demonstration pools."""
    endpoints = _Below("endpoints")
    """What was found out about endpoints, one file for each endpoint and model."""
    agents = _Below("agents")
    """Trajectories of agents that were run from Python, one file for each."""
    values = _Below("values")
    """Indexes of databases' values, one file each."""
    runs = _Below("runs")
    """A folder of small files, one for each evaluation that is running now."""
    services = _Below("services")
    """What the servers of `crosscheck up` log, and who they are."""
    nights = _Below("nights")
    """A summary of each night."""
    reports = _Below("reports")
    """Pages of runs, and the leaderboard."""

    @property
    def mlflow_uri(self) -> str:
        """Tracking store of MLflow."""
        return f"sqlite:///{self.path / 'mlflow.db'}"


def find_home(option: str | None = None, *, make: bool = True) -> Home:
    """Return the working folder: `--home`, else CROSSCHECK_HOME, else `.crosscheck` in the current folder.

    With `make`, a missing folder is made; what only reads needs none.
    """
    location = Path(option or os.environ.get("CROSSCHECK_HOME") or ".crosscheck").expanduser()
    try:
        path = _resolved(location)
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise _unusable(location, f"cannot be used: {reason}") from None
    if "?" in str(path) or unquote(str(path)) != str(path):
        raise _unusable(
            path,
            'has a "?" or a "%" with two digits in its name, which stand for something else in the addresses of '
            "databases",
        )
    if not existing.is_dir():
        raise _unusable(path, f"cannot be used: {existing} is a file, not a folder")
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, f"cannot be made: {error.strerror}") from error
    if path.exists() and not os.access(path, os.W_OK):
        raise _unusable(path, "cannot be written to")
    for store in (*path.glob("*"), *path.glob("prefect/*.db")):
        try:
            require_file(store)  # opening a pipe would wait for its writer
        except FileNotFoundError:  # a link to nothing
            continue
        except OSError as error:
            raise _unusable(path, f"cannot be used: {store}: {error.strerror}") from error
    return Home(path)


def _unusable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The working folder {path} {why}. Name another with --home or CROSSCHECK_HOME."
    )


def find_data(option: str | None = None) -> Path:
    """Return the benchmarks' data location: `--data`, else CROSSCHECK_DATA, else `data` in the current folder.

    The loader checks whether the files are there: it knows which ones a benchmark needs.
    """
    return _resolved(option or os.environ.get("CROSSCHECK_DATA") or "data")


def _resolved(location: Path | str) -> Path:
    path = Path(location).expanduser().resolve()
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"The path {path} has bytes that are not UTF-8, which no store can hold. Name another folder, or rename it."
        ) from None
    return path


def find_conf() -> Path:
    """Return the folder of benchmarks, backbones, pipelines and prompts: CROSSCHECK_CONF, else `SHIPPED_CONF`."""
    path = _resolved(os.environ.get("CROSSCHECK_CONF") or SHIPPED_CONF)
    if not path.is_dir():
        raise ConfigurationError(
            f"There is no configuration folder {path}. Set CROSSCHECK_CONF to a folder with benchmarks/, backbones/, "
            "pipelines/ and prompts/, or unset it to use the one that came with Crosscheck."
        )
    return path


REPLIES = "CROSSCHECK_REPLIES"
STAGES = "CROSSCHECK_STAGES"

_POSTGRES = re.compile(r"(postgres|postgresql|postgresql\+psycopg)://")


def find_replies(home: Home) -> Path | str:
    """Return the place of the reply cache, CROSSCHECK_REPLIES or else in `home`: a SQLite file, or a PostgreSQL URL."""
    setting = os.environ.get(REPLIES, "")
    if not setting:
        return home.replies
    if _POSTGRES.match(setting):
        return setting
    if "://" in setting:
        raise ConfigurationError(
            f"{REPLIES} starts with {setting.partition('://')[0]}://, and replies are kept in PostgreSQL "
            "(postgresql://user@host/database) or in a SQLite file (its path, without a scheme)."
        )
    return _resolved(setting)


def find_stages() -> str:
    """Return where machines share the results of stages: the folder, or URL of fsspec, in CROSSCHECK_STAGES.

    "" if it is not set: they are then in the working folder.
    """
    setting = os.environ.get(STAGES, "")
    if "://" not in setting:
        return str(_resolved(setting)) if setting else ""
    parts = urlsplit(setting)
    if parts.scheme in ("file", "local"):
        return str(Path(unquote(parts.path)).resolve())
    if parts.password is not None:
        raise ConfigurationError(
            f"{STAGES} has a password in it, which messages would show. Leave it to the environment or files that the "
            "storage's own library reads."
        )
    if not parts.netloc:
        raise ConfigurationError(
            f"{STAGES}: {setting} names no bucket or host. Write for example s3://bucket/stages."
        )
    return setting.rstrip("/")
