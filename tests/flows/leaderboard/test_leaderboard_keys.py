"""`crosscheck leaderboard --keys`: the same answers ranked by several answer keys, without a model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import run
from tests.support.scored_home import OTHER, scored_home

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> Path:
    """A working folder with two runs: `first` is right on nine of ten questions, `second` on eight."""
    return scored_home(tmp_path_factory.mktemp("keys"), built_demo, {"first": "1", "second": "23"})


@pytest.fixture(autouse=True)
def in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))


def write(file: Path, *entries: Mapping[str, Any]) -> Path:
    known = {"reason": "r", "source": "s"}
    file.write_text(json.dumps({"corrections": [known | each for each in entries]}), encoding="utf-8")
    return file


def test_ranks_by_a_key_stand_beside_the_official_ones_on_the_same_questions(tmp_path: Path) -> None:
    turned = write(
        tmp_path / "turned.json",
        *({"question_id": name, "action": "replace", "sql": OTHER} for name in ("2", "3")),
        {"question_id": "4", "action": "withdraw"},
    )
    same = write(tmp_path / "same.json", {"question_id": "4", "action": "withdraw"})
    page = tmp_path / "board.html"
    words = ("leaderboard", "--benchmark", "demo", "--keys", f"{turned},{same}", "--html", str(page))
    (board,) = run(*words, "--json").json["boards"]
    by_key = {each["key"]: each for each in board["keys"]}
    ran = by_key["turned"]
    names = {each["run_id"]: each["backbone"] for each in board["ranked"]}
    assert [
        (
            names[row["run_id"]],
            row["rank"],
            row["official_rank"],
            row["ex"]["correct"],
            row["official"]["correct"],
        )
        for row in ran["rows"]
    ] == [("second", 1, 2, 9, 7), ("first", 2, 1, 6, 8)]
    assert (ran["questions"], ran["left_out"]["withdrawn"], ran["tau"]) == (9, ["4"], -1.0)
    (change,) = ran["changes"]
    assert (names[change["a"]], names[change["b"]]) == ("first", "second")
    assert (len(change["key"]["fixed"]), change["key"]["p_value"]) == (3, 0.25)
    assert (by_key["same"]["changes"], by_key["same"]["tau"]) == ([], 1.0)
    text = run(*words).out
    for shown in (text, page.read_text(encoding="utf-8")):
        assert "By the key turned" in shown and "Pairs whose order changes" in shown
    assert "The key changes the order of no two runs." in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keys", "wrong.json"), "--keys is about one benchmark"),
        (("--benchmark", "demo", "--keys", "wrong.json"), "The answer key wrong"),
        (("--benchmark", "demo", "--keys", "wrong.json,wrong.json"), 'two keys have the name "wrong"'),
        (("--benchmark", "demo", "--keys", "nothing.json"), "nothing.json cannot be read"),
        (("--benchmark", "demo", "--keys", "official"), "official"),
    ],
)
def test_a_wrong_key_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "wrong.json", {"question_id": "1", "action": "replace", "sql": "SELECT x FROM nowhere"})
    ran = run("leaderboard", *words)
    assert ran.code == 2 and said in ran.err and "Traceback" not in ran.err, ran.err


def test_real_answers_of_superhero_are_scored_by_arcwises_key(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BIRD's baseline on the 52 questions of mini-dev on superhero: 27 of 52, and 27 of the 47 with the same text."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    key = json.loads(
        (shared_data / "bird-mini-dev/arcwise_mini_dev_cleaned.json").read_text(encoding="utf-8")
    )
    ids = ",".join(str(each["question_id"]) for each in key if each["db_id"] == "superhero")
    predictions = shared_data / "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
    ran = run(
        "score", "--benchmark", "bird-dev", "--data", str(shared_data), "--predictions", str(predictions),
        "--questions", ids, "--set", "benchmark.answer_keys=arcwise", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    scores = ran.json["scores"]
    assert (scores["bird"]["correct"], scores["bird"]["total"]) == (27, 52)
    found = scores["arcwise"]
    assert (found["correct"], found["total"], found["official"]["correct"], found["official"]["total"]) == (
        27, 47, 27, 47,
    )  # fmt: skip
    assert found["differs"]["other_text"] == ["728", "751", "765", "788", "791"]
    assert found["changes"] == {"743": "replaced"} | dict.fromkeys(
        found["differs"]["other_text"], "other_text"
    )
