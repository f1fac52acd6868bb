"""Runs an agent of the user's own, a Python function, on every question, and writes its answers as trajectories."""

import asyncio
import fcntl
import hashlib
import inspect
import json
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from flows.runtime.control import Control, Interrupted, until_done_or_stopped
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from tasks.backbone.replies.sql_text import read_sql
from tasks.benchmarks.databases import no_database, open_benchmark_database
from tasks.benchmarks.predictions.trajectory import sql_in
from tasks.benchmarks.predictions.trajectory_file import read_line, read_trajectories
from tasks.benchmarks.rows import parse_json
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, DataError, ExtensionError
from tasks.core.files import file_digest, read_file
from tasks.core.records import Execution, Question
from tasks.core.registry import described
from tasks.core.wording import counted
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema_text import SchemaView
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.choices import QuestionSelection
from tasks.settings.pipeline import PromptSettings

MAX_QUERIES = 1_000
"""Queries that an agent may execute about one question."""
SAMPLES = 3
"""Sample values of each column that the schema shows."""
ROWS = 20
"""Rows of a result that an agent gets where it asks for no other number."""
MAX_RESULT = 10_000
"""Characters of a result that are kept in the trajectory."""

PAUSE_S = 1.0
"""Pause before the second attempt; it doubles with each."""
MAX_NUMBER = 1_000_000
"""Highest value of a setting, in its own unit."""
FIRST = 5
"""If this many questions fail at the start, the agent is not run on the others."""


class AgentStoppedError(RuntimeError):
    """The agent's time for the question is over, or the user stopped the call: it gets no further result."""


class AgentDatabase:
    """A database that an agent reads about one question.

    SQL runs in Crosscheck's sandbox: in a worker process, with a deadline and limits of rows and memory, and what is
    no query is refused. Every SQL becomes a turn of the trajectory, unless the agent returns its own.

    Attributes:
        id: the benchmark's name of it.
        dialect: its SQL dialect, as sqlglot names it: "sqlite", "duckdb", "postgres", "mysql".
    """

    def __init__(
        self, database: Database, workers: SqlWorkers, loop: asyncio.AbstractEventLoop, timeout_s: float
    ) -> None:
        self.id = database.id
        self.dialect = database.dialect
        self._database = database
        self._workers = workers
        self._loop = loop
        self._timeout_s = timeout_s
        self._executed: list[tuple[str, Execution | None]] = []
        self._closed = ""

    @cached_property
    def schema(self) -> str:
        """Its tables as CREATE TABLE statements, with keys, descriptions of the columns and sample values."""
        prompt = PromptSettings(schema_format="create_table", sample_rows=SAMPLES)
        return SchemaView(self._database.schema, prompt, descriptions=True).render().schema

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns by table."""
        return {
            table.name: tuple(column.name for column in table.columns)
            for table in self._database.schema.tables
        }

    def execute(self, sql: str, rows: int = ROWS) -> Execution:
        """Execute a query and return its first rows, from any thread; SQL that fails is no exception, but its status.

        Raises:
            AgentStoppedError: the time for the question is over.
        """
        return self._start(sql, rows).result()

    async def execute_async(self, sql: str, rows: int = ROWS) -> Execution:
        """Execute a query without blocking the agent's event loop; otherwise as `execute`."""
        return await asyncio.wrap_future(self._start(sql, rows))

    def close(self, why: str) -> None:
        """Let no further query begin."""
        self._closed = why

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The executed queries, as turns of Crosscheck's format for trajectories."""
        return [{"tool_calls": [_call(sql, execution)]} for sql, execution in list(self._executed)]

    @property
    def failed(self) -> Mapping[str, bool]:
        """Whether each executed SQL failed."""
        return {sql.strip(): not execution.ok for sql, execution in list(self._executed) if execution}

    def _start(self, sql: str, rows: int) -> "Future[Execution]":
        """Begin a query on the loop of the workers; one too many has a result at once, an error."""
        if self._closed:
            raise AgentStoppedError(self._closed)
        if not isinstance(sql, str):
            raise TypeError(f"the SQL must be a text, not {type(sql).__name__}")
        if len(self._executed) >= MAX_QUERIES:
            refused: Future[Execution] = Future()
            reason = f"more than {MAX_QUERIES:,} queries about one question"
            refused.set_result(Execution("error", error=reason))
            return refused
        return asyncio.run_coroutine_threadsafe(self._run(sql, rows), self._loop)

    async def _run(self, sql: str, rows: int) -> Execution:
        index = len(self._executed)
        self._executed.append((sql, None))
        execution = await self._workers.execute(
            self._database, sql, rows=max(0, rows), timeout_s=self._timeout_s
        )
        self._executed[index] = (sql, execution)
        return execution


