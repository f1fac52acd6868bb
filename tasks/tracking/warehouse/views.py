"""The warehouse as people query it: five views over its tables, read-only, and their export to Parquet."""

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import ConfigurationError, DataError
from tasks.tracking.warehouse.duckdb_file import WarehouseFile
from tasks.tracking.warehouse.meanings import meanings
from tasks.tracking.warehouse.tables import columns_of, create_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    about: str  # what one row is
    # the expression of each column, by its name; `r` is the row's run, `t` the row itself
    columns: dict[str, str]
    order: tuple[str, ...] = ("run_id", "question_id", "position")  # the columns that an export is sorted by
    hidden: tuple[str, ...] = ()  # columns of the table that are shown under other names or not at all


def _record(path: str, kind: str = "VARCHAR") -> str:
    return f"CAST(json_extract_string(t.record, '$.{path}') AS {kind})"


_SCORE = (
    '"MAP(VARCHAR, STRUCT(ex DOUBLE, correct BIGINT, total BIGINT, low DOUBLE, high DOUBLE, rule VARCHAR))"'
)
_KEY = '"MAP(VARCHAR, STRUCT(change VARCHAR, golds VARCHAR[], reason VARCHAR, source VARCHAR))"'
_MONEY = (
    "cost_usd", "from_scratch_usd", "list_usd", "prompt_cache_usd", "tier_usd", "reply_cache_usd"
)  # fmt: skip
_RIGHT = {"correct": "t.correct[r.rule]", "correct_by_rule": "t.correct"}
_VIEWS: Mapping[str, View] = {
    "runs": View(
        "one evaluation",
        {
            **{name: _record(f"cost.{name}", "BIGINT") for name in ("calls", "cached_calls", "flex_calls")},
            **{name: _record(f"cost.{name}", "DOUBLE") for name in _MONEY},
            "candidates": _record("metrics.candidates.n", "BIGINT"),
            "candidate_curve": _record("metrics.candidates.curve"),
            "scores": f"from_json(json_extract(t.record, '$.scores'), '{_SCORE}')",
            "keys": "CAST(json_extract(t.record, '$.keys') AS MAP(VARCHAR, VARCHAR))",
            "parent_run_id": "t.tags['parent_run_id']",
            "rerolled": "t.tags['rerolled'] IS NOT NULL",
            "sweep": "t.tags['sweep']",
            "name": "t.tags['name']",
            "note": "t.tags['note']",
            "changed": "t.tags['changed']",
            "settings": "CAST(json_extract(t.run, '$.settings') AS VARCHAR)",
        },
        ("started", "run_id"),
        hidden=("run", "question_set"),
    ),
    "questions": View(
        "one question of a run: its final answer and the verdict on it",
        {
            **_RIGHT,
            "failure": "json_extract_string(t.failure, '$.message')",
            "keys": f"from_json(t.keys, '{_KEY}')",
            "opinion": "CAST(json_extract_string(t.opinion, '$.right') AS BOOLEAN)",
            "opinion_by": "json_extract_string(t.opinion, '$.model')",
            "opinion_accuracy": "CAST(json_extract_string(t.opinion, '$.accuracy.value') AS DOUBLE)",
            "opinion_reason": "json_extract_string(t.opinion, '$.reason')",
        },
        hidden=("links", "samples"),
    ),
    "candidates": View(
        "the SQL that stood after a stage of a question, and the verdict on it",
        _RIGHT,
        hidden=("gold_status",),
    ),
    "stages": View("one stage that a question went through", {}),
    "calls": View(
        "one model call of a stage; paid: made by this run and not answered from the cache",
        {"paid": "NOT (t.restored OR t.cached)"},
        ("run_id", "question_id", "stage_position", "position"),
    ),
}
"""The views with the columns that are not the table's own, or mean something else under the same name."""


def views() -> Mapping[str, View]:
    """Return the views by name, with all of their columns: first those with a meaning, then others of the table."""
    return {name: replace(view, columns=_columns(name, view)) for name, view in _VIEWS.items()}


def _columns(name: str, view: View) -> dict[str, str]:
    known = view.columns
    others = (column for column in columns_of(name) if column not in view.hidden)
    return {column: known.get(column, f"t.{column}") for column in dict.fromkeys((*meanings(name), *others))}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view: its name, DuckDB's type, and what it means."""

    name: str
    type: str
    meaning: str


