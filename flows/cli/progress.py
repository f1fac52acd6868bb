"""Progress display of an evaluation: live on a terminal, else in lines."""

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
    """Show progress on a stream while the block runs: live if it is a terminal, else in lines."""
    if not stream.isatty():
        yield LineProgress(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    # The bar and the numbers are shown once the number of questions is known.
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


class _Counting(Progress):
    """Counts of questions and calls that both displays show."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.done = 0
        self.failed = 0
        self.calls = 0
        self.scored = 0
        self.correct = 0

    def answered(self, *, failed: bool, calls: int) -> None:
        """Count an answered or failed question."""
        self.done += 1
        self.failed += failed
        self.calls += calls

    def judged(self, *, correct: bool) -> None:
        """Count a scored question."""
        self.scored += 1
        self.correct += correct

    @property
    def text(self) -> str:
        """The counts as text."""
        share = f" · EX so far {100 * self.correct / self.scored:.1f} %" if self.scored else ""
        failed = f" · {self.failed} failed" if self.failed else ""
        return f"{self.calls:,} model calls{share}{failed}"


class LiveProgress(_Counting):
    """Progress display with a spinner for steps and a bar for questions."""

    def __init__(self, bars: "RichProgress", counting: "Sequence[ProgressColumn]") -> None:
        super().__init__()
        self._bars = bars
        self._counting = counting
        self._step = bars.add_task("Starting", total=None)

    def step(self, text: str) -> None:
        """Show a step beside the spinner."""
        self._bars.update(self._step, description=text)

    def questions(self, total: int, restored: int) -> None:
        """Show the bar, with the restored questions as completed."""
        self.total, self.done = total, restored
        self._bars.columns = tuple(self._counting)
        self._bars.update(self._step, total=total, completed=restored, description="Asking")

    def answered(self, *, failed: bool, calls: int) -> None:
        """Count an answered or failed question and update the bar."""
        super().answered(failed=failed, calls=calls)
        self._bars.update(self._step, completed=self.done, description=f"Asking · {self.text}")

    def judged(self, *, correct: bool) -> None:
        """Count a scored question and update the accuracy."""
        super().judged(correct=correct)
        if self.done >= self.total:
            self._bars.update(self._step, description=f"Scoring · {self.text}", completed=self.scored)


class LineProgress(_Counting):
    """Progress display that prints a line per step, and one every 15 seconds for the questions."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._last_step = ""
        self._next_line = 0.0

    def step(self, text: str) -> None:
        """Print a step, unless it differs from the last one only in its numbers."""
        kind = re.sub(r"[\d,]+", "#", text)
        if kind != self._last_step:
            self._last_step = kind
            self._print(text)

    def questions(self, total: int, restored: int) -> None:
        """Print the number of questions."""
        self.total, self.done = total, restored
        self._print(f"{total:,} questions, {restored:,} of them restored from earlier runs")
        self._next_line = time.monotonic() + LINE_EVERY_S

    def answered(self, *, failed: bool, calls: int) -> None:
        """Count an answered or failed question, and print the counts if the last line is old enough."""
        super().answered(failed=failed, calls=calls)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_S
            self._print(f"{self.done:,} of {self.total:,} questions · {self.text}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
