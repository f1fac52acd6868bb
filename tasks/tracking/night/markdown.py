"""A night on one page of Markdown: Prefect's artifact."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.scoring.report import Ratio
from tasks.tracking.comparison.words import visible
from tasks.tracking.night import words
from tasks.tracking.night.records import CONFIDENCE, Judged, Night

_NAMED = 20
_HEAD = (
    f"| benchmark | backbone | pipeline | verdict | EX | {100 * CONFIDENCE:g} % interval | difference | fixed | broken "
    "| p (Holm) | baseline | paid calls | spared calls | paid | median | p95 | took | without an answer |"
)
_LINE = "|---|---|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|---|"
_ACTING = re.compile(r"([\\`*_\[\]<>&|~#])")


def markdown(night: Night, page: Path) -> str:
    """Return the page.

    Names, ids and messages are hostile text: nothing in them acts as Markdown or HTML.

    Args:
        night: what was found.
        page: where the report with all questions is.
    """
    return "\n".join(_lines(night, page)) + "\n"


def _lines(night: Night, page: Path) -> Iterator[str]:
    yield f"# {night.colour}: {_text(night.name)}"
    yield ""
    yield _text(night.verdict)
    yield ""
    for name, value in words.facts(night):
        yield f"- {name}: {_text(value)}"
    yield ""
    for each in night.entries:
        yield from _problem(each)
    yield _HEAD
    yield _LINE
    for each in night.entries:
        yield _row(each)
    yield ""
    yield words.gate_in_words(night)
    for each in night.entries:
        yield from _changes(each)
    yield ""
    yield f"Questions, SQL, stages and causes: {_code(str(page))} on the machine that evaluated, or"
    yield _block(words.night_command(night))


def _row(judged: Judged) -> str:
    entry, found = judged.entry, judged.entry.comparison
    interval = entry.interval
    cells = [
        _text(entry.benchmark),
        _text(entry.backbone),
        _text(entry.pipeline),
        f"**{judged.standing}**" if judged.red else judged.standing,
        _share(entry.ex),
        f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f} %" if interval else "",
        f"{100 * found.difference:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f})" if found else "",
        str(len(found.fixed)) if found else "",
        str(len(found.broken)) if found else "",
        f"{judged.p_value:.3g}" if judged.p_value is not None else "",
        entry.baseline or "none",
        words.count(entry.calls),
        words.count(entry.cached_calls),
        words.money(entry.cost_usd, entry.calls),
        "" if entry.p50_s is None else f"{entry.p50_s:.2f} s",
        "" if entry.p95_s is None else f"{entry.p95_s:.2f} s",
        words.duration(entry.seconds),
        _text(words.lost(entry)),
    ]
    return f"| {' | '.join(cells)} |"


def _changes(judged: Judged) -> Iterator[str]:
    entry, found = judged.entry, judged.entry.comparison
    if not found or not found.differing:
        return
    yield f"\n## {_text(entry.name)}\n"
    if found.broken:
        yield f"- broken: {_named(found.broken)}"
    if found.fixed:
        yield f"- fixed: {_named(found.fixed)}"
    yield f"\nBoth SQLs of each:\n{_block(words.compare_command(entry))}"


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


def _share(ex: Ratio | None) -> str:
    if ex is None or ex.value is None:
        return "none"
    return f"{100 * ex.value:.2f} % ({ex.correct:g}/{ex.total:g})"


def _named(ids: Sequence[str]) -> str:
    some = ", ".join(_text(id_) for id_ in ids[:_NAMED])
    return some + (f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else "")


def _text(text: str) -> str:
    """Return text in one line in which nothing acts."""
    return _ACTING.sub(r"\\\1", " ".join(visible(text).split()))


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence}{visible(text)}{fence}"


def _block(text: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{visible(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
