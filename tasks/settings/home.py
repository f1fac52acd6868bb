"""Paths of everything that Crosscheck reads and writes, with their defaults, and the stores that machines share."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tasks.core.errors import ConfigurationError

CHECKOUT = Path(__file__).resolve().parents[2]

_IN_WHEEL = Path(__file__).resolve().parents[1] / "conf"
"""Where `setup.py` puts conf/ in a wheel."""

SHIPPED_CONF = _IN_WHEEL if _IN_WHEEL.is_dir() else CHECKOUT / "conf"
"""The folder of benchmarks, backbones, pipelines and prompts that came with Crosscheck."""

DEFAULT_BENCHMARK = "demo"
DEFAULT_BACKBONE = "offline"
DEFAULT_PIPELINE = "rsl-sql"
"""Defaults of the command line, of Prefect's forms, and of `answer` and `prepare`."""


@dataclass(frozen=True, slots=True)
class Home:
    """The git-ignored working folder; every store's default place is below it."""

    path: Path

    @property
    def mlflow_uri(self) -> str:
        """Tracking store of MLflow."""
        return f"sqlite:///{self.path / 'mlflow.db'}"

    @property
    def replies(self) -> Path:
        """Cache of model replies."""
        return self.path / "replies.sqlite"

    @property
    def prefect(self) -> Path:
        """Prefect's own home: its database, its log, its profile."""
        return self.path / "prefect"

    @property
    def stage_results(self) -> Path:
        """Persisted results of stages."""
        return self.path / "stages.sqlite"

    @property
    def warehouse(self) -> Path:
        """Per-question, per-stage rows."""
        return self.path / "warehouse.duckdb"

    @property
    def verdicts(self) -> Path:
        """Cache of verdicts on SQL that was executed before."""
        return self.path / "verdicts.sqlite"

    @property
    def embeddings(self) -> Path:
        """Matrices of embedded demonstration pools."""
        return self.path / "embeddings"

    @property
    def endpoints(self) -> Path:
        """What was found out about endpoints, one file for each endpoint and model."""
        return self.path / "endpoints"

    @property
    def agents(self) -> Path:
        """Trajectories of agents that were run from Python, one file for each."""
        return self.path / "agents"

    @property
    def values(self) -> Path:
        """Indexes of databases' values, one file each."""
        return self.path / "values"

    @property
    def runs(self) -> Path:
        """A folder of small files, one for each evaluation that is running now."""
        return self.path / "runs"

    @property
    def services(self) -> Path:
        """What the servers of `crosscheck up` log, and who they are."""
        return self.path / "services"

    @property
    def nights(self) -> Path:
        """A summary of each night."""
        return self.path / "nights"

    @property
    def reports(self) -> Path:
        """Pages of runs, and the leaderboard."""
        return self.path / "reports"


def find_home(option: str | None = None, *, make: bool = True) -> Home:
    """Return the working folder: `--home`, else CROSSCHECK_HOME, else `.crosscheck` in the current folder.

    Args:
        option: `--home`.
        make: whether a missing folder is made; False for what only reads.
    """
    named = Path(option or os.environ.get("CROSSCHECK_HOME") or ".crosscheck").expanduser()
    try:
        path = named.resolve()
        _require_utf8(path)
        there = next(each for each in (path, *path.parents) if each.exists())
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise ConfigurationError(
            f"The working folder {named} cannot be used: {reason}. Name another with --home or CROSSCHECK_HOME."
        ) from None
    if "?" in str(path) or unquote(str(path)) != str(path):
        raise ConfigurationError(
            f'The working folder {path} has a "?" or a "%" with two digits in its name, which stand for something else '
            "in the addresses of databases. Name another with --home or CROSSCHECK_HOME."
        )
    if not there.is_dir():
        raise ConfigurationError(
            f"The working folder {path} cannot be used: {there} is a file, not a folder. Name another with --home or "
            "CROSSCHECK_HOME."
        )
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The working folder {path} cannot be made: {error.strerror}. Name another with --home or CROSSCHECK_HOME."
        ) from error
    if path.exists() and not os.access(path, os.W_OK):
        raise ConfigurationError(
            f"The working folder {path} cannot be written to. Name another with --home or CROSSCHECK_HOME."
        )
    return Home(path)


def find_data(option: str | None = None) -> Path:
    """Return the benchmarks' data location: `--data`, else CROSSCHECK_DATA, else `data` in the current folder.

    The loader checks whether the files are there: it knows which ones a benchmark needs.
    """
    path = Path(option or os.environ.get("CROSSCHECK_DATA") or "data").expanduser().resolve()
    _require_utf8(path)
    return path


def _require_utf8(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"The path {path} has bytes that are not UTF-8, which no store can hold. Name another folder, or rename it."
        ) from None


def find_conf() -> Path:
    """Return the folder of benchmarks, backbones, pipelines and prompts: CROSSCHECK_CONF, else `SHIPPED_CONF`."""
    named = os.environ.get("CROSSCHECK_CONF")
    path = Path(named).expanduser().resolve() if named else SHIPPED_CONF
    _require_utf8(path)
    if not path.is_dir():
        raise ConfigurationError(
            f"There is no configuration folder {path}. Set CROSSCHECK_CONF to a folder with benchmarks/, backbones/, "
            "pipelines/ and prompts/, or unset it to use the one that came with Crosscheck."
        )
    return path


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
    path = Path(named).expanduser().resolve()
    _require_utf8(path)
    return path


def find_stages(home: Home) -> Path | StorageUrl | StorageBlock:
    """Return where results of stages are persisted: a folder, a folder for fsspec, or a block of Prefect's.

    It is the value of CROSSCHECK_STAGES, or else a SQLite file in the working folder. `type/name` is the slug of a
    block: write a relative folder of that form with `./` before it.
    """
    named = os.environ.get(STAGES, "")
    if not named:
        return home.stage_results
    if "://" not in named:
        if _SLUG.fullmatch(named):
            return StorageBlock(named)
        path = Path(named).expanduser().resolve()
        _require_utf8(path)
        return path
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
