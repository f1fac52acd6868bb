"""Where MLflow keeps its runs: the local SQLite store or the server of MLFLOW_TRACKING_URI; how to open its UI."""

import logging
import os
import re
import shlex
import shutil
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import ConfigurationError
from tasks.core.files import atomic_create
from tasks.database.sqlite_files import Template
from tasks.results.parameters import redact
from tasks.settings.home import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient


_LOG = logging.getLogger(__name__)
_NOISY = ("mlflow", "alembic", "sqlalchemy.engine", "huey")
_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


class Demoted(logging.Handler):
    """Log handler that forwards every record at DEBUG, with its original level and logger in the text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        _LOG.debug("%s %s: %s", record.levelname, record.name, record.getMessage(), exc_info=record.exc_info)


def import_mlflow() -> None:
    """Import MLflow and replace its log handlers; environment variables set by the user are kept."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow  # noqa: F401
    for name in _NOISY:
        logger = logging.getLogger(name)
        logger.handlers = [Demoted()]
        logger.propagate = False


def import_store() -> None:
    """Import MLflow and its SQLite store."""
    import_mlflow()
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401


NO_ANSWER = "no server answers"
_silent: set[str] = set()
"""Addresses of the servers that did not answer the last time."""
_own_limits: dict[str, str] = {}
"""Variables that `http_limits` has set. It never removes one: another thread may be copying the environment."""


@contextmanager
def http_limits(retries: int, seconds: int) -> Iterator[None]:
    """Set the retries of MLflow's HTTP client and the seconds of an attempt, where the user has not set them.

    With its defaults, MLflow takes minutes to give up a server that cannot be reached.
    """
    limits = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(seconds),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    not_set_by_user = {
        name: value
        for name, value in limits.items()
        if name not in os.environ or os.environ[name] == _own_limits.get(name)
    }
    _set_limits(not_set_by_user)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        from mlflow import environment_variables as variables

        _set_limits({name: str(getattr(variables, name).default) for name in not_set_by_user})


def _set_limits(limits: Mapping[str, str]) -> None:
    os.environ.update(limits)
    _own_limits.update(limits)


SUFFIX = ".checked"
"""Suffix of the file beside a store that says which release of MLflow has opened it."""


def is_known(path: Path, experiment: str = "") -> bool:
    """Return whether a store is known to be usable, without importing MLflow, which takes seconds.

    It is known if `remember` has noted the installed release of MLflow beside it. If the experiment was deleted in
    MLflow, the answer is False.
    """
    if not path.exists():
        return path.parent.is_dir()  # the store can be created
    version_now = _store_version(path, experiment)
    try:
        return bool(version_now) and path.with_name(path.name + SUFFIX).read_bytes() == version_now.encode()
    except OSError:
        return False


def remember(path: Path) -> None:
    """Record that the installed release of MLflow has opened a store."""
    if version_now := _store_version(path):
        with suppress(OSError):  # it is then opened again before the next evaluation
            path.with_name(path.name + SUFFIX).write_text(version_now, encoding="utf-8")


def _store_version(path: Path, experiment: str = "") -> str:
    """Return MLflow's release and the version of a store's tables; "" if that is unknown or the experiment deleted."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            (tables,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            query = "SELECT count(*) FROM experiments WHERE name = ? AND lifecycle_stage = 'deleted'"
            (deleted,) = connection.execute(query, (experiment,)).fetchone()
    except (sqlite3.Error, TypeError):  # TypeError: no row
        return ""
    return "" if deleted else f"{version('mlflow')} {tables}"


PORT = 5000
"""Port of MLflow's own server, unless the user names another."""
VIEW = "crosscheck"
"""Name of the column layout that every experiment carries, for the links to it."""

DEPLOYED = "PREFECT__FLOW_RUN_ID"
"""Variable that Prefect's worker sets for the process of a deployed flow run."""

LOCKED_S = 60.0
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
    def printable(self) -> str:
        """The URI without user and password."""
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

        if self.sqlite_file is not None:
            if not self.sqlite_file.exists():
                create_store(self.sqlite_file)
                remember(self.sqlite_file)
            # fails at once if the file is no database or cannot be opened: MLflow would try for a hundred seconds
            with closing(sqlite3.connect(self.sqlite_file)) as file:
                file.execute("SELECT count(*) FROM sqlite_master")
        return MlflowClient(tracking_uri=self.uri)


def find_store(home: Home) -> Store:
    """Return the store of MLFLOW_TRACKING_URI where it is set, else the SQLite file in the working folder."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    return Store(uri) if uri else Store(home.mlflow_uri, home.path / "mlartifacts")


def check(store: Store) -> None:
    """Open the store and read from it, unless it is known to be usable.

    In a deployed flow run, a server that does not answer, as while it restarts, is no error: runs are logged later.
    """
    if store.sqlite_file and is_known(store.sqlite_file):
        return
    cure = "Name another working folder with --home, or set MLFLOW_TRACKING_URI."
    if store.artifacts is None:  # it is named in the environment
        cure = "Correct MLFLOW_TRACKING_URI, or unset it to log to a file in the working folder."
    try:
        with http_limits(retries=1, seconds=10):
            store.client().search_experiments(max_results=1)
    except Exception as error:
        reason = reason_of(error)
        if store.served and _refuses_login(store.uri):
            cure = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to what the server accepts."
        elif store.served and DEPLOYED in os.environ:
            _LOG.warning(
                "MLflow at %s does not answer, so runs are logged later: %s", store.printable, reason
            )
            return
        if "out-of-date database schema" in reason:
            upgrade = shlex.join([*_mlflow(), "db", "upgrade", store.printable])
            cure = f"It was made by another release of MLflow; this command brings it up to date: {upgrade}"
        raise ConfigurationError(
            f'MLflow\'s tracking store "{store.printable}" cannot be used: {reason} {cure}'
        ) from error
    if store.sqlite_file:
        remember(store.sqlite_file)


def _refuses_login(uri: str) -> bool:
    """Return whether a server refuses the login, by a request of our own: MLflow's errors often lack the status."""
    from mlflow.tracking._tracking_service import utils
    from mlflow.utils.rest_utils import http_request

    with suppress(Exception):
        answer = http_request(  # type: ignore[no-untyped-call]
            utils.get_default_host_creds(uri),  # type: ignore[attr-defined, no-untyped-call]
            "/api/2.0/mlflow/experiments/search",
            "GET",
            params={"max_results": 1},
            max_retries=0,
            timeout=10,
            raise_on_status=False,
        )
        return answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return False


