"""Tables in the papers' form: cells that know their numerator and denominator, or why they are unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.wording import UNKNOWN
from tasks.documents.model import Column, Table
from tasks.scoring.report import Ratio, Value


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str  # what is printed
    value: float | None = None  # its number, shares in 0..1; None where it is unknown or a text
    share: Ratio | None = None  # numerator and denominator; None where it is no share
    why: str = ""  # why it is unknown; "" where it is known

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        counted = {"correct": self.share.correct, "total": self.share.total} if self.share else {}
        return (
            {"text": self.text, "value": self.value} | counted | ({"unknown": self.why} if self.why else {})
        )


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table as a paper prints it."""

    title: str  # what it shows, and which table of the paper it is
    columns: tuple[str, ...]  # headers; the first column holds names
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]  # name and cells, one cell per further column
    notes: tuple[str, ...] = ()  # remarks below it

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why cells are unknown, each reason once, in order."""
        return tuple(dict.fromkeys(cell.why for _, cells in self.rows for cell in cells if cell.why))

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and the reasons by the letter that the cells show."""
        return (*self.notes, *(f"({_letter(n)}) {why}" for n, why in enumerate(self.reasons)))

    def as_table(self) -> Table:
        """Return it with texts as cells; an unknown one has the letter of its reason."""
        rows = tuple((name, *(self._text(cell) for cell in cells)) for name, cells in self.rows)
        first, *others = self.columns
        numbers = (Column(name, brief=name == "total") for name in others)
        return Table(self.title, (Column(first, "text"), *numbers), rows, wide=True)

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        named = [
            {"name": name, "cells": dict(zip(self.columns[1:], (c.as_object() for c in cells), strict=True))}
            for name, cells in self.rows
        ]
        return {"title": self.title, "rows": named, "notes": list(self.notes)}

    def _text(self, cell: Cell) -> str:
        return f"{cell.text} ({_letter(self.reasons.index(cell.why))})" if cell.why else cell.text


def share(ratio: Ratio) -> Cell:
    """Return a share as `60.49 (49/81)`; unknown of nothing."""
    if ratio.value is None:
        return unknown("no question of this kind")
    return Cell(f"{100 * ratio.value:.2f} ({ratio.correct:g}/{ratio.total:g})", ratio.value, ratio)


def figure(value: float, form: str = ".2f") -> Cell:
    """Return a number."""
    return Cell(format(value, form), value)


def count(value: Value) -> Cell:
    """Return a count, or a share with its numerator and denominator."""
    return share(value) if isinstance(value, Ratio) else figure(value, "g")


def text(words: str) -> Cell:
    """Return a text."""
    return Cell(words)


def unknown(why: str) -> Cell:
    """Return an unknown value with its reason."""
    return Cell(UNKNOWN, why=why)


def table(
    title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], *notes: str
) -> PaperTable:
    """Return a table."""
    return PaperTable(title, tuple(columns), tuple((name, tuple(cells)) for name, cells in rows), notes)


def _letter(place: int) -> str:
    return chr(ord("a") + place % 26)
