"""The lists of runs: all of them, and the leaderboard."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import comb
from pathlib import Path

from tasks.core.files import atomic_write_text
from tasks.core.wording import DASH, counted, counts, money, number, percent
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
    reading,
)
from tasks.pages.scores import AXIS, RANGE, axis_around, in_words, interval_in_words, score_plot
from tasks.results.curves import Priced, pareto_blocks
from tasks.results.leaderboard import Board, BoardRow
from tasks.results.run_record import DATABASES_CHANGED, ORACLE, REROLLED, TRANSLATED, RunHeader, RunRecord
from tasks.scoring.cost import Cost
from tasks.scoring.letters import ALONE, LETTERS, family_in_words, letters_overlap
from tasks.scoring.scores import Ratio
from tasks.settings.choices import labels_in_words
from tasks.settings.home import Home

FILE_NAME = "leaderboard.html"
"""Name of the page below `reports/` in the working folder."""


def leaderboard_document(
    boards: Sequence[Board], page_of: Callable[[str], str] = lambda run_id: ""
) -> Document:
    """Return the document, with a link to a run's page where `page_of` returns its address, relative to this one."""
    sections = (Section(board.title, tuple(_board_blocks(board, page_of))) for board in boards)
    ranked = [board for board in boards if board.ranked]
    boards_of = Counter(board.benchmark for board in ranked)
    best = (
        f"{board.benchmark if boards_of[board.benchmark] == 1 else board.title}: {_best_in_words(board)}"
        for board in ranked
    )
    nothing = Sentence('No run is finished yet. Run "crosscheck evaluate".')
    return Document(
        "Leaderboard",
        tuple(sections) or (nothing,),
        "Crosscheck · latest ranked run per model, pipeline and settings",
        "; ".join(best),
        footer=reading(
            Sentence(
                "Runs are ranked against each other only if they answered the same questions of the same "
                "revision and were scored by the same rule. Questions without an answer count as wrong. "
                "Ranks are by execution accuracy, or by the score that --by names. pass@k, the share of "
                "questions of which one of the k candidates is right, changes no rank. Two runs whose "
                "intervals overlap may still differ, since both answered the same questions: runs of one "
                "board are tested in pairs, by the exact McNemar test with p adjusted for their number "
                "(Holm), and those that share a letter do not differ significantly. From scratch is what "
                "the answers cost with an empty cache; of equal scores, the cheapest stands first. Money "
                "paid, calls and tokens are what the run itself paid; what the cache answered was paid before."
            )
        ),
    )


def write_leaderboard(boards: Sequence[Board], home: Home) -> Path:
    """Write the page beside the pages of runs, to which it links, and return its path."""
    file = home.reports / FILE_NAME

    def page_of(run_id: str) -> str:
        return f"{run_id}.html" if (home.reports / f"{run_id}.html").exists() else ""

    atomic_write_text(file, html(leaderboard_document(boards, page_of)))
    return file


def _best_in_words(board: Board) -> str:
    best = [row for row in board.ranked if row.rank == 1]
    also = f" and {counted(len(best) - 1, 'other')}" if len(best) > 1 else ""
    close = sum(letters_overlap(best[0].letters, row.letters) for row in board.ranked[len(best) :])
    tied = f", not significantly better than {counted(close, 'other')}" if close else ""
    first = f"{best[0].run.backbone} | {best[0].run.pipeline}"
    return f"{first}{also} with {percent(best[0].ranked_by)}{tied}"


def _board_blocks(board: Board, page_of: Callable[[str], str]) -> Iterator[Block]:
    if board.unscored:
        yield Sentence(f"{board.unscored}.", "warning")
    if board.ranked:
        yield _ranked_table(board, page_of)
        yield Cards((Card("Next", tuple(_todo(board)), wide=True),))
        yield from pareto_blocks(
            [
                Priced(row.name, row.ranked_by, row.run.cost.from_scratch_usd)
                for row in board.ranked
                if row.ranked_by and row.run.cost.from_scratch_usd is not None
            ]
        )
    else:
        yield Sentence("No run of these questions is ranked.")
    if board.not_ranked:
        lines = tuple(_unranked_line(row, page_of(row.run.run_id)) for row in board.not_ranked)
        yield Section("Not ranked", (Bullets(lines),))


def _todo(board: Board) -> Iterator[Code]:
    if len(board.ranked) > 1:
        first, second = board.ranked[:2]
        yield Code(
            f"crosscheck compare {second.run.run_id} {first.run.run_id}  # the first two, question by question"
        )
    yield Code("crosscheck sweep --help  # evaluates others")


