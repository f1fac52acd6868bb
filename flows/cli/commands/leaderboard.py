"""`crosscheck leaderboard`."""

from typing import Annotated

from flows.cli import options


class Leaderboard(options.Page):
    """Rank the latest run of each backbone and pipeline by its execution accuracy, or by the score that --by names.

    Runs with the same questions are ranked together. Runs that saw the gold, repeated an answer (tag rerolled)
    or are not complete are listed apart, with the reason.

    Examples:
      crosscheck leaderboard
      crosscheck leaderboard --benchmark bird-dev --html leaderboard.html
      crosscheck leaderboard --benchmark bird-dev --by arcwise

    Exit codes: 0 printed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """Only this benchmark."""
    by: Annotated[str, options.Metavar("SCORE")] = ""
    """Rank by another score of the runs: an answer key, decided, without_quarantine or a rule. [default: execution
    accuracy]"""

    def __call__(self) -> None:
        from tasks.core.errors import ConfigurationError, DataError, did_you_mean
        from tasks.pages.leaderboard import leaderboard_document
        from tasks.results.leaderboard import leaderboard
        from tasks.results.run_record import json_of

        boards = leaderboard(self.warehouse, self.benchmark, self.by)
        if self.benchmark is not None and not boards:
            benchmarks = sorted({run.benchmark for run in self.warehouse.runs()})
            raise DataError(
                f'No run of "{self.benchmark}" is finished. {did_you_mean(self.benchmark, benchmarks)}'.strip()
            )
        if self.by and boards and not any(board.ranked for board in boards):
            scores = {name for stored in self.warehouse.finished_runs() for name in stored.scores}
            raise ConfigurationError(
                f'No run that can be ranked has a score "{self.by}". {did_you_mean(self.by, sorted(scores))}'
            )
        document = leaderboard_document(boards)
        self.write_page(lambda: document)
        self.emit({"boards": [json_of(board) for board in boards]}, document)
