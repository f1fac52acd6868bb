"""Verdicts of earlier runs: found again when nothing has changed, and only then."""

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.errors import CrosscheckError
from tasks.scoring.execution import verdict_cache
from tasks.scoring.execution.accuracy import VerdictKey, judge
from tasks.scoring.execution.rules import DEFAULT_RULES as RULES
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.report import Verdict

KEY = VerdictKey("0a" * 32, "SELECT 1", "SELECT 'é\ud800'", ("bird", "strict"), 30.0, False)
VERDICT = Verdict({"bird": True, "strict": False}, "ok", "", 3, "ok", 0.25)


def test_a_verdict_survives_the_process_word_for_word(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "new" / "verdicts.sqlite") as cache:
        assert cache.get(KEY) is None
        cache[KEY] = VERDICT
    with VerdictCache(tmp_path / "new" / "verdicts.sqlite") as cache:
        assert cache.get(KEY) == VERDICT


@pytest.mark.parametrize(
    "change",
    [
        {"database": "0b" * 32},
        {"gold_sql": "SELECT 2"},
        {"sql": "SELECT 3"},
        {"rules": ("bird",)},
        {"timeout_s": 31.0},
        {"keep_distinct": True},
        {"accepted": "0c" * 32},
    ],
)
def test_another_question_database_rule_or_limit_is_another_verdict(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        cache[KEY] = VERDICT
        assert cache.get(replace(KEY, **change)) is None  # type: ignore[arg-type]


def test_other_limits_sqlite_or_scoring_code_find_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "verdicts.sqlite"
    with VerdictCache(path) as cache:
        cache[KEY] = VERDICT
    with VerdictCache(path, Limits(max_rows=10)) as cache:
        assert cache.get(KEY) is None
    with monkeypatch.context() as patch:
        patch.setattr(verdict_cache.sqlite3, "sqlite_version", "3.99.0")
        with VerdictCache(path) as cache:
            assert cache.get(KEY) is None
    monkeypatch.setattr(verdict_cache, "code_digest", lambda: "changed")
    with VerdictCache(path) as cache:
        assert cache.get(KEY) is None


def test_the_code_that_decides_is_there() -> None:
    for name in verdict_cache.DECISIVE:
        assert (verdict_cache.ROOT / name).is_file(), name


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random()",
        "SELECT name FROM item ORDER BY RANDOM() LIMIT 1",
        "SELECT CURRENT_DATE",
        "SELECT date('now')",
        "SELECT strftime('%Y', 'now') - year FROM item",
        "SELECT datetime ( )",
        "SELECT strftime('%s')",
    ],
)
def test_what_asks_for_the_time_or_chance_is_executed_again(tmp_path: Path, sql: str) -> None:
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        for key in (replace(KEY, sql=sql), replace(KEY, gold_sql=sql)):
            cache[key] = VERDICT
            assert cache.get(key) is None


@pytest.mark.parametrize("sql", ["SELECT date(day) FROM item", "SELECT random_seed, nowhere FROM item"])
def test_names_like_these_are_not_mistaken_for_them(tmp_path: Path, sql: str) -> None:
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        cache[replace(KEY, sql=sql)] = VERDICT
        assert cache.get(replace(KEY, sql=sql)) == VERDICT


def test_a_file_that_is_no_database_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    path.write_text("not a database, but long enough to be looked at by SQLite " * 20)
    with pytest.raises(CrosscheckError, match="Remove the file"):
        VerdictCache(path)


async def test_judging_the_same_again_executes_nothing(
    tmp_path: Path, workers: SqlWorkers, shop: Database
) -> None:
    gold = "SELECT name FROM item"
    candidates = {"right": "SELECT name FROM item", "wrong": "SELECT nme FROM item", "none": None}
    idle = SqlWorkers(1)  # not open: whoever executes on it raises
    with VerdictCache(tmp_path / "verdicts.sqlite", workers.limits) as cache:
        first = await judge(workers, shop, gold, candidates, rules=RULES, timeout_s=5, cache=cache)
        assert await judge(idle, shop, gold, candidates, rules=RULES, timeout_s=5, cache=cache) == first
        alone = {"none": None}
        unanswered = await judge(workers, shop, gold, alone, rules=RULES, timeout_s=5, cache=cache)
        assert await judge(idle, shop, gold, alone, rules=RULES, timeout_s=5, cache=cache) == unanswered
        with pytest.raises(RuntimeError, match="open the SqlWorkers"):
            await judge(idle, shop, gold, {"new": "SELECT 1"}, rules=RULES, timeout_s=5, cache=cache)
