"""Verdicts of earlier runs: found again when nothing has changed, and only then."""

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tasks.database import keyed_store
from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution import verdict_cache
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import DEFAULT_RULES as RULES
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict

KEY = VerdictKey("0a" * 32, "SELECT 1", "SELECT 'é\ud800'", ("bird", "strict"), 30.0)
VERDICT = Verdict({"bird": True, "strict": False}, "ok", "", 3, "ok", 0.25)


def test_a_verdict_survives_the_process_word_for_word(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "new" / "verdicts.sqlite") as cache:
        assert cache.get(KEY) is None
        cache[KEY] = VERDICT
    with VerdictCache(tmp_path / "new" / "verdicts.sqlite") as cache:
        assert cache.get(KEY) == VERDICT


@pytest.mark.parametrize("change", [
    {"database": "0b" * 32},
    {"gold_sql": "SELECT 2"},
    {"sql": "SELECT 3"},
    {"rules": ("bird",)},
    {"timeout_s": 31.0},
    {"accepted": "0c" * 32},
])  # fmt: skip
def test_another_question_database_rule_or_limit_is_another_verdict(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        cache[KEY] = VERDICT
        assert cache.get(KEY._replace(**change)) is None  # type: ignore[arg-type]


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


UNDECISIVE = {
    "tasks/core/deadline.py": "ends what takes too long; a time-out is no verdict that is kept",
    "tasks/core/errors.py": "declares errors",
    "tasks/core/files.py": "makes digests of files, which are part of the key",
    "tasks/core/lazy.py": "imports modules when they are used",
    "tasks/core/outcome.py": "declares records",
    "tasks/core/records.py": "declares records",
    "tasks/core/registry.py": "finds engines by name",
    "tasks/core/wording.py": "writes numbers and tables",
    "tasks/documents/model.py": "describes reports",
    "tasks/scoring/scores.py": "declares the verdict",
}
"""Modules outside of the decisive folders that judging imports, with the reason why they decide no verdict."""


def test_every_module_that_judging_imports_decides_or_is_known_not_to() -> None:
    found: set[str] = set()
    engines = (verdict_cache.ROOT / "tasks/database/engines").glob("[a-z]*.py")  # found by name, not imported
    waiting = [
        "tasks/scoring/execution/accuracy.py",
        *(f"tasks/database/engines/{file.name}" for file in engines),
    ]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(verdict_cache.ROOT / name)
    assert sorted(name for name in found if not name.startswith(verdict_cache.DECISIVE)) == sorted(UNDECISIVE)


def test_a_change_of_any_decisive_file_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / folder / "deep" / "module.py" for folder in verdict_cache.DECISIVE]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("A = 1")
    monkeypatch.setattr(verdict_cache, "ROOT", tmp_path)
    digests = {verdict_cache.code_digest.__wrapped__()}
    for file in files:
        file.write_text("A = 2")
        digests.add(verdict_cache.code_digest.__wrapped__())
    assert len(digests) == 1 + len(files)


def imported(file: Path) -> list[str]:
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = {
        name
        for node in statements
        for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names))
    }
    paths = (f"{name.replace('.', '/')}.py" for name in names if name)
    return [path for path in paths if path.startswith("tasks/") and (verdict_cache.ROOT / path).is_file()]


def test_what_asks_for_the_time_or_chance_is_executed_again(tmp_path: Path) -> None:
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        for key in (KEY._replace(sql="SELECT random()"), KEY._replace(gold_sql="SELECT date('now')")):
            cache[key] = VERDICT
            assert cache.get(key) is None


def in_file(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("SELECT count(*) FROM entry").fetchone()
    return int(found)


def test_verdicts_in_quick_succession_are_written_together_and_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(keyed_store.time, "monotonic", lambda: now)
    path = tmp_path / "verdicts.sqlite"
    keys = [KEY._replace(sql=f"SELECT {number}") for number in range(keyed_store.MAX_WAITING + 3)]
    with VerdictCache(path) as cache:
        cache[keys[0]] = VERDICT
        assert in_file(path) == 1, "the first is written at once"
        cache[keys[1]] = VERDICT
        assert in_file(path) == 1
        assert cache.get(keys[1]) == VERDICT
        now += verdict_cache.MAX_WAIT_S
        cache[keys[2]] = VERDICT
        assert in_file(path) == 3, "half a second later all are"
        for key in keys[3:]:
            cache[key] = VERDICT
        assert in_file(path) == len(keys), "and as soon as there are many"
        now += 0.1
        cache[KEY] = VERDICT
    assert in_file(path) == len(keys) + 1, "the last when the file is closed"


def test_verdicts_that_cannot_be_written_are_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "verdicts.sqlite"
    with VerdictCache(path) as cache:
        cache[KEY] = VERDICT
        with closing(sqlite3.connect(path)) as database:
            database.execute("DROP TABLE entry")
        cache[KEY._replace(sql="SELECT 8")] = VERDICT
        cache[KEY._replace(sql="SELECT 9")] = VERDICT
    (line,) = [each for each in caplog.messages if "does not keep" in each]
    assert "does not keep 2 verdicts: no such table" in line


def test_a_verdict_that_cannot_be_read_is_executed_again(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    with VerdictCache(path) as cache:
        cache[KEY] = VERDICT
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE entry SET content = '{\"colour\": 1'")
        assert cache.get(KEY) is None


async def test_judging_the_same_again_executes_nothing(
    tmp_path: Path, workers: SqlWorkers, shop: Database
) -> None:
    gold = "SELECT name FROM item"
    candidates = {"right": "SELECT name FROM item", "wrong": "SELECT nme FROM item", "none": None}
    idle = SqlWorkers(1)  # not open: whoever executes on it raises
    with VerdictCache(tmp_path / "verdicts.sqlite", workers.limits) as cache:
        first = await Judge(workers, RULES, 5, cache).verdicts(shop, gold, candidates)
        assert await Judge(idle, RULES, 5, cache).verdicts(shop, gold, candidates) == first
        alone = {"none": None}
        unanswered = await Judge(workers, RULES, 5, cache).verdicts(shop, gold, alone)
        assert await Judge(idle, RULES, 5, cache).verdicts(shop, gold, alone) == unanswered
        with pytest.raises(RuntimeError, match="open the SqlWorkers"):
            await Judge(idle, RULES, 5, cache).verdicts(shop, gold, {"new": "SELECT 1"})
