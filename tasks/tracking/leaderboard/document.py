"""The leaderboard as a document."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tasks.core.files import atomic_write_text
from tasks.core.wording import DASH, Share, counted, counts, interval, money, number, percent
from tasks.documents.html import html
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Column,
    Document,
    Inline,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.scoring.cost import Cost
from tasks.scoring.score import CONFIDENCE
from tasks.scoring.statistics.letters import LETTERS
from tasks.settings.home import Home
from tasks.tracking.comparison.score_plots import axis_around, score_plot
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
        "; ".join(_first(board) for board in boards if board.ranked),
        footer=(
            Section(
                "How to read this",
                (
                    Sentence(
                        "Runs are ranked against each other only if they answered the same questions of the same "
                        "revision and were scored by the same rule. Questions without an answer count as wrong. "
                        "Neither the score variants nor pass@k, the share of questions of which one of the k "
                        "candidates is right, change the rank. Two runs whose intervals overlap may still differ, "
                        "since both answered the same questions: runs of one board are tested in pairs, by the exact "
                        "McNemar test with p adjusted for their number (Holm), and those that share a letter do not "
                        "differ significantly. From scratch is "
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


def _first(board: Board) -> str:
    """Return which runs have the best score, and how many others do not differ significantly from it."""
    best = [each for each in board.ranked if each.rank == 1]
    also = f" and {counted(len(best) - 1, 'other')}" if len(best) > 1 else ""
    letter = best[0].letters[:1]
    close = sum(letter in each.letters for each in board.ranked[len(best) :]) if letter else 0
    tied = f", not significantly better than {counted(close, 'other')}" if close else ""
    return (
        f"{board.benchmark}: {best[0].backbone} | {best[0].pipeline}{also} with {percent(best[0].ex)}{tied}"
    )


def _board(board: Board, page_of: Callable[[str], str]) -> Iterator[Block]:
    if board.unscored:
        yield Sentence(f"{board.unscored}.", "warning")
    if board.ranked:
        yield _ranked(board, page_of)
        yield Cards((Card("Next", tuple(_todo(board)), wide=True),))
        yield from pareto_blocks(
            [
                Priced(each.name, each.ex, each.cost.from_scratch_usd)
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


def _todo(board: Board) -> Iterator[Code]:
    if len(board.ranked) > 1:
        first, second = board.ranked[:2]
        yield Code(
            f"crosscheck compare {second.run_id} {first.run_id}  # the first two, question by question"
        )
    yield Code("crosscheck sweep --help  # evaluates others")


def _ranked(board: Board, page_of: Callable[[str], str]) -> Table:
    axis = axis_around(each.ex for each in board.ranked)
    titles = {name: score.title for each in board.ranked for name, score in each.variants.items()}
    passed = any(each.pass_at_k for each in board.ranked)
    tested = any(each.letters for each in board.ranked)
    known = any(each.cost.calls is not None for each in board.ranked)
    ranks = Counter(each.rank for each in board.ranked)
    headers = (
        Column("rank"), Column("pipeline", "text"), Column("backbone", "text", under=True),
        Column("changed", "text", under=True), Column("EX", brief=True), Column("right", under=True),
        Column(RANGE, under=True, brief=True),
        *(Column(title, under=True, help=title) for title in titles.values()),
        *((Column("pass@k", under=True, help="pass@k"),) if passed else ()),
        Column("EX with its interval", "plot", axis=axis),
        *((Column("letters", "text", brief=True, help=f"Runs that {LETTERS}"),) if tested else ()),
        *(_COSTS if known else ()), Column("run", "text"), Column("started", "text", under=True),
    )  # fmt: skip
    rows = tuple(
        (
            Span(f"{each.rank}{' =' if ranks[each.rank] > 1 else ''}", "strong"),
            Span(each.pipeline, link=page_of(each.run_id)),
            each.backbone,
            " · ".join(filter(None, (each.changed, each.label))), percent(each.ex), counts(each.ex),
            _interval(each), *(_share(each.variants.get(name)) for name in titles),
            *((f"{_share(each.pass_at_k)}, k = {each.candidates}" if each.pass_at_k else "",) if passed else ()),
            score_plot(("", each.ex, "b")),
            *((each.letters,) if tested else ()), *(_costs(each.cost) if known else ()),
            Span(each.run_id, "code"), f"{each.started:%Y-%m-%d %H:%M} UTC",
        )
        for each in board.ranked
    )  # fmt: skip
    remark = f"Runs that {LETTERS}." if tested else ""
    return Table("", headers, rows, remark, keep=7, wide=True)


_COSTS = (
    Column("from scratch"), Column("paid", under=True, help="paid"), Column("calls paid"),
    Column("from cache", under=True, help="cached"), Column("input tokens"),
    Column("output tokens", under=True, help="output"),
)  # fmt: skip


def _costs(cost: Cost) -> tuple[str, ...]:
    if cost.calls is None:  # the answers were made elsewhere
        return "unknown", "", DASH, "", DASH, ""
    numbers = (cost.calls, cost.cached_calls, cost.input_tokens, cost.output_tokens)
    return money(cost.from_scratch_usd), money(cost.cost_usd), *map(number, numbers)


def _unranked(each: BoardRow, page: str) -> Inline:
    changed = f" ({each.changed})" if each.changed else ""
    scored = f"{percent(each.ex)} ({counts(each.ex)})" if each.ex else DASH
    about = f" with {each.backbone}{changed}: {scored}, {each.why_unranked} "
    return Span(each.pipeline, link=page), about, Span(each.run_id, "code")


def _interval(each: BoardRow) -> str:
    return interval(*each.ex.interval) if each.ex and each.ex.interval else DASH


def _share(share: Share | None) -> str:
    return f"{percent(share)} ({counts(share)})" if share else ""
