"""A night on one page of Markdown: Prefect's artifact."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.tracking.comparison.records import Pair
from tasks.tracking.night import wording as words
from tasks.tracking.night.detail import Detail, details
from tasks.tracking.night.records import CONFIDENCE, Entry, Judged, Night
from tasks.tracking.pages.wording import counts, p_value, percent, points, seconds, visible
from tasks.tracking.warehouse.runs import Warehouse

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
    yield from _scores(night)
    yield ""
    yield from _bills(night)
    yield ""
    yield words.gate_in_words(night)
    regressions = [each for each in night.entries if each.standing == "regression"]
    broken = {each.judged.entry.name: each for each in details(regressions, warehouse)}
    for each in night.entries:
        yield from _changes(each, broken.get(each.entry.name))
    yield ""
    yield f"Questions, SQL, stages and causes: {_code(str(page))} on the machine that evaluated, or"
    yield _block(words.night_command(night))


def _scores(night: Night) -> Iterator[str]:
    yield (
        f"| benchmark | backbone | pipeline | verdict | EX | {100 * CONFIDENCE:g} % interval | difference | "
        f"{100 * (1 - night.gate.level):g} % interval | fixed | broken | p (Holm) | baseline |"
    )
    yield "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|"
    for judged in night.entries:
        entry, found = judged.entry, judged.entry.comparison
        interval = entry.interval
        yield _row(
            *_names(entry),
            f"**{judged.standing}**" if judged.red else judged.standing,
            f"{percent(entry.ex)} ({counts(entry.ex)})" if entry.ex else "",
            f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f} %" if interval else "",
            points(found.difference) if found else "",
            f"{points(found.low)} to {points(found.high)}" if found else "",
            str(len(found.fixed)) if found else "",
            str(len(found.broken)) if found else "",
            p_value(judged.p_value) if found else "",
            entry.baseline or "none",
        )


def _bills(night: Night) -> Iterator[str]:
    yield (
        "| benchmark | backbone | pipeline | paid calls | spared calls | paid | median | p95 | took "
        "| without an answer |"
    )
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|---|"
    for judged in night.entries:
        entry = judged.entry
        yield _row(
            *_names(entry),
            words.count(entry.calls),
            words.count(entry.cached_calls),
            words.money(entry.cost_usd, entry.calls),
            seconds(entry.p50_s),
            seconds(entry.p95_s),
            words.duration(entry.seconds),
            _text(words.lost(entry)),
        )


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
        yield f"- broken: {_named(found.broken)}"
    if found.fixed:
        yield f"- fixed: {_named(found.fixed)}"
    for pair in detail.broken[:_SHOWN] if detail else ():
        yield from _question(pair)
    yield f"\nBoth SQLs of each:\n{_block(words.compare_command(entry))}"


def _question(pair: Pair) -> Iterator[str]:
    question = pair.question
    yield f"\n**{_text(question.id)}** ({_text(question.database_id)}) {_text(question.text)}"
    for name, score in (("baseline", pair.a), ("tonight", pair.b)):
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


def _named(ids: Sequence[str]) -> str:
    some = ", ".join(_text(id_) for id_ in ids[:_NAMED])
    return some + (f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else "")


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
