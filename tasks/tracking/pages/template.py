"""Self-contained HTML pages: they load nothing, and nothing in them can act but their own script.

The charts are SVG in the pages' templates, not matplotlib: on a page a chart follows the light or dark scheme, has a
text alternative, and there are dozens of small ones in table cells.
"""

import base64
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tasks.core import wording
from tasks.scoring.report import is_right, is_right_corrected
from tasks.scoring.significance import needed_net, wilson
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.pages.sql_markup import mark_sql
from tasks.tracking.pages.text import answer_in_words, visible

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
"""Templates, styles and scripts of all pages."""

_STEPS = (0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` on pixels from `left` to `right`."""

    low: float
    high: float
    left: float
    right: float

    @classmethod
    def around(cls, percentages: Collection[float], left: float, right: float) -> "Scale":
        """Return a scale from whole tens to whole tens around percentages, at least ten points wide."""
        low = floor(min(percentages, default=0) / 10) * 10
        return cls(low, max(ceil(max(percentages, default=100) / 10) * 10, low + 10), left, right)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 2)

    def ticks(self, wanted: int = 8) -> list[float]:
        """Return round values within, not many more than are wanted."""
        step = next((step for step in _STEPS if (self.high - self.low) / step <= wanted), _STEPS[-1])
        return [place * step for place in range(ceil(self.low / step), floor(self.high / step) + 1)]


def fill(template: str, styles: Sequence[str], scripts: Sequence[str] = (), **values: Any) -> str:
    """Return a page: a template with style sheets, later ones overriding earlier ones, and scripts, of `TEMPLATES`.

    Questions, SQL, names and messages are hostile text: all of it is escaped, control and direction characters are
    spelled out, and the page's own policy lets a browser run nothing but the script whose digest it states.
    """
    style, acting = (
        "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
        for names in (styles, scripts)
    )
    return render(
        template,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(acting),  # noqa: S704
        style_digest=_digest(style),
        script_digest=_digest(acting),
        **values,
    )


def render(template: str, **values: Any) -> str:
    """Return a template with its values, all of them escaped."""
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
    written = (
        wording.percent, wording.counts, wording.points, wording.p_value, wording.number, wording.money,
        wording.seconds, wording.counted, wording.duration, wording.interval, wording.signed,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in written} | {"labels": labels_in_words}
    called = (Scale, mark_sql, answer_in_words, wilson, needed_net)
    environment.globals |= {function.__name__: function for function in called} | {
        "right": is_right,
        "right_corrected": is_right_corrected,
    }
    return environment


def _finalize(value: object) -> object:
    """Spell out what could act in every text that the template writes; markup of our own is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
