"""A nightly run as one page of Markdown: Prefect's artifact."""

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.tracking.comparison.records import Pair
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import Detail, details
from tasks.tracking.night.records import Entry, Judged, Night
from tasks.tracking.night.tables import Table, costs, scores
from tasks.tracking.pages.text import visible
from tasks.tracking.warehouse.runs import Warehouse
from tasks.wording import shorten

_NAMED, _SHOWN = 20, 5
_ACTING = re.compile(r"([\\`*_\[\]<>&|~#])")


def markdown(night: Night, warehouse: Warehouse, page: Path) -> str:
    """Return the page.

    Names, ids and messages are hostile text: nothing in them acts as Markdown or HTML.

    Args:
        night: what was found.
        warehouse: where its runs are, for the first questions that a regression broke.
        page: where the report with all questions is.
    """
    return "\n".join(_lines(night, warehouse, page)) + "\n"


def _lines(night: Night, warehouse: Warehouse, page: Path) -> Iterator[str]:
    yield f"# {night.colour}: {_text(night.name)}"
    yield ""
    yield _text(night.verdict)
    yield ""
    for name, value in words.facts(night):
        yield f"- {name}: {_text(value)}"
    yield ""
    for each in night.entries:
        yield from _problem(each)
    yield from _table(scores(night, with_baseline=True))
    yield ""
    yield from _table(costs(night))
    yield ""
    yield words.gate_in_words(night)
    regressions = [each for each in night.entries if each.verdict == "regression"]
    broken = {each.judged.entry.name: each for each in details(regressions, warehouse)}
    for each in night.entries:
        yield from _changes(each, broken.get(each.entry.name))
    yield ""
    yield f"Questions, SQL, stages and causes: {_code(str(page))} on the machine that evaluated, or"
    yield _block(words.night_command(night))


def _table(table: Table) -> Iterator[str]:
    """Yield a table of evaluations as Markdown."""
    yield _row("benchmark", "backbone", "pipeline", *table.columns)
    yield f"|---|---|---{'|--:' * len(table.columns)}|"
    for row in table.rows:
        cells = (
            f"**{cell}**" if row.judged.red and cell == row.judged.verdict else cell for cell in row.cells
        )
        yield _row(*_names(row.judged.entry), *cells)


def _names(entry: Entry) -> tuple[str, ...]:
    return tuple(_text(name) for name in (entry.benchmark, entry.backbone, entry.pipeline))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _changes(judged: Judged, detail: Detail | None) -> Iterator[str]:
    entry, found = judged.entry, judged.entry.comparison
    if not found or not found.differing:
        return
    yield f"\n## {_text(entry.name)}\n"
    if found.broken:
        yield f"- broken: {_text(shorten(found.broken, _NAMED))}"
    if found.fixed:
        yield f"- fixed: {_text(shorten(found.fixed, _NAMED))}"
    for pair in detail.broken[:_SHOWN] if detail else ():
        yield from _question(pair)
    yield f"\nBoth SQLs of each:\n{_block(words.compare_command(entry))}"


def _question(pair: Pair) -> Iterator[str]:
    question = pair.question
    yield f"\n**{_text(question.id)}** ({_text(question.database_id)}) {_text(question.text)}"
    for name, score in (("baseline", pair.a), ("this run", pair.b)):
        sql = score.outcome.sql
        yield f"\n{name}" + (f"\n{_block(sql.strip(), 'sql')}" if sql else ": no SQL")


def _problem(judged: Judged) -> Iterator[str]:
    entry = judged.entry
    if not entry.problem and not entry.continue_with:
        return
    yield f"## {_text(entry.name)}: {'infrastructure' if entry.problem else 'questions without an answer'}\n"
    if entry.problem:
        yield _block(entry.problem)
    if entry.continue_with:
        yield f"\n{words.what_continues(entry)}\n{_block(entry.continue_with)}"
    yield ""


def _text(text: str) -> str:
    """Return text in one line in which nothing acts."""
    return _ACTING.sub(r"\\\1", " ".join(visible(text).split()))


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence}{visible(text)}{fence}"


def _block(text: str, language: str = "") -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
