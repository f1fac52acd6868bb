"""What differs between two runs, in detail: flipped questions and settings."""

from collections.abc import Sequence

from tasks.documents.model import Answer, Column, QuestionItem, Span, Table, Tone
from tasks.tracking.comparison.run_comparison import Answered, Flip, SettingChange

SETTINGS_SHOWN = 12
"""Settings that a terminal shows at most."""
FLIP_FILTERS = {"change": "Change", "database": "Database", "difficulty": "Difficulty"}
"""Filters of flipped questions."""


def settings_table(changes: Sequence[SettingChange], names: tuple[str, str]) -> Table:
    """Return what differs in the settings of two runs."""
    rows = tuple((Span(each.key, "code"), _setting(each.a), _setting(each.b)) for each in changes)
    headers = (Column("", "text"), *(Column(name, "text") for name in names))
    return Table("What differs in the settings", headers, rows, first=SETTINGS_SHOWN)


def _setting(value: str | None) -> Span:
    return Span("not set", "quiet") if value is None else Span(value, "code")


def question_item(
    flip: Flip, names: tuple[str, str], by: str = "", *, fold: bool = False, gold: bool = True
) -> QuestionItem:
    """Return a flipped question with both answers and the gold.

    Args:
        flip: the question.
        names: of the two runs.
        by: end of the badge, which begins with what happened.
        fold: whether a page shows the gold only on demand.
        gold: whether the gold is shown.
    """

    def answer(name: str, tone: Tone, one: Answered, other: Answered) -> Answer:
        return Answer((Span(name, tone, "letter"), f" {one.in_words}"), one.sql, other.sql, one.stages)

    return QuestionItem(
        flip.question_id,
        Span(f"{flip.change}{by}", "better" if flip.change == "fixed" else "bad", "badge"),
        " · ".join(part for part in (flip.database, flip.difficulty) if part),
        flip.question,
        flip.evidence,
        (
            answer(names[0], "bad" if names[0] == "A" else "quiet", flip.a, flip.b),
            answer(names[1], "better", flip.b, flip.a),
            *([Answer("gold", flip.gold_sql, fold=fold)] if gold else ()),
        ),
        {"change": flip.change, "database": flip.database, "difficulty": flip.difficulty or ""},
    )
