"""Context of the flow runs of one command: progress, stop requests, tags and budget.

A Prefect flow's parameters are its settings, since Prefect stores them as JSON. A `Control` cannot be stored, so
commands hand it to the function that makes the flow (`flows.evaluate.flow.evaluation_flow`), which closes over it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.core.errors import CrosscheckError, ExitCode
from tasks.core.wording import agreeing, counted

if TYPE_CHECKING:  # a display is opened before the rest is imported
    from tasks.backbone.budget import Budget
    from tasks.core.outcome import Call
    from tasks.results.run_record import RunRecord

T = TypeVar("T")
R = TypeVar("R")

GRACE_S = 20.0
"""Timeout for calls in flight after a stop request."""


class Interrupted(CrosscheckError):  # noqa: N818 - a signal, not an error
    """The user stopped the command; everything answered so far is kept.

    Its text ends with the number of calls in flight that were given up. They are counted when the backbones are
    closed, which may be after it was raised.
    """

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, text: str, control: "Control | None" = None) -> None:
        """Keep what was stopped and what is kept, and the context that counts the calls that were given up."""
        super().__init__(text)
        self._control = control

    def __str__(self) -> str:
        """Return the text, with the calls that were given up."""
        text = super().__str__()
        count = self._control.given_up if self._control else 0
        if not count:
            return text
        calls = f"{counted(count, 'call')} in flight {agreeing('was', count)}"
        return f"{text} {calls} given up, and may have to be paid for again."


class Progress:
    """Display of an evaluation's progress. This one shows nothing; others override what they show."""

    def __init__(self) -> None:
        self.notes: list[str] = []  # remarks for the end of the run, in sentences

    def step(self, text: str) -> None:
        """Show the current step in one line."""

    def questions(self, total: int, restored: int, noun: str = "question") -> None:
        """Show the number of questions, or of what else the noun names, and of completely restored ones."""

    def answered(self, *, failed: bool, calls: "Sequence[Call]") -> None:
        """Count a question that has its outcome, with its paid calls."""

    def judged(self, *, correct: bool) -> None:
        """Count a question that has been scored."""

    def note(self, text: str) -> None:
        """Keep a sentence for the end of the run, once: sessions of one command may say the same of an endpoint."""
        if not any(note.startswith(text) for note in self.notes):
            self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Ui:
    """Where a run is shown: in MLflow, or in Prefect."""

    command: str = ""  # shell command that starts the UI; where a server answers, a sentence that says so
    page: str = ""  # address of the run in it, "" if it is not there
    runs: str = ""  # address of the list of runs with score, cost and verdict, "" if there is none


NOWHERE = Ui()


@dataclass
class Control:
    """Context of the flow runs of one command or deployment."""

    progress: Progress = field(default_factory=Progress)  # display of the progress
    stop: asyncio.Event = field(default_factory=asyncio.Event)  # set when no further stage may begin
    stop_now: asyncio.Event = field(default_factory=asyncio.Event)  # set when calls in flight are cancelled
    tags: Mapping[str, str] = field(default_factory=dict)  # further MLflow tags of the run
    given_up: int = 0  # calls in flight that were given up; the provider may charge for them
    budget: "Budget | None" = None  # limit on the cost; None without a limit
    loop: asyncio.AbstractEventLoop | None = None  # the event loop of the flow runs, once it runs
    flow_run: str = ""  # Prefect's id of the running flow run; "" without one
    result: "RunRecord | None" = None  # the last run, from when it is logged on
    prefect: Ui = NOWHERE  # where Prefect shows that run
    own_server: bool = False  # whether this command has started Prefect's server, which then ends with it
    take_signals: Callable[[], None] = lambda: None  # lets Ctrl-C and SIGTERM set `stop` and `stop_now`
    recorded: bool = True  # whether MLflow and the warehouse have recorded the end of the run
    # adds ids to the file from which later commands clean up after a killed process
    register: Callable[..., None] = lambda **ids: None

    def is_over(self, fatal: object) -> bool:
        """Return whether `fatal`, an error that every further request would meet, ends the work.

        A spent budget does not: what the reply cache can answer is answered.
        """
        return bool(fatal) and not (self.budget and self.budget.refused)

    def ask_to_stop(self) -> None:
        """Ask for an orderly stop, the second time for an immediate one; from any thread."""
        if self.loop is None:
            self._stop()
        else:
            self.loop.call_soon_threadsafe(self._stop)

    def give_up(self, calls: int) -> None:
        """Count calls in flight that were given up."""
        self.given_up += calls

    def _stop(self) -> None:
        if self.stop.is_set():
            self.stop_now.set()
        else:
            self.stop.set()
            self.progress.step("Stopping: waiting for calls in flight (again to stop at once)")

    def begin_flow_run(self, id_: str) -> None:
        """Register a starting flow run, and reinstall the signal handlers, which Prefect replaces for SIGTERM."""
        self.flow_run = id_
        self.take_signals()
        self.register(flow_run=id_)


async def until_done_or_stopped(pool: Sequence[asyncio.Task[None]], control: Control) -> None:
    """Wait until all tasks are done; after a stop request, at most GRACE_S seconds."""
    work: asyncio.Future[Any] = asyncio.gather(*pool)
    async with waiting_for(control.stop) as stop:
        await asyncio.wait((stop, work), return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        async with waiting_for(control.stop_now) as stop_now:
            await asyncio.wait((stop_now, work), timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def for_each(
    items: Collection[T],
    work: Callable[[T], Awaitable[R]],
    progress: Progress | None = None,
    step: str = "",
    at_once: int | None = None,
) -> list[R]:
    """Do work for every item, `at_once` at a time or all together, and return the results in order.

    `step` is shown after each with the count in place of its braces: "Running gold {}" as "Running gold 3 of 20".
    """
    gate = asyncio.Semaphore(at_once or max(1, len(items)))
    done = 0

    async def work_and_count(item: T) -> R:
        nonlocal done
        async with gate:
            result = await work(item)
        done += 1
        if progress:
            progress.step(step.format(f"{done:,} of {len(items):,}"))
        return result

    return await asyncio.gather(*map(work_and_count, items))


@asynccontextmanager
async def waiting_for(event: asyncio.Event) -> AsyncIterator[asyncio.Future[Any]]:
    """Yield a future that is done once an event is set."""
    waiting: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        yield waiting
    finally:
        waiting.cancel()