def _call(sql: str, execution: Execution | None) -> dict[str, Any]:
    """Return an executed query as a tool call of Crosscheck's format for trajectories."""
    call: dict[str, Any] = {"name": "execute", "arguments": {"sql": sql}, "sql": sql}
    if execution is None:  # still running when the time was over
        return call
    if not execution.ok:
        return call | {"error": True, "result": execution.error or execution.status}
    rows = [" | ".join(map(str, row)) for row in (execution.columns, *execution.rows)]
    count = f"({counted(execution.row_count or 0, 'row')})"
    return call | {"error": False, "result": "\n".join((*rows, count))[:MAX_RESULT]}


def line_of(head: dict[str, Any], answer: Any, database: AgentDatabase) -> dict[str, Any]:
    """Return the line of an answer: an object of the format as it is, else the SQL with the executed queries."""
    if isinstance(answer, dict):
        if not answer.keys() & {"turns", "messages"}:
            answer = {"turns": database.turns, **answer}
        line: dict[str, Any] = json.loads(json.dumps({**answer, **head}, default=_as_json))
    elif answer is None or isinstance(answer, str):
        sql = read_sql(answer) if answer and "```" in answer else answer
        submits = [{"sql": sql, "submitted": True}] if sql else []
        line = {**head, "turns": [*database.turns, *submits], "sql": sql}
    else:
        kind = type(answer).__name__
        raise TypeError(
            f"the agent returned {kind}: return the SQL as a text, None, or a dict with sql and turns or messages"
        )
    try:
        read_line("the agent's answer", line)
    except DataError as error:
        raise TypeError(str(error)) from None
    _add_errors(line.get("messages") or (), database.failed)
    return line


def _add_errors(messages: Sequence[dict[str, Any]], failed: Mapping[str, bool]) -> None:
    """Add to valid tool messages whether their SQL failed, which the chat protocol does not say."""
    failed_by_call: dict[Any, bool | None] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            failed_by_call[call.get("id")] = failed.get(sql_in(call["function"].get("arguments")) or "")
        error = failed_by_call.get(message.get("tool_call_id")) if message["role"] == "tool" else None
        if error is not None:
            message.setdefault("error", error)


def _as_json(value: Any) -> Any:
    """Return a message of a client's library as plain JSON, as its model dumps itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"the agent returned a {type(value).__name__} within its answer, which JSON cannot write")


def answered_in(file: Path, ids: Iterable[str], control: Control) -> frozenset[str]:
    """Return the ids of questions that a file answers; a line that a killed process has not finished is removed."""
    content = read_file(file)
    last_line = content.rpartition(b"\n")[2]
    if last_line and not last_line.startswith(b"{"):
        raise _not_ours(file)
    if last_line:
        try:
            parse_json(last_line.decode())
        except ValueError:
            os.truncate(file, len(content) - len(last_line))
        else:  # a complete line, of an editor that ends the last one without a line break
            with file.open("ab") as output:
                output.write(b"\n")
    if not file.stat().st_size:
        return frozenset()
    trajectories = read_trajectories(file)
    if trajectories.format != "trajectories":
        raise _not_ours(file)
    answered = {trajectory.question_id for trajectory in trajectories.trajectories if not trajectory.failure}
    answered_ids = answered.intersection(ids)
    if answered_ids:
        control.progress.note(
            f"Kept from an earlier call: {counted(len(answered_ids), 'answer')} in {file}. Delete that file to run the "
            "agent on every question again."
        )
    return frozenset(answered_ids)


def _not_ours(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{file} is not a file of JSON lines with trajectories, so no answer is added to it. Name another file."
    )


@contextmanager
def opened_file(file: Path) -> Iterator[TextIO]:
    """Open a file to append to, for this process alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as output:
            try:
                fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = file.exists() and os.path.samestat(file.stat(), os.fstat(output.fileno()))
            except OSError:
                is_ours = False
            if not is_ours:  # locked by another call, or renamed by one that has just ended
                raise ConfigurationError(
                    f"Another call is writing {file}. Wait until it has ended, or give this one another name."
                )
            yield output
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.") from None


def file_name(name: str) -> str:
    """Return a name as a part of a file's name; names that differ stay different."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    return plain if plain == name else f"{plain or 'agent'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


Agent = Callable[[Question, AgentDatabase], Any]
"""Returns the SQL, None, or an object of Crosscheck's format for trajectories; or an awaitable of one."""


