"""Records of flow runs and task runs in the database of Prefect's local server."""

import asyncio
import datetime
from pathlib import Path

from flows.prefect.flow_runs import ENDED
from tasks.results.retention import BUSY_TIMEOUT_S, Holding, Retention, SqliteStore, opened, size_of

_LEAST_AGE = datetime.timedelta(hours=1, seconds=1)
"""Prefect's vacuum refuses to remove anything younger."""
_OF_FLOW_RUNS = ("flow_run", "flow_run_state", "log", "artifact")
_OF_TASK_RUNS = ("task_run", "task_run_state")
_ENDED = f"state_type IN {ENDED} AND end_time < ?"


class PrefectRecords(SqliteStore):
    """Flow runs, by age alone, with their task runs, logs, artifacts and events: removed by Prefect's own vacuum."""

    def holding(self, retention: Retention) -> Holding:
        """Count flow runs and task runs."""
        if not self.path.exists():
            return Holding(self.name, self.path, counts={"flow runs": 0, "task runs": 0})
        cutoff = min(retention.cutoff, datetime.datetime.now(datetime.UTC) - _LEAST_AGE)
        ended = (cutoff.strftime("%Y-%m-%d %H:%M:%S.%f"),)
        old = f"SELECT id FROM flow_run WHERE {_ENDED}"
        with opened(self.path) as connection:
            flow_runs, task_runs = (
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("flow_run", "task_run")
            )
            (old_flow_runs,) = connection.execute(f"SELECT count(*) FROM ({old})", ended).fetchone()
            (old_task_runs,) = connection.execute(
                f"SELECT count(*) FROM task_run WHERE flow_run_id IN ({old})", ended
            ).fetchone()
        return Holding(
            self.name,
            self.path,
            size_of(self.path),
            {"flow runs": flow_runs, "task runs": task_runs},
            {"flow runs": old_flow_runs, "task runs": old_task_runs},
            self.freed(
                dict.fromkeys(_OF_FLOW_RUNS, old_flow_runs / flow_runs if flow_runs else 0)
                | dict.fromkeys(_OF_TASK_RUNS, old_task_runs / task_runs if task_runs else 0)
            ),
        )

    def remove(self, retention: Retention) -> None:
        """Remove old flow runs and events."""
        if self.path.exists():
            now = datetime.datetime.now(datetime.UTC)
            asyncio.run(_vacuum(self.path, max(now - retention.cutoff, _LEAST_AGE)))


async def _vacuum(path: Path, older_than: datetime.timedelta) -> None:
    from prefect.server.database import provide_database_interface
    from prefect.server.database.configurations import AioSqliteConfiguration
    from prefect.server.database.dependencies import temporary_database_config
    from prefect.server.services import db_vacuum
    from prefect.settings import (
        PREFECT_API_DATABASE_TIMEOUT,
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD,
        temporary_settings,
    )

    updates = {
        PREFECT_API_DATABASE_TIMEOUT: BUSY_TIMEOUT_S,
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD: older_than,
    }
    configuration = AioSqliteConfiguration(f"sqlite+aiosqlite:///{path}")
    with temporary_settings(updates), temporary_database_config(configuration):
        database = provide_database_interface()
        try:
            await db_vacuum.vacuum_old_flow_runs(db=database)
            await db_vacuum.vacuum_old_events(db=database)
            await db_vacuum.vacuum_stale_artifact_collections(db=database)
        finally:
            await (await database.engine()).dispose()
