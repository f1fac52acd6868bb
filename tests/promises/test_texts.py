"""Any text from outside: stored and shown as text, and no other record is lost with it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.benchmarks.files.readers import json_rows
from tasks.records import Call, Failure, Usage
from tasks.scoring.build_report import build_report
from tasks.tracking.comparison.compare import compare
from tasks.tracking.comparison.page import render
from tasks.tracking.night.markdown import markdown
from tasks.tracking.predictions import table
from tasks.tracking.warehouse.runs import StoredRun, Warehouse
from tests.support.counting import Count
from tests.tasks.tracking.comparison_samples import two_runs, with_row
from tests.tasks.tracking.night_samples import a_night
from tests.tasks.tracking.page_parts import EVIL, Page
from tests.tasks.tracking.samples import report_of

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


def hostile(text: str) -> list[StoredRun]:
    """Two runs of ten questions, of which the fourth has the text in every place."""
    runs = []
    for run in two_runs(3, 2, 6):
        row = run.rows[4]
        changed = with_row(
            run,
            4,
            question=replace(row.question, text=text, evidence=text),
            outcome=replace(
                row.outcome, sql=text, notes=(text,), failure=Failure("backbone_error", "s", text, True)
            ),
            final=replace(row.final, error=text),
            gold_sql=text,
        )
        runs.append(changed)
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
            cache._hold({**_row(cache, Reply(words, call), request)})
            keys.append(call.request)
        cache._save_or_warn()
        assert cache._unsaved == {}
    with open_reply_cache(folder / "replies.sqlite") as cache:
        first, _, last = (cache.get(key) for key in keys)
        assert first is not None and last is not None and (first.text, last.text) == ("a", "b")


def _row(cache: object, reply: Reply, request: Request) -> Mapping[str, object]:
    from tasks.backbone.cache.entry import row_of

    return row_of(reply, request, IDENTITY, "fake")


def warehouse(text: str, folder: Path) -> None:
    store = Warehouse(folder / "warehouse.duckdb")
    run = hostile(text)[0]
    store.finish(run.run, report_of(run.rows, ("1_preliminary_sql",)), {})
    found = store.read_run(run.run.run_id).rows
    assert found[:4] + found[5:] == run.rows[:4] + run.rows[5:]
    assert found[4].question.id == "4"


@cache
def plain_page() -> Page:
    return Page(render(compare(*two_runs(3, 2, 6))))


def comparison_page(text: str, folder: Path) -> None:
    html = render(compare(*hostile(text)))
    (folder / "page.html").write_text(html, encoding="utf-8")
    page, plain = Page(html), plain_page()
    assert page.tags.count("script") == 1 and set(page.tags) <= {*plain.tags, "p", "mark"}
    assert not set("\x1b\x07\u202e\u2066\x00") & set(html)


def mlflow_table(text: str, folder: Path) -> None:
    run = hostile(text)[0]
    content = table(build_report(run.rows, rule="bird", schemas={}))
    (folder / "predictions.json").write_text(content, encoding="utf-8")
    assert len(json.loads(content)["data"]) == 6


def prefect_artifact(text: str, folder: Path) -> None:
    store = Warehouse(folder / "night.duckdb")
    a, b = hostile(text)
    written = markdown(a_night(store, [a, a, b], notes=(text,)), store, folder / "night.html")
    (folder / "night.md").write_text(written, encoding="utf-8")
    assert "<script" not in written and "](javascript" not in written and "\x1b" not in written


PLACES: tuple[Callable[[str, Path], None], ...] = (
    question_file, reply_cache, warehouse, comparison_page, mlflow_table, prefect_artifact
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
