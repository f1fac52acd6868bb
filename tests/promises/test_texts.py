"""Any text from outside: stored and shown as text, and no other record is lost with it."""

import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from flows.evaluate.exchanges import Exchanges
from flows.evaluate.question_view import QuestionView, question_objects
from tasks.backbone.cache.entry import rows_of
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.benchmarks.rows import json_rows
from tasks.core.outcome import Call, Failure, Usage
from tasks.core.records import ColumnName, Execution
from tasks.core.wording import storable
from tasks.database.database import open_database
from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.comparison import comparison_document
from tasks.pages.lists import leaderboard_document
from tasks.pages.night import night_document
from tasks.pages.run_page import Links, RunView, run_page
from tasks.results.build_record import record_of
from tasks.results.compare import compare
from tasks.results.leaderboard import leaderboard
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.store import check, find_store
from tasks.results.mlflow.tracker import Tracker
from tasks.results.night import NightEntry
from tasks.results.predictions_table import table
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.retrieval.value_index import ValueIndex
from tasks.settings.home import Home
from tests.support.contents import contents
from tests.support.counting import Count
from tests.tasks.results.comparison_samples import two_runs, with_row
from tests.tasks.results.night_samples import a_night, keep
from tests.tasks.results.page_parts import EVIL, Page
from tests.tasks.results.samples import record_with

pytestmark = pytest.mark.slow

TEXTS = (
    "half \ud800 of a pair",
    "\udfff",
    "a NUL \x00 in it",
    "\u202egnp.exe\u2066 bidi",
    "\x1b[31mred\x07\x9b2J",
    "line\r\nline\u2028line\x85line",
    EVIL,
    "[a](javascript:alert(1)) `b` | c | <!-- d",
    "{{ 7 * 7 }}{% for x in y %}${jndi:ldap://127.0.0.1/a}",
    "$(touch evil) `touch evil`; rm -rf ../../evil",
    '=HYPERLINK("http://127.0.0.1")',
    "x" * 200_000,
)
IDENTITY = {"model": "m"}


def hostile(text: str) -> list[RunRecord]:
    """Two runs of ten questions, of which the fourth has the text in every place."""
    runs, failure = [], Failure("backbone_error", "s", text, True)
    for run in two_runs(3, 2, 6):
        row = run.rows[4]
        question = replace(row.question, text=text, evidence=text)
        outcome = replace(row.outcome, sql=text, notes=(text,), failure=failure)
        final = replace(row.final, error=text)
        runs.append(with_row(run, 4, question=question, outcome=outcome, final=final, gold_sql=text))
    return runs


def question_file(text: str, folder: Path) -> None:
    file = folder / "dev.json"
    file.write_text(
        json.dumps([{"question": text, "evidence": text}, {"question": "plain"}]), encoding="utf-8"
    )
    first, second = json_rows(file)
    for found in (first.text(["question"]), first.optional_text("evidence") or ""):
        assert "\x00" not in found and found.encode()
    assert second.text(["question"]) == "plain"


def reply_cache(text: str, folder: Path) -> None:
    keys = []
    with open_reply_cache(folder / "replies.sqlite") as cache:
        for number, (words, model) in enumerate((("a", "m"), (text, text), ("b", "m"))):
            request = Request((Message("user", f"question {number}"),))
            call = Call(request_key(IDENTITY, request), model, Usage(1, None, 1), cached=False, seconds=0.1)
            cache._unsaved[call.request] = rows_of(Reply(words, call), request, IDENTITY, "fake")
            keys.append(call.request)
        cache._save_or_warn()
        assert cache._unsaved == {}
    with open_reply_cache(folder / "replies.sqlite") as cache:
        first, _, last = (cache.get(key) for key in keys)
        assert first is not None and last is not None and (first.text, last.text) == ("a", "b")


def warehouse(text: str, folder: Path) -> None:
    store = Warehouse(folder / "warehouse.duckdb")
    run = hostile(text)[0]
    store.finish(record_of(run, run.rows))
    found = store.read_run(run.run_id).rows
    assert found[:4] + found[5:] == run.rows[:4] + run.rows[5:]
    assert found[4].question.id == "4"


def named(run: RunRecord, text: str) -> RunRecord:
    """The run with the text as every name that it has, as far as settings take it as one."""
    text = storable(text)[:400]
    names = {"backbone": text, "pipeline": text, "benchmark": text, "revision": text}
    return run.model_copy(update={**names, "tags": {"changed": text, "name": text}})


def of_comparison(text: str, folder: Path) -> str:
    return html(comparison_document(compare(*(named(run, text) for run in hostile(text)))))


def of_run(text: str, folder: Path) -> str:
    run = named(hostile(text)[0], text)
    found = Execution("ok", (text,), ((text, b"\xff"),), 1)
    broken = Execution("error", error=text)
    views = [QuestionView(run, row, (), Exchanges({}, text), found, broken, problem=text) for row in run.rows]
    before = compare(*(named(each, text) for each in hostile(text)))
    return html(run_page(RunView(run, {}, text), question_objects(views), Links(before=before)))


