"""Paths of everything that Crosscheck reads and writes, with their defaults."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

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

    Raises:
        ConfigurationError: when the folder cannot be made or written to, or its name is one that MLflow or DuckDB
            would read as something else.
    """
    named = Path(option or os.environ.get("CROSSCHECK_HOME") or ".crosscheck").expanduser()
    try:
        path = named.resolve()
        path.exists()
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
    return Path(option or os.environ.get("CROSSCHECK_DATA") or "data").expanduser().resolve()


def find_conf() -> Path:
    """Return the folder of benchmarks, backbones, pipelines and prompts: CROSSCHECK_CONF, else `SHIPPED_CONF`.

    Raises:
        ConfigurationError: when CROSSCHECK_CONF names no folder.
    """
    named = os.environ.get("CROSSCHECK_CONF")
    path = Path(named).expanduser().resolve() if named else SHIPPED_CONF
    if not path.is_dir():
        raise ConfigurationError(
            f"There is no configuration folder {path}. Set CROSSCHECK_CONF to a folder with benchmarks/, backbones/, "
            "pipelines/ and prompts/, or unset it to use the one that came with Crosscheck."
        )
    return path
