"""The leaderboard as one self-contained HTML page."""

from collections.abc import Callable, Sequence
from math import ceil, floor
from pathlib import Path

from tasks.settings.home import Home
from tasks.tracking.leaderboard.leaderboard import CONFIDENCE, Board
from tasks.tracking.pages.template import Scale, fill

FILE_NAME = "leaderboard.html"
"""Name of the page below `reports/` in the working folder."""


def render(boards: Sequence[Board], page_of: Callable[[str], str] = lambda run_id: "") -> str:
    """Return the page.

    Args:
        boards: the boards.
        page_of: returns the address of a run's page, relative to this one; "" where there is none.
    """
    return fill(
        "leaderboard.html.jinja",
        ["page.css", "cards.css", "leaderboard.css"],
        boards=boards,
        page_of=page_of,
        scale=_scale,
        confidence=f"{100 * CONFIDENCE:g} %",
    )


def write_leaderboard(boards: Sequence[Board], home: Home) -> Path:
    """Write the page beside the pages of runs, to which it links, and return its path."""
    file = home.reports / FILE_NAME
    file.parent.mkdir(parents=True, exist_ok=True)

    def page_of(run_id: str) -> str:
        return f"{run_id}.html" if (home.reports / f"{run_id}.html").exists() else ""

    file.write_text(render(boards, page_of), encoding="utf-8")
    return file


def _scale(board: Board) -> Scale:
    """Return a scale from whole tens to whole tens around all intervals of a board."""
    ends = [100 * end for each in board.ranked for end in each.interval or ()]
    low = floor(min(ends, default=0) / 10) * 10
    return Scale(low, max(ceil(max(ends, default=100) / 10) * 10, low + 10), 12, 208)