def _ranked_table(board: Board, page_of: Callable[[str], str]) -> Table:
    """Return the table of the ranked runs; those that share one of the `letters` do not differ significantly."""
    axis = axis_around(row.ranked_by for row in board.ranked)
    runs = [row.run for row in board.ranked]
    titles = {name: score.title for run in runs for name, score in run.variants.items() if name != board.by}
    passed = any(map(_pass_at_k, runs))
    tested = sum(bool(row.letters) for row in board.ranked)
    costs_known = any(run.cost.calls is not None for run in runs)
    ranks = Counter(row.rank for row in board.ranked)
    headers = (
        Column("rank"), Column("pipeline", "text"), Column("backbone", "text", under=True),
        Column("changed", "text", under=True), Column(board.by or "EX", brief=True), Column("right", under=True),
        Column(RANGE, under=True, brief=True),
        *((Column("EX"),) if board.by else ()),
        *(Column(title, under=True, help=title) for title in titles.values()),
        *((Column("pass@k", under=True, help="pass@k"),) if passed else ()),
        Column(f"{board.by or 'EX'} with its interval", "plot", axis=axis),
        *((Column("letters", "text", brief=True, help=f"Runs that {LETTERS}"),) if tested else ()),
        *(_COST_COLUMNS if costs_known else ()), Column("run", "text"), Column("started", "text", under=True),
    )  # fmt: skip
    rows = tuple(
        (
            Span(f"{row.rank}{' =' if ranks[row.rank] > 1 else ''}", "strong"),
            Span(run.pipeline, link=page_of(run.run_id)), run.backbone, row.details,
            percent(row.ranked_by), counts(row.ranked_by), interval_in_words(row.ranked_by),
            *((in_words(row.ex),) if board.by else ()),
            *(in_words(run.variants.get(name)) for name in titles),
            *((_pass_at_k(run),) if passed else ()),
            score_plot(("", row.ranked_by, "b")),
            *((row.letters,) if tested else ()), *(_cost_cells(run.cost) if costs_known else ()),
            Span(run.run_id, "code"), f"{run.started:%Y-%m-%d %H:%M} UTC",
        )
        for row, run in zip(board.ranked, runs, strict=True)
    )  # fmt: skip
    remark = f"Runs that {LETTERS}: {family_in_words(comb(tested, 2))}. {ALONE}" if tested else ""
    return Table("", headers, rows, remark, keep=7, wide=True)


_COST_COLUMNS = (
    Column("from scratch"), Column("paid", under=True, help="paid"), Column("calls paid"),
    Column("from cache", under=True, help="cached"), Column("input tokens"),
    Column("output tokens", under=True, help="output"),
)  # fmt: skip


def _cost_cells(cost: Cost) -> tuple[str, ...]:
    if cost.calls is None:  # the answers were made elsewhere
        return "unknown", "", DASH, "", DASH, ""
    numbers = (cost.calls, cost.cached_calls, cost.input_tokens, cost.output_tokens)
    return money(cost.from_scratch_usd), money(cost.cost_usd), *map(number, numbers)


def _pass_at_k(run: RunRecord) -> str:
    """Return the share of questions of which one of the k candidates is right; "" without candidates."""
    candidates = run.metrics.get("candidates") or {}
    passed = candidates.get(f"pass@{candidates.get('n')}") or {}
    ratio = Ratio(passed["correct"], passed["total"]) if passed.get("total") else None
    return f"{in_words(ratio)}, k = {candidates['n']}" if ratio else ""


def _unranked_line(row: BoardRow, page: str) -> Inline:
    changed = f" ({row.changed})" if row.changed else ""
    scored = in_words(row.ex, DASH)
    about = f" with {row.run.backbone}{changed}: {scored}, {row.why_unranked} "
    return Span(row.run.pipeline, link=page), about, Span(row.run.run_id, "code")


Address = Callable[[RunHeader], str]


def runs_table(
    runs: Sequence[RunHeader],
    limit: int,
    *,
    page_of: Address = lambda run: "",
    comparison_of: Address = lambda run: "",
    more: str = "",
) -> Table:
    """Return the table of the latest runs, given newest first; `more`: how to see the others.

    A run has links to its page and to its comparison with others, where there are such addresses.
    """
    listed = runs[:limit]
    linked = any(map(comparison_of, listed))
    rows = tuple(
        (
            Span(run.run_id, link=page_of(run)),
            percent(run.accuracy),
            counts(run.accuracy),
            score_plot(("", run.accuracy, "b")),
            run.benchmark,
            run.backbone,
            _pipeline_cell(run),
            run.rule,
            f"{run.started:%Y-%m-%d %H:%M}",
            *((Span("compare", link=comparison_of(run)) if comparison_of(run) else "",) if linked else ()),
        )
        for run in listed
    )
    headers = (
        Column("run", "text", whole=True), Column("EX", brief=True), Column("right", under=True, brief=True),
        Column("with its 95 % interval", "plot", axis=AXIS), Column("benchmark", "text"), Column("backbone", "text"),
        Column("pipeline", "text", brief=True), Column("rule"), Column("started (UTC)"),
        *((Column("compare", "text"),) if linked else ()),
    )  # fmt: skip
    rest = f"the latest {limit:,} of {len(runs):,}{more}" if len(runs) > limit else ""
    return Table("", headers, rows, rest, keep=6, wide=True, search=True)


def _pipeline_cell(run: RunHeader) -> Inline:
    """Return the pipeline, its end where it is not complete, settings that differ, and what the user wrote on it."""
    more = (run.tags.get("changed", ""), labels_in_words(run.tags))
    status = [Span(f"\n{status}", "doubt")] if (status := _status(run)) else []
    return (run.pipeline, *status, *(Span(f"\n{text}", "quiet") for text in more if text))


def _status(run: RunHeader) -> str:
    """Return a run's status, with the tags that exclude it from ranking; "" of a complete run without any."""
    tags = [tag for tag in (ORACLE, REROLLED, TRANSLATED, DATABASES_CHANGED) if tag in run.tags]
    unanswered = [f"{run.unanswered:,} unanswered"] if run.unanswered else []
    status = ", ".join([run.status, *unanswered, *tags])
    return "" if status == "complete" else status