def schema() -> dict[str, list[Column]]:
    """Return the columns of each view, whether there is a warehouse yet or not."""
    import duckdb

    with duckdb.connect() as connection:
        create_tables(connection)
        _make_views(connection)
        described = {name: connection.execute(f"DESCRIBE {name}").fetchall() for name in views()}
    return {
        name: [Column(column, kind, meanings(name).get(column, "")) for column, kind, *_ in rows]
        for name, rows in described.items()
    }


@dataclass(frozen=True, slots=True)
class Table:
    """What a query returned: column names, each once, and rows of as many values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def as_objects(self) -> list[dict[str, Any]]:
        """Return the rows as plain JSON objects; dates in ISO 8601."""
        return [
            {name: plain(value) for name, value in zip(self.columns, row, strict=True)} for row in self.rows
        ]


def query(warehouse: Path, sql: str) -> Table:
    """Run a query on the views. It can read the warehouse and nothing else, and change nothing.

    Raises:
        DataError: there is no warehouse yet.
        ConfigurationError: DuckDB refuses the query.
    """
    import duckdb

    with _views(warehouse) as connection:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            cursor = connection.execute(sql)
            if cursor is None:  # no statement at all
                raise ConfigurationError('The query is empty. "crosscheck query --help" has examples.')
            rows = cursor.fetchall() if cursor.description else []
        except duckdb.Error as error:
            raise ConfigurationError(
                f'The query cannot be run: {error}\n"crosscheck query --schema" lists the views and columns.'
            ) from None
        return Table(_distinct([column[0] for column in cursor.description or ()]), tuple(rows))


def export(warehouse: Path, folder: Path, *, overwrite: bool = False) -> dict[str, int]:
    """Write each view to `<folder>/<view>.parquet`, a file at a time; return the rows of each.

    Raises:
        DataError: there is no warehouse yet.
        ConfigurationError: a file is there already, or the folder cannot be written.
    """
    files = {name: folder / f"{name}.parquet" for name in views()}
    present = [file.name for file in files.values() if file.exists()]
    if present and not overwrite:
        raise ConfigurationError(
            f"{folder} already holds {', '.join(present)}. Name another folder, or give --overwrite."
        )
    import duckdb

    rows = {}
    with _views(warehouse) as connection:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, file in files.items():
                draft = file.with_suffix(".part")
                quoted = str(draft).replace("'", "''")
                order = ", ".join(views()[name].order)
                made = connection.execute(
                    f"COPY (SELECT * FROM {name} ORDER BY {order}) TO '{quoted}' (FORMAT parquet)"
                ).fetchall()
                draft.replace(file)
                rows[name] = int(made[0][0])
        except (OSError, duckdb.IOException) as error:
            raise ConfigurationError(f"The folder {folder} cannot be written: {error}") from None
    return rows


def plain(value: Any) -> Any:
    """Return a value as plain JSON; what JSON has no form for, as infinity and bytes, becomes text."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)


@contextmanager
def _views(warehouse: Path) -> "Iterator[DuckDBPyConnection]":
    """Open the warehouse for reading, with the views in the place of its tables."""
    if not warehouse.exists():
        raise DataError(f'There is no warehouse {warehouse} yet: "crosscheck evaluate" makes it.')
    with WarehouseFile(warehouse).reading() as connection:
        _make_views(connection)
        yield connection


def _make_views(connection: "DuckDBPyConnection") -> None:
    catalog = _one(connection, "SELECT current_database()")
    for name, view in views().items():
        listed = ", ".join(f"{expression} AS {column}" for column, expression in view.columns.items())
        table = f'"{catalog}".main'
        join = "" if name == "runs" else f" LEFT JOIN {table}.runs AS r USING (run_id)"
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {table}.{name} AS t{join}")


def _one(connection: "DuckDBPyConnection", sql: str) -> str:
    found = connection.execute(sql).fetchone()
    assert found is not None
    return str(found[0])


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number names that come again, so that no column is lost in an object."""
    seen: list[str] = []
    for name in names:
        count, unique = 1, name
        while unique in seen:
            count += 1
            unique = f"{name}_{count}"
        seen.append(unique)
    return tuple(seen)
