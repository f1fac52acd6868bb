"""Terminal output of the leaderboard."""

from collections.abc import Callable, Sequence
from typing import TextIO

from tasks.core.wording import DASH, counts, interval, money, number, percent
from tasks.documents.terminal import literal, make_grid, open_console, show
from tasks.scoring.cost import Cost
from tasks.scoring.report import Ratio
from tasks.scoring.score import CONFIDENCE
from tasks.tracking.leaderboard.leaderboard import Board, BoardRow

TEXTS = ("pipeline", "backbone", "run")
"""Columns that hold text."""


def print_leaderboard(boards: Sequence[Board], stream: TextIO) -> None:
    """Print every board, and below it the runs that are not ranked."""
    console = open_console(stream)
    for board in boards:
        beside = _beside(board)
        made = make_grid(
            literal(board.title), "rank", "pipeline", "backbone", "EX", "right", f"{100 * CONFIDENCE:g} % interval",
            *beside, "from scratch", "paid", "calls paid", "from cache", "input tokens", "output tokens", "run",
            texts=TEXTS,
        )  # fmt: skip
        for column in made.columns:
            column.no_wrap = column.header not in ("pipeline", "backbone")
        for each in board.ranked:
            made.add_row(
                f"{each.rank}", _what(each), literal(each.backbone), *_score(each),
                *(_share(beside[name](each)) for name in beside), *_cost(each.cost), each.run_id
            )  # fmt: skip
        show(console, made, keep=6)
        if board.unscored:
            console.print(f"[yellow]![/] {board.unscored}", soft_wrap=True)
        if board.not_ranked:
            console.print("[dim]not ranked[/]")
        for each in board.not_ranked:
            console.print(
                f"  {_what(each, ' ')} with {literal(each.backbone)}: {percent(each.ex)}, {literal(each.why_unranked)} "
                f"({each.run_id})",
                soft_wrap=True,
            )


def _what(each: BoardRow, between: str = "\n") -> str:
    more = (each.changed, each.label)
    return between.join((literal(each.pipeline), *(f"[dim]{literal(part)}[/]" for part in more if part)))


def _score(each: BoardRow) -> tuple[str, str, str]:
    return percent(each.ex), counts(each.ex), interval(*each.interval) if each.interval else DASH


def _beside(board: Board) -> dict[str, Callable[[BoardRow], Ratio | None]]:
    """Return the further scores that a run of the board has, by the name of their column."""
    known: dict[str, Callable[[BoardRow], Ratio | None]] = {
        "corrected golds": lambda each: each.ex_corrected,
        "pass@k": lambda each: each.passed,
    }
    return {name: score for name, score in known.items() if any(score(each) for each in board.ranked)}


def _share(ratio: Ratio | None) -> str:
    return f"{percent(ratio)} ({counts(ratio)})" if ratio else DASH


def _cost(cost: Cost) -> tuple[str, ...]:
    counted = (cost.calls, cost.cached_calls, cost.input_tokens, cost.output_tokens)
    return money(cost.from_scratch_usd), money(cost.cost_usd), *map(number, counted)
