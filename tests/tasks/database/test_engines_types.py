"""Values of every type, as each engine's results give them to rules, prompts and the answer."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks.database.database import locate, open_database
from tasks.database.plain import plain
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.rules import RULES, comparable_rows
from tasks.sql.rewriting import Ordering
from tasks.sql.transpiling import transpile
from tests.support.engines import database_on

pytestmark = pytest.mark.slow

NAN = float("nan")

EVERYWHERE: dict[str, Any] = {
    "NULL": None,
    "1": 1,
    "CAST(2.50 AS DECIMAL(9, 2))": 2.5,
    "CAST(3.00 AS DECIMAL(9, 2))": 3,
    "CAST(12345678901234567890 AS DECIMAL(30, 0))": 12345678901234567890,
    "0.1e0": 0.1,
    "'it''s ü'": "it's ü",
    "CAST('2026-11-01' AS DATE)": "2026-11-01",
    "CAST('09:30:00' AS TIME)": "09:30:00",
    "TRUE": True,
    "1 = 2": False,
}
SQLITE: dict[str, Any] = {
    # SQLite keeps integers, reals, text and blobs: a date is the text or number that was stored
    "NULL": None,
    "1": 1,
    "9223372036854775807": 9223372036854775807,
    "9223372036854775808": 9223372036854775808.0,
    "CAST(2.50 AS DECIMAL(9, 2))": 2.5,
    "CAST(3.00 AS DECIMAL(9, 2))": 3,
    "0.1e0": 0.1,
    "'it''s ü'": "it's ü",
    "date('2026-11-01')": "2026-11-01",
    "datetime('2026-11-01T09:30')": "2026-11-01 09:30:00",
    "CAST('2026-11-01' AS DATE)": 2026,
    "TRUE": True,
    "1 = 2": False,
    "x'01ff'": b"\x01\xff",
    "9e999": math.inf,
    "9e999 - 9e999": None,
    """'{"b": 1}'""": '{"b": 1}',
    """json('{"b": [1, null]}')""": '{"b":[1,null]}',
}
DUCKDB: dict[str, Any] = {
    "TIMESTAMP '2026-11-01 09:30:00'": "2026-11-01 09:30:00",
    "TIMESTAMP '2026-11-01 09:30:00.25'": "2026-11-01 09:30:00.250000",
    "TIMESTAMPTZ '2026-11-01 09:30:00+02'": "2026-11-01 07:30:00+00:00",
    "TIMETZ '09:30:00+02'": "07:30:00+00:00",
    "INTERVAL '1 day 2 hours'": "1 day 02:00:00",
    "UUID 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "[1, NULL, 3]": (1, None, 3),
    "[[1.50::DECIMAL(9, 2)], []]": ((1.5,), ()),
    """'{"b": 1, "a": [2, null]}'::JSON""": '{"a":[2,null],"b":1}',
    "{'b': 1, 'a': DATE '2026-11-01'}": '{"a":"2026-11-01","b":1}',
    "MAP {'k': 1}": '{"k":1}',
    "MAP {DATE '2026-11-02': 1, DATE '2026-11-01': 2}": '{"2026-11-01":2,"2026-11-02":1}',
    "{'a': MAP {1.5::DECIMAL(9, 2): '\\x01'::BLOB}, 'b': MAP {'\\x02'::BLOB: 1}}": '{"a":{"1.5":"01"},"b":{"02":1}}',
    "'\\x01\\xFF'::BLOB": b"\x01\xff",
    "'nan'::DOUBLE": NAN,
    "'101'::BIT": "101",
    "170141183460469231731687303715884105727": 170141183460469231731687303715884105727,
}
POSTGRESQL: dict[str, Any] = {
    "timestamp '2026-11-01 09:30'": "2026-11-01 09:30:00",
    "timestamp '2026-11-01 09:30:00.25'": "2026-11-01 09:30:00.25",
    "timestamptz '2026-11-01 09:30+02'": "2026-11-01 07:30:00+00:00",
    "timetz '09:30+02'": "07:30:00+00:00",
    "interval '1 day 2 hours'": "1 day 02:00:00",
    "interval '1 month'": "1 mon",
    "date 'infinity'": "infinity",
    "uuid 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ARRAY[1, NULL, 3]": (1, None, 3),
    "ARRAY[1.50, 2]": (1.5, 2),
    """'{"b": 1, "a": [2, null]}'::jsonb""": '{"a":[2,null],"b":1}',
    """'{"b": 1, "a": 2}'::json""": '{"a":2,"b":1}',
    "to_json(repeat('9', 5000)::numeric)": "9" * 5000,
    "(repeat('[', 3000) || repeat(']', 3000))::json": "[" * 3000 + "]" * 3000,
    "repeat('9', 5000)::numeric": "9" * 5000,
    "'\\x01ff'::bytea": b"\x01\xff",
    "'NaN'::float8": NAN,
    "'NaN'::numeric": NAN,
    "0.1::real": 0.1,
    "'a'::char(3)": "a  ",
    "B'101'": "101",
    "inet '127.0.0.1'": "127.0.0.1",
    "int4range(1, 3)": "[1,3)",
}
MYSQL: dict[str, Any] = {
    "CAST('2026-11-01 09:30:00' AS DATETIME)": "2026-11-01 09:30:00",
    "CAST('2026-11-01 09:30:00.25' AS DATETIME(2))": "2026-11-01 09:30:00.25",
    "CAST('-30:30:00' AS TIME)": "-30:30:00",
    "X'01FF'": b"\x01\xff",
    "b'101' + 0": 5,
    "CAST(9223372036854775808 AS UNSIGNED)": 9223372036854775808,
    """'{"b": 1}'""": '{"b": 1}',
    "CAST('a' AS CHAR(3))": "a",
    "UNIX_TIMESTAMP('1970-01-02 00:00:00')": 86400,
}


@asynccontextmanager
async def runner_on(engine: str, folder: Path) -> AsyncIterator[DatabaseRunner]:
    with database_on(engine, folder, "CREATE TABLE t (a INTEGER)") as url:
        async with SqlWorkers(1) as workers:
            yield DatabaseRunner(open_database(locate(url), "types"), workers, 20)


@pytest.mark.parametrize(("engine", "types"), [
    ("sqlite", SQLITE),
    ("duckdb", {**EVERYWHERE, **DUCKDB}),
    ("postgresql", {**EVERYWHERE, **POSTGRESQL}),
    ("mysql", {**EVERYWHERE, **MYSQL}),
])  # fmt: skip
async def test_values_of_every_type_are_plain(engine: str, types: dict[str, Any], tmp_path: Path) -> None:
    async with runner_on(engine, tmp_path) as runner:
        executions = {sql: await runner.run(f"SELECT {sql}") for sql in types}
    assert [(sql, each.error) for sql, each in executions.items() if not each.ok] == []
    found = {sql: each.rows[0][0] for sql, each in executions.items()}
    wrong = {sql: (found[sql], value) for sql, value in types.items() if not same(found[sql], value)}
    assert wrong == {}


@pytest.mark.parametrize(
    ("engine", "double", "exact"),
    [("duckdb", "DOUBLE", False), ("postgresql", "DOUBLE PRECISION", True), ("mysql", "DOUBLE", True)],
)
async def test_a_servers_decimal_is_equal_to_the_double_of_the_very_same_value_alone(
    engine: str, double: str, exact: bool, tmp_path: Path
) -> None:
    # as psycopg2 and PyMySQL return them to BIRD mini-dev's evaluator, and Python compares Decimal with float
    pairs = {
        ("CAST(31.2 AS DECIMAL(9, 4))", f"CAST(31.2 AS {double})"): not exact,
        ("CAST(28.2666666666666667 AS DECIMAL(20, 16))", "CAST(28.26666666666667 AS DECIMAL(20, 14))"): False,
        ("CAST(31.2 AS DECIMAL(9, 4))", "CAST(31.2 AS DECIMAL(9, 1))"): True,
        ("CAST(2.5 AS DECIMAL(9, 4))", f"CAST(2.5 AS {double})"): True,
        ("CAST(3 AS DECIMAL(9, 4))", "3"): True,
    }
    async with runner_on(engine, tmp_path) as runner:
        found = [await runner.agree(f"SELECT {one}", f"SELECT {other}") for one, other in pairs]
    assert dict(zip(pairs, found, strict=True)) == pairs


VALUES = "SELECT a FROM (SELECT 1 AS a UNION ALL SELECT NULL UNION ALL SELECT 2) AS v ORDER BY "
ORDERED = ("a", "a DESC", "a IS NOT NULL, a", "a IS NULL, a")


@pytest.mark.parametrize(("engine", "up", "down"), [
    ("sqlite", (None, 1, 2), (2, 1, None)),
    ("mysql", (None, 1, 2), (2, 1, None)),
    ("postgresql", (1, 2, None), (None, 2, 1)),
    ("duckdb", (1, 2, None), (2, 1, None)),
])  # fmt: skip
async def test_nulls_are_where_the_engine_orders_them_and_rules_of_order_see_that(
    engine: str, up: tuple[Any, ...], down: tuple[Any, ...], tmp_path: Path
) -> None:
    asked = [VALUES + order for order in ORDERED]
    async with runner_on(engine, tmp_path) as runner:
        asked += [transpile(sql, "sqlite", runner.database.dialect).sql for sql in asked[:2]]
        done = [await runner.run(sql) for sql in asked]
    assert all(execution.ok for execution in done), done
    gold, falling, nulls_first, nulls_last, *translated = (execution.rows for execution in done)
    assert (gold, falling) == (tuple((a,) for a in up), tuple((a,) for a in down))
    # a translated gold keeps SQLite's order
    assert translated == [((None,), (1,), (2,)), ((2,), (1,), (None,))]
    for rule, sees in {"spider": True, "strict": True, "bird": False, "subset": False}.items():
        first, last = (
            RULES[rule].matches(gold, other, Ordering(anywhere=True, outermost=True))
            for other in (nulls_first, nulls_last)
        )
        assert (first, last) == ((up[0] is None, up[0] is not None) if sees else (True, True)), rule


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return bool(found == wanted)


@pytest.mark.parametrize(("one", "other", "equal"), [
    (None, None, True),
    (None, 0, False),
    (NAN, NAN, True),
    (True, 1, True),
    (2.5, 5 / 2, True),
    ("2026-11-01", "2026-11-01 00:00:00", False),
    ((1, None), (1, None), True),
    ((1, 2), (2, 1), False),
    (plain({"b": 1, "a": 2}), plain({"a": 2, "b": 1}), True),
    (b"a", "a", False),
])  # fmt: skip
def test_plain_values_are_equal_by_the_documented_rules(one: Any, other: Any, equal: bool) -> None:
    assert (comparable_rows([(one,)]) == comparable_rows([(other,)])) is equal
