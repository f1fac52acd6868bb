"""Progress display of an evaluation: live on a terminal, else in lines."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from flows.runtime.control import Control, Interrupted, Progress
from tasks.core.wording import counted, duration, money

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

    from tasks.core.outcome import Call

LINE_EVERY_S = 15.0
SETTLED_S = 2.0
"""Time after which the speed is known well enough to say how long the rest takes."""


@contextmanager
def open_progress(stream: TextIO, title: str = "") -> "Iterator[Progress]":
    """Show progress on a stream while the block runs: live if it is a terminal, else in lines."""
    prefix = f"{title}: " if title else ""
    if not stream.isatty():
        lines = LineProgress(stream, prefix)
        with redirect_stdout(stream):  # what a user's own code prints, as rich does it; no part of --json
            try:
                yield lines
            finally:
                lines.end_step()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    # The bar and the numbers are shown once the number of questions is known.
    waiting = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    counting = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(bar_width=8),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with RichProgress(*waiting, console=Console(file=stream, emoji=False), transient=True) as bars:
        yield LiveProgress(bars, counting, prefix)


@contextmanager
def open_control(position: str) -> "Iterator[Control]":
    """Open the control of one of several evaluations, with its progress on standard error after its position."""
    with open_progress(sys.stderr, position) as progress:
        yield Control(progress)


@contextmanager
def open_asking() -> "Iterator[Progress]":
    """Show the progress of questions that are asked; an interrupt before the first one says that nothing was paid."""
    with open_progress(sys.stderr) as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            if isinstance(progress, _Counting) and progress.total:
                raise
            raise Interrupted(
                "stopped before the first question was asked: nothing was sent, and nothing was paid."
            ) from None


class _Counting(Progress):
    """Counts of questions and calls that both displays show."""

    def __init__(self) -> None:
        super().__init__()
        self.noun = ""
        self.total = 0
        self.done = 0
        self.failed = 0
        self.calls = 0
        self.retries = 0
        self.cost_usd: float | None = 0.0
        self.scored = 0
        self.correct = 0
        self._restored = 0
        self._began = 0.0

    def begin(self, total: int, restored: int, noun: str) -> None:
        """Begin counting, with the restored questions as completed."""
        self.noun = noun
        self.total, self.done, self._restored = total, restored, restored
        self._began = time.monotonic()

    def answered(self, *, failed: bool, calls: "Sequence[Call]") -> None:
        """Count an answered or failed question; the cost is None from the first call whose cost is unknown."""
        self.done += 1
        self.failed += failed
        self.calls += len(calls)
        self.retries += sum(call.retries for call in calls)
        for call in calls:
            if self.cost_usd is None or call.cost_usd is None:
                self.cost_usd = None
            else:
                self.cost_usd += call.cost_usd

    def judged(self, *, correct: bool) -> None:
        """Count a scored question."""
        self.scored += 1
        self.correct += correct

    @property
    def text(self) -> str:
        """The counts as text, what matters most first: a narrow terminal cuts the end off."""
        seconds_left = self._seconds_left()
        parts = (
            counted(self.calls, "call"),
            self._ex,
            _cost(self.cost_usd),
            f"{duration(seconds_left)} left" if seconds_left is not None else "",
            f"{self.failed:,} failed" if self.failed else "",
            f"{counted(self.retries, 'request')} repeated" if self.retries else "",
        )
        return " · ".join(part for part in parts if part)

    @property
    def _ex(self) -> str:
        """The accuracy of the questions scored so far, which are fewer than those answered; "" before the first."""
        if not self.scored:
            return ""
        return f"EX {100 * self.correct / self.scored:.1f} % ({self.correct:,} of {self.scored:,} scored)"

    def _seconds_left(self) -> float | None:
        """Return how long the questions that are left take at the present speed; None while that is not known."""
        answered = self.done - self._restored
        elapsed_s = time.monotonic() - self._began
        if not answered or elapsed_s < SETTLED_S or self.done >= self.total:
            return None
        return (self.total - self.done) * elapsed_s / answered


class LiveProgress(_Counting):
    """Progress display with a spinner for steps and a bar for questions."""

    def __init__(self, bars: "RichProgress", counting: "Sequence[ProgressColumn]", prefix: str) -> None:
        super().__init__()
        self._bars = bars
        self._counting = counting
        self._prefix = prefix
        self._step = bars.add_task(f"{prefix}Starting", total=None)

    def step(self, text: str) -> None:
        """Show a step beside the spinner."""
        self._bars.update(self._step, description=f"{self._prefix}{text}")

    def questions(self, total: int, restored: int, noun: str = "question") -> None:
        """Show the bar, with the restored questions as completed."""
        self.begin(total, restored, noun)
        self._bars.columns = tuple(self._counting)
        self._bars.update(self._step, total=total, completed=restored, description=f"{self._prefix}Asking")

    def answered(self, *, failed: bool, calls: "Sequence[Call]") -> None:
        """Count an answered or failed question and update the bar."""
        super().answered(failed=failed, calls=calls)
        self._bars.update(self._step, completed=self.done, description=f"{self._prefix}{self.text}")

    def judged(self, *, correct: bool) -> None:
        """Count a scored question and update the accuracy."""
        super().judged(correct=correct)
        if 0 < self.total <= self.done:
            self._bars.update(
                self._step, description=f"{self._prefix}Scoring · {self.text}", completed=self.scored
            )


class LineProgress(_Counting):
    """Progress display that prints the first and last state of each step, and one every 15 seconds between them."""

    def __init__(self, stream: TextIO, prefix: str = "") -> None:
        super().__init__()
        self._stream = stream
        self._prefix = prefix
        self._kind = ""
        self._printed = ""
        self._state: Callable[[], str] = str
        self._next_line = 0.0

    def step(self, text: str) -> None:
        """Print a step; one that differs from the last only in its numbers when the last line is old enough."""
        kind = re.sub(r"[\d,]+", "#", text)
        self._show(kind, lambda: text)

    def questions(self, total: int, restored: int, noun: str = "question") -> None:
        """Print the number of questions."""
        self.begin(total, restored, noun)
        self._show(noun, lambda: f"{counted(total, noun)}, {restored:,} restored from earlier runs")

    def answered(self, *, failed: bool, calls: "Sequence[Call]") -> None:
        """Count an answered or failed question, and print the counts if the last line is old enough."""
        super().answered(failed=failed, calls=calls)
        self._show(self.noun, lambda: f"{self.done:,} of {counted(self.total, self.noun)} · {self.text}")

    def end_step(self) -> None:
        """Print the last state of the current step, unless it is printed already."""
        text = self._state()
        if text != self._printed:
            self._print(text)

    def _show(self, kind: str, state: "Callable[[], str]") -> None:
        """Print the state of a step where the step is new or the last line is old enough; else keep it."""
        new = kind != self._kind
        if new:
            self.end_step()
        self._kind, self._state = kind, state
        if new or time.monotonic() >= self._next_line:
            self._print(state())

    def _print(self, text: str) -> None:
        self._printed = text
        self._next_line = time.monotonic() + LINE_EVERY_S
        print(f"{self._prefix}{text}", file=self._stream, flush=True)


def _cost(usd: float | None) -> str:
    """Write what calls have cost: "" if nothing, in whole cents from a cent on.

    >>> [_cost(usd) for usd in (0.0, 0.0042, 2.5, None)]
    ['', '$0.0042', '$2.50', 'cost unknown']
    """
    if usd == 0:
        return ""
    if usd is None:
        return f"cost {money(usd)}"
    return f"${usd:,.2f}" if usd >= 0.01 else money(usd)
