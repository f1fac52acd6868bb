"""Values of results as plain Python values, the same ones for every engine.

| in the database | here | so that |
|--|--|--|
| NULL | None | NULL equals NULL, and nothing else |
| boolean | bool | true equals 1, as in SQLite |
| integer of any width | int | 1 equals 1.0 |
| real, double | float | NaN equals NaN; compared without tolerance |
| decimal, numeric | int if it is whole, else the nearest float | 2.50 equals 2.5; digits past a double's do not count |
| a server's, in what rules compare | Decimal where no double equals it | 31.2 is not the double 31.2 |
| of more than 300 digits before the point | str | no double is as large |
| text, enum, char, network address, bit string | str | char(n) keeps its blanks |
| date, time, timestamp | str, `2026-11-01 09:30:00` | it equals the text that SQLite stores; no fraction of 0 |
| time with a time zone | str in UTC, ending in `+00:00` | the same moment is equal in any zone |
| interval | str, `1 day 02:03:04` | in PostgreSQL 1 month is not 30 days, in DuckDB it is |
| uuid | str in lower case | |
| bytea, blob | bytes | |
| array, list | tuple of such values | order counts |
| JSON, struct, map | str: JSON with sorted keys and without blanks | order of keys does not count |

BIRD mini-dev's evaluator compares a server's decimals so, as its drivers return them.

Where ORDER BY puts NULLs is the engine's own rule, which rules of row order (`spider`, `strict`) see: SQLite and MySQL
take NULL as the least value, first in rising and last in falling order; PostgreSQL as the greatest, last and first;
DuckDB has it last in both. A gold and a prediction run on the same engine; a gold that sqlglot translates keeps the
order of its own dialect.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """Return a value of a result as a plain Python value, by the table of this module; as text if its type is unknown.

    >>> plain(Decimal("2.50")), plain(Decimal("3.00")), plain([1, None]), plain({"b": 1, "a": [2]})
    (2.5, 3, (1, None), '{"a":[2],"b":1}')
    """
    if type(value) in _AS_IT_IS:
        return value
    for base, convert in _BY_TYPE.items():
        if isinstance(value, base):
            return convert(value)
    return str(value)


def plain_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of plain values."""
    return tuple([value if type(value) in _AS_IT_IS else plain(value) for value in row])


def exact_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of plain values and of decimals that no int or float equals.

    >>> exact_row((Decimal("2.50"), Decimal("3.00"), Decimal("31.2")))
    (2.5, 3, Decimal('31.2'))
    """
    return tuple(map(_exact, row))


def _exact(value: Any) -> Any:
    if type(value) is Decimal and value.is_finite() and number(value) != value:
        return value
    return plain(value)


def number(value: Decimal) -> int | float:
    """Return a decimal as an int where it is whole, else as the nearest float."""
    if value.is_finite() and value == value.to_integral_value():
        return int(value)
    return float(value)


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and without blanks; what JSON lacks becomes text, keys of maps too."""
    return json.dumps(
        _with_plain_keys(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_in_json
    )


def reread_json(text: str) -> str:
    """Return JSON text in canonical form; text that is no JSON as it is."""
    try:
        return canonical_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _moment(value: datetime) -> str:
    return (value.astimezone(UTC) if value.tzinfo else value).isoformat(" ")


def _time(value: time) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return datetime.combine(date(2000, 1, 1), value).astimezone(UTC).timetz().isoformat()


def _interval(value: timedelta) -> str:
    """Return an interval of days and time: `1 day 02:03:04`."""
    days = abs(value).days
    rest = abs(value) - timedelta(days=days)
    sign = "-" if value < timedelta(0) else ""
    # the time of day so long after midnight
    clock = (datetime(1, 1, 1, tzinfo=UTC) + rest).time().isoformat()
    if not days:
        return sign + clock
    written = f"{sign}{days} day{'' if days == 1 else 's'}"
    return written if not rest else f"{written} {sign}{clock}"


def _with_plain_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, _KEYS) else str(_in_json(key)): _with_plain_keys(item)
            for key, item in value.items()
        }
    return [_with_plain_keys(item) for item in value] if isinstance(value, list | tuple) else value


def _in_json(value: Any) -> Any:
    """Return a value as one that JSON can have: a list for a tuple, hexadecimal digits for bytes."""
    value = plain(value)
    if isinstance(value, tuple):
        return list(value)
    return value.hex() if isinstance(value, bytes) else value


_KEYS = (str, int, float, type(None))
"""Types of a map's keys that JSON can have."""
_AS_IT_IS = frozenset({int, float, str, bytes, bool, type(None)})
_BY_TYPE: dict[type, Callable[[Any], Any]] = {
    Decimal: number,
    datetime: _moment,
    date: date.isoformat,
    time: _time,
    timedelta: _interval,
    list: lambda value: tuple(map(plain, value)),
    tuple: lambda value: tuple(map(plain, value)),
    dict: canonical_json,
    bytearray: bytes,
    memoryview: bytes,
}
