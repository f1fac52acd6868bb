"""`crosscheck leaderboard`: who is ranked against whom, who is not and why, with every number behind it."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.documents.html import html
from tasks.pages.lists import leaderboard_document, write_leaderboard
from tasks.results.build_record import record_of
from tasks.results.leaderboard import Board, leaderboard
from tasks.results.retention import Retention, WarehouseRows
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.scores import Score
from tasks.settings.home import Home
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import score, stored
from tests.tasks.results.night_samples import keep, unanswered
from tests.tasks.results.page_parts import Page

Boards = Callable[..., list[Board]]


def a_run(pipeline: str, right: int, questions: int = 10, **changes: Any) -> RunRecord:
    rows = [score(number, number < right) for number in range(questions)]
    return stored(rows, **{"benchmark": "demo", "pipeline": pipeline, "tags": {}, **changes})


def rendered(boards: Sequence[Board]) -> str:
    return html(leaderboard_document(boards))


def of_seven() -> list[RunRecord]:
    """Runs, the oldest first."""
    bare = {"changed": "pipeline.demonstrations.k=0", "name": "bare"}
    return [
        a_run("few-shot", 9), a_run("rsl-sql", 7), a_run("few-shot", 5), a_run("dac", 7),
        a_run("few-shot", 8, tags=bare), a_run("rsl-sql", 10, tags={"oracle": "both"}),
        unanswered(a_run("dac", 9), 9, "Gone."),
    ]  # fmt: skip


@pytest.fixture
def boards(home: Home) -> Boards:
    """Keeps runs, and returns the leaderboards of the folder."""

    def of(*runs: RunRecord) -> list[Board]:
        keep(Warehouse(home.warehouse), runs)
        return list(leaderboard(Warehouse(home.warehouse)))

    return of


def test_the_latest_ranked_run_of_each_is_ranked_and_the_others_are_listed_with_the_reason(
    boards: Boards,
) -> None:
    (board,) = boards(*of_seven())
    assert (board.benchmark, board.questions) == ("demo", 10)
    assert [(each.rank, each.run.pipeline, each.ex and each.ex.correct) for each in board.ranked] == [
        (1, "few-shot", 8), (2, "dac", 7), (2, "rsl-sql", 7), (4, "few-shot", 5),
    ]  # fmt: skip
    assert [(each.run.pipeline, each.why_unranked) for each in board.not_ranked] == [
        ("dac", "has 1 question without an answer that a re-run can give"),
        ("rsl-sql", "saw parts of the gold SQL (an oracle analysis)"),
    ]
    first = board.ranked[0]
    cost = first.run.cost
    assert (cost.calls, cost.cached_calls, cost.cost_usd) == (10, 0, 2.5)
    assert (cost.input_tokens, cost.output_tokens) == (1000, 100)
    assert first.ex and first.ex.interval and first.ex.interval[0] < 0.8 < first.ex.interval[1]


def test_only_runs_of_the_same_questions_are_ranked_against_each_other(home: Home, boards: Boards) -> None:
    other = a_run("dac", 3)
    rows = [
        replace(row, question=replace(row.question, id=id_), outcome=replace(row.outcome, question_id=id_))
        for row, id_ in [(row, f"x{row.question.id}") for row in other.rows]
    ]
    found = boards(
        a_run("rsl-sql", 7), other.model_copy(update={"rows": tuple(rows)}), a_run("rsl-sql", 5, 6),
        a_run("rsl-sql", 7, revision="2"), a_run("rsl-sql", 1, benchmark="mine"),
    )  # fmt: skip
    assert [(board.benchmark, board.questions, len(board.ranked)) for board in found] == [
        ("demo", 10, 1), ("demo", 10, 1), ("demo", 10, 1), ("demo", 6, 1), ("mine", 10, 1),
    ]  # fmt: skip
    warehouse = Warehouse(home.warehouse)
    assert len(leaderboard(warehouse, "mine")) == 1
    removed = frozenset(each.run_id for each in warehouse.runs()[1:])
    kept = Retention(datetime.datetime.now(datetime.UTC), frozenset(), removed, rows=False)
    WarehouseRows("runs", home.warehouse).remove(kept)
    without_ids = leaderboard(warehouse)
    assert [replace(board, apart="") for board in without_ids] == [
        replace(board, apart="") for board in found
    ]
    assert len({board.title for board in without_ids}) == len(found)
    lead = str(leaderboard_document(found).lead)  # of several boards of a benchmark it says which
    assert all(f"{board.title}: " in lead for board in found[:4]) and "; mine: " in lead


def test_boards_of_other_files_questions_or_databases_have_titles_of_their_own(boards: Boards) -> None:
    first, second = {"shop": "a1" * 32}, {"shop": "b2" * 32}
    file = {"question_file": "other/mine.json", "question_sha256": "c3" * 32}
    found = boards(
        a_run("dac", 7, databases=first),
        a_run("dac", 6, databases=second),
        a_run("dac", 5, databases=second, **file),
        a_run("dac", 3, 6, databases=second),
    )
    titles = [board.title for board in found]
    assert len(set(titles)) == 4
    assert sum("databases " in title for title in titles) == 3
    assert sum("mine.json, sha256 c3c3c3c3" in title for title in titles) == 1
    assert titles[-1].endswith("6 of 30 questions")


def test_two_files_of_predictions_of_one_name_are_both_ranked(boards: Boards) -> None:
    def scored(right: int, file: str, sha256: str) -> RunRecord:
        system = {"name": "predict_dev", "kind": "predictions", "file": file, "sha256": sha256}
        settings = {"backbone": system, "pipeline": {"name": "predictions", "kind": "predictions"}}
        return a_run("predictions", right, backbone="predict_dev", settings=settings)

    one, other = ("a/predict_dev.json", "a1" * 32), ("b/predict_dev.json", "b2" * 32)
    (board,) = boards(scored(8, *one), scored(3, *other), scored(3, *other))
    assert [(each.ex and each.ex.correct, each.changed) for each in board.ranked] == [
        (8, "a/predict_dev.json (sha256 a1a1a1a1)"),
        (3, "b/predict_dev.json (sha256 b2b2b2b2)"),
    ]


def test_text_json_and_page_have_the_same_numbers(boards: Boards, tmp_path: Path) -> None:
    boards(*of_seven())
    told = run("leaderboard").out
    everywhere = ("80.00 %", "8 of 10", "49.0 to 94.3 %", "$2.5000")
    for part in (*everywhere, "k=0", "bare", "Not ranked", "saw parts of the gold"):
        assert part in told
    file = tmp_path / "board.html"
    (board,) = run("leaderboard", "--benchmark", "demo", "--json", "--html", str(file)).json["boards"]
    best, best_run = board["ranked"][0], board["ranked"][0]["run"]
    assert (best["rank"], best_run["correct"], best_run["total"]) == (1, 8, 10)
    assert best_run["cost"]["cost_usd"] == 2.5
    assert board["not_ranked"][1]["why_unranked"].startswith("saw parts")
    text = Page(file.read_text(encoding="utf-8")).text
    for part in (*everywhere, "1,000", "output 100", best_run["run_id"]):
        assert part in text


def test_the_score_on_corrected_golds_and_pass_at_k_stand_beside_the_score_where_a_run_has_them(
    home: Home, tmp_path: Path
) -> None:
    plain, voting = a_run("few-shot", 5), a_run("rsl-sql", 6)
    candidates = {"n": 3, "pass@1": {"correct": 6, "total": 10}, "pass@3": {"correct": 8.5, "total": 10}}
    warehouse = Warehouse(home.warehouse)
    keep(warehouse, [plain])
    assert "pass@" not in run("leaderboard").out and "corrected" not in run("leaderboard").out
    record = record_of(voting, voting.rows, run_id="2026-9", metrics={"candidates": candidates})
    corrected = Score(7, 9, rule="bird", variant="corrected", title="On corrected golds")
    record = record.model_copy(update={"scores": {**record.scores, "corrected": corrected}})
    warehouse.finish(record)
    lines = run("leaderboard").out
    assert "77.78 % (7 of 9)" in lines and "85.00 % (8.5 of 10)" in lines and "corrected golds" in lines
    file = tmp_path / "board.html"
    best = run("leaderboard", "--json", "--html", str(file)).json["boards"][0]["ranked"][0]["run"]
    assert best["scores"]["corrected"]["total"] == 9
    assert best["metrics"]["candidates"]["pass@3"]["correct"] == 8.5
    text = Page(file.read_text(encoding="utf-8")).text
    assert "On corrected golds 77.78 % (7 of 9)" in text and "pass@k 85.00 % (8.5 of 10), k = 3" in text


def test_questions_that_are_not_scored_are_said(home: Home) -> None:
    def without(run_: RunRecord, unscored: int) -> RunRecord:
        lost = [replace(row, executable=False) for row in run_.rows[:unscored]]
        return run_.model_copy(update={"rows": (*lost, *run_.rows[unscored:])})

    warehouse, remark = Warehouse(home.warehouse), "questions are not scored: the database or gold is missing"
    keep(warehouse, [a_run("dac", 9)])
    assert "not scored" not in run("leaderboard").out + Page(rendered(leaderboard(warehouse))).text
    keep(warehouse, [without(a_run("dac", 9), 3)])
    for text in (run("leaderboard").out, Page(rendered(leaderboard(warehouse))).text):
        assert f"3 of 10 {remark}" in text
    keep(warehouse, [without(a_run("dac", 9), 3), without(a_run("few-shot", 9), 2)])
    for text in (run("leaderboard").out, Page(rendered(leaderboard(warehouse))).text):
        assert f"2 to 3 of 10 {remark}" in text
    assert run("leaderboard", "--json").json["boards"][0]["ranked"][0]["run"]["total"] == 8


def test_the_page_links_to_the_pages_of_runs_that_there_are(home: Home) -> None:
    kept = keep(Warehouse(home.warehouse), of_seven())
    home.reports.mkdir()
    page = f"{kept[4].run_id}.html"
    (home.reports / page).touch()
    file = write_leaderboard(leaderboard(Warehouse(home.warehouse)), home)
    links = [value for name, value in Page(file.read_text(encoding="utf-8")).attributes if name == "href"]
    assert links == [page]


def test_the_page_says_that_others_are_as_good_as_the_first(boards: Boards) -> None:
    page = Page(rendered(boards(a_run("dac", 7), a_run("rsl-sql", 7), a_run("few-shot", 5))))
    assert "and 1 other with 70.00 %, not significantly better than 1 other" in page.text
    assert page.text.count("1 =") == 2 and "3 =" not in page.text


def test_runs_that_differ_significantly_share_no_letter_and_those_with_one_of_the_best_are_tied_with_it(
    boards: Boards,
) -> None:
    (board,) = boards(a_run("dac", 9), a_run("rsl-sql", 8), a_run("few-shot", 0))
    assert [each.letters for each in board.ranked] == ["a", "a", "b"]
    assert "not significantly better than 1 other" in run("leaderboard").out
    ranked = zip(board.ranked, ("ab", "b", "c"), strict=True)
    page = rendered([replace(board, ranked=tuple(replace(row, letters=letters) for row, letters in ranked))])
    assert "not significantly better than 1 other" in page


def test_the_page_and_a_comparison_say_why_they_differ(boards: Boards) -> None:
    runs = [a_run("dac", 10), a_run("rsl-sql", 4), *(a_run(name, 9) for name in ("few-shot", "zero-shot"))]
    (found,) = boards(*runs)
    words = " ".join(run("leaderboard").out.split())
    assert "6 exact McNemar tests on the same questions, one of each pair, p adjusted" in words
    first, last = found.ranked[0], found.ranked[-1]
    assert set(first.letters) & set(last.letters)
    compared = " ".join(run("compare", last.run.run_id, first.run.run_id).out.split())
    assert "dac beats rsl-sql" in compared
    assert "The leaderboard and sweeps adjust p for all pairs of their runs (Holm)" in compared


def test_nothing_to_rank_is_said(boards: Boards) -> None:
    assert run("leaderboard", "--json").json == {"boards": []}
    boards(*of_seven()[:1])
    run("leaderboard", "--benchmark", "demi").assert_refused('Did you mean "demo"')
