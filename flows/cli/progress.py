"""Progress of an evaluation: a live display on a terminal, a line now and then elsewhere."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from flows.runtime.control import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

LINE_EVERY_S = 15.0


@contextmanager
def open_progress(stream: TextIO) -> "Iterator[Progress]":
    """Show progress on a stream as long as the block lasts: live where it is a terminal, else in plain lines."""
    if not stream.isatty():
        yield LineProgress(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    # While steps are taken there is nothing to count: the bar and the numbers come with the questions.
    waiting = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    counting = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with RichProgress(*waiting, console=Console(file=stream, emoji=False), transient=True) as bars:
        yield LiveProgress(bars, counting)


class _Counting:
    """Counts what both displays show."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.total = 0
        self.done = 0
        self.failed = 0
        self.calls = 0
        self.scored = 0
        self.correct = 0

    def answered(self, *, failed: bool, calls: int) -> None:
        """Count a question that is through."""
        self.done += 1
        self.failed += failed
        self.calls += calls

    def judged(self, *, correct: bool) -> None:
        """Count a question that has been scored."""
        self.scored += 1
        self.correct += correct

    def note(self, text: str) -> None:
        """Keep it for the summary."""
        self.notes.append(text)

    @property
    def text(self) -> str:
        """The counts in words."""
        share = f" · EX so far {100 * self.correct / self.scored:.1f} %" if self.scored else ""
        failed = f" · {self.failed} failed" if self.failed else ""
        return f"{self.calls:,} model calls{share}{failed}"


class LiveProgress(_Counting):
    """A spinner for steps and a bar for questions."""

    def __init__(self, bars: "RichProgress", counting: "Sequence[ProgressColumn]") -> None:
        super().__init__()
        self._bars = bars
        self._counting = counting
        self._step = bars.add_task("Starting", total=None)

    def step(self, text: str) -> None:
        """Show it beside the spinner."""
        self._bars.update(self._step, description=text)

    def questions(self, total: int, restored: int) -> None:
        """Show the bar, filled as far as the cache did."""
        self.total, self.done = total, restored
        self._bars.columns = tuple(self._counting)
        self._bars.update(self._step, total=total, completed=restored, description="Asking")

    def answered(self, *, failed: bool, calls: int) -> None:
        """Move the bar."""
        super().answered(failed=failed, calls=calls)
        self._bars.update(self._step, completed=self.done, description=f"Asking · {self.text}")

    def judged(self, *, correct: bool) -> None:
        """Refresh the share of right answers."""
        super().judged(correct=correct)
        if self.done >= self.total:
            self._bars.update(self._step, description=f"Scoring · {self.text}", completed=self.scored)


class LineProgress(_Counting):
    """A line when a step begins, and one for the questions every quarter of a minute."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._last_step = ""
        self._next_line = 0.0

    def step(self, text: str) -> None:
        """Print it, unless it only counts further on what was printed last."""
        kind = re.sub(r"[\d,]+", "#", text)
        if kind != self._last_step:
            self._last_step = kind
            self._print(text)

    def questions(self, total: int, restored: int) -> None:
        """Print how many there are."""
        self.total, self.done = total, restored
        self._print(f"{total:,} questions, {restored:,} of them restored from earlier runs")
        self._next_line = time.monotonic() + LINE_EVERY_S

    def answered(self, *, failed: bool, calls: int) -> None:
        """Print the counts, when it has been quiet for long enough."""
        super().answered(failed=failed, calls=calls)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_S
            self._print(f"{self.done:,} of {self.total:,} questions · {self.text}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
