"""Processes that die or are stopped: the same command continues, to the table of an undisturbed run."""

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM

import pytest
from mlflow import MlflowClient

from tasks.results.warehouse.runs import Warehouse
from tests.promises.test_secrets import CANARY
from tests.support.command_line import CommandLine, finish
from tests.support.counting import Count
from tests.support.death import LOGGING, Deaths, moment, same
from tests.support.fake_openai import FakeOpenAI, error
from tests.support.killed import Series, evaluate_with_failures, kinds

pytestmark = pytest.mark.slow

ENDS = ((SIGKILL,), (SIGSTOP, SIGCONT, SIGKILL), (SIGTERM,), (SIGHUP,), (SIGINT, SIGINT))
"""SIGHUP: the terminal closes; SIGINT: Ctrl-C."""
KILLS = {"re-run": 1, "night": 1, "clean": 1}


@pytest.mark.promise("death")
def test_the_same_command_continues_after_any_death(
    demo: CommandLine,
    built_demo: Path,
    backbone_file: str,
    model: FakeOpenAI,
    count: Count,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model.latency = 0.15
    with Path(backbone_file).open("a", encoding="utf-8") as file:
        file.write("api_key_env: CANARY_KEY\n")
    proxy = f"http://user:{CANARY}@127.0.0.1:9"
    secrets = {"CANARY_KEY": CANARY, "HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.1"}
    demo.environment = {**demo.environment, **secrets}
    model.script(error(500, f"Key {CANARY} of {proxy} met a fault"))
    arguments = ("evaluate", "--backbone", backbone_file, "--limit", "4", "--json", "--pipeline", "rsl-sql")
    undisturbed = demo.run(*arguments)
    requests = len(model.requests)
    model.requests.clear()
    shutil.rmtree(demo.home)
    shutil.copytree(built_demo, demo.home)
    deaths = Deaths(demo, model, arguments)
    rng = random.Random(11)
    for how in ENDS:
        with count.fault(" ".join(each.name for each in how)):
            deaths.die(how, moment(rng, requests // len(ENDS)))
    last = deaths.finish()
    assert last.code == undisturbed.code == 0, last.err
    assert same(last) == same(undisturbed)
    count.answers(lost=deaths.lost, twice=deaths.twice)
    assert model.requests[-1].headers["authorization"] == f"Bearer {CANARY}"
    printed = (undisturbed.out, undisturbed.err, last.out, last.err)
    assert CANARY not in "".join((*printed, *deaths.said, *deaths.titles))
    assert any("sandbox.worker" in title for title in deaths.titles)
    places = [demo.home, *tmp_path_factory.getbasetemp().glob("prefect-server*")]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert len(files) > 10 and [path for path in files if CANARY.encode() in path.read_bytes()] == []
    assert deaths.in_flight <= len(ENDS) * 4
    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    ends = [run.info.status for run in runs]
    # A run may end before it is killed, and on a fresh folder MLflow's run begins seconds after the first call.
    assert set(ends) <= {"FINISHED", "KILLED"} and "FINISHED" in ends


@pytest.mark.promise("killed")
def test_reruns_nights_and_cleanings_continue_after_sigkill(
    crosscheck: CommandLine,
    built_demo: Path,
    backbone_file: str,
    model: FakeOpenAI,
    count: Count,
    tmp_path: Path,
) -> None:
    model.latency = 0.2
    there = kinds(built_demo, tmp_path, backbone_file, crosscheck.home, 3)
    evaluate_with_failures(crosscheck, model, there["evaluation"], tmp_path / "evaluated", 3)
    rng = random.Random(11)
    for kind, kills in KILLS.items():
        # Logging is killed in the long series: it may end here before its moment has come.
        killed = replace(there[kind], phases=tuple(each for each in there[kind].phases if each != LOGGING))
        series = Series(killed, killed.line(crosscheck.home, crosscheck.environment), model)
        outcome = series.kill(rng, kills)
        for number in range(kills):
            with count.fault(f"{kind}, kill {number}"):
                assert outcome.difference == ""
        count.answers(lost=outcome.deaths.lost, twice=outcome.deaths.twice)
        assert outcome.kills or kind == "clean", "each ended before it was killed"


@pytest.mark.promise("together")
def test_evaluations_at_once_on_the_same_stores_find_what_each_finds_alone(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, count: Count
) -> None:
    model.latency = 3.0  # so that the requests of all three are in flight together
    pipelines = ("few-shot", "few-shot", "zero-shot")
    words = ("evaluate", "--backbone", backbone_file, "--limit", "4", "--json", "--pipeline")
    processes = [demo.start(*words, pipeline) for pipeline in pipelines]
    found = [finish(process) for process in processes]
    for pipeline, ran in zip(pipelines, found, strict=True):
        with count.fault(f"{pipeline} beside two others"):
            assert ran.code == 0 and "Traceback" not in ran.err, ran.err
            assert ran.json["total"] == ran.json["answered"] == 4
    assert same(found[0]) == same(found[1])
    runs = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert {run.status for run in runs} == {"complete"} and len(runs) == 3
    asked = Counter(model.prompts)
    stored = Deaths(demo, model, words).stored()
    # The two of one pipeline both pay for what they send at the same moment; nothing else is bought twice.
    count.answers(lost=8 - len(stored), twice=sum(times - 1 for times in asked.values()))
    assert len(asked) == 8 and max(asked.values()) <= 2
    model.requests.clear()
    assert demo.run(*words, "few-shot", "--again").code == 0
    assert model.requests == []
