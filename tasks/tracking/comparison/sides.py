"""The two runs of a comparison: their names, scores and bills."""

from collections.abc import Sequence

from tasks.core.wording import DASH, counted, counts, interval, money, number, percent, seconds
from tasks.documents.model import Card, Column, Inline, Sentence, Span, Table, Tone
from tasks.scoring.score import CONFIDENCE, Accuracy
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.comparison.run_comparison import Side

TONES: dict[str | None, Tone] = {"A": "bad", "B": "better", None: "doubt"}
"""Tone of a run, and of a verdict in its favour."""
RANGE = f"{100 * CONFIDENCE:g} % interval"


def _letter(side: Side) -> Span:
    return Span(side.letter, TONES[side.letter], "letter")


def _named(side: Side) -> Inline:
    return _letter(side), f"  {side.name}"


def _what(side: Side) -> Inline:
    """Return the name of a run, and below it its labels."""
    return side.name, *(span for label in _labels(side) for span in ("\n", label))


def _labels(side: Side) -> tuple[Span, ...]:
    """Return what the user wrote on a run, and which settings differ from the defaults."""
    labels = (Span(labels_in_words(side.tags), "quiet"), Span(side.tags.get("changed", ""), "code"))
    return tuple(label for label in labels if label.text)


def sides_table(sides: Sequence[Side]) -> Table:
    """Return the table of both runs."""
    headers = (
        Column("", "text"), Column("backbone | pipeline", "text"), Column("run", "text"), Column("EX"), Column("right"),
        Column(RANGE),
    )  # fmt: skip
    rows = tuple(
        (
            _letter(side),
            _what(side),
            Span(side.run_id, "quiet"),
            Span(percent(side.ex), "strong"),
            counts(side.ex),
            interval_in_words(side.ex),
        )
        for side in sides
    )
    return Table("", headers, rows)


def side_card(side: Side) -> Card:
    """Return a run as a card: what it is, its score, and its cost."""
    status = (", ", Span(side.status, "strong")) if side.status != "complete" else ()
    cost = "cost unknown: predictions made elsewhere"
    if side.cost.calls is not None:
        scratch, paid = money(side.cost.from_scratch_usd), money(side.cost.cost_usd)
        cost = f"{scratch} from scratch, {paid} paid for {counted(side.cost.calls, 'call')}"
    return Card(
        (_letter(side), " ", side.pipeline, Span(" with ", "quiet"), side.backbone),
        (
            *(Sentence(label) for label in _labels(side)),
            Sentence(percent(side.ex), "score"),
            Sentence(f"{counts(side.ex)} right, {RANGE} {interval_in_words(side.ex)}"),
            Sentence(
                (
                    "run ",
                    Span(side.run_id, "code"),
                    f", {side.started:%Y-%m-%d %H:%M} UTC",
                    *status,
                    f"; {cost}",
                ),
                "note",
            ),
        ),
    )


def interval_in_words(ex: Accuracy) -> str:
    """Return the interval of a score; a dash of nothing."""
    return interval(*ex.interval) if ex.interval else DASH


def bill(sides: Sequence[Side]) -> Table | Sentence:
    """Return the table of what both runs cost; a sentence if nothing of it is known."""
    if all(side.cost.calls is None for side in sides):
        return Sentence("Cost unknown: the answers of both runs were made elsewhere.", "note")
    headers = (
        "", "calls paid", "from cache", "retries", "tokens in", "tokens out", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows = tuple(
        (
            _named(side),
            *map(
                number,
                (
                    side.cost.calls,
                    side.cost.cached_calls,
                    side.cost.retries,
                    side.input_tokens,
                    side.output_tokens,
                ),
            ),
            money(side.cost.cost_usd),
            money(side.cost.from_scratch_usd),
            seconds(side.cost.p50_s),
            seconds(side.cost.p95_s),
        )
        for side in sides
    )
    return Table(
        "Cost of these questions",
        headers,
        rows,
        "tokens: including cached replies; paid: cost of this run; from scratch: cost with an empty cache",
    )
