"""A nightly run as one page of Markdown: Prefect's artifact."""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tasks.core.wording import shorten
from tasks.documents.html import TEMPLATES
from tasks.documents.text import visible
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import details
from tasks.tracking.night.night import Night
from tasks.tracking.night.tables import costs, scores
from tasks.tracking.warehouse.runs import Warehouse

if TYPE_CHECKING:
    from jinja2 import Environment

_ACTING = re.compile(r"([\\`*_\[\]<>&|~#])")


def markdown(night: Night, warehouse: Warehouse, page: Path) -> str:
    """Return the page, with the first questions that a regression broke, and where the report with all of them is.

    Names, ids and messages are hostile text: nothing in them acts as Markdown or HTML.
    """
    regressions = [each for each in night.entries if each.verdict == "regression"]
    return (
        _environment()
        .get_template("night.md.jinja")
        .render(
            night=night,
            words=words,
            tables=(scores(night, with_baseline=True), costs(night)),
            broken={each.judged.entry.name: each.broken for each in details(regressions, warehouse)},
            page=str(page),
        )
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # noqa: S701 - Markdown: `_text` escapes
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_text,
    )
    environment.filters |= {"block": _block, "code": _code, "shorten": shorten}
    return environment


def _text(value: object) -> object:
    """Return text in one line in which nothing acts; Markdown of our own is left as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _ACTING.sub(r"\\\1", " ".join(visible(value).split()))


def _code(text: str) -> Markup:
    fence = "`" * (_longest_run(text) + 1)
    return Markup(f"{fence}{visible(text)}{fence}")  # noqa: S704 - fenced


def _block(text: str, language: str = "") -> Markup:
    fence = "`" * max(3, _longest_run(text) + 1)
    return Markup(f"{fence}{language}\n{visible(text)}\n{fence}")  # noqa: S704 - fenced


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
