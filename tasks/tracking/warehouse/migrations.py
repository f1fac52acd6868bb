"""The warehouse's tables, as named migrations: each is applied once to a file, in this order, and recorded in it.

To add a column, append a migration to this module. A column that is named as a field of the record it belongs to
(`Outcome`, `Verdict`, `StageRecord`, `Call`) is then written, read and shown by `crosscheck query`; any other
is filled and read in `rows.py`. A migration that has been released never changes: files have recorded it.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Migration = Callable[["DuckDBPyConnection"], None]

MIGRATIONS: dict[str, Migration] = {}
"""Every migration by its name, in the order in which they are applied."""


SET_ASKED = (
    "UPDATE runs SET asked = (SELECT md5(concat(json_extract_string(runs.run, '$.question_sha256'), chr(10), "
    "string_agg(question_id, chr(10) ORDER BY question_id))) FROM questions WHERE questions.run_id = runs.run_id "
    "HAVING count(*) > 0)"
)
"""Sets the digest of the questions that runs asked: their file and their ids."""


class UnknownFileError(Exception):
    """DuckDB file that no release up to this one has written."""


def migration(function: Migration) -> Migration:
    """Register a migration under the name of its function."""
    MIGRATIONS[function.__name__] = function
    return function


@migration
def m001_tables(connection: "DuckDBPyConnection") -> None:
    """Create the tables; the releases before there were migrations (schema 1) created the same.

    A question has one row in `questions`, one in `candidates` per stage that yields a SQL (`reached` false where
    there is a verdict but no candidate), one in `stages` per stage it went through, one in `calls` per model call.
    `links`, `failure`, `value`, `run` and `summary` are JSON text.
    """
    key = "run_id VARCHAR, question_id VARCHAR, position BIGINT"
    verdict = (
        "correct MAP(VARCHAR, BOOLEAN), status VARCHAR, error VARCHAR, row_count BIGINT, gold_status VARCHAR, "
        "seconds DOUBLE"
    )
    tables = {
        "runs": "run_id VARCHAR, benchmark VARCHAR, backbone VARCHAR, pipeline VARCHAR, revision VARCHAR, "
        "rule VARCHAR, started TIMESTAMP, finished TIMESTAMP, status VARCHAR, seconds DOUBLE, questions BIGINT, "
        "scored BIGINT, answered BIGINT, ex_correct DOUBLE, ex_total DOUBLE, run VARCHAR, summary VARCHAR",
        "questions": f"{key}, database VARCHAR, difficulty VARCHAR, question VARCHAR, evidence VARCHAR, sql VARCHAR, "
        "gold_sql VARCHAR, executable BOOLEAN, failure_kind VARCHAR, failure VARCHAR, links VARCHAR, "
        f"notes VARCHAR[], {verdict}",
        "candidates": f"{key}, stage VARCHAR, reached BOOLEAN, sql VARCHAR, {verdict}",
        "stages": f"{key}, stage VARCHAR, label VARCHAR, value VARCHAR, restored BOOLEAN, notes VARCHAR[], "
        "seconds DOUBLE, error VARCHAR",
        "calls": f"{key}, stage_position BIGINT, stage VARCHAR, label VARCHAR, restored BOOLEAN, request VARCHAR, "
        "model VARCHAR, input_tokens BIGINT, cached_input_tokens BIGINT, output_tokens BIGINT, "
        "reasoning_tokens BIGINT, cached BOOLEAN, seconds DOUBLE, retries BIGINT, parse VARCHAR, cost_usd DOUBLE",
    }
    for table, columns in tables.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
    connection.execute("CREATE TABLE IF NOT EXISTS crosscheck_schema AS SELECT 1 AS version")


@migration
def m002_attempts_and_samples(connection: "DuckDBPyConnection") -> None:
    """Add how often a question was asked, and with which samplings; older files: once, with the first."""
    connection.execute("ALTER TABLE questions ADD COLUMN IF NOT EXISTS attempts BIGINT")
    connection.execute("ALTER TABLE questions ADD COLUMN IF NOT EXISTS samples BIGINT[]")
    connection.execute("UPDATE questions SET attempts = 1 WHERE attempts IS NULL")
    connection.execute("UPDATE questions SET samples = [0] WHERE samples IS NULL")


@migration
def m003_no_error_is_null(connection: "DuckDBPyConnection") -> None:
    """Write NULL where there is no error, so that `error IS NULL` finds it; it was ''."""
    for table in ("questions", "candidates", "stages"):
        connection.execute(f"UPDATE {table} SET error = NULL WHERE error = ''")


@migration
def m004_later_than_schema_1(connection: "DuckDBPyConnection") -> None:
    """Let releases that know only schema 1 refuse the file, instead of writing rows that lack columns."""
    connection.execute("UPDATE crosscheck_schema SET version = 2")


@migration
def m005_tags_and_removed_rows(connection: "DuckDBPyConnection") -> None:
    """Add the tags of a run, its name and its note among them, and when `crosscheck clean` removed its questions."""
    connection.execute("ALTER TABLE runs ADD COLUMN IF NOT EXISTS tags MAP(VARCHAR, VARCHAR)")
    connection.execute("ALTER TABLE runs ADD COLUMN IF NOT EXISTS rows_removed TIMESTAMP")
    connection.execute(
        "UPDATE runs SET tags = CAST(json_extract(run, '$.tags') AS MAP(VARCHAR, VARCHAR)) WHERE tags IS NULL"
    )


@migration
def m006_corrections(connection: "DuckDBPyConnection") -> None:
    """Add what corrected golds say of a question, as JSON text; NULL where they leave its gold as it is."""
    connection.execute("ALTER TABLE questions ADD COLUMN IF NOT EXISTS correction VARCHAR")


@migration
def m007_opinions(connection: "DuckDBPyConnection") -> None:
    """Add what a model thinks of an answer (`crosscheck judge`), as JSON text; NULL where none was asked."""
    connection.execute("ALTER TABLE questions ADD COLUMN IF NOT EXISTS opinion VARCHAR")


@migration
def m008_asked(connection: "DuckDBPyConnection") -> None:
    """Add a digest of the questions that a finished run asked, which is left when its questions are removed."""
    connection.execute("ALTER TABLE runs ADD COLUMN IF NOT EXISTS asked VARCHAR")
    connection.execute(f"{SET_ASKED} WHERE asked IS NULL AND status IN ('complete', 'partial')")


@migration
def m009_degradation(connection: "DuckDBPyConnection") -> None:
    """Add how many replies a stage needed, how many could not be read, and what it used instead."""
    for column in ("replies", "unreadable"):
        connection.execute(f"ALTER TABLE stages ADD COLUMN IF NOT EXISTS {column} BIGINT DEFAULT 0")
    for column in ("fallback", "skipped"):
        connection.execute(f"ALTER TABLE stages ADD COLUMN IF NOT EXISTS {column} VARCHAR DEFAULT ''")


@migration
def m010_costs(connection: "DuckDBPyConnection") -> None:
    """Add where the cost of a call comes from, what a cached one cost, and writes to the provider's cache."""
    connection.execute("ALTER TABLE calls ADD COLUMN IF NOT EXISTS cost_source VARCHAR DEFAULT 'prices'")
    connection.execute("ALTER TABLE calls ADD COLUMN IF NOT EXISTS from_scratch_usd DOUBLE")
    connection.execute("ALTER TABLE calls ADD COLUMN IF NOT EXISTS cache_write_tokens BIGINT")


