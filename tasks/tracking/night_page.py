"""A night on one page of Markdown: Prefect's artifact."""

from collections.abc import Iterator, Sequence

from tasks.scoring.report import Ratio
from tasks.tracking.night import Judged, Night

_NAMED = 20
_HEAD = (
    "| benchmark | backbone | pipeline | EX | baseline | difference | fixed | broken | p (Holm) | verdict | paid calls "
    "| USD | seconds |"
)
_LINE = "|---|---|---|--:|---|--:|--:|--:|--:|---|--:|--:|--:|"


def markdown(night: Night) -> str:
    """Return the page."""
    return "\n".join(_lines(night)) + "\n"


def _lines(night: Night) -> Iterator[str]:
    yield f"# {'Red' if night.red else 'Green'}: {night.name}"
    yield ""
    yield night.verdict
    yield ""
    yield _HEAD
    yield _LINE
    for each in night.entries:
        yield _row(each)
    yield ""
    yield (
        f"A regression is a loss of at least {night.gate.threshold:g} points with p < {night.gate.level:g} in the "
        "exact McNemar test on the same questions, adjusted for the number of comparisons (Holm). Questions that an "
        "endpoint left unanswered count as wrong in EX and are left out of the test."
    )
    for each in night.entries:
        yield from _changes(each)
    for each in night.entries:
        yield from _problem(each)


def _row(judged: Judged) -> str:
    entry, found = judged.entry, judged.entry.comparison
    cells = [
        entry.benchmark,
        entry.backbone,
        entry.pipeline,
        _share(entry.ex),
        entry.baseline or "none",
        f"{100 * found.difference:+.2f}" if found else "",
        str(len(found.fixed)) if found else "",
        str(len(found.broken)) if found else "",
        f"{judged.p_value:.3g}" if judged.p_value is not None else "",
        f"**{judged.standing}**" if judged.standing in ("regression", "infrastructure") else judged.standing,
        "unknown" if entry.calls is None else f"{entry.calls:,}",
        "unknown" if entry.cost_usd is None else f"{entry.cost_usd:.4f}",
        "" if entry.seconds is None else f"{entry.seconds:.0f}",
    ]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _changes(judged: Judged) -> Iterator[str]:
    entry, found = judged.entry, judged.entry.comparison
    if not found or not found.differing:
        return
    yield f"\n## {entry.name}\n"
    if found.broken:
        yield f"- broken: {_named(found.broken)}"
    if found.fixed:
        yield f"- fixed: {_named(found.fixed)}"
    yield f"\nBoth SQLs of each: `crosscheck compare {entry.baseline} {entry.run_id} --html night.html`"


def _problem(judged: Judged) -> Iterator[str]:
    entry = judged.entry
    if not entry.problem and not entry.continue_with:
        return
    yield f"\n## {entry.name}: {'infrastructure' if entry.problem else 'questions without an answer'}\n"
    if entry.problem:
        yield f"```\n{entry.problem.replace('```', '')}\n```"
    if entry.continue_with:
        yield f"\n{entry.unanswered:,} questions have no answer. This asks only those again, and merges:"
        yield f"```\n{entry.continue_with}\n```"


def _share(ex: Ratio | None) -> str:
    if ex is None or ex.value is None:
        return "none"
    return f"{100 * ex.value:.2f} % ({ex.correct:g}/{ex.total:g})"


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else "")
