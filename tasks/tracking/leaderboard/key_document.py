"""The ranking by an answer key, as a part of the leaderboard."""

from collections.abc import Iterator

from tasks.core.wording import counts, interval, number, p_value, percent, signed
from tasks.documents.model import Block, Cell, Column, Legend, Section, Sentence, Span, Table
from tasks.scoring.score import CONFIDENCE
from tasks.scoring.significance import holm
from tasks.tracking.comparison.score_plots import axis_around, score_plot
from tasks.tracking.leaderboard.key_ranks import KeyRanking, OrderChange, RankedByKey
from tasks.tracking.leaderboard.leaderboard import Board

MOST_CHANGES = 20


def key_blocks(board: Board, ranking: KeyRanking) -> Iterator[Block]:
    """Yield the ranks by a key, and the pairs of runs whose order it changes, with their tests."""
    names = {row.run_id: row.name for row in board.ranked}
    headline = {row.run_id: row.rank for row in board.ranked}
    rows = tuple(_row(each, names[each.run_id], headline[each.run_id]) for each in ranking.rows)
    axis = axis_around(ex for each in ranking.rows for ex in (each.ex, each.official))
    headers = (
        Column("rank by the key"), Column("change", under=True, help="change"), Column("run", "text"),
        Column("EX by the key", brief=True), Column("right", under=True),
        Column(f"{100 * CONFIDENCE:g} % interval", under=True, brief=True),
        Column("official key and this key", "plot", axis=axis),
        Column("official, same questions"), Column("right ", under=True),
        Column("official rank", help="by the official key, on the same questions"),
        Column("rank on all questions", under=True, help="on all questions"),
    )  # fmt: skip
    tau = "unknown, there is no order" if ranking.tau is None else f"{ranking.tau:.3f}"
    left_out = ranking.left_out.in_words()
    blocks: list[Block] = [
        Sentence(
            f"{ranking.questions:,} questions are counted by both keys"
            + (f"; what differs in the first run: {left_out}" if left_out else "")
            + f". Kendall's tau-b of the scores by both keys: {tau}."
        ),
        Table("", headers, rows, keep=2, wide=True),
        Legend((("before", "official key, on the same questions"), ("now", f"key {ranking.key}"))),
    ]
    if ranking.changes:
        blocks.append(_changes(ranking.changes, names))
    else:
        blocks.append(Sentence("The key changes the order of no two runs."))
    yield Section(f"By the key {ranking.key}", tuple(blocks))


def _row(each: RankedByKey, name: str, headline: int | None) -> tuple[Cell, ...]:
    moved = each.official_rank - each.rank
    return (
        Span(str(each.rank), "strong"),
        signed(moved) if moved else "",
        name,
        percent(each.ex),
        counts(each.ex),
        interval(*each.ex.interval) if each.ex.interval else "",
        score_plot(("official key", each.official, "before"), ("this key", each.ex, "now")),
        percent(each.official),
        counts(each.official),
        str(each.official_rank),
        number(headline),
    )


def _changes(changes: tuple[OrderChange, ...], names: dict[str, str]) -> Table:
    adjusted = holm([each.key.p_value for each in changes])
    rows = tuple(
        (
            f"{names[each.a]} ({each.a})",
            f"{names[each.b]} ({each.b})",
            signed(each.official.right_b - each.official.right_a),
            p_value(each.official.p_value),
            signed(each.key.right_b - each.key.right_a),
            p_value(each.key.p_value),
            p_value(p),
        )
        for each, p in zip(changes, adjusted, strict=True)
    )
    headers = (
        Column("A", "text"), Column("B", "text"), Column("official: B - A"), Column("p"),
        Column("by the key: B - A"), Column("p "), Column("p adj."),
    )  # fmt: skip
    return Table(
        "Pairs whose order changes",
        headers,
        rows,
        "Right answers of B minus those of A on the same questions; p: exact McNemar test; "
        "p adj.: adjusted for the number of pairs (Holm)",
        first=MOST_CHANGES,
    )
