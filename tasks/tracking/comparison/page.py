"""A comparison as one self-contained HTML page: it loads nothing, and nothing in it can act but its own script."""

import base64
import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from tasks.scoring.build_report import is_right
from tasks.tracking.comparison import charts, words
from tasks.tracking.comparison.records import Contrast, RunComparison
from tasks.tracking.comparison.sql_markup import mark_sql

_FOLDER = Path(__file__).parent / "page"


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
    """Return the page.

    Questions, SQL, names and messages are hostile text: all of it is escaped, control and direction characters are
    spelled out, and the page's own policy lets a browser run nothing but the script whose digest it states.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "percent": words.percent,
        "counts": words.counts,
        "points": words.points,
        "p": words.p_value,
        "number": words.number,
        "money": words.money,
    }
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return environment.get_template("page.html.jinja").render(
        comparison=comparison,
        result=comparison.result,
        run=comparison.a.run,
        sides=(comparison.a, comparison.b),
        left_out=words.left_out(comparison),
        tables=_tables(comparison),
        databases=sorted({pair.question.database_id for pair in comparison.flips}),
        grades=sorted({pair.question.difficulty for pair in comparison.flips if pair.question.difficulty}),
        charts=charts,
        mark_sql=mark_sql,
        fared=partial(words.answer_in_words, rule=comparison.rule),
        right=partial(is_right, rule=comparison.rule),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _finalize(value: object) -> object:
    """Spell out what could act in every text that the template writes; markup of our own is left as it is."""
    return words.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _tables(comparison: RunComparison) -> list[_Table]:
    named = (
        ("By stage", comparison.stages if len(comparison.stages) > 1 else ()),
        ("By difficulty", comparison.by_difficulty),
        ("By database", comparison.by_database if len(comparison.by_database) > 1 else ()),
    )
    return [_Table(title, contrasts) for title, contrasts in named if contrasts]


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
