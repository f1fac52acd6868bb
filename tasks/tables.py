"""A table as plain records, described once and rendered for the terminal, Markdown or a page."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts.

    Attributes:
        title: what it shows.
        columns: headers; the first column holds names, the others numbers.
        rows: cells; None draws a line between two sections.
        caption: a remark below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...] | None, ...]
    caption: str = ""

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the table in Markdown, without title and caption."""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|---|{'---:|' * (len(self.columns) - 1)}"
        for row in self.rows:
            if row is not None:
                yield f"| {' | '.join(row)} |"
