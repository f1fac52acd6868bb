"""`crosscheck golds diff`: what two answer keys disagree on, with both results."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import run


@pytest.fixture
def golds(built_demo: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("CROSSCHECK_HOME", str(built_demo))
    questions = json.loads((built_demo / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    return {str(question["question_id"]): question["SQL"] for question in questions}


def entry(name: str, action: str = "replace", **more: Any) -> dict[str, Any]:
    return {"question_id": name, "action": action, "reason": f"reason {name}", "source": "a person"} | more


def test_each_question_has_how_the_keys_differ_and_the_results_of_both(
    golds: dict[str, str], tmp_path: Path
) -> None:
    same = f"SELECT * FROM ({golds['2'].rstrip(';')})"
    entries = [
        entry("1", sql="SELECT 'another'"),
        entry("2", sql=same),
        entry("3", "withdraw"),
        entry("4", sql=golds["4"], question="Another text?"),
        entry("5", sql="SELECT x FROM nowhere"),
        entry("6", sql=f" {golds['6']} "),
        entry("7", "undecided", sql="SELECT 1"),
        entry("8", "add", sql="SELECT 'another'"),
    ]
    file, table, page = tmp_path / "mine.json", tmp_path / "two.csv", tmp_path / "diff.html"
    file.write_text(json.dumps({"corrections": entries}), encoding="utf-8")
    ran = run("golds", "diff", "official", str(file), "--html", str(page), "--json")
    assert ran.code == 0, ran.err
    found = {each["question_id"]: each for each in ran.json["differences"]}
    assert {name: each["kind"] for name, each in found.items()} == {
        "1": "result", "2": "sql", "3": "counted", "4": "text", "5": "not_run", "8": "result",
    }  # fmt: skip
    assert ran.json["equal"] == len(golds) - 6
    turned = run("golds", "diff", str(file), "official", "--json").json["differences"]
    assert {each["question_id"]: each["kind"] for each in turned} == {
        name: each["kind"] for name, each in found.items()
    }
    assert found["1"]["mine"]["result"]["rows"] == [["another"]]
    assert found["1"]["official"]["sql"] == [golds["1"]]
    assert "another" in page.read_text(encoding="utf-8") and "reason 1" in page.read_text(encoding="utf-8")
    table.write_text("id,sql\n1,SELECT 'another'\n", encoding="utf-8")
    counts = run("golds", "diff", str(file), str(table), "--json").json["counts"]
    # the withdrawn question is counted by neither
    assert (counts["result"], counts["absent"]) == (0, len(golds) - 2)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("official", "official"), "Both keys are official"),
        (("official", "arcwis"), 'There is no benchmark "arcwis"'),
        (("official", "missing.json"), "missing.json cannot be read"),
        (("a/one.csv", "b/one.csv"), 'two keys have the name "one"'),
    ],
)
def test_a_wrong_key_is_one_message(golds: dict[str, str], keys: tuple[str, str], said: str) -> None:
    ran = run("golds", "diff", *keys)
    assert ran.code == 2 and said in ran.err and "Traceback" not in ran.err, ran.err
