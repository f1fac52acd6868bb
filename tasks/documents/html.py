"""Documents as self-contained HTML pages: they load nothing, and nothing in them can act but their own script.

The charts are SVG in templates, not matplotlib: on a page a chart follows the light or dark scheme, has a text
alternative, and there are dozens of small ones in table cells.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from tasks.core import wording
from tasks.documents import model
from tasks.documents.model import Chart, Plot
from tasks.documents.text import mark_sql, visible

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"

_STEPS = (0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` on pixels from `left` to `right`."""

    low: float
    high: float
    left: float
    right: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 2)

    def ticks(self, most: int = 8) -> list[float]:
        """Return round values within, about so many at most."""
        step = next((step for step in _STEPS if (self.high - self.low) / step <= most), _STEPS[-1])
        return [multiple * step for multiple in range(ceil(self.low / step), floor(self.high / step) + 1)]


def html(document: model.Document) -> str:
    """Return a document as a page.

    Questions, SQL, names and messages are hostile text: all of it is escaped, control and direction characters are
    spelled out, and the page's own policy lets a browser run nothing but the script whose digest it states.
    """
    blocks = list(_all_blocks((*document.blocks, *document.footer)))
    questions = [block for block in blocks if isinstance(block, model.Questions)]
    needed = {
        "questions.js": any(len(block.items) > 1 or block.filters for block in questions),
        "details.js": any(item.packed for block in questions for item in block.items),
        "search.js": any(isinstance(block, model.Table) and block.search for block in blocks),
        "copy.js": any(isinstance(block, model.Code) and not block.language for block in blocks),
    }
    scripts = [name for name, is_needed in needed.items() if is_needed]
    style, script = (
        "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
        for names in (["page.css"], scripts)
    )
    return render(
        "page.html.jinja",
        document=document,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def render(template: str, **values: Any) -> str:
    """Return a template of `TEMPLATES` with its values, all of them escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {"counted": wording.counted, "inline": _inline, "plain": model.plain}
    environment.globals |= {"Scale": Scale, "mark_sql": mark_sql, "draw": _draw, "cells": _cells}
    return environment


def _draw(block: model.Block | Chart | Plot, *values: object) -> Markup:
    """Draw a block, a chart or a plot by the macro that has the name of its class."""
    name = type(block).__name__.lower()
    for template in ("blocks.html.jinja", "charts.html.jinja"):
        if macro := getattr(_environment().get_template(template).module, name, None):
            return Markup(macro(block, *values))  # noqa: S704 - our own template
    raise TypeError(f"There is no macro {name}.")


@dataclass
class DrawnCell:
    """A cell of a row as the page draws it."""

    column: model.Column
    content: model.Cell
    names_row: bool = False  # whether it is the first text of the row
    under: "list[DrawnCell]" = field(default_factory=list)  # cells of columns that stand under this one


def _cells(table: model.Table, row: Sequence[model.Cell]) -> list[DrawnCell]:
    """Return the cells of a row as the page draws them: a column `under` another has its text below the other's."""
    cells: list[DrawnCell] = []
    for column, content in zip(table.columns, row, strict=True):
        if column.text_only:
            continue
        if not column.under:
            cells.append(DrawnCell(column, content))
        elif content:
            cells[-1].under.append(DrawnCell(column, content))
    if cells:
        named = next((cell for cell in cells if cell.column.kind == "text"), cells[0])
        named.names_row = True
    return cells


def _inline(text: model.Inline) -> Markup:
    """Return a text with its tones as HTML in which nothing of the text acts."""
    return Markup("").join(map(_span, model.spans(text)))


def _span(span: model.Span) -> Markup:
    markup = escape(visible(span.text))
    if span.help:
        markup = Markup('<abbr title="{}">{}</abbr>').format(visible(span.help), markup)
    if span.form:
        markup = Markup('<span class="{} {}">{}</span>').format(span.form, span.tone, markup)
    elif span.tone in ("strong", "code"):
        markup = Markup("<{0}>{1}</{0}>").format(span.tone, markup)
    elif span.tone:
        markup = Markup('<span class="{}">{}</span>').format(span.tone, markup)
    return Markup('<a href="{}">{}</a>').format(visible(span.link), markup) if span.link else markup


def _all_blocks(blocks: Iterable[model.Block]) -> Iterator[model.Block]:
    """Yield the blocks of a page, and the blocks within them."""
    for block in blocks:
        yield block
        if isinstance(block, model.Section | model.Columns):
            yield from _all_blocks(block.blocks)
        elif isinstance(block, model.Only):
            yield from _all_blocks(block.blocks if "page" in block.media else ())
        elif isinstance(block, model.Cards):
            yield from (inner for card in block.cards for inner in card.blocks)


def _finalize(value: object) -> object:
    """Spell out what could act in every text that the template writes; markup of our own is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
