"""Prefect's settings for an evaluation: stores, recording, logs."""

import os
import sys
from collections.abc import Mapping

from flows.runtime.process import bypass_proxy_on_loopback
from tasks.settings.home import Home

SERVER = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
    # One task run is three events. The defaults write them one by one: 50 task runs a second at 20 ms of CPU each.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "300",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    # Whole seconds: Prefect drops the fraction, and with 0 the server would use a whole core.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}

OWN_SERVER = {
    **SERVER,
    # Without what an evaluation's own server does not need: no automations, and no record of events beside that of the
    # task runs themselves, which Prefect would delete after a week without making its database smaller.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_UI_ENABLED": "0",
    # No block types either: two servers that register them in one new database at the same time fail.
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "DO_NOT_TRACK": "1",
}

CLIENT = {
    # Prefect prints a notice on a terminal and sends usage data unless told otherwise.
    "DO_NOT_TRACK": "1",
    # Each task run would send two log lines to the API, which repeat its state changes.
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # A server that is gone would be a line of events for each task run on the terminal; the command says it once.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",  # the result in the log of an evaluation
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_CLI_PROMPT": "false",
}

WITHOUT_SERVER = {
    # Once the server is gone, each call would be tried for a minute.
    "PREFECT_CLIENT_MAX_RETRIES": "0",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
}
WITH_SERVER = {"PREFECT_CLIENT_MAX_RETRIES": "5", "PREFECT_LOGGING_TO_API_ENABLED": "true"}
"""Prefect's own values of these settings."""

DEPLOYED_HOME = "CROSSCHECK_DEPLOYED_HOME"
"""Variable of a deployment: the working folder in which it was deployed, for workers without CROSSCHECK_HOME."""

DEPLOYED = {
    # From these the server detects that the process of a flow run has ended (`flows.prefect.automations`).
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
}


def local_settings(home: Home) -> dict[str, str]:
    """Return the settings of local stores: they are in the working folder."""
    return {"PREFECT_HOME": str(home.prefect)}


def apply(settings: Mapping[str, str]) -> None:
    """Set environment variables that are unset or empty, and refresh Prefect's settings if it has been imported."""
    bypass_proxy_on_loopback()
    for name, value in settings.items():
        os.environ[name] = os.environ.get(name) or value
    if "prefect.context" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()
