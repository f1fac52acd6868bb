"""Runs that their process left RUNNING in MLflow."""

import logging

from tasks.tracking.mlflow.quiet import http_limits
from tasks.tracking.mlflow.store import Store

_LOG = logging.getLogger(__name__)


def kill_mlflow_run(uri: str, run_id: str) -> bool:
    """Mark a run as killed if MLflow still takes it for running; return whether that was so.

    A store that does not answer is left alone: nothing depends on the mark.
    """
    try:
        with http_limits(retries=1, seconds=10):
            client = Store(uri).client()
            if client.get_run(run_id).info.status != "RUNNING":
                return False
            client.set_tag(run_id, "status", "killed")
            client.set_terminated(run_id, status="KILLED")
    except Exception as error:  # MLflow, SQLAlchemy and the network throw what they like
        _LOG.warning("MLflow run %s could not be marked as killed: %s", run_id, error)
        return False
    return True
