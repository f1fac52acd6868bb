"""Published figures and the corresponding computed ones."""

from collections.abc import Iterator
from dataclasses import dataclass

Value = float | int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """Published figure and the computed one.

    Attributes:
        name: what it is, with its denominator where it has one.
        published: published value.
        ours: computed value; None if it cannot be computed.
        digits: decimal places that must agree.
    """

    name: str
    published: float
    ours: Value
    digits: int = 0

    @property
    def matches(self) -> bool:
        """Whether both agree to the decimal places."""
        return self.ours is not None and round(self.ours, self.digits) == round(self.published, self.digits)

    def shown(self, value: Value) -> str:
        """Return a value with the decimal places that are compared."""
        return "unknown" if value is None else f"{value:,.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of reproducing one source.

    Attributes:
        name: as on the command line.
        title: what is reproduced, in a line.
        figures: figures in the order of the source.
        remarks: explanations, in sentences.
    """

    name: str
    title: str
    figures: tuple[Figure, ...]
    remarks: tuple[str, ...] = ()

    @property
    def mismatches(self) -> tuple[Figure, ...]:
        """The figures that do not agree."""
        return tuple(figure for figure in self.figures if not figure.matches)

    def as_object(self) -> dict[str, object]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "matches": not self.mismatches,
            "figures": [
                {
                    "name": figure.name,
                    "published": figure.published,
                    "ours": None if figure.ours is None else round(figure.ours, figure.digits),
                    "matches": figure.matches,
                }
                for figure in self.figures
            ],
            "remarks": list(self.remarks),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a plain-text table."""
        yield f"{self.name}: {self.title}"
        width = max((len(figure.name) for figure in self.figures), default=0)
        yield f"  {'':<{width}}  {'published':>10}  {'ours':>10}"
        for figure in self.figures:
            published, ours = figure.shown(figure.published), figure.shown(figure.ours)
            verdict = "match" if figure.matches else "MISMATCH"
            yield f"  {figure.name:<{width}}  {published:>10}  {ours:>10}  {verdict}"
        for remark in self.remarks:
            yield f"  · {remark}"
        count = len(self.figures) - len(self.mismatches)
        yield f"  {count} of {len(self.figures)} figures match"
