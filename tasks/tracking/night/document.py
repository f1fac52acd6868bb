"""A nightly run as a document: the verdict, failures, scores, costs, and what changed in each evaluation."""

from collections.abc import Iterator, Sequence
from typing import Literal

from tasks.core.wording import (
    counted,
    duration,
    money,
    number,
    shorten,
)
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Column,
    Document,
    Facts,
    Only,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
)
from tasks.tracking.comparison.flips import question_item
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import Detail, details
from tasks.tracking.night.entry import Colour
from tasks.tracking.night.evaluation import evaluation_section
from tasks.tracking.night.night import Night
from tasks.tracking.night.tables import costs_table, scores_legend, scores_table
from tasks.tracking.warehouse.runs import Warehouse

GLANCE_SHOWN, BROKEN_SHOWN, IDS_SHOWN = 4, 5, 20
"""Evaluations with broken questions in the card of a page; broken questions and ids of an evaluation in Markdown."""
TONES: dict[Colour, Tone] = {"Red": "bad", "Amber": "doubt", "Green": "good", "No baseline yet": "quiet"}
_TEXT: tuple[Literal["terminal", "markdown"], ...] = ("terminal", "markdown")


def night_document(
    night: Night, warehouse: Warehouse | None = None, board: str = "", page: str = ""
) -> Document:
    """Return the document.

    Args:
        night: the nightly run.
        warehouse: where its runs are; None for a terminal, which shows no questions.
        board: address of the leaderboard, relative to the page; "" for none.
        page: path of the page, which Markdown names; "" for none.
    """
    found = list(details(night.entries, warehouse) if warehouse else map(Detail, night.entries))
    sections = tuple(evaluation_section(place, found[place - 1]) for place, _ in night.worst_first)
    parts = (
        Only(_TEXT, (Facts(tuple(words.facts(night))),)),
        *_failures(night),
        scores_table(night),
        scores_legend(night),
        _glance(night, board),
        costs_table(night),
        *_remarks(night),
        *([Only(("page",), sections)] if warehouse else ()),
        *(block for detail in found for block in _moved(detail)),
        *([Only(("markdown",), tuple(_where(night, page)))] if page else ()),
    )
    footer = (
        Section("About this nightly run", (Facts(tuple(words.facts(night))),)),
        Section(
            "How to read this",
            (
                Facts(tuple(words.rules(night))),
                Sentence(
                    "Both runs are paired question by question. A question is fixed where the baseline is wrong and "
                    "this run is right, and broken the other way round; marked in the SQL is what the other run does "
                    "not have. p is how likely chance alone would split these questions this unevenly or more."
                ),
            ),
        ),
    )
    return Document(
        night.colour,
        parts,
        f"Crosscheck · nightly run {night.name}",
        night.verdict,
        TONES[night.colour],
        footer,
        f"{night.colour}: nightly run {night.name}",
    )


def nights_table(nights: Sequence[Night]) -> Table:
    """Return the list of nightly runs."""
    headers = (Column("night", "text"), Column("", "text"), Column("paid"), Column("verdict", "text"))
    rows = tuple(
        (each.name, Span(each.colour, TONES[each.colour]), words.paid(each), each.verdict) for each in nights
    )
    return Table("", headers, rows, keep=4)


