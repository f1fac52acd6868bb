"""Corrected golds: a second score beside the official one, the same in every display."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest

from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.night import night_document
from tasks.results.night import Night, judge, read, write
from tasks.results.night_baseline import Baselines, compared
from tasks.results.run_record import json_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Gate
from tasks.settings.home import Home
from tests.support.demo import demo_golds, write_predictions
from tests.support.in_process import run
from tests.tasks.results.night_samples import START, entry_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_home")]

NOW_RIGHT, NOW_WRONG, WITHDRAWN = ("1", "2"), ("3", "4"), ("5",)
"""What the overlay does to the answers of the run `corrected`: five flips, and two corrections without one."""
DIFFER = "right now: 1, 2; wrong now: 3, 4; withdrawn: 5"
OTHER = "SELECT 'another answer'"


@pytest.fixture(scope="module")
def golds(home: Path) -> dict[str, str]:
    return demo_golds(home)


def entry(name: str, action: str, **more: Any) -> dict[str, Any]:
    return {"question_id": name, "action": action, "reason": f"reason {name}", "source": "a person"} | more


@pytest.fixture(scope="module")
def overlay(home: Path, golds: Mapping[str, str]) -> Path:
    """Flips five answers; of the others, one is confirmed by other SQL, one is right by the official gold as well."""
    file = home.parent / "corrections.json"
    entries = [
        entry("1", "replace", sql=OTHER),
        entry("2", "add", sql=["SELECT 'no answer'", OTHER]),
        entry("3", "replace", sql=OTHER),
        entry("4", "replace", sql="SELECT 1, 2, 3"),
        entry("5", "withdraw"),
        entry("6", "replace", sql=f"SELECT * FROM ({golds['6'].rstrip(';')})"),
        entry("7", "add", sql=OTHER),
    ]
    file.write_text(json.dumps({"corrections": entries}), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def runs(home: Path, golds: Mapping[str, str], overlay: Path) -> dict[str, Any]:
    """Summaries of three runs of the first twenty questions, of which the last two have corrected golds."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSCHECK_HOME", str(home))
        for name, other in (("plain", NOW_RIGHT), ("before", (*NOW_RIGHT, "9")), ("corrected", NOW_RIGHT)):
            sqls = {key: OTHER if key in other else sql for key, sql in golds.items()}
            file = write_predictions(home.parent / f"{name}.jsonl", sqls)
            more = ("--set", f"benchmark.answer_keys=corrected={overlay}") if name != "plain" else ()
            ran = run("score", "--predictions", file, "--limit", "20", "--details", "--json", *more)
            assert ran.code == 0, ran.err
            found[name] = ran.json | {"text": ran.err}
    return found


def flips(found: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(found[name]) for name in ("now_right", "now_wrong", "withdrawn"))


def test_the_overlay_flips_these_five_and_the_official_score_is_as_without_it(
    runs: Mapping[str, Any],
) -> None:
    plain, corrected = runs["plain"], runs["corrected"]
    for name in ("correct", "total", "by_difficulty", "by_database"):
        assert corrected[name] == plain[name]
    assert ("corrected" in plain["scores"], plain["keys"]) == (False, {})
    found = corrected["scores"]["corrected"]
    assert flips(found["differs"]) == (NOW_RIGHT, NOW_WRONG, WITHDRAWN)
    assert (plain["correct"], plain["total"]) == (18, 20)
    assert (found["correct"], found["total"]) == (18 + 2 - 2 - 1, 19)
    assert found["changes"] == {
        "1": "replaced", "2": "added", "3": "replaced", "4": "replaced", "5": "withdrawn", "6": "replaced",
        "7": "added",
    }  # fmt: skip
    assert "execution accuracy 90.00 % (18 of 20" in corrected["text"]
    share = "89.47 % (17 of 19; official on the same questions: 17 of 19)"
    assert f"By the key corrected: {share}; {DIFFER}" in corrected["text"]


