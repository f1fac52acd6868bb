"""Which columns of a file of predictions hold the question id, the SQL and the database."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.benchmarks.files.pairs import DATABASE_NAMES, ID_NAMES, plain_name
from tasks.core.errors import DataError

PREDICTED_KEYS = ("predicted_sql", "prediction", "pred_sql", "predicted")
"""Names that say that a column holds predictions, whatever else there is."""
SQL_KEYS = (*PREDICTED_KEYS, "sql", "query")
GOLD_WORDS = frozenset({"gold", "golden", "reference", "target", "truth", "expected"})
_SQL_WORD = re.compile(r"sql|query|pred\w*|generated")


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file of predictions is read where its content leaves it open.

    Attributes:
        sql_column: name of the column that holds the SQL; None: as its name says.
        by_position: whether prediction N belongs to question N, whatever ids the file has.
        unwrap: whether SQL is taken out of Markdown fences and of `database | SQL`.
    """

    sql_column: str | None = None
    by_position: bool = False
    unwrap: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns, as the file spells them."""

    identity: str | None  # the question id's; None where predictions belong to questions by position
    sql: str  # the SQL's
    database: str | None  # the database's; None where there is none


def find_columns(place: str, rows: Sequence[Mapping[str, Any]], reading: Reading) -> Columns:
    """Return which columns hold what; names are compared without case, blanks and signs.

    `place` is the file, and where in it the names stand.

    Raises:
        DataError: the id or the SQL is missing (both are said at once), or several columns may hold the SQL.
    """
    names = [str(name) for name in dict.fromkeys(name for row in rows for name in row)]
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
    certain = [name for name in texts if plain_name(name) in PREDICTED_KEYS]
    if certain:
        return certain
    return [name for name in texts if _is_like_sql(name)]


def _is_like_sql(name: str) -> bool:
    words = plain_name(name).split("_")
    return not GOLD_WORDS.intersection(words) and any(_SQL_WORD.fullmatch(word) for word in words)
