"""Efficiency: the published formulas on given times, and real measurements in a worker."""

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.run_times import Measured, RightAnswer, Timings, measure_efficiency
from tasks.scoring.metric import ScoredRun
from tasks.scoring.metrics.efficiency import efficiency, reward_of, score_efficiency, ves_of
from tests.tasks.scoring.samples import score

GRADES = {"a": "simple", "b": "moderate", "c": "moderate"}


def timings(*trials: tuple[float, ...], steps: float | None = None) -> Timings:
    return Timings(trials, trials, steps)


@pytest.mark.parametrize(
    ("ratio", "reward"),
    [(5.0, 1.25), (2.0, 1.25), (1.99, 1.0), (1.0, 1.0), (0.99, 0.75), (0.5, 0.75), (0.25, 0.5), (0.2, 0.25)],
)
def test_rewards_step_with_the_ratio(ratio: float, reward: float) -> None:
    assert reward_of([ratio]) == reward


def test_a_ratio_far_from_the_others_is_dropped_and_none_where_there_is_no_spread() -> None:
    assert ves_of([1.0] * 10) == 1.0
    assert ves_of([2.25]) == 1.5
    assert ves_of([1.0] * 30 + [100.0]) == 1.0


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_ves_lies_between_the_roots_of_the_extremes(ratios: list[float]) -> None:
    assert sqrt(min(ratios)) * 0.999 <= ves_of(ratios) <= sqrt(max(ratios)) * 1.001


def test_wrong_answers_count_zero_and_trials_give_the_spread() -> None:
    found = score_efficiency(
        [timings((1.0,), (4.0,), steps=4.0), timings((1.0,), (1.0,), steps=1.0)], questions=4
    )
    assert (found["questions"], found["measured"]) == (4, 2)
    assert found["ves"] == {"mean": 62.5, "low": 50.0, "high": 75.0}
    assert found["r_ves"] is not None
    assert found["r_ves"]["low"] == 50.0
    assert found["r_ves"]["high"] == pytest.approx(25 * (sqrt(1.25) + 1))
    assert found["ves_steps"] == 75.0


def test_nothing_right_scores_zero_and_what_was_not_asked_or_counted_is_unknown() -> None:
    assert score_efficiency([], questions=3)["ves"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    nothing = efficiency.of(ScoredRun("bird", [score("a")], {}, measured={"efficiency": Measured({}, 9.0)}))
    assert nothing and nothing.lines == ("Efficiency over 1 question: no right answer was timed",)
    assert score_efficiency([], questions=0)["ves"] is None
    assert score_efficiency([], questions=0)["ves_steps"] is None
    assert score_efficiency([timings((1.0,), steps=1.0), timings((1.0,))], questions=2)["ves_steps"] is None


async def test_the_steps_score_repeats_exactly(workers: SqlWorkers, shop: Database) -> None:
    queries = [
        ("SELECT name FROM item", "SELECT name FROM item"),
        ("SELECT count(*) FROM item, item AS b, item AS c", "SELECT 64"),
        ("SELECT 1", "SELECT nope"),
    ]
    answers = [RightAnswer(str(place), shop, gold, sql) for place, (gold, sql) in enumerate(queries)]
    told: list[int] = []
    runs = [
        await measure_efficiency(workers, answers, trials=2, repeats=3, timeout_s=5, on_measured=told.append)
        for _ in range(2)
    ]
    assert told == [*range(1, 7)] * 2
    assert [list(run.timings) for run in runs] == [["0", "1"]] * 2
    assert [len(trial) for trial in runs[0].timings["0"].executed] == [3, 3]
    first, second = (score_efficiency(list(run.timings.values()), 4) for run in runs)
    assert first["ves_steps"] == second["ves_steps"]
    assert first["ves_steps"] is not None and first["ves_steps"] > 50
    assert first["measured"] == 2
    assert first["ves"] is not None
    assert 0 < first["ves"]["low"] <= first["ves"]["mean"] <= first["ves"]["high"]


def test_a_median_is_not_moved_by_one_slow_moment() -> None:
    steady, disturbed = timings((1.0,) * 5), timings((1.0, 1.0, 1.0, 1.0, 40.0))
    assert (
        score_efficiency([steady], 1)["ves_median"] == score_efficiency([disturbed], 1)["ves_median"] == 100
    )
    assert score_efficiency([disturbed], 1)["r_ves_median"] == 100
    spread = score_efficiency([disturbed], 1)["ves"]
    assert spread is not None and spread["mean"] > 200


def test_wrong_answers_and_difficulties_are_in_the_denominators() -> None:
    rows = [score(name, "bird" if name != "c" else "", difficulty=grade) for name, grade in GRADES.items()]
    measured = {"a": timings((1.0, 1.0), steps=1.0), "b": timings((4.0, 4.0), steps=4.0)}
    run = ScoredRun("bird", rows, {}, measured={"efficiency": Measured(measured, 0.2)})
    found = efficiency.of(run)
    assert found.data["ves"]["mean"] == pytest.approx(100)  # (1 + 2 + 0) / 3
    assert found.data["by_difficulty"]["simple"]["ves"]["mean"] == 100
    assert found.data["by_difficulty"]["moderate"]["ves"]["mean"] == 100  # (2 + 0) / 2
    assert found.by_question == {"a": 100.0, "b": pytest.approx(100 * sqrt(1.25)), "c": 0.0}
    assert "busy" not in " ".join(found.lines or ())
    busy = efficiency.of(replace(run, measured={"efficiency": Measured(measured, 4.0)}))
    assert busy is not None and "the machine was busy" in " ".join(busy.lines or ())


def test_ves_is_of_executing_and_ves_fetched_and_r_ves_of_fetching_too() -> None:
    found = score_efficiency([Timings(fetched=((4.0,),), executed=((1.0,),))], 1)
    assert found["ves"] and found["ves_fetched"] and found["r_ves"]
    assert (found["ves"]["mean"], found["ves_fetched"]["mean"]) == (100, 200)
    assert found["r_ves"]["mean"] == pytest.approx(100 * sqrt(1.25))
    assert (found["ves_median"], found["ves_fetched_median"]) == (100, 200)


async def test_rows_that_are_not_fetched_do_not_count_for_ves(workers: SqlWorkers, shop: Database) -> None:
    # both give their first row at once; the gold goes on to 64 times as many rows
    many = "SELECT a.name FROM item a, item b, item c, item d, item e, item f"
    answers = [RightAnswer("1", shop, many, f"{many} LIMIT 1")]
    found = score_efficiency(
        list((await measure_efficiency(workers, answers, timeout_s=5)).timings.values()), 1
    )
    assert found["ves_median"] and found["ves_fetched_median"]
    assert found["ves_fetched_median"] > 2 * found["ves_median"]
