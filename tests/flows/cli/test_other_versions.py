"""A working folder of another version of Crosscheck is refused in one line, before anything is sent or changed."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tasks.results.warehouse.tables import LAYOUT
from tasks.settings.home import Home
from tests.support.in_process import run

pytestmark = pytest.mark.slow

COMMANDS = (
    ("runs",),
    ("show", "latest"),
    ("compare", "latest~1", "latest"),
    ("leaderboard",),
    ("query", "SELECT 1"),
    ("evaluate", "--pipeline", "few-shot", "--limit", "1"),
)


def of_cf69131(path: Path) -> None:
    """Write the tables that tell the layout, as the last version before release 0.1.0 did."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE runs (run_id VARCHAR)")
        connection.execute("CREATE TABLE crosscheck_schema AS SELECT 2 AS version")
        connection.execute(
            "CREATE TABLE crosscheck_migrations AS SELECT 'm008_asked' AS name, now() AS applied"
        )


def later(path: Path) -> None:
    """Write the tables that tell the layout, as a later release might."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE crosscheck_schema AS SELECT 99 AS version")


@pytest.mark.parametrize(
    ("write", "layout", "commands"), [(of_cf69131, 2, COMMANDS[:1]), (later, 99, COMMANDS)]
)
def test_it_is_refused(
    home: Home,
    write: Callable[[Path], None],
    layout: int,
    commands: tuple[tuple[str, ...], ...],
) -> None:
    home.path.mkdir()
    write(home.warehouse)
    before = home.warehouse.read_bytes()
    written_by = f"was written by another version of Crosscheck (layout {layout}; this version has {LAYOUT})"
    for command in commands:
        ran = run(*command)
        assert ran.code == 2 and written_by in ran.err, (command, ran.err)
        assert "--home" in ran.err and "replies.sqlite" in ran.err
        assert "Traceback" not in ran.err
        assert home.warehouse.read_bytes() == before
