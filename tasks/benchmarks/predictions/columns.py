"""Which columns of a file of predictions hold the question id, the SQL and the database."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.benchmarks.rows import DATABASE_NAMES, ID_NAMES, plain_name
from tasks.core.errors import DataError

PREDICTED_KEYS = ("predicted_sql", "prediction", "pred_sql", "predicted")
"""Names that say that a column holds predictions, whatever else there is."""
SQL_KEYS = (*PREDICTED_KEYS, "sql", "query")
GOLD_WORDS = frozenset({"gold", "golden", "reference", "target", "truth", "expected"})
_SQL_WORD = re.compile(r"sql|query|pred\w*|generated")


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file of predictions is read where its content leaves it open."""

    # name of the column that holds the SQL, `a.b` for a key of a nested object; None: as its name says
    sql_column: str | None = None
    by_position: bool = False  # whether prediction N belongs to question N, whatever ids the file has
    unwrap: bool = False  # whether SQL is taken out of Markdown fences and of `database | SQL`


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns, as the file spells them."""

    identity: str | None  # the question id's; None where predictions belong to questions by position
    sql: str  # the SQL's
    database: str | None  # the database's; None where there is none


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose nested objects are columns of their own.

    >>> flattened({"id": 1, "predictions": {"m": {"sql": "SELECT 1"}}})
    {'id': 1, 'predictions.m.sql': 'SELECT 1'}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in flattened(value).items()}
        else:
            flat[str(name)] = value
    return flat


def find_columns(place: str, rows: Sequence[Mapping[str, Any]], reading: Reading) -> Columns:
    """Return which columns hold what; names are compared without case, blanks and signs.

    `place` is the file, and where in it the names stand.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    identity = _named(names, ID_NAMES)
    found = _sql_columns(names, rows) if reading.sql_column is None else _asked(names, reading.sql_column)
    if len(found) > 1:
        shown = ", ".join(f'"{name}"' for name in found)
        raise DataError(
            f"{place}: several columns may hold the predicted SQL: {shown}. "
            f"Say which with --sql-column, for example --sql-column {found[-1]!r}."
        )
    lacking, hints = [], []
    if identity is None and not reading.by_position:
        lacking.append(f"question id ({', '.join(ID_NAMES)})")
        hints.append("name the id so, or add --by-position if prediction N belongs to question N")
    if not found:
        lacking.append(f"SQL ({', '.join(SQL_KEYS)})" if reading.sql_column is None else reading.sql_column)
        hints.append("name the column of the SQL with --sql-column")
    if lacking:
        listed, hint = " and no ".join(lacking), "; ".join(hints)
        raise DataError(
            f"{place}: there is no {listed}; it has {', '.join(names) or 'nothing'}. {hint[0].upper()}{hint[1:]}."
        )
    return Columns(identity, found[0], _named(names, DATABASE_NAMES))


def _named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_name = {plain_name(name): name for name in reversed(names)}
    return next((by_name[name] for name in wanted if name in by_name), None)


def _asked(names: Sequence[str], column: str) -> list[str]:
    if column in names:
        return [column]
    return [name for name in names if plain_name(name) == plain_name(column)]


def _sql_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that may hold the predicted SQL: one whose name says so, else all whose name is like it."""
    texts = [name for name in names if all(isinstance(row.get(name), str | int | None) for row in rows)]
    certain = [name for name in texts if says_predicted(name)]
    if certain:
        return certain
    return [name for name in texts if _is_like_sql(name)]


def says_predicted(name: str) -> bool:
    """Return whether a column's name says that it holds predictions, whatever else there is."""
    return plain_name(name.rpartition(".")[2]) in PREDICTED_KEYS


def _is_like_sql(name: str) -> bool:
    words = plain_name(name).split("_")
    return not GOLD_WORDS.intersection(words) and any(_SQL_WORD.fullmatch(word) for word in words)
