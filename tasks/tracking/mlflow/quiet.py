"""Import of MLflow without output on the terminal: its log at DEBUG, its telemetry off."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def http_limits(retries: int, seconds: int) -> Iterator[None]:
    """Set the retries of MLflow's HTTP client and the seconds of an attempt.

    With its own settings it takes minutes to give up an unreachable server.
    """
    wanted = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(seconds),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    }
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