def attempt(store: Store, work: Callable[["MlflowClient"], object]) -> str:
    """Call a function with a client of a store; return why it failed, "" if it did not.

    No error of MLflow, SQLAlchemy or the network may end what the user has started. A server that does not answer is
    given up after a minute, the next time after ten seconds. While another process has locked the database, the
    function is called again, for LOCKED_S seconds at most.
    """
    deadline = time.monotonic() + LOCKED_S
    retries, seconds = (0, 10) if store.uri in _silent else (2, 20)
    while True:
        try:
            with http_limits(retries, seconds):
                work(store.client())
            _silent.discard(store.uri)
            return ""
        except ConfigurationError:
            raise
        except Exception as error:
            _LOG.debug("MLflow failed", exc_info=True)
            reason = reason_of(error)
        if reason.startswith(NO_ANSWER):
            _silent.add(store.uri)
        if "database is locked" not in reason or time.monotonic() > deadline:
            return reason
        time.sleep(1.0)


def reason_of(error: BaseException) -> str:
    """Return the error message of MLflow or the network as one short sentence, without passwords."""
    lines = str(redact(str(error))).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    unreachable = re.search(
        r"HTTPS?ConnectionPool\(host='([^']{0,300}+)', port=(\d+)\).{0,2000}?"
        r"Caused by (\w+)(?:\('too many (\d+) error)?",
        text,
    )
    if unreachable:
        host, port, kind, status = unreachable.groups()
        if status:
            return f"the server at {host}:{port} answers with HTTP {status}."
        return f"{NO_ANSWER} at {host}:{port} ({kind})."
    text = text if len(text) <= 300 else text[:300] + " ..."
    return text if text.endswith((".", "!", "?")) else f"{text}."


def ui_command(store: Store, port: int = PORT) -> str | None:
    """Return the shell command that starts MLflow's UI on a store; None if the store is a server, which has a UI.

    The UI gets one worker and executes no jobs: MLflow's defaults start 15 processes and take 3 GB for one reader.
    """
    if store.served:
        return None
    setting = " ".join(f"{name}={value}" for name, value in SERVER.items())
    return f"{setting} {shlex.join(server_words(store, port))}"


def server_words(store: Store, port: int) -> list[str]:
    """Return the words of the command that serves a store on this machine; its environment needs `SERVER`."""
    return [*_mlflow(), *server_options(store, port)]


def server_options(store: Store, port: int) -> list[str]:
    """Return the words behind the program in `server_words`."""
    options = ["server", "--backend-store-uri", store.uri]
    if store.artifacts:  # written to the folder itself, so that runs are logged with and without the server
        options += ["--default-artifact-root", store.artifacts.as_uri(), "--no-serve-artifacts"]
    return [*options, "--workers", "1", "--port", str(port)]


def ui_url(store: Store, experiment_id: str, run_id: str | None = None, view: str = VIEW) -> str:
    """Return the address of an experiment with Crosscheck's columns, or of one run of it.

    `view` names the columns and filter of an experiment; the page of a run has none. The address of a file is that of
    the server that `ui_command` starts. CROSSCHECK_MLFLOW_UI overrides the address of a server.
    """
    workflow = "workflowType=machine_learning"  # else MLflow shows its menu for traces of agents
    served = os.environ.get("CROSSCHECK_MLFLOW_UI") or store.printable
    base = served.rstrip("/") if store.served else f"http://127.0.0.1:{PORT}"
    if run_id is not None:
        return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?{workflow}"
    return f"{base}/#/experiments/{experiment_id}/runs?{workflow}&viewStateShareKey={view}"


def _mlflow() -> list[str]:
    """Return how to call the `mlflow` of this environment, in as few words as the shell needs."""
    script = Path(sys.executable).with_name("mlflow")
    executable = shutil.which("mlflow")
    if executable and Path(executable) == script:
        return ["mlflow"]
    return [str(script)] if script.exists() else [sys.executable, "-m", "mlflow"]


def create_store(path: Path) -> None:
    """Create MLflow's SQLite store; if another process creates it meanwhile, the store of that process stays."""
    artifacts = path.parent / "mlartifacts"
    with atomic_create(path) as draft:
        if not TEMPLATE.copy(draft):  # there is no template yet: make it
            _open_store(draft, artifacts)
            with closing(sqlite3.connect(draft)) as connection, connection:
                connection.execute("DELETE FROM experiments")  # the default one names its folder of artifacts
            TEMPLATE.keep(draft)
        _open_store(draft, artifacts)  # adds the default experiment


def _open_store(path: Path, artifacts: Path) -> None:
    """Open a store, whereupon MLflow makes the tables that are missing, and its default experiment."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", artifacts.as_uri())  # type: ignore[no-untyped-call]
    store.engine.dispose()
