"""Where MLflow keeps its runs: the local SQLite store or the server of MLFLOW_TRACKING_URI; how to open its UI."""

import logging
import os
import re
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import ConfigurationError
from tasks.core.files import atomic_create
from tasks.database.sqlite.template import Template
from tasks.settings.home import Home
from tasks.tracking.known_store import is_known, remember
from tasks.tracking.mlflow.quiet import http_limits, import_mlflow
from tasks.tracking.parameters import redact

if TYPE_CHECKING:
    from mlflow import MlflowClient

_LOG = logging.getLogger(__name__)

PORT = 5000
"""Port of MLflow's own server, unless the user names another."""
VIEW = "crosscheck"
"""Name of the column layout that every experiment carries, for the links to it."""

TEMPLATE = Template("mlflow")
"""A store without runs, made once per release of MLflow."""

SERVER = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""Environment of MLflow's server: its job execution is a dozen processes that nothing here needs."""


@dataclass(frozen=True, slots=True)
class Store:
    """An MLflow tracking store."""

    uri: str  # its tracking URI, as MLflow takes it
    artifacts: Path | None = None  # folder for the artifacts of new experiments; None: the server decides

    @property
    def shown(self) -> str:
        """The URI as it may be printed: without user and password."""
        return str(redact(self.uri))

    @property
    def served(self) -> bool:
        """Whether a server answers at the URI, so that none has to be started to look at it."""
        return self.uri.startswith(("http://", "https://"))

    @property
    def sqlite_file(self) -> Path | None:
        """The file of a SQLite store."""
        return Path(self.uri.removeprefix("sqlite:///")) if self.uri.startswith("sqlite:///") else None

    def client(self) -> "MlflowClient":
        """Return a client; a SQLite store that is not there yet is made."""
        import_mlflow()
        from mlflow import MlflowClient

        if self.sqlite_file is not None and not self.sqlite_file.exists():
            create_store(self.sqlite_file)
            remember(self.sqlite_file)
        return MlflowClient(tracking_uri=self.uri)


def find_store(home: Home) -> Store:
    """Return the store of MLFLOW_TRACKING_URI where it is set, else the SQLite file in the working folder."""
    named = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    return Store(named) if named else Store(home.mlflow_uri, home.path / "mlartifacts")


def check(store: Store) -> None:
    """Open the store and read from it, unless it is known to be usable.

    Raises:
        ConfigurationError: MLflow does not know the URI, no server answers there, or the store cannot be used.
    """
    if store.sqlite_file and is_known(store.sqlite_file):
        return
    from_environment = store.artifacts is None
    cure = (
        "Correct MLFLOW_TRACKING_URI, or unset it to log to a file in the working folder."
        if from_environment
        else "Name another working folder with --home, or set MLFLOW_TRACKING_URI."
    )
    try:
        if store.sqlite_file and store.sqlite_file.exists():
            with closing(
                sqlite3.connect(store.sqlite_file)
            ) as file:  # MLflow would try for a hundred seconds
                file.execute("SELECT count(*) FROM sqlite_master")
        with http_limits(retries=1, seconds=10):
            store.client().search_experiments(max_results=1)
    except Exception as error:
        reason = reason_of(error)
        if "out-of-date database schema" in reason:
            upgrade = shlex.join([*_mlflow(), "db", "upgrade", store.shown])
            cure = f"It was made by another release of MLflow; this command brings it up to date: {upgrade}"
        raise ConfigurationError(
            f'MLflow\'s tracking store "{store.shown}" cannot be used: {reason} {cure}'
        ) from error
    if store.sqlite_file:
        remember(store.sqlite_file)


def attempt(
    store: Store, work: Callable[["MlflowClient"], object], *, retries: int = 1, seconds: int = 10
) -> str:
    """Call a function with a client of a store; return why it failed, "" if it did not.

    No error of MLflow, SQLAlchemy or the network may end what the user has started. A request has so many further
    attempts of so many seconds.

    Raises:
        ConfigurationError: of the function.
    """
    try:
        with http_limits(retries, seconds):
            work(store.client())
    except ConfigurationError:
        raise
    except Exception as error:
        _LOG.debug("MLflow failed", exc_info=True)
        return reason_of(error)
    return ""


def reason_of(error: BaseException) -> str:
    """Return the error message of MLflow or the network as one short sentence, without passwords."""
    lines = str(redact(str(error))).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    unreachable = re.search(
        r"HTTPS?ConnectionPool\(host='([^']{0,300}+)', port=(\d+)\).{0,2000}?Caused by (\w+)", text
    )
    if unreachable:
        host, port, kind = unreachable.groups()
        return f"no server answers at {host}:{port} ({kind})."
    text = text if len(text) <= 300 else text[:300] + " ..."
    return text if text.endswith((".", "!", "?")) else f"{text}."


def ui_command(store: Store, port: int = PORT) -> str | None:
    """Return the shell command that opens the UI on a store; None where a server already answers.

    One worker and no job execution: MLflow's defaults start 15 processes and take 3 GB for one reader.
    """
    if store.served:
        return None
    words = server_words(store, port)
    if os.name == "nt":
        import subprocess

        return subprocess.list2cmdline(words)
    setting = " ".join(f"{name}={value}" for name, value in SERVER.items())
    return f"{setting} {shlex.join(words)}"


def server_words(store: Store, port: int) -> list[str]:
    """Return the words of the command that serves a store on this machine; its environment needs `SERVER`."""
    artifacts = ["--artifacts-destination", str(store.artifacts)] if store.artifacts else []
    options = ["--backend-store-uri", store.uri, *artifacts, "--workers", "1", "--port", str(port)]
    return [*_mlflow(), "server", *options]


def ui_url(store: Store, experiment_id: str, run_id: str | None = None, view: str = VIEW) -> str:
    """Return the address of an experiment with Crosscheck's columns, or of one run of it.

    CROSSCHECK_MLFLOW_UI overrides the server's address in links for users.
    """
    workflow = "workflowType=machine_learning"  # else MLflow shows its menu for traces of agents
    served = os.environ.get("CROSSCHECK_MLFLOW_UI") or store.shown
    base = served.rstrip("/") if store.served else f"http://127.0.0.1:{PORT}"
    if run_id is not None:
        return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?{workflow}"
    return f"{base}/#/experiments/{experiment_id}/runs?{workflow}&viewStateShareKey={view}"


def _mlflow() -> list[str]:
    """Return how to call the `mlflow` of this environment, in as few words as the shell needs."""
    script = Path(sys.executable).with_name("mlflow")
    found = shutil.which("mlflow")
    if found and Path(found) == script:
        return ["mlflow"]
    return [str(script)] if script.exists() else [sys.executable, "-m", "mlflow"]


def create_store(path: Path) -> None:
    """Create MLflow's SQLite store; if another process creates it meanwhile, that one stays."""
    artifacts = path.parent / "mlartifacts"
    with atomic_create(path) as draft:
        if not TEMPLATE.copy(draft):
            _open_store(draft, artifacts)
            with closing(sqlite3.connect(draft)) as connection, connection:
                connection.execute("DELETE FROM experiments")  # the default one names its folder of artifacts
            TEMPLATE.keep(draft)
        _open_store(draft, artifacts)


def _open_store(path: Path, artifacts: Path) -> None:
    """Open a store, whereupon MLflow makes the tables that are missing, and its default experiment."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", artifacts.as_uri())  # type: ignore[no-untyped-call]
    store.engine.dispose()
