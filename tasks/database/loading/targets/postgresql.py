"""A PostgreSQL database that is written: one transaction for tables, rows, keys, comments and mark.

A database that is created has the locale C, so that texts are ordered by their bytes and `lower` knows ASCII only, as
in SQLite.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tasks.database.loading.plan import Kind, LoadPlan, Source
from tasks.database.loading.target import (
    MARKED,
    MARKING,
    READER_PASSWORD,
    TARGETS,
    Mark,
    Target,
    TargetContents,
)
from tasks.database.location import Location
from tasks.database.servers.postgresql_opening import DIALECT, driver, first_line, open_connection

_TABLES = """
SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname = %s ORDER BY c.oid
"""
LIMITS = (
    "default_transaction_read_only = on",
    "work_mem = '16MB'",
    "hash_mem_multiplier = 1",
    "temp_file_limit = '1GB'",
)
"""Settings of a role that is made: what PostgreSQL can bound of one query."""
UNNEEDED = """
    cursor_to_xml cursor_to_xmlschema database_to_xml database_to_xml_and_xmlschema database_to_xmlschema
    lo_creat lo_create lo_from_bytea lo_get lo_lseek lo_lseek64 lo_open lo_put lo_tell lo_truncate lo_unlink loread
    lowrite pg_advisory_lock pg_advisory_lock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared
    pg_cancel_backend pg_notify pg_sleep pg_sleep_for pg_sleep_until pg_stat_get_activity
    pg_stat_get_backend_activity pg_terminate_backend pg_try_advisory_lock pg_try_advisory_lock_shared
    pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared query_to_xml query_to_xml_and_xmlschema
    query_to_xmlschema schema_to_xml schema_to_xml_and_xmlschema schema_to_xmlschema table_to_xml
    table_to_xml_and_xmlschema table_to_xmlschema ts_rewrite ts_stat
"""
"""PostgreSQL's functions that everybody may call, and that execute text, end sessions, tell of them, wait or lock."""
_REACHING = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (%s)
"""
_KINDS = {"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE", "r": "TABLE", "p": "TABLE"}


@TARGETS.register("postgresql")
class PostgresTarget(Target):
    """A database, or one schema of it (`?schema=NAME`)."""

    dialect = DIALECT
    types: ClassVar[dict[Kind, str]] = {
        "integer": "bigint",
        "real": "double precision",
        "boolean": "boolean",
        "date": "date",
        "timestamp": "timestamp",
        "text": "text",
        "blob": "bytea",
    }

    def __init__(self, location: Location) -> None:
        self.errors = (driver().Error,)
        self._location = location
        parts = urlsplit(location.address)
        self._database = unquote(parts.path.strip("/"))
        self._schema = dict(parse_qsl(parts.query)).get("schema", "public")
        self._connection: Any = None

    def held(self) -> TargetContents | None:
        """Return what the schema holds; None where there is no such database."""
        try:
            self._connection = open_connection(self._location, options="")
        except driver().OperationalError as error:
            if f'database "{self._database}" does not exist' in str(error):
                return None
            raise
        return TargetContents.found([*self._kinds()], lambda: self._connection.execute(MARKED).fetchone())

    def write(
        self,
        source: Source,
        plan: LoadPlan,
        mark: Mark,
        held: TargetContents | None,
        on_rows: Callable[[int], None],
    ) -> tuple[str, ...]:
        """Replace what the schema holds in one transaction, which others see at its end only."""
        if held is None:
            self._create()
        connection = self._connection
        with connection.transaction():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self.name(self._schema)}")
            if held:
                self._drop(" CASCADE" if held.foreign else "")
            for table in plan.tables:
                connection.execute(self.creation(table))
                columns = self.names(tuple(column.name for column in table.columns))
                with connection.cursor().copy(f"COPY {self.name(table.name)} ({columns}) FROM STDIN") as copy:
                    for number, row in enumerate(source.rows(table), 1):
                        # PostgreSQL's texts hold no NUL
                        copy.write_row(
                            [v.replace("\0", "") if type(v) is str and "\0" in v else v for v in row]
                        )
                        if number % 5000 == 0:
                            on_rows(5000)
                    on_rows(table.rows % 5000)
                for comment in self.comments(table):
                    connection.execute(comment)
            for key in plan.foreign_keys:
                connection.execute(f"ALTER TABLE {self.name(key.table)} ADD {self.reference(key)}")
            connection.execute(MARKING[0])
            connection.execute(MARKING[1], [mark.text])
        connection.execute("ANALYZE")
        return ()

    def grant(self, role: str) -> None:
        """Let a role connect and read; make it where there is none."""
        reader, schema = self.name(role), self.name(self._schema)
        if not self._connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchall():
            self._create_role(reader)
        for right in (
            f"CONNECT ON DATABASE {self.name(self._database)}",
            f"USAGE ON SCHEMA {schema}",
            f"SELECT ON ALL TABLES IN SCHEMA {schema}",
        ):
            self._connection.execute(f"GRANT {right} TO {reader}")

    def rights(self, error: BaseException | None = None) -> str:
        """Return what the role needs, or what the server said."""
        needs = (
            "The role of --to needs CREATEDB, or to own the database "
            f"(CREATE DATABASE {self.name(self._database)} OWNER ...); with ?schema=NAME, CREATE on the database."
        )
        if error is None:
            return needs
        message = f"PostgreSQL says: {first_line(error)}."
        return (
            f"{message} {needs}"
            if getattr(error, "sqlstate", None) == "42501"
            else f"{message} Check the URL of --to."
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _drop(self, further: str) -> None:
        """Drop the schema's tables and views; a view may go with its table before its turn."""
        dropped: dict[str, list[str]] = {kind: [] for kind in _KINDS.values()}
        for name, kind in self._kinds().items():
            dropped[_KINDS[kind]].append(name)
        for kind, names in dropped.items():
            if names:
                self._connection.execute(f"DROP {kind} IF EXISTS {self.names(tuple(names))}{further}")

    def _kinds(self) -> dict[str, str]:
        """Return what each table or view of the schema is, by name."""
        return dict(self._connection.execute(_TABLES, [self._schema]).fetchall())

    def _create_role(self, reader: str) -> None:
        """Make a role that may log in and nothing else, within limits, as far as the loading role may set them."""
        sql, connection = driver().sql, self._connection
        password = os.environ.get(READER_PASSWORD)
        given = sql.SQL(" PASSWORD {}").format(sql.Literal(password)) if password else sql.SQL("")
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.SQL(reader)) + given)
        for setting in LIMITS:
            with suppress(driver().errors.InsufficientPrivilege, driver().errors.UndefinedObject):
                connection.execute(f"ALTER ROLE {reader} SET {setting}")

    def _restrict(self) -> None:
        """Take from everybody what a reader does not need in a database that was created here.

        Without being a superuser, rights on PostgreSQL's own functions stay: the server warns and goes on.
        """
        connection = self._connection
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        connection.execute(f"REVOKE ALL ON DATABASE {self.name(self._database)} FROM PUBLIC")
        found = connection.execute(_REACHING, [UNNEEDED.split()]).fetchall()
        functions = ", ".join(signature for (signature,) in found)
        connection.execute(f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC")

    def _create(self) -> None:
        with open_connection(self._location, options="", database="postgres") as server:
            server.execute(
                f"CREATE DATABASE {self.name(self._database)} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' "
                "LC_CTYPE 'C'"
            )
        self._connection = open_connection(self._location, options="")
        self._restrict()