@migration
def m011_differences(connection: "DuckDBPyConnection") -> None:
    """Add how many rows the gold returned, and how a wrong result differs from the gold's."""
    for table in ("questions", "candidates"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS gold_rows BIGINT")
        connection.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS difference VARCHAR DEFAULT ''")


def missing(connection: "DuckDBPyConnection") -> list[str]:
    """Return the names of the migrations that have not been applied to a file, in their order.

    Raises:
        UnknownFileError: the file is not Crosscheck's, or of a newer release.
    """
    tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    if tables and not tables & {"crosscheck_schema", "crosscheck_migrations"}:
        raise UnknownFileError("was not written by Crosscheck. Move it away.")
    applied = []
    if "crosscheck_migrations" in tables:
        applied = [row[0] for row in connection.execute("SELECT name FROM crosscheck_migrations").fetchall()]
    if newer := [name for name in applied if name not in MIGRATIONS]:
        raise UnknownFileError(
            f"was written by a newer release, which applied {', '.join(newer)}. Update Crosscheck, or move it away."
        )
    return [name for name in MIGRATIONS if name not in applied]


def migrate(connection: "DuckDBPyConnection") -> None:
    """Apply what has not been applied to a file: each migration and its record in one transaction.

    Raises:
        UnknownFileError: the file is not Crosscheck's, or of a newer release.
    """
    for name in missing(connection):
        connection.begin()
        MIGRATIONS[name](connection)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS crosscheck_migrations (name VARCHAR, applied TIMESTAMP)"
        )
        connection.execute("INSERT INTO crosscheck_migrations VALUES (?, now() AT TIME ZONE 'UTC')", [name])
        connection.commit()


@cache
def columns_of(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns when all migrations have been applied."""
    import duckdb

    with duckdb.connect() as connection:
        for apply in MIGRATIONS.values():
            apply(connection)
        return tuple(connection.table(table).columns)