@dataclass(frozen=True)
class ScoredAgent:
    """Settings of a run of an agent."""

    benchmark: BenchmarkSettings
    name: str
    selection: QuestionSelection
    folders: Folders
    trajectories: Path | None  # file that is continued and kept; None: one in the working folder
    concurrency: int = 4  # questions at the same time
    timeout_s: float = 600.0  # seconds for one attempt at a question
    attempts: int = 3  # attempts at a question while the agent raises an exception

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name, min_value in (("concurrency", 1), ("attempts", 1), ("timeout_s", 0.001)):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not min_value <= value <= MAX_NUMBER:
                raise ConfigurationError(
                    f"{name}={value!r}: it must be a number from {min_value:g} to {MAX_NUMBER:,}."
                )


def run_agent(agent: Agent, settings: ScoredAgent, control: Control) -> Path:
    """Run an agent on every selected question, and return the file of its trajectories.

    Each answer is written as soon as it arrives. The same call continues a file that is not complete, and always one of
    the user's own, with the questions that it lacks and those whose attempts all failed.
    """
    try:
        inspect.signature(agent).bind(None, None)
    except ValueError:  # what is written in C may have no signature
        pass
    except TypeError:
        raise ConfigurationError(
            f"The agent must be a function of a question and a database, not {agent!r}."
        ) from None
    with watched(settings.folders.home):
        control.progress.step(f"Reading {settings.benchmark.name}")
        benchmark = settings.folders.benchmark(settings.benchmark, control.progress)
        questions = select(benchmark.questions, settings.selection)
        present = [question for question in questions if question.database_id not in benchmark.missing]
        if not present:
            raise no_database(benchmark, [question.database_id for question in questions])
        names = dict.fromkeys(question.database_id for question in present)
        databases = {name: open_benchmark_database(benchmark, name, SAMPLES) for name in names}
        stem = f"{file_name(settings.benchmark.name)}@{file_name(settings.name)}"
        file = settings.trajectories or settings.folders.home.agents / f"{stem}.jsonl"
        with opened_file(file) as output:
            kept = answered_in(file, (question.id for question in present), control)
            agent_run = _AgentRun(agent, settings, control, databases, output)
            control.progress.questions(len(present), len(kept))
            asyncio.run(agent_run.run([question for question in present if question.id not in kept]))
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
    settings: ScoredAgent
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
        """Answer questions of the queue, which all workers share, and write each answer when it comes."""
        for question in queue:
            if self.fatal or self.control.stop.is_set():
                return
            line = await self._answer(question, workers)
            self.output.write(json.dumps(line, ensure_ascii=True) + "\n")
            self.output.flush()
            self.done += 1
            self.failed += "failure" in line
            self.control.progress.answered(failed="failure" in line, calls=())
            if self.failed == self.done == FIRST:
                self.fatal = (
                    f"The agent failed on the first {FIRST} questions. The last failure: {line['failure']}"
                )

    async def _answer(self, question: Question, workers: SqlWorkers) -> dict[str, Any]:
        """Run the agent on a question until it returns, and return the line of the file."""
        max_attempts = int(self.settings.attempts)  # the caller's, who may have written 3.0
        for attempt in range(1, max_attempts + 1):
            source = self.databases[question.database_id]
            timeout_s = self.settings.benchmark.timeout_s
            database = AgentDatabase(source, workers, asyncio.get_running_loop(), timeout_s)
            head = {"question_id": question.id, "database": question.database_id}
            try:
                future = self._start(question, database)
                answer = await asyncio.wait_for(asyncio.wrap_future(future), self.settings.timeout_s)
                return line_of(head, answer, database)
            except _AgentError as error:
                reason = str(error)
            except TimeoutError:
                reason = f"the agent did not answer within {self.settings.timeout_s:g} s"
            except Exception as error:
                reason = described(error)
            finally:
                database.close("the time for this question is over")
            if attempt < max_attempts:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
        attempts = f" ({counted(max_attempts, 'attempt')})"
        return head | {"turns": database.turns, "sql": None, "failure": f"{reason}{attempts}"}

    def _start(self, question: Question, database: AgentDatabase) -> "Future[Any]":
        """Call the agent in a thread of its own, which is left to itself where it exceeds its time."""
        future: Future[Any] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                answer = self.agent(question, database)
                future.set_result(self._await(answer) if inspect.isawaitable(answer) else answer)
            # also SystemExit, and CancelledError, which would cancel the future
            except BaseException as error:
                future.set_exception(_AgentError(described(error)))

        threading.Thread(target=call, name=f"agent {question.id}", daemon=True).start()
        return future

    def _await(self, value: Awaitable[Any]) -> Any:
        """Await a value on the agents' loop, and cancel it where it exceeds its time."""

        async def wait() -> Any:
            return await value

        running = asyncio.run_coroutine_threadsafe(wait(), self._agent_loop)
        try:
            return running.result(self.settings.timeout_s + 1)  # the question's own deadline is over before
        finally:
            running.cancel()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
