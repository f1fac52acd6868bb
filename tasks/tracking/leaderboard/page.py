"""The leaderboard as one self-contained HTML page."""

from collections.abc import Callable, Sequence
from math import ceil, floor

from tasks.tracking.leaderboard.leaderboard import CONFIDENCE, Board
from tasks.tracking.pages.template import Scale, fill


def render(boards: Sequence[Board], page_of: Callable[[str], str] = lambda run_id: "") -> str:
    """Return the page.

    Args:
        boards: the boards.
        page_of: returns the address of a run's page, relative to this one; "" where there is none.
    """
    return fill(
        "leaderboard.html.jinja",
        ["page.css", "leaderboard.css"],
        boards=boards,
        page_of=page_of,
        scale=_scale,
        confidence=f"{100 * CONFIDENCE:g} %",
    )


def _scale(board: Board) -> Scale:
    """Return a scale from whole tens to whole tens around all intervals of a board."""
    ends = [100 * end for each in board.ranked for end in each.interval or ()]
    low = floor(min(ends, default=0) / 10) * 10
    return Scale(low, max(ceil(max(ends, default=100) / 10) * 10, low + 10), 12, 208)
