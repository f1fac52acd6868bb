"""`crosscheck leaderboard --by`: the same runs ranked by another of their scores."""

import json
from pathlib import Path

import pytest

from tests.support.in_process import run
from tests.support.scored_home import OTHER, scored_home

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> Path:
    """Runs with a key by which `second` is right where the official gold has it wrong, and one run without it."""
    folder = tmp_path_factory.mktemp("keys")
    entries = [
        {"question_id": name, "action": "replace", "sql": OTHER, "reason": "r", "source": "s"}
        for name in "23"
    ]
    entries.append({"question_id": "4", "action": "withdraw", "reason": "r", "source": "s"})
    key = folder / "turned.json"
    words = ("--set", f"benchmark.answer_keys={key}")

    def score(name: str, corrections: list[dict[str, str]], *more: str) -> None:
        key.write_text(json.dumps({"corrections": corrections}), encoding="utf-8")
        file = str(folder / f"{name}.jsonl")
        assert run("score", "--predictions", file, "--limit", "10", *more).code == 0

    key.write_text(json.dumps({"corrections": entries}), encoding="utf-8")
    home = scored_home(folder, built_demo, {"first": "1", "second": "23"}, *words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSCHECK_HOME", str(home))
        score("first", entries)
        score("second", entries[1:], "--name", "other-key", *words)
        score("first", entries, "--name", "first", *words)
    return home


@pytest.fixture(autouse=True)
def in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))


def test_a_board_by_a_key_ranks_by_its_score_and_says_who_has_none(tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    words = ("leaderboard", "--benchmark", "demo", "--by", "turned", "--html", str(page))
    (board,) = run(*words, "--json").json["boards"]
    assert [
        (row["run"]["backbone"], row["rank"], row["by"]["correct"], row["by"]["total"], row["run"]["correct"])
        for row in board["ranked"]
    ] == [("second", 1, 9, 9, 8), ("first", 2, 6, 9, 9)]
    assert [row["letters"] for row in board["ranked"]] == ["a", "a"]
    assert {row["run"]["backbone"]: row["why_unranked"] for row in board["not_ranked"]} == {
        "first": "has no score turned",
        "other-key": "was scored by another answer key of this name, or on other questions",
    }
    text = run(*words).out
    for display in (text, page.read_text(encoding="utf-8")):
        assert "ranked by turned" in display and "100.00 %" in display


def test_a_board_by_a_rule_ranks_every_run_and_one_by_a_score_that_no_run_has_is_refused() -> None:
    (board,) = run("leaderboard", "--by", "strict", "--json").json["boards"]
    assert board["by"] == "strict" and len(board["ranked"]) == 3 and board["not_ranked"] == []
    assert {row["by"]["rule"] for row in board["ranked"]} == {"strict"}
    assert all(row["letters"] for row in board["ranked"])
    run("leaderboard", "--by", "turnt").assert_refused('has a score "turnt". Did you mean "turned"?')


def test_a_run_whose_score_counts_no_question_is_not_ranked_by_it(
    built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--set", "benchmark.quarantine=[0, 1]")
    home = scored_home(tmp_path, built_demo, {"all": ""}, *words, limit=2)
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))
    (board,) = run("leaderboard", "--by", "without_quarantine", "--json").json["boards"]
    assert board["ranked"] == []
    assert [row["why_unranked"] for row in board["not_ranked"]] == ["has nothing to score"]


def test_real_answers_of_superhero_are_scored_by_arcwises_key(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BIRD's baseline on the 52 questions of mini-dev on superhero: 27 of 52, and 27 of the 47 with the same text."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    key = json.loads((shared_data / "bird-mini-dev/arcwise_mini_dev_cleaned.json").read_text("utf-8"))
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
