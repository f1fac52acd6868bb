"""What is killed: processes that are given again, each kind with what it must come to."""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any
from unittest import mock

from flows.evaluate.working_folder import open_folder
from tasks.settings.choices import Keep
from tasks.settings.home import Home
from tests.flows.cli.old_folder import make_folder
from tests.support.command_line import CommandLine, Ran, start_module
from tests.support.death import ASKING, BEFORE, LOGGING, SCORING, Deaths, Moment, same
from tests.support.demo import demo_questions
from tests.support.fake_openai import Body, FakeOpenAI

CLEANING = ("removing", "shrinking")


class NightLine(CommandLine):
    """Runs nights, each a process."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.support.night_process", *arguments]

    def start(self, *arguments: str) -> Any:
        return start_module("tests.support.night_process", arguments, self.all_of_environment, self.cwd)


@dataclass(frozen=True)
class Killed:
    """A kind of process that is killed.

    Attributes:
        arguments: what starts it, and continues it.
        found: what it came to, from how its last process ended.
        prepare: makes the working folder before the first try.
        line: the class that starts it.
        phases: what it does, so that each is met by some kills.
    """

    arguments: tuple[str, ...]
    found: Callable[[Ran], Any]
    prepare: Callable[[Path], None]
    line: type[CommandLine] = CommandLine
    phases: tuple[str, ...] = (BEFORE, ASKING, SCORING, LOGGING)


def kinds(built: Path, place: Path, backbone: str, home: Path, limit: int) -> Mapping[str, Killed]:
    """Return every kind but shards; re-runs begin with what `place / "evaluated"` holds by then."""
    old = place / "old"
    evaluate = ("evaluate", "--backbone", backbone, "--limit", str(limit), "--json")
    clean = ("clean", "--keep", "30d", "--keep-runs", "1", "--rows", "--yes", "--json")

    def old_folder(home: Path) -> None:
        if not old.exists():
            with mock.patch.dict(os.environ):  # MLflow's client notes its store there
                make_folder(Home(old))
        shutil.copytree(old, home, dirs_exist_ok=True)

    night = (backbone, str(limit), "zero-shot", "few-shot")
    return {
        "evaluation": Killed(evaluate, same, _copies(built)),
        "re-run": Killed(("rerun", "latest", "--json"), same, _copies(place / "evaluated")),
        "night": Killed(night, _night, _copies(built), NightLine, (BEFORE, ASKING, SCORING)),
        "clean": Killed(clean, lambda ran: _left(home), old_folder, phases=CLEANING),
    }


class Series:
    """The series of one kind: what an undisturbed process comes to, and what killed ones did."""

    def __init__(self, killed: Killed, line: CommandLine, server: FakeOpenAI) -> None:
        self.killed = killed
        self.line = line
        self.server = server
        self.begin()
        undisturbed = self._deaths()
        ended = undisturbed.finish()
        assert ended.code == 0, ended.err
        self.wanted = killed.found(ended)
        self.took, self.requests = undisturbed.took, len(server.requests)
        self.conversations = len(set(map(str, (each.body["messages"] for each in server.requests))))

    def begin(self) -> None:
        """Make the working folder anew."""
        self.server.requests.clear()
        shutil.rmtree(self.line.home, ignore_errors=True)
        self.killed.prepare(self.line.home)

    def kill(self, rng: random.Random, times: int) -> "Outcome":
        """Kill a process several times, each time giving the same command again, and continue it to its end."""
        self.begin()
        deaths = self._deaths()
        kills = sum(deaths.die((SIGKILL,), self._moment(rng, deaths.not_asked)) for _ in range(times))
        ended = deaths.finish()
        return Outcome(deaths, kills, difference(ended, self.killed.found, self.wanted))

    def _moment(self, rng: random.Random, not_asked: int) -> Moment:
        """Return a random moment of a random phase that the next process comes to."""
        ended = self.requests and not not_asked
        gone = {ASKING, BEFORE} if self.killed.line is NightLine else {ASKING}
        phase = rng.choice([each for each in self.killed.phases if not ended or each not in gone])
        if phase == ASKING:
            return Moment(phase, rng.randint(1, not_asked), rng.random() * self.server.latency)
        return Moment(phase, 0, rng.random() * self.took.get(phase, 0.5))

    def _deaths(self) -> Deaths:
        known = getattr(self, "conversations", 0)
        return Deaths(self.line, self.server, self.killed.arguments, conversations=known)


@dataclass(frozen=True)
class Outcome:
    """What became of one process that was killed and continued.

    Attributes:
        deaths: what the deaths cost.
        kills: how many there were: a process may have ended before.
        difference: how its result differs from an undisturbed one's; "" if it does not.
    """

    deaths: Deaths
    kills: int
    difference: str


def difference(ended: Ran, found: Callable[[Ran], Any], wanted: Any) -> str:
    """Return how a result differs from the wanted one; "" if it does not."""
    if ended.code:
        return f"exit code {ended.code}: {ended.err[-800:]}"
    return "" if found(ended) == wanted else f"{json.dumps(found(ended))} and not {json.dumps(wanted)}"


def failing_on(questions: list[str], server: FakeOpenAI) -> Callable[[Body], str]:
    """Return what answers as a server does, and drops the connection on some questions."""
    ordinary = server.answer

    def answer(body: Body) -> str:
        if any(text in body["messages"][-1]["content"] for text in questions):
            raise ConnectionError
        return ordinary(body)

    return answer


def evaluate_with_failures(
    line: CommandLine, server: FakeOpenAI, killed: Killed, copy: Path, limit: int
) -> None:
    """Evaluate with a server that fails on every second question, and copy the folder for re-runs."""
    shutil.rmtree(line.home, ignore_errors=True)
    killed.prepare(line.home)
    texts = [each["question"] for each in demo_questions(line.home)][:limit]
    ordinary, server.answer = server.answer, failing_on(texts[::2], server)
    ran = line.run(*killed.arguments)
    server.answer = ordinary
    assert ran.code == 3, ran.err
    shutil.copytree(line.home, copy)


def _copies(source: Path) -> Callable[[Path], None]:
    return lambda home: shutil.copytree(source, home, dirs_exist_ok=True) and None


def _night(ran: Ran) -> Any:
    names = ("pipeline", "correct", "total", "retryable", "failures", "verdict", "baseline")
    entries = [entry["run"] | entry for entry in json.loads(ran.out)["entries"]]
    return [{name: entry[name] for name in names} for entry in entries]


def _left(home: Path) -> Any:
    """Return what is left in a cleaned folder: the counts of its stores."""
    folder = open_folder(Home(home), Keep(age="30d", runs=1, rows=True))
    return {
        holding.name: holding.counts
        for holding in folder.holdings()
        if holding.name not in ("Prefect", "logs")
    }