def test_mlflow_has_both_scores_and_a_column_of_the_corrected_verdicts(
    runs: Mapping[str, Any], tmp_path: Path
) -> None:
    found = runs["corrected"]
    client = mlflow.MlflowClient(found["mlflow"]["tracking_uri"])
    logged = client.get_run(found["mlflow"]["run_id"]).data
    assert (logged.metrics["ex"], logged.metrics["ex_corrected"]) == (0.9, pytest.approx(17 / 19, abs=1e-6))
    assert logged.tags["answer_keys"] == f"corrected {found['keys']['corrected']}"
    file = client.download_artifacts(found["mlflow"]["run_id"], "predictions.json", str(tmp_path))
    table = json.loads(Path(file).read_text(encoding="utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["question_id"] for row in rows if row["correct"] != row["ex_corrected"]] == list("12345")


def test_the_warehouse_has_both_verdicts(runs: Mapping[str, Any]) -> None:
    sql = (
        "SELECT question_id, correct, correct_by_variant['corrected'] AS now, keys['corrected'].change AS change "
        "FROM questions WHERE run_id = '{}' "
        "AND correct IS DISTINCT FROM now ORDER BY position"
    )
    rows = run("query", sql.format(runs["corrected"]["run_id"]), "--json").json["rows"]
    assert [tuple(row.values()) for row in rows] == [
        ("1", False, True, "replaced"), ("2", False, True, "added"), ("3", True, False, "replaced"),
        ("4", True, False, "replaced"), ("5", True, None, "withdrawn"),
    ]  # fmt: skip
    assert len(run("query", sql.format(runs["plain"]["run_id"]), "--json").json["rows"]) == 20
    scores = "SELECT ex, scores['corrected'].ex AS now FROM runs ORDER BY started"
    assert [row["now"] for row in run("query", scores, "--json").json["rows"]] == [None, 16 / 19, 17 / 19]


def test_a_comparison_has_both_and_tests_them_apart(runs: Mapping[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    before, corrected = runs["before"]["run_id"], runs["corrected"]["run_id"]
    found = run("compare", before, corrected, "--json").json
    assert (len(found["result"]["fixed"]), found["result"]["broken"]) == (1, [])
    by_variant = found["variants"]["corrected"]
    for side in "ab":
        assert flips(by_variant[side]["differs"]) == (NOW_RIGHT, NOW_WRONG, WITHDRAWN)
    assert (found["a"]["ex"]["correct"], by_variant["a"]["correct"]) == (17, 16)
    result = by_variant["result"]
    assert (result["fixed"], result["broken"], by_variant["problem"]) == (["9"], [], "")
    ran = run("compare", before, corrected, "--html", str(page))
    for text in (ran.out, page.read_text(encoding="utf-8")):
        assert f"By the key corrected, the verdict differs in A and B: {DIFFER}" in text
        assert "17 of 19" in text and "18 of 20" in text


def test_runs_with_other_golds_are_compared_on_the_official_ones_alone(runs: Mapping[str, Any]) -> None:
    found = run("compare", runs["plain"]["run_id"], runs["corrected"]["run_id"], "--json").json
    assert found["result"]["fixed"] == found["result"]["broken"] == []
    by_variant = found["variants"]["corrected"]
    assert by_variant["a"] is None and by_variant["b"]["total"] == 19
    assert by_variant["result"] is None and "the golds of 7 questions differ" in by_variant["problem"]


def test_a_run_and_its_page_show_both(runs: Mapping[str, Any], tmp_path: Path) -> None:
    page, name = tmp_path / "run.html", runs["corrected"]["run_id"]
    shown = run("show", name, "--json").json["scores"]["corrected"]["differs"]
    assert flips(shown) == (NOW_RIGHT, NOW_WRONG, WITHDRAWN)
    assert run("show", name, "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    for written in (run("show", name, "--details").out, text):
        assert DIFFER in " ".join(written.split())
    changes = ["other", "further", "other", "other", "withdrawn", "other", "further"]
    assert re.findall(r"gold by the key corrected: (\w+)", text) == changes
    judged = re.findall(r"By the key corrected: (right|wrong|not counted)", text)
    assert judged == [*["right"] * 3, "wrong", "wrong", "not counted", *["right"] * 14]
    one = run("show", name, "3").out
    for words in ("By the key corrected: wrong", "the key corrected: other SQL", "reason 3 (a person)"):
        assert words in one


def test_a_night_shows_both_and_its_gate_sees_the_official_one(
    runs: Mapping[str, Any], home: Path, tmp_path: Path
) -> None:
    warehouse = Warehouse(home / "warehouse.duckdb")
    stored = warehouse.read_run(runs["corrected"]["run_id"])
    entry = compared(replace(entry_of(stored), continue_with=""), Baselines(), warehouse, Gate())
    night = Night("n", Gate(), judge(Gate(), [entry]), START, START)
    assert read(write(night, Home(tmp_path))) == night
    (evaluation,) = json_of(night)["entries"]
    corrected = evaluation["run"]["scores"]["corrected"]
    assert (evaluation["run"]["correct"], corrected["correct"]) == (18, 17)
    assert flips(corrected["differs"]) == (NOW_RIGHT, NOW_WRONG, WITHDRAWN)
    page = markdown(night_document(night, warehouse, page="n.html"))
    for text in (page, html(night_document(night, warehouse))):
        assert DIFFER in text and "17 of 19" in text


def test_everything_wrong_with_an_overlay_is_said_at_once(home: Path, golds: Mapping[str, str]) -> None:
    entries: list[Any] = [
        entry("3", "replace", sql="SELECT x FROM nowhere"),
        entry("1000", "withdraw"),
        entry("4", "replace"),
        entry("5", "withdraw") | {"reason": ""},
        entry("6", "erase"),
        "seven",
        entry("3", "add", sql="SELECT 1"),
    ]
    file = home.parent / "wrong.json"
    file.write_text(json.dumps({"corrections": entries, "sorce": 1}), encoding="utf-8")
    predictions = write_predictions(home.parent / "gold.jsonl", golds)
    checked = run("benchmarks", "verify", "--key", str(file), "--json")
    scored = run("score", "--predictions", predictions, "--set", f"benchmark.answer_keys={file}")
    assert checked.code == scored.code == 2
    assert len(checked.json["problems"]) == 8
    for said in (
        "8 problems", "sorce", "question 1000: the benchmark has no such question", "no such table: nowhere",
        '"replace" needs the key "sql"', '"reason" is missing', "erase", "item 5 (from 0)", "a correction above",
    ):  # fmt: skip
        assert said in scored.err, said


def test_an_overlay_is_checked_entry_by_entry(overlay: Path, tmp_path: Path) -> None:
    file = tmp_path / "key.html"
    ran = run("benchmarks", "verify", "--key", str(overlay), "--html", str(file), "--json")
    assert (ran.code, ran.json["problems"]) == (0, [])
    assert (ran.json["differing"], ran.json["same_as_official"]) == (["1", "2", "3", "4", "7"], ["6"])
    assert ran.json["actions"] == {"replace": 4, "add": 2, "withdraw": 1}
    assert "The result of the official gold (rule bird), so that nothing changes: 1 question (6)" in ran.err
    assert "changes 7 questions" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", ["[]", "{", '{"corrections": {}}'])
def test_a_file_of_another_form_is_one_message(home: Path, content: str) -> None:
    file = home.parent / "form.json"
    file.write_text(content, encoding="utf-8")
    run("benchmarks", "verify", "--key", str(file)).assert_refused(str(file))
