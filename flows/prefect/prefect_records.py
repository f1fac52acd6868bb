"""Records of flow runs and task runs in the database of Prefect's local server."""

import asyncio
import datetime
from pathlib import Path

from flows.prefect.flow_runs import ENDED
from tasks.results.retention import BUSY_TIMEOUT_S, Holding, Retention, SqliteStore, opened

_MIN_AGE = datetime.timedelta(hours=1, seconds=1)
"""Prefect's vacuum refuses to remove anything younger."""


class PrefectRecords(SqliteStore):
    """Flow runs, by age alone, with their task runs, logs, artifacts and events: removed by Prefect's own vacuum."""

    def holding(self, retention: Retention) -> Holding:
        """Return the number of flow runs, that of those to remove, and how much of the file this may free."""
        if not self.path.exists():
            return self.in_proportion({"flow runs": 0})
        cutoff = min(retention.cutoff, datetime.datetime.now(datetime.UTC) - _MIN_AGE)
        old = f"state_type IN {ENDED} AND end_time < ?"
        with opened(self.path) as connection:
            sql = f"SELECT count(*), count(*) FILTER (WHERE {old}) FROM flow_run"
            count, old_count = connection.execute(sql, (f"{cutoff:%Y-%m-%d %H:%M:%S.%f}",)).fetchone()
        return self.in_proportion({"flow runs": count}, {"flow runs": old_count})

    def remove(self, retention: Retention) -> None:
        """Remove old flow runs and events."""
        if self.path.exists():
            self.holding(retention)  # raises one short error for a damaged file: Prefect prints a traceback
            now = datetime.datetime.now(datetime.UTC)
            asyncio.run(_vacuum(self.path, max(now - retention.cutoff, _MIN_AGE)))


async def _vacuum(path: Path, older_than: datetime.timedelta) -> None:
    """Remove flow runs, events and artifact collections that are older, by functions of Prefect's server."""
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
