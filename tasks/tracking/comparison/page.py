"""A comparison as one self-contained HTML page."""

from dataclasses import dataclass

from tasks.tracking.comparison.comparability import left_out
from tasks.tracking.comparison.run_comparison import Contrast, RunComparison
from tasks.tracking.pages.template import fill


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the page: both runs on the parts of something."""

    title: str
    contrasts: tuple[Contrast, ...]

    @property
    def reach(self) -> int:
        """The greatest count of flipped questions in it."""
        return max(max(each.fixed or 0, each.broken or 0) for each in self.contrasts)


def render(comparison: RunComparison) -> str:
    """Return the page."""
    return fill(
        "comparison.html.jinja",
        ["page.css"],
        ["page.js"],
        comparison=comparison,
        result=comparison.result,
        run=comparison.a.run,
        sides=(comparison.a, comparison.b),
        left_out=left_out(comparison),
        tables=_tables(comparison),
        databases=sorted({pair.question.database_id for pair in comparison.flips}),
        grades=sorted({pair.question.difficulty for pair in comparison.flips if pair.question.difficulty}),
    )


def _tables(comparison: RunComparison) -> list[_Table]:
    named = (
        ("By stage", comparison.stages if len(comparison.stages) > 1 else ()),
        ("By difficulty", comparison.by_difficulty),
        ("By database", comparison.by_database if len(comparison.by_database) > 1 else ()),
    )
    return [_Table(title, contrasts) for title, contrasts in named if contrasts]