def _glance(night: Night, board: str) -> Cards:
    """Return what broke, what it cost and what to do; the scores are in their table."""
    broken = [
        Sentence((
            Span(counted(len(entry.comparison.broken), "question"), link=f"#evaluation-{place}"),
            f" of {entry.model_and_pipeline}, {number(len(entry.comparison.fixed))} fixed",
        ))
        for place, entry in night.worst_first
        if entry.comparison and entry.comparison.broken
    ]  # fmt: skip
    if len(broken) > GLANCE_SHOWN:
        broken[GLANCE_SHOWN:] = [Sentence(f"and {len(broken) - GLANCE_SHOWN} more evaluations", "note")]
    broken = broken or [Sentence("No question that was right is wrong now.")]
    if lost := sum(each.unanswered for each in night.entries):
        broken.append(Sentence(f"{counted(lost, 'question')} without an answer"))
    if night.missed:
        broken.append(Sentence(f"{counted(len(night.missed), 'nightly run')} missed"))
    cost = night.cost
    took = duration((night.finished - night.started).total_seconds())
    of_budget = "" if night.budget_usd is None else f" of a budget of {money(night.budget_usd)}"
    spent = (Span(money(cost.cost_usd), "strong"), f" for {counted(cost.calls or 0, 'paid call')}{of_budget}")
    todo: list[Sentence | Code] = []
    for line, command in words.todo(night):
        todo += [Sentence(line), *([Code(command)] if command else ())]
    if board:
        todo.append(Sentence(Span("Leaderboard", link=board)))
    return Cards((
        Card("What broke?", tuple(broken)),
        Card(
            "What did it cost?",
            (
                Sentence(spent),
                Sentence(f"{number(cost.cached_calls)} answered by the cache; {took}", "note"),
                *((Sentence(saved, "note"),) if (saved := words.saved(cost)) else ()),
                *((Sentence(earlier, "note"),) if (earlier := words.earlier(night)) else ()),
            ),
        ),
        Card("Next", tuple(todo), wide=True),
    ))  # fmt: skip


def _failures(night: Night) -> Iterator[Section]:
    blocks: list[Block] = []
    for entry in night.entries:
        if entry.problem or entry.continue_with:
            blocks.append(Sentence(Span(entry.name, "strong"), "error"))
        if entry.problem:
            blocks.append(Sentence(entry.problem, "message"))
        if entry.continue_with:
            blocks += [Sentence(words.what_continues(entry)), Code(entry.continue_with)]
    if blocks:
        yield Section("Failures", tuple(blocks), notes=True)


def _remarks(night: Night) -> Iterator[Block]:
    lines = [f"{entry.name}: {sentence}" for entry in night.entries for sentence in entry.degradation]
    if lines:
        yield Only(_TEXT, (Bullets(tuple(lines), "warning"),))
    yield Only(_TEXT, (Bullets(tuple(words.variants(night))),))
    baselines = [
        f"{entry.name}: {line}"
        for entry in night.entries
        for line in (
            f"baseline {entry.baseline}, {entry.pinned}" if entry.pinned else "",
            words.noise(entry),
            words.decline(entry) if entry.verdict == "declining" else "",
        )
        if line
    ]
    yield Only(_TEXT, (Bullets(tuple(baselines)),))
    yield Only(("markdown",), (Facts(tuple(words.rules(night))),))


def _moved(detail: Detail) -> Iterator[Block]:
    """Yield which questions changed, for a terminal and Markdown."""
    entry, found = detail.entry, detail.entry.comparison
    if not found or not found.differing:
        return
    command = Code(words.compare_command(entry))
    moved = (("broken", found.broken), ("fixed", found.fixed))
    ids = tuple(f"{name}: {shorten(names, IDS_SHOWN)}" for name, names in moved if names)
    broken = detail.broken if entry.verdict == "regression" else ()
    items = tuple(question_item(flip, ("baseline", "this run"), gold=False) for flip in broken[:BROKEN_SHOWN])
    questions = (Questions(items),) if items else ()
    blocks = (Bullets(ids), *questions, Sentence("Both SQLs of each:"), command)
    yield Only(("markdown",), (Section(entry.name, blocks),))
    yield Only(("terminal",), (Sentence(f"Questions that changed in {entry.name}, with both SQLs:"), command))


def _where(night: Night, page: str) -> Iterator[Block]:
    yield Sentence(
        ("Questions, SQL, stages and causes: ", Span(page, "code"), " on the machine that evaluated, or")
    )
    yield Code(words.night_command(night))
