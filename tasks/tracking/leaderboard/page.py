"""The leaderboard as one self-contained HTML page."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.core.files import atomic_write_text
from tasks.documents.html import Scale
from tasks.scoring.score import CONFIDENCE
from tasks.settings.home import Home
from tasks.tracking.leaderboard.leaderboard import Board
from tasks.tracking.pages.template import around, fill

FILE_NAME = "leaderboard.html"
"""Name of the page below `reports/` in the working folder."""


def render(boards: Sequence[Board], page_of: Callable[[str], str] = lambda run_id: "") -> str:
    """Return the page, with a link to a run's page where `page_of` returns its address, relative to this one."""
    return fill(
        "leaderboard.html.jinja",
        ["page.css"],
        boards=boards,
        page_of=page_of,
        scale=_scale,
        confidence=f"{100 * CONFIDENCE:g} %",
    )


def write_leaderboard(boards: Sequence[Board], home: Home) -> Path:
    """Write the page beside the pages of runs, to which it links, and return its path."""
    file = home.reports / FILE_NAME

    def page_of(run_id: str) -> str:
        return f"{run_id}.html" if (home.reports / f"{run_id}.html").exists() else ""

    atomic_write_text(file, render(boards, page_of))
    return file


def _scale(board: Board) -> Scale:
    """Return one scale for all intervals of a board."""
    return around([100 * end for each in board.ranked for end in each.interval or ()], 12, 208)
