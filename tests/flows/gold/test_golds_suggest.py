"""`crosscheck golds suggest`: where models agree with each other and not with the gold, for a person to decide."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import run
from tests.tasks.tracking.page_parts import EVIL

pytestmark = pytest.mark.slow

AGREED = ("1", "2", "3")
"""Questions on which the systems a and b have one result that is not the gold's; c is with them on the first only."""


def sqls_of(name: str, golds: Mapping[str, str]) -> dict[str, str]:
    """What a system answers: a and b agree in their results, in other words."""
    found = dict(golds)
    for question in AGREED:
        found[question] = {
            "a": f"SELECT 'right for {question}'",
            "b": f"SELECT x FROM (SELECT 'right for {question}' AS x)",
            "c": f"SELECT 'right for {question}' LIMIT 1" if question == "1" else f"SELECT '{EVIL}'",
        }[name]
    return found | {"4": f"SELECT '{name}'", "5": f"SELECT nothing_{name}"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> dict[str, str]:
    """Run ids of the systems a, b and c, and the working folder they are in."""
    home = tmp_path_factory.mktemp("suggest") / "home"
    shutil.copytree(built_demo, home)
    questions = json.loads((home / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    golds = {str(question["question_id"]): question["SQL"] for question in questions[:10]}
    ids = {"home": str(home)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSCHECK_HOME", str(home))
        for name in "abc":
            file = home.parent / f"{name}.jsonl"
            lines = (
                json.dumps({"question_id": key, "sql": sql}) for key, sql in sqls_of(name, golds).items()
            )
            file.write_text("\n".join(lines), encoding="utf-8")
            ran = run("score", "--predictions", str(file), "--limit", "10", "--json")
            assert ran.code == 0, ran.err
            ids[name] = ran.json["run_id"]
    return ids


@pytest.fixture(autouse=True)
def in_home(runs: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", runs["home"])


def suggest(runs: Mapping[str, str], names: str, *more: str) -> Any:
    ran = run("golds", "suggest", *(runs[name] for name in names), *more, "--json")
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.slow
def test_where_all_or_some_agree_is_listed_with_both_results(runs: Mapping[str, str]) -> None:
    every = suggest(runs, "abc")
    assert [each["question_id"] for each in every["suggestions"]] == ["1"]
    found = suggest(runs, "abc", "--agree", "2")
    assert [each["question_id"] for each in found["suggestions"]] == list(AGREED)
    second = found["suggestions"][1]
    assert (list(second["sql"]), second["others"], second["agreeing_with_gold"]) == (["a", "b"], ["c"], [])
    assert second["result"]["rows"] == [["right for 2"]]
    assert (
        second["gold_result"]["status"] == "ok" and second["gold_result"]["rows"] != second["result"]["rows"]
    )
    assert found["compared"] == 10


def test_a_page_shows_both_results_and_no_text_of_a_model_acts_on_it(
    runs: Mapping[str, str], tmp_path: Path
) -> None:
    page = tmp_path / "golds.html"
    shown = run("golds", "suggest", runs["a"], runs["b"], "--html", str(page))
    assert "On 3 of 10 questions, at least 2 backbones agree" in " ".join(shown.out.split())
    text = page.read_text(encoding="utf-8")
    assert text.count("right for 2") >= 3, "both SQLs and the result"
    assert "gold (1 row)</h3>" in text and EVIL not in text and text.count("<script") == 1


def test_a_draft_is_undecided_and_changes_nothing_until_a_person_decides(
    runs: Mapping[str, str], tmp_path: Path
) -> None:
    draft = tmp_path / "draft.json"
    suggest(runs, "ab", "--draft", str(draft))
    content = json.loads(draft.read_text(encoding="utf-8"))
    assert {entry["action"] for entry in content["corrections"]} == {"undecided"}

    def corrected() -> Any:
        golds = f"benchmark.answer_keys=corrected={draft}"
        ran = run(
            "score", "--predictions", f"{runs['home']}/../a.jsonl", "--limit", "10", "--set", golds, "--json"
        )
        return ran.json["correct"], ran.json["scores"].get("corrected"), ran.json["notes"]

    official, before, notes = corrected()
    assert (before["correct"], before["total"]) == (official, 10)
    assert "Undecided entries of the key corrected, which change nothing: 3" in notes
    content["corrections"][1]["action"] = "replace"
    draft.write_text(json.dumps(content), encoding="utf-8")
    again, after, _ = corrected()
    assert (again, after["correct"], after["differs"]["now_right"]) == (official, official + 1, ["2"])
    refused = run("golds", "suggest", runs["a"], runs["b"], "--draft", str(draft))
    assert refused.code == 2 and "is there already" in refused.err


def test_what_cannot_be_laid_side_by_side_is_refused(runs: Mapping[str, str]) -> None:
    for arguments, said in (
        ((runs["a"],), "one model agrees with itself"),
        ((runs["a"], runs["a"]), "one model agrees with itself"),
        ((runs["a"], runs["b"], "--agree", "3"), "2 different backbones only"),
        ((runs["a"], "nothing"), 'There is no run "nothing"'),
    ):
        ran = run("golds", "suggest", *arguments)
        assert ran.code == 2 and said in ran.err, ran.err
