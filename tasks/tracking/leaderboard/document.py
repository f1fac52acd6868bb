"""The leaderboard as a document."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tasks.core.files import atomic_write_text
from tasks.core.wording import DASH, Share, counted, counts, interval, money, number, percent
from tasks.documents.charts import Points
from tasks.documents.html import html
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Column,
    Document,
    Inline,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.scoring.score import CONFIDENCE
from tasks.settings.home import Home
from tasks.tracking.comparison.figures import axis_around, point
from tasks.tracking.leaderboard.key_document import key_blocks
from tasks.tracking.leaderboard.leaderboard import Board, BoardRow
from tasks.tracking.pareto import Priced, pareto_blocks

FILE_NAME = "leaderboard.html"
"""Name of the page below `reports/` in the working folder."""
RANGE = f"{100 * CONFIDENCE:g} % interval"


def leaderboard_document(
    boards: Sequence[Board], page_of: Callable[[str], str] = lambda run_id: ""
) -> Document:
    """Return the document, with a link to a run's page where `page_of` returns its address, relative to this one."""
    sections = (Section(board.title, tuple(_board(board, page_of))) for board in boards)
    nothing = Sentence('No run is finished yet. Run "crosscheck evaluate".')
    return Document(
        "Leaderboard",
        tuple(sections) or (nothing,),
        "Crosscheck · latest ranked run per model, pipeline and settings",
        footer=(
            Section(
                "How to read this",
                (
                    Sentence(
                        "Runs are ranked against each other only if they answered the same questions of the same "
                        "revision and were scored by the same rule. Questions without an answer count as wrong. "
                        "Neither the score variants nor pass@k, the share of questions of which one of the k "
                        "candidates is right, change the rank. Two runs whose intervals overlap may still differ: "
                        "crosscheck compare A B pairs them by question, which is the sharper test. From scratch is "
                        "what the answers cost with an empty cache; of equal scores, the cheapest stands first. Money "
                        "paid, calls and tokens are what the run itself paid; what the cache answered was paid before."
                    ),
                ),
            ),
        ),
    )


def write_leaderboard(boards: Sequence[Board], home: Home) -> Path:
    """Write the page beside the pages of runs, to which it links, and return its path."""
    file = home.reports / FILE_NAME

    def page_of(run_id: str) -> str:
        return f"{run_id}.html" if (home.reports / f"{run_id}.html").exists() else ""

    atomic_write_text(file, html(leaderboard_document(boards, page_of)))
    return file


def _board(board: Board, page_of: Callable[[str], str]) -> Iterator[Block]:
    if board.unscored:
        yield Sentence(f"{board.unscored}.", "warning")
    if board.ranked:
        yield _glance(board)
        yield _ranked(board, page_of)
        yield from pareto_blocks(
            [
                Priced(_named(each), each.ex, each.cost.from_scratch_usd)
                for each in board.ranked
                if each.ex and each.cost.from_scratch_usd is not None
            ]
        )
    else:
        yield Sentence("No run of these questions is ranked.")
    for ranking in board.keys:
        yield from key_blocks(board, ranking)
    if board.not_ranked:
        lines = tuple(_unranked(each, page_of(each.run_id)) for each in board.not_ranked)
        yield Section("Not ranked", (Bullets(lines),))


def _glance(board: Board) -> Cards:
    best, cost = board.ranked[0], board.ranked[0].cost
    equal = sum(each.rank == 1 for each in board.ranked) - 1
    others = f", tied with {counted(equal, 'other')}" if equal else ""
    changed = f" ({best.changed})" if best.changed else ""
    paid = ""
    if cost.calls is not None:
        paid = (
            f"; this run paid {money(cost.cost_usd)} for {number(cost.calls)} calls, {number(cost.cached_calls)} came "
            "from the cache"
        )
    todo: Inline = ("Evaluate another: ", Span("crosscheck sweep --help", "code"))
    if len(board.ranked) > 1:
        todo = (
            "Test the first two: ",
            Span(f"crosscheck compare {board.ranked[1].run_id} {best.run_id}", "code"),
        )
    named = f" with {best.backbone}{changed}: {percent(best.ex)}{others}"
    sure = f"{counts(best.ex)} right, {RANGE} {_interval(best)}"
    answers: tuple[tuple[str, Inline], ...] = (
        ("Which is best?", (Span(best.pipeline, "strong"), named)),
        ("How sure is it?", sure),
        ("What did it cost?", (Span(money(cost.from_scratch_usd), "strong"), f" from scratch{paid}")),
        ("What do I do?", todo),
    )
    return Cards(tuple(Card(title, (Sentence(text),)) for title, text in answers))


def _ranked(board: Board, page_of: Callable[[str], str]) -> Table:
    axis = axis_around(each.ex for each in board.ranked)
    titles = {name: score.title for each in board.ranked for name, score in each.variants.items()}
    passed = any(each.pass_at_k for each in board.ranked)
    headers = (
        Column("rank"), Column("pipeline", "text"), Column("backbone", "text", under=True),
        Column("changed", "text", under=True), Column("EX"), Column("right", under=True), Column(RANGE, under=True),
        *(Column(title, under=True, help=title) for title in titles.values()),
        *((Column("pass@k", under=True, help="pass@k"),) if passed else ()),
        Column("EX with its interval", "plot", axis=axis), Column("from scratch"),
        Column("paid", under=True, help="paid"), Column("calls paid"),
        Column("from cache", under=True, help="from the cache"), Column("input tokens"),
        Column("output tokens", under=True, help="output"), Column("run", "text"),
        Column("started", "text", under=True),
    )  # fmt: skip
    rows = tuple(
        (
            Span(str(each.rank), "good" if each.rank == 1 else "strong"),
            Span(each.pipeline, link=page_of(each.run_id)),
            each.backbone,
            " · ".join(filter(None, (each.changed, each.label))), percent(each.ex), counts(each.ex),
            _interval(each), *(_share(each.variants.get(name)) for name in titles),
            *((f"{_share(each.pass_at_k)}, k = {each.candidates}" if each.pass_at_k else "",) if passed else ()),
            Points((point(each.ex, "b"),) if each.ex else (), f"{percent(each.ex)} ({counts(each.ex)})"),
            money(each.cost.from_scratch_usd), money(each.cost.cost_usd), number(each.cost.calls),
            number(each.cost.cached_calls), number(each.cost.input_tokens), number(each.cost.output_tokens),
            Span(each.run_id, "code"), f"{each.started:%Y-%m-%d %H:%M} UTC",
        )
        for each in board.ranked
    )  # fmt: skip
    return Table("", headers, rows, keep=7, wide=True)


def _named(each: BoardRow) -> str:
    return " · ".join(filter(None, (each.pipeline, each.backbone, each.changed, each.label)))


def _unranked(each: BoardRow, page: str) -> Inline:
    changed = f" ({each.changed})" if each.changed else ""
    scored = f"{percent(each.ex)} ({counts(each.ex)})" if each.ex else DASH
    about = f" with {each.backbone}{changed}: {scored}, {each.why_unranked} "
    return Span(each.pipeline, link=page), about, Span(each.run_id, "code")


def _interval(each: BoardRow) -> str:
    return interval(*each.ex.interval) if each.ex and each.ex.interval else DASH


def _share(share: Share | None) -> str:
    return f"{percent(share)} ({counts(share)})" if share else ""
