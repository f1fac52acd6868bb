"""Self-contained HTML pages: they load nothing, and nothing in them can act but their own script."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tasks import wording
from tasks.scoring.report import is_right
from tasks.tracking.pages.sql_markup import mark_sql
from tasks.tracking.pages.text import answer_in_words, visible

TEMPLATES = Path(__file__).parent / "templates"
"""Templates, styles and scripts of all pages."""


def fill(template: str, styles: Sequence[str], script: str | None = None, **values: Any) -> str:
    """Return a page.

    Questions, SQL, names and messages are hostile text: all of it is escaped, control and direction characters are
    spelled out, and the page's own policy lets a browser run nothing but the script whose digest it states.

    Args:
        template: name of the page's template, a file of `TEMPLATES`.
        styles: names of its style sheets, later ones before earlier ones.
        script: name of its script; None where it needs none.
        values: what the template writes.
    """
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
        wording.seconds, wording.counted, wording.duration, wording.interval,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in written}
    environment.globals |= {"mark_sql": mark_sql, "answer_in_words": answer_in_words, "right": is_right}
    style = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in styles)
    acting = (TEMPLATES / script).read_text(encoding="utf-8") if script else ""
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(acting),  # noqa: S704
        style_digest=_digest(style),
        script_digest=_digest(acting),
        **values,
    )


def _finalize(value: object) -> object:
    """Spell out what could act in every text that the template writes; markup of our own is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
