"""Processes that die or are stopped: the same command continues, to the table of an undisturbed run."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any
from unittest import mock

import pytest
from mlflow import MlflowClient

from flows.evaluate.working_folder import open_folder
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Keep
from tasks.settings.home import Home
from tests.flows.cli.old_folder import make_folder
from tests.promises.test_secrets import CANARY
from tests.support.command_line import CommandLine, Ran, finish, start_module
from tests.support.counting import Count
from tests.support.death import ASKING, BEFORE, SCORING, Deaths, Moment, same
from tests.support.demo import demo_questions
from tests.support.fake_openai import Body, FakeOpenAI, error

pytestmark = pytest.mark.slow

ENDS = ((SIGKILL,), (SIGSTOP, SIGCONT, SIGKILL), (SIGTERM,), (SIGHUP,), (SIGINT, SIGINT))
"""SIGHUP: the terminal closes; SIGINT: Ctrl-C."""


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
            deaths.die(how, Moment("", rng.randrange(requests // len(ENDS)), rng.random() * 0.3))
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


class NightLine(CommandLine):
    """Runs nights, each a process."""

    def start(self, *arguments: str) -> Any:
        return start_module("tests.support.night_process", arguments, self.all_of_environment, self.cwd)


@dataclass(frozen=True)
class Killed:
    """A kind of process that is killed.

    Attributes:
        arguments: what starts it, and continues it.
        folder: what its working folder is copied from.
        found: what it came to, from how its last process ended.
        phases: what it does; it is killed in one of them, at random.
        line: the class that starts it.
    """

    arguments: tuple[str, ...]
    folder: Path
    found: Callable[[Ran], Any]
    phases: tuple[str, ...] = (BEFORE, ASKING, SCORING)
    line: type[CommandLine] = CommandLine


@pytest.mark.promise("killed")
def test_reruns_nights_and_cleanings_continue_after_sigkill(
    crosscheck: CommandLine,
    built_demo: Path,
    backbone_file: str,
    model: FakeOpenAI,
    count: Count,
    tmp_path: Path,
) -> None:
    home, evaluated, old = crosscheck.home, tmp_path / "evaluated", tmp_path / "old"
    model.latency = 0.2
    evaluate_with_failures(crosscheck, built_demo, model, backbone_file)
    shutil.copytree(home, evaluated)
    with mock.patch.dict(os.environ):  # MLflow's client notes its store there
        make_folder(Home(old))
    clean = ("clean", "--keep", "30d", "--keep-runs", "1", "--rows", "--yes", "--json")
    night = (backbone_file, "3", "zero-shot", "few-shot")
    there = {
        "re-run": Killed(("rerun", "latest", "--json"), evaluated, same),
        "night": Killed(night, built_demo, of_night, line=NightLine),
        "clean": Killed(clean, old, lambda ran: left_in(home), ("removing", "shrinking")),
    }
    rng = random.Random(11)
    for kind, killed in there.items():

        def begin(killed: Killed = killed) -> Deaths:
            model.requests.clear()
            shutil.rmtree(home)
            shutil.copytree(killed.folder, home)
            return Deaths(killed.line(home, crosscheck.environment), model, killed.arguments)

        undisturbed = begin()
        ended = undisturbed.finish()
        assert ended.code == 0, ended.err
        wanted = killed.found(ended)
        requests = len({str(each.body["messages"]) for each in model.requests})
        phase = rng.choice(killed.phases)
        moment = Moment(phase, 0, rng.random() * undisturbed.took.get(phase, 0.5))
        if phase == ASKING:
            moment = Moment(phase, rng.randint(1, requests), rng.random() * model.latency)
        deaths = begin()
        deaths.conversations = requests
        with count.fault(kind):
            was_alive = deaths.die((SIGKILL,), moment)
            assert was_alive or kind == "clean", "it ended before it was killed"
            ended = deaths.finish()
            assert ended.code == 0, ended.err
            assert killed.found(ended) == wanted
        count.answers(lost=deaths.lost, twice=deaths.twice)


def evaluate_with_failures(line: CommandLine, built: Path, server: FakeOpenAI, backbone: str) -> None:
    """Evaluate three questions with a server that drops the connection on every second of them."""
    shutil.copytree(built, line.home, dirs_exist_ok=True)
    failing = [each["question"] for each in demo_questions(line.home)][:3:2]
    ordinary = server.answer

    def answer(body: Body) -> str:
        if any(text in body["messages"][-1]["content"] for text in failing):
            raise ConnectionError
        return ordinary(body)

    server.answer = answer
    ran = line.run("evaluate", "--backbone", backbone, "--limit", "3", "--json")
    server.answer = ordinary
    assert ran.code == 3, ran.err


def of_night(ran: Ran) -> Any:
    names = ("pipeline", "correct", "total", "retryable", "failures", "verdict", "baseline")
    entries = [entry["run"] | entry for entry in ran.json["entries"]]
    return [{name: entry[name] for name in names} for entry in entries]


def left_in(home: Path) -> Any:
    """Return what is left in a cleaned folder: the counts of its stores."""
    holdings = open_folder(Home(home), Keep(age="30d", runs=1, rows=True)).holdings()
    return {each.name: each.counts for each in holdings if each.name not in ("Prefect", "logs")}


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
