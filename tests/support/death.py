"""Commands that are killed and given again, and what that cost: answers lost, stored answers asked for again."""

import json
import random
import signal
import sqlite3
import subprocess
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI, Received

SAME = ("ex", "rules", "stages", "linking", "answered", "questions")
"""What of a run's JSON object must be that of an undisturbed run."""


@dataclass
class Deaths:
    """A command with a working folder of its own, whose processes die.

    Attributes:
        command_line: runs it.
        server: the model.
        arguments: the command.
        lost: answers that were in the reply cache and are there no more.
        twice: answers that were in the reply cache and were asked for again.
        in_flight: requests that were sent again and had not been stored.
        said: what the processes printed.
    """

    command_line: CommandLine
    server: FakeOpenAI
    arguments: Sequence[str]
    lost: int = 0
    twice: int = 0
    in_flight: int = 0
    said: list[str] = field(default_factory=list)

    def stored(self) -> set[str]:
        """Return the conversations whose replies are in the reply cache."""
        path = self.command_line.home / "replies.sqlite"
        if not path.exists():
            return set()
        with closing(sqlite3.connect(path)) as connection:
            rows = (
                connection.execute("SELECT request FROM reply").fetchall() if _has_table(connection) else []
            )
        return {_text(json.loads(zlib.decompress(packed))["messages"]) for (packed,) in rows}

    def die(self, how: Sequence[signal.Signals], after: int, pause: float = 0.0) -> bool:
        """Start the command and send it signals, a second apart; return whether it was alive.

        Args:
            how: the signals.
            after: number of requests that the first one waits for.
            pause: seconds beyond that.
        """
        stored, asked = self.stored(), len(self.server.requests)
        process = self.command_line.start(*self.arguments)
        try:
            while process.poll() is None and len(self.server.requests) - asked < after:
                time.sleep(0.01)
            time.sleep(pause)
            alive = process.poll() is None
            for number, each in enumerate(how):
                time.sleep(1.0 if number else 0.0)
                if process.poll() is None:
                    process.send_signal(each)
            out, err = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.said += [out, err]
        assert "Traceback" not in out + err, err
        self._count(stored, asked)
        return alive

    def finish(self) -> Ran:
        """Run the command to its end."""
        stored, asked = self.stored(), len(self.server.requests)
        ran = self.command_line.run(*self.arguments)
        self._count(stored, asked)
        return ran

    def _count(self, stored: set[str], asked: int) -> None:
        now = [_asked(each) for each in self.server.requests[asked:]]
        before = {_asked(each) for each in self.server.requests[:asked]}
        self.twice += sum(each in stored for each in now)
        self.in_flight += sum(each in before - stored for each in now)
        self.lost += len(stored - self.stored())


def moment(rng: random.Random, requests: int) -> tuple[int, float]:
    """Return a random moment: after so many of a run's requests, and a pause beyond."""
    return rng.randrange(requests), rng.random() * 0.3


def same(ran: Ran) -> dict[str, Any]:
    """Return what of a run must not depend on deaths."""
    return {name: ran.json[name] for name in SAME}


def _asked(received: Received) -> str:
    return _text([[turn["role"], turn["content"]] for turn in received.body["messages"]])


def _text(messages: Any) -> str:
    return json.dumps(messages)


def _has_table(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'reply'").fetchone())
