"""Pages whose templates call functions of the scoring."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.core import wording
from tasks.documents import html
from tasks.scoring.report import is_right
from tasks.scoring.score import wilson
from tasks.scoring.significance import needed_net
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.pages.text import answer_in_words

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, styles: Sequence[str], scripts: Sequence[str] = (), **values: Any) -> str:
    """Return a page, as `tasks.documents.html.fill`."""
    _environment()
    return html.fill(template, styles, scripts, **values)


def render(template: str, **values: Any) -> str:
    """Return a template with its values, all of them escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> "Environment":
    environment = html.environment()
    written = (
        wording.percent, wording.counts, wording.points, wording.p_value, wording.number, wording.money,
        wording.seconds, wording.counted, wording.duration, wording.interval, wording.signed,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in written} | {"labels": labels_in_words}
    called = (answer_in_words, wilson, needed_net)
    environment.globals |= {function.__name__: function for function in called} | {
        "right": is_right,
    }
    return environment
