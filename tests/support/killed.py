"""What the long series of deaths kills: commands and flows that are given again, each with what it must come to."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.settings.home import Home
from tests.flows.storage.old_folder import make_folder
from tests.support.command_line import CommandLine, Ran
from tests.support.death import same

NIGHT = """
import asyncio, json, sys
from flows.orchestration.settings import CLIENT, apply
apply(CLIENT)
from flows.deployed.forms import Matrix
from flows.nights.flow import nightly
matrix = Matrix(backbones=[sys.argv[1]], pipelines=["zero-shot", "few-shot"], limit=8)
asyncio.run(nightly(matrix, ask_again=False, night="night", return_state=True))
print(open(sys.argv[2] + "/nights/night.json", encoding="utf-8").read())
"""


class NightLine(CommandLine):
    """A night as a process: the flow itself, as a worker runs it."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", NIGHT, *arguments]

    def start(self, *arguments: str) -> Any:
        import subprocess

        return subprocess.Popen(
            self.command(*arguments), cwd=self.cwd, env=self.all_of_environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


@dataclass(frozen=True)
class Killed:
    """A kind of process that is killed.

    Attributes:
        arguments: what starts it, and continues it.
        found: what it came to, from how its last process ended.
        prepare: makes the working folder before the first try.
        line: the class that starts it.
    """

    arguments: tuple[str, ...]
    found: Callable[[Ran], Any]
    prepare: Callable[[Path], None]
    line: type[CommandLine] = CommandLine


def kinds(built: Path, place: Path, backbone: str, home: Path) -> Mapping[str, Killed]:
    """Return every kind; re-runs begin with what `place / "evaluated"` holds by then."""
    old = place / "old"
    make_folder(Home(old))
    evaluate = ("evaluate", "--backbone", backbone, "--limit", "8", "--json")
    return {
        "evaluation": Killed(evaluate, same, _copies(built)),
        "re-run": Killed(("rerun", "latest", "--only", "wrong", "--json"), same, _copies(place / "evaluated")),
        "night": Killed((backbone, str(home)), _night, _copies(built), NightLine),
        "clean": Killed(
            ("clean", "--keep", "30d", "--keep-runs", "1", "--yes", "--json"), lambda _: _left(home), _copies(old)
        ),
    }  # fmt: skip


def _copies(source: Path) -> Callable[[Path], None]:
    return lambda home: shutil.copytree(source, home, dirs_exist_ok=True) and None


def _night(ran: Ran) -> Any:
    return [
        {name: entry[name] for name in ("pipeline", "ex", "unanswered", "failures", "standing")}
        for entry in json.loads(ran.out)["evaluations"]
    ]


def _left(home: Path) -> Any:
    """Return what is left in a cleaned folder: the counts of its stores."""
    import os

    from flows.storage.display import as_object
    from flows.storage.folder import open_folder
    from tasks.settings.night import Keep

    os.environ.pop("MLFLOW_TRACKING_URI", None)
    folder = open_folder(Home(home), Keep(age="30d", runs=1, rows=True), replies=False)
    found = as_object(folder, folder.holdings())
    return {
        store["name"]: store["counts"]
        for store in found["stores"]
        if store["name"] not in ("Prefect", "logs")
    }
