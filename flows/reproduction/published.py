"""Figures that were published or are expected on the data here, and the corresponding computed ones."""

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.core.wording import DASH, UNKNOWN

Value = float | int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """Computed figure, and the one that it must agree with."""

    name: str  # what it is, with its denominator where it has one
    published: Value  # published value; None if none was published
    ours: Value  # computed value; None if it cannot be computed
    digits: int = 0  # decimal places that must agree
    # value on the data here, where it is not the published one; None: the published one is expected
    expected: Value = None

    @property
    def matches(self) -> bool:
        """Whether the computed value is the expected one, or else the published one, to the decimal places."""
        wanted = self.published if self.expected is None else self.expected
        if self.ours is None or wanted is None:
            return False
        return round(self.ours, self.digits) == round(wanted, self.digits)

    def shown(self, value: Value, *, missing: str = DASH) -> str:
        """Return a value with the decimal places that are compared."""
        return missing if value is None else f"{value:,.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of reproducing one source."""

    name: str  # as on the command line
    title: str  # what is reproduced, in a line
    figures: tuple[Figure, ...]  # figures in the order of the source
    remarks: tuple[str, ...] = ()  # explanations, in sentences

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
                    "expected": figure.expected,
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
        yield f"  {'':<{width}}  {'published':>10}  {'expected here':>13}  {'ours':>10}"
        for figure in self.figures:
            published, expected = figure.shown(figure.published), figure.shown(figure.expected)
            ours = figure.shown(figure.ours, missing=UNKNOWN)
            verdict = "match" if figure.matches else "MISMATCH"
            yield f"  {figure.name:<{width}}  {published:>10}  {expected:>13}  {ours:>10}  {verdict}"
        for remark in self.remarks:
            yield f"  · {remark}"
        count = len(self.figures) - len(self.mismatches)
        here = sum(figure.expected is not None for figure in self.figures)
        held = f"; {here} are compared with what is expected here" if here else ""
        yield f"  {count} of {len(self.figures)} figures match{held}"