def of_night(text: str, folder: Path) -> str:
    store = Warehouse(folder / "night.duckdb")
    a, b = hostile(text)
    other = NightEntry(text, text, text, None, problem=text, continue_with=text, not_ranked=text)
    found = a_night(store, [a, b], name=text, others=[other], notes=(text,), matrix={"overrides": [text]})
    return html(night_document(found, store))


def of_leaderboard(text: str, folder: Path) -> str:
    store = Warehouse(folder / "board.duckdb")
    keep(store, [named(run, text) for run in hostile(text)])
    return html(leaderboard_document(leaderboard(store)))


PAGES = (of_comparison, of_run, of_night, of_leaderboard)


@cache
def plain_page(page: Callable[[str, Path], str]) -> Page:
    with tempfile.TemporaryDirectory() as folder:
        return Page(page("SELECT 1 FROM plain", Path(folder)))


def html_pages(text: str, folder: Path) -> None:
    for page in PAGES:
        written = page(text, folder)
        (folder / f"{page.__name__}.html").write_text(written, encoding="utf-8")
        found, plain = Page(written), plain_page(page)
        assert found.tags.count("script") == plain.tags.count("script"), page
        assert set(found.tags) <= {*plain.tags, "p", "mark"}, page
        links = [value for name, value in found.attributes if name in ("href", "src")]
        assert all(re.match(r"https?://|[\w.#%-]*$", link) for link in links), links
        assert not set("\x1b\x07\u202e\u2066\x00") & set(written), page
    packed = [*contents(folder / "of_run.html")][1:]
    assert packed and not any(sign in part.decode() for part in packed for sign in "\x1b\u202e\x00")


def mlflow_table(text: str, folder: Path) -> None:
    run = hostile(text)[0]
    content = table(record_with(run.rows))
    (folder / "predictions.json").write_text(content, encoding="utf-8")
    assert len(json.loads(content)["data"]) == 6


def mlflow_run(text: str, folder: Path) -> None:
    run = named(hostile(text)[0], text)
    shutil.copytree(empty_mlflow(), folder / "home")
    tracker = Tracker(Home(folder / "home"))
    tracker.start(run)
    record = record_of(run, hostile(text)[0].rows)
    found = tracker.finish(record, Completion(seconds=1.0)).mlflow
    assert found.run_id and not found.problem, found.problem
    for file in (folder / "home" / "mlartifacts").rglob("*.html"):
        assert "<script>alert" not in file.read_text(encoding="utf-8")


@cache
def empty_mlflow() -> Path:
    home = Path(tempfile.mkdtemp(prefix="crosscheck-mlflow-"))
    check(find_store(Home(home)))
    return home


def prefect_artifact(text: str, folder: Path) -> None:
    store = Warehouse(folder / "night.duckdb")
    a, b = hostile(text)
    written = markdown(night_document(a_night(store, [a, b], notes=(text,)), store, page="night.html"))
    (folder / "night.md").write_text(written, encoding="utf-8")
    assert "<script" not in written and "](javascript" not in written and "\x1b" not in written


def value_index(text: str, folder: Path) -> None:
    """The text as a database's value and, as far as SQLite takes it, as its table and column; and as a question."""
    name, file = storable(text)[:1000], folder / "singers.sqlite"
    identifier = '"' + name.replace('"', '""') + '"'
    with closing(sqlite3.connect(file)) as made, made:
        made.execute(f"CREATE TABLE {identifier} ({identifier} TEXT)")
        values = [(each.encode("utf-8", "surrogatepass"),) for each in (text, "Ann")]
        made.executemany(f"INSERT INTO {identifier} VALUES (CAST(? AS TEXT))", values)
    before = file.read_bytes()
    index = ValueIndex.open(open_database(file, "singers"), folder / "values")
    for question in (text, "Is there an Ann?"):
        ((column, found),) = index.retrieve(question, k=2).items()
        assert column == ColumnName(name, name) and "Ann" in found
        assert all(str(value).encode() for value in found)
    index.close()
    assert file.read_bytes() == before
    assert {each.name for each in folder.iterdir()} == {file.name, "values"}


PLACES: tuple[Callable[[str, Path], None], ...] = (
    question_file, reply_cache, warehouse, value_index, html_pages, mlflow_table, mlflow_run, prefect_artifact
)  # fmt: skip


@pytest.mark.promise("texts")
def test_any_text_stays_text_and_takes_no_other_record_along(
    tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in PLACES:
        for number, text in enumerate(TEXTS):
            folder = tmp_path / f"{place.__name__}{number}"
            folder.mkdir()
            with count.fault(f"{place.__name__}: {text[:40]!r}"):
                place(text, folder)
    count.answers()
    assert not list(tmp_path.rglob("evil*"))
