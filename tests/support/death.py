"""Commands that are killed and given again, and what that cost: answers lost, stored answers asked for again."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tasks.backbone.cache.store import open_reply_cache
from tests.support.agent_model import said, said_in
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI, Received

SAME = ("ex", "scores", "stages", "links", "answered", "questions")
"""What of a run's JSON object must be that of an undisturbed run."""
BEFORE, ASKING, SCORING, LOGGING = "before the first request", "asking", "scoring", "logging"
"""What a process that asks questions does. One that prints no steps, as a night, is scoring until its end."""
_SIGNS = {
    "questions, ": ASKING,
    "Logging to MLflow": LOGGING,
    "Removing from": "removing",
    "Shrinking": "shrinking",
}
"""What a process prints as it begins to do something."""


@dataclass(frozen=True)
class Moment:
    """When a process is killed.

    Attributes:
        phase: what it does then, as `Deaths.phase` says; "": anything.
        requests: how many requests it has sent by then.
        pause: seconds beyond that.
    """

    phase: str = ""
    requests: int = 0
    pause: float = 0.0


@dataclass
class Deaths:
    """A command with a working folder of its own, whose processes die.

    Attributes:
        command_line: runs it.
        server: the model.
        arguments: the command.
        replies: its reply cache; None: that of the working folder.
        conversations: how many different requests the command sends in all, as far as that is known.
        lost: answers that were in the reply cache and are there no more.
        twice: answers that were in the reply cache and were asked for again.
        in_flight: requests that were sent again and had not been stored.
        took: seconds that the last process spent in each phase.
        said: what the processes printed.
        titles: command lines of the processes, and the environments of those that run SQL, looked at twice a
            second.
    """

    command_line: CommandLine
    server: FakeOpenAI
    arguments: Sequence[str]
    replies: Path | str | None = None
    conversations: int = 0
    lost: int = 0
    twice: int = 0
    in_flight: int = 0
    took: dict[str, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    titles: set[str] = field(default_factory=set)
    _texts: dict[int, tuple[Received, str]] = field(default_factory=dict)

    def stored(self) -> set[str]:
        """Return the conversations whose replies are in the reply cache."""
        place = self.replies or self.command_line.home / "replies.sqlite"
        if isinstance(place, Path) and not place.exists():
            return set()
        with open_reply_cache(place) as cache:
            return {said(entry.request) for entry in cache.entries()}

    def die(self, how: Sequence[signal.Signals], moment: Moment) -> bool:
        """Start the command and send it signals, a second apart; return whether it was alive."""
        return self._run(moment, how)[0]

    def finish(self) -> Ran:
        """Run the command to its end."""
        return self._run(Moment("never"))[1]

    def phase(self, said: str, sent: int) -> str:
        """Return what a process does that has printed and sent this much."""
        found = max(_SIGNS, key=said.rfind)
        now = _SIGNS[found] if found in said else ASKING if sent else BEFORE
        if now in (BEFORE, ASKING) and found not in said and self.conversations and not self.not_asked:
            now = ASKING  # it prints no steps, and asks nothing because all is answered
        if now == ASKING and not self.server.in_flight:
            return SCORING if self.conversations and not self.not_asked else ASKING
        return now

    @property
    def not_asked(self) -> int:
        """How many of the command's requests were not sent yet, as far as their number is known."""
        return max(0, self.conversations - len({self._asked(each) for each in self.server.requests}))

    def _run(self, moment: Moment, how: Sequence[signal.Signals] = ()) -> tuple[bool, Ran]:
        stored, asked = self.stored(), len(self.server.requests)
        process = self.command_line.start(*self.arguments)
        out, err, alive, at = b"", b"", False, None
        self.took, seen, look = {}, time.monotonic(), 0.0
        try:
            while process.poll() is None:
                more_out, more_err = _printed(process)
                out, err = out + more_out, err + more_err
                sent, now = len(self.server.requests) - asked, time.monotonic()
                phase = self.phase(err.decode(errors="replace"), sent)
                self.took[phase] = self.took.get(phase, 0.0) + now - seen
                seen = now
                if now >= look:
                    self._look_at(process.pid)
                    look = now + 0.5
                if at is None and moment.phase in ("", phase) and sent >= moment.requests:
                    at = now + moment.pause
                if at is not None and now >= at and not alive:
                    alive = True
                    _kill(process, how)
            last_out, last_err = process.communicate(timeout=300)
        except BaseException:
            process.kill()
            raise
        ran = Ran(process.returncode or 0, out.decode() + last_out, err.decode() + last_err)
        self.said += [ran.out, ran.err]
        assert "Traceback" not in ran.out + ran.err, ran.err
        self._count(stored, asked)
        return alive, ran

    def _look_at(self, pid: int) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.Error):
                    self.titles.update(each.cmdline())
                    if "tasks.database.sandbox.worker" in each.cmdline():
                        self.titles.update(map(str, each.environ().items()))

    def _count(self, stored: set[str], asked: int) -> None:
        now = [self._asked(each) for each in self.server.requests[asked:]]
        before = {self._asked(each) for each in self.server.requests[:asked]}
        self.twice += sum(each in stored for each in now)
        self.in_flight += sum(each in before - stored for each in now)
        self.lost += len(stored - self.stored())

    def _asked(self, received: Received) -> str:
        """Return what a request asks; it is read once, as the requests are looked at many times a second."""
        if id(received) not in self._texts:
            self._texts[id(received)] = received, said_in(received.body)
        return self._texts[id(received)][1]


def same(ran: Ran) -> dict[str, Any]:
    """Return what of a run must not depend on deaths."""
    return {name: ran.json[name] for name in SAME}


_Process = Any
"""`subprocess.Popen[str]`, or what is forked in its place."""


def _kill(process: _Process, how: Sequence[signal.Signals]) -> None:
    for number, each in enumerate(how):
        time.sleep(1.0 if number else 0.0)
        if process.poll() is None:
            process.send_signal(each)


def _printed(process: _Process) -> tuple[bytes, bytes]:
    """Return what a process has printed on each stream since, after waiting a little for it."""
    streams = [process.stdout, process.stderr]
    ready, _, _ = select.select(streams, [], [], 0.02)
    found = [os.read(each.fileno(), 65536) if each in ready else b"" for each in streams]
    if ready and not any(found):  # both are closed, and the process is about to end
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    return found[0], found[1]
