"""`crosscheck evaluate --repeats` as users run it: runs of a model behind a real API that does not repeat itself."""

import os
import signal
import time
from itertools import combinations

import pytest

from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI
from tests.support.gold_model import GoldModel
from tests.support.noisy_model import NoisyModel

pytestmark = pytest.mark.slow


QUESTIONS, CONCURRENCY = 16, 8


@pytest.fixture
def noisy(demo: CommandLine, model: FakeOpenAI) -> NoisyModel:
    model.answer = NoisyModel(GoldModel(demo.home), 0.27)
    return model.answer


def command(backbone: str, *more: str) -> tuple[str, ...]:
    words = ("--backbone", backbone, "--pipeline", "few-shot", "--limit", str(QUESTIONS), "--json")
    return ("evaluate", *words, *more)


def evaluate(demo: CommandLine, backbone: str, *more: str) -> str:
    ran = demo.run(*command(backbone, *more))
    assert ran.code == 0, ran.err
    return str(ran.json["run_id"])


def stored(demo: CommandLine, run_id: str) -> RunRecord:
    return Warehouse(Home(demo.home).warehouse).read_run(run_id)


def test_repeats_are_new_samples_and_the_figures_are_theirs(
    demo: CommandLine, backbone_file: str, noisy: NoisyModel
) -> None:
    run_id = evaluate(demo, backbone_file)
    paid = noisy.calls
    ran = demo.run(*command(backbone_file, "--repeats", "3"))
    assert ran.code == 0, ran.err
    assert noisy.calls - paid == 3 * QUESTIONS  # no reply came from the cache
    found = ran.json["noise"]
    ids = [each["run_id"] for each in found["repeats"]]
    assert len(set(ids)) == 3 and run_id not in ids
    rights = [{row.question.id: row.final.correct["bird"] for row in stored(demo, each).rows} for each in ids]
    flips = [one[name] != other[name] for one, other in combinations(rights, 2) for name in one]
    assert found["flip_rate"] == pytest.approx(sum(flips) / len(flips)) and found["flip_rate"] > 0
    assert found["always_right"] == sum(all(right[name] for right in rights) for name in rights[0])
    assert stored(demo, ids[0]).tags.items() >= {"noise": run_id, "repeat": "1"}.items()
    again = demo.run(*command(backbone_file, "--repeats", "3"))
    assert (again.code, again.json["noise"]) == (0, found)
    assert "nothing is requested" in again.err
    assert noisy.calls - paid == 3 * QUESTIONS
    more = demo.run(*command(backbone_file, "--repeats", "4"))
    assert len(more.json["noise"]["repeats"]) == 4 and more.json["run_id"] == run_id
    assert noisy.calls - paid == 4 * QUESTIONS
    # Repeats are on no board, and are compared as one side.
    (board,) = demo.run("leaderboard", "--json").json["boards"]
    assert [row["run"]["run_id"] for row in (*board["ranked"], *board["not_ranked"])] == [run_id]
    ran = demo.run("compare", f"{run_id}:repeats", run_id, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["result"]["runs_a"], ran.json["result"]["runs_b"]) == (4, 1)


def test_a_budget_and_a_kill_stop_it_and_the_same_command_continues(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, noisy: NoisyModel
) -> None:
    run_id = evaluate(demo, backbone_file)
    cost, paid = stored(demo, run_id).cost.from_scratch_usd, noisy.calls
    assert cost
    repeats = command(backbone_file, "--repeats", "3")
    ran = demo.run(*repeats, "--budget", f"{0.5 * cost:.6f}")
    assert ran.code == 3
    assert "budget" in ran.json["problems"][0] and ran.json["noise"] is None
    assert f"Expected: {3 * QUESTIONS} calls" in ran.err and f"${3 * cost:.4f}"[:6] in ran.err, (
        "the estimate comes first"
    )
    assert "The estimate is above the budget" in ran.err and "same command" in ran.err
    assert 0 < noisy.calls - paid < QUESTIONS

    model.latency = 0.2
    process = demo.start(*repeats)
    while noisy.calls - paid < QUESTIONS + 9:  # in the second repeat
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    model.latency = 0.0
    rest = demo.run(*repeats)
    assert rest.code == 0, rest.err
    assert len(rest.json["noise"]["repeats"]) == 3
    assert noisy.calls - paid <= 3 * QUESTIONS + CONCURRENCY, "what was answered was not requested again"

    # the last calls of the fourth repeat spend the budget, and none of the fifth is sent
    ran = demo.run(*command(backbone_file, "--repeats", "5"), "--budget", f"{0.9 * cost:.6f}")
    assert ran.code == 3 and "Repeat 5" in ran.json["problems"][0] and "budget" in ran.json["problems"][0]
    assert len(ran.json["noise"]["repeats"]) == 4


BAD_INPUT = (
    (("--repeats", "1"), "2<=x<=100"),
    (("--budget", "5"), "add --repeats N"),
    (("--repeats", "2", "--budget", "5", "--set", "backbone.prices=null"), "budget"),
)


def test_bad_input_and_runs_without_noise_are_refused_before_anything_is_paid(
    demo: CommandLine, backbone_file: str, noisy: NoisyModel
) -> None:
    for arguments, message in BAD_INPUT:
        demo.run(*command(backbone_file, *arguments)).assert_refused(message)
        assert noisy.calls == 0
    oracle = ("--pipeline", "dac", "--limit", "3", "--set", "pipeline.dac.oracle=both")
    ran = demo.run("evaluate", *oracle, "--repeats", "2")
    assert ran.code == 2 and "saw parts of the gold SQL" in ran.err
