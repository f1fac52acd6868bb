"""Runs an agent of the user's own, a Python function, on every question, and writes its answers as trajectories."""

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from flows.runtime.control import Control, Interrupted, until_done_or_stopped
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from flows.scoring.agent_database import SAMPLES, AgentDatabase
from flows.scoring.agent_file import answered_in, file_name, line_of, opened_file
from tasks.benchmarks.databases import no_database, open_benchmark_database
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, ExtensionError
from tasks.core.files import file_digest
from tasks.core.records import Question
from tasks.core.registry import described
from tasks.core.wording import counted
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.benchmark import BenchmarkSettings

Agent = Callable[[Question, AgentDatabase], Any]
"""Returns the SQL, None, or an object of Crosscheck's format for trajectories; or an awaitable of one."""
PAUSE_S = 1.0
"""Pause before the second attempt; it doubles with each."""
MOST = 1_000_000
"""Highest value of a setting, in its own unit."""
FIRST = 5
"""If this many questions fail at the start, the agent is not run on the others."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings of a run of an agent."""

    benchmark: BenchmarkSettings
    name: str  # of the agent
    questions: str | None  # which questions, as in an evaluation
    limit: int | None
    folders: Folders
    trajectories: Path | None  # file that is continued and kept; None: one in the working folder
    concurrency: int = 4  # questions at the same time
    timeout_s: float = 600.0  # seconds for one attempt at a question
    attempts: int = 3  # attempts at a question while the agent raises an exception

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ConfigurationError: a value is out of its range.
        """
        for name, least in (("concurrency", 1), ("attempts", 1), ("timeout_s", 0.001)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MOST:
                raise ConfigurationError(f"{name}={value!r}: it must be a number from {least:g} to {MOST:,}.")


def run_agent(agent: Agent, settings: AgentSettings, control: Control) -> Path:
    """Run an agent on every selected question, and return the file of its trajectories.

    Each answer is written as soon as it arrives; the same call continues a file that is not complete. A file of the
    user's own is always continued: the agent is run on the questions that it lacks, and on those whose attempts all
    failed.

    Raises:
        CrosscheckError: bad input, or the first questions all fail.
        Interrupted: the user stopped it.
    """
    if not callable(agent):
        raise ConfigurationError(f"The agent must be a function of a question and a database, not {agent!r}.")
    with watched(settings.folders.home):
        control.progress.step(f"Reading {settings.benchmark.name}")
        benchmark = settings.folders.benchmark(settings.benchmark, control.progress)
        questions = select(benchmark.questions, limit=settings.limit, ids=settings.questions)
        present = [each for each in questions if each.database_id not in benchmark.missing]
        if not present:
            raise no_database(benchmark, [each.database_id for each in questions])
        names = dict.fromkeys(each.database_id for each in present)
        databases = {name: open_benchmark_database(benchmark, name, SAMPLES) for name in names}
        stem = f"{file_name(settings.benchmark.name)}@{file_name(settings.name)}"
        file = settings.trajectories or settings.folders.home.agents / f"{stem}.jsonl"
        with opened_file(file) as output:
            known = answered_in(file, (each.id for each in present), control)
            agent_run = _AgentRun(agent, settings, control, databases, output)
            control.progress.questions(len(present), len(known))
            asyncio.run(agent_run.run([each for each in present if each.id not in known]))
            if control.stop.is_set():
                raise Interrupted(
                    f"stopped. The answers so far are in {file}: make the same call again to continue."
                )
            if agent_run.fatal:
                raise ExtensionError(agent_run.fatal)
            if settings.trajectories:
                return file
            # before the lock is released, so that no other call adds to a file that is complete
            return file.replace(file.with_stem(f"{file.stem}-{file_digest(file)[:12]}"))


class _AgentError(Exception):
    """An exception of the agent, described."""


@dataclass
class _AgentRun:
    """The run of an agent on the questions without an answer."""

    agent: Agent
    settings: AgentSettings
    control: Control
    databases: dict[str, Database]
    output: TextIO
    fatal: str = ""  # why the agent is not run on the others; "" if it is
    done: int = 0
    failed: int = 0
    _agent_loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    async def run(self, questions: list[Question]) -> None:
        """Run the agent on questions and write the answers; its awaitables run on one loop in a thread of their own."""
        self.control.loop = asyncio.get_running_loop()
        threading.Thread(target=self._agent_loop.run_forever, name="agents", daemon=True).start()
        queue = iter(questions)
        try:
            async with SqlWorkers() as workers:
                count = min(int(self.settings.concurrency), len(questions))
                tasks = [asyncio.create_task(self._work(queue, workers)) for _ in range(count)]
                await until_done_or_stopped(tasks, self.control)
        finally:
            self.control.loop = None
            ended = asyncio.run_coroutine_threadsafe(_cancel_all(), self._agent_loop)
            with suppress(TimeoutError):  # an agent may block its loop; the thread ends with the program
                await asyncio.wait_for(asyncio.wrap_future(ended), 1.0)
            self._agent_loop.call_soon_threadsafe(self._agent_loop.stop)

    async def _work(self, queue: Iterator[Question], workers: SqlWorkers) -> None:
        for question in queue:
            if self.fatal or self.control.stop.is_set():
                return
            line = await self._attempts(question, workers)
            self.output.write(json.dumps(line, ensure_ascii=True) + "\n")
            self.output.flush()
            self.done += 1
            self.failed += "failure" in line
            self.control.progress.answered(failed="failure" in line, calls=())
            if self.failed == self.done == FIRST:
                self.fatal = (
                    f"The agent failed on the first {FIRST} questions. The last failure: {line['failure']}"
                )

    async def _attempts(self, question: Question, workers: SqlWorkers) -> dict[str, Any]:
        """Run the agent on a question until it returns, and return the line of the file."""
        for attempt in range(1, int(self.settings.attempts) + 1):
            database = AgentDatabase(
                self.databases[question.database_id],
                workers,
                asyncio.get_running_loop(),
                self.settings.benchmark.timeout_s,
            )
            head = {"question_id": question.id, "database": question.database_id}
            try:
                future = self._start(question, database)
                answer = await asyncio.wait_for(asyncio.wrap_future(future), self.settings.timeout_s)
                return line_of(head, answer, database)
            except _AgentError as error:
                why = str(error)
            except TimeoutError:
                why = f"the agent did not answer within {self.settings.timeout_s:g} s"
            except Exception as error:
                why = described(error)
            finally:
                database.close("the time for this question is over")
            if attempt < self.settings.attempts:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
        tried = f" ({counted(int(self.settings.attempts), 'attempt')})"
        return head | {"turns": database.turns, "sql": None, "failure": f"{why}{tried}"}

    def _start(self, question: Question, database: AgentDatabase) -> "Future[Any]":
        """Call the agent in a thread of its own, which is left to itself where it exceeds its time."""
        future: Future[Any] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                found = self.agent(question, database)
                future.set_result(self._awaited(found) if inspect.isawaitable(found) else found)
            except BaseException as error:  # also SystemExit, and those that mean something else to a future
                future.set_exception(_AgentError(described(error)))

        threading.Thread(target=call, name=f"agent {question.id}", daemon=True).start()
        return future

    def _awaited(self, value: Awaitable[Any]) -> Any:
        """Await a value on the agents' loop, and cancel it where it exceeds its time."""
        running = asyncio.run_coroutine_threadsafe(_await(value), self._agent_loop)
        try:
            return running.result(self.settings.timeout_s + 1)  # the question's own deadline is over before
        finally:
            running.cancel()


async def _await(value: Awaitable[Any]) -> Any:
    return await value


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
