"""What the selection between two candidates did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore, Ratio, is_right
from tasks.tables import TextTable
from tasks.wording import counts, percent

SELECTION = "selection"


@dataclass(frozen=True, slots=True)
class SelectionScore:
    """What the selection between two candidates did, under the headline rule.

    Attributes:
        candidates: the stages it chose between.
        oracle: questions that either candidate has right, of all scored.
        chosen_right: questions it got right, of those that exactly one candidate has right.
        new_queries: questions for which it wrote a query of its own, of those it was asked about; None where
            the records do not say.
    """

    candidates: tuple[str, str]
    oracle: Ratio
    chosen_right: Ratio
    new_queries: Ratio | None = None


def selection_score(run: ScoredRun) -> SelectionScore | None:
    """Judge the selection; None where no stage of the pipeline selects between the two before it."""
    names = [stage.name for stage in run.report.stages]
    place = next((place for place, name in enumerate(names) if name.endswith(SELECTION)), 0)
    if place < 2:
        return None
    first, second, chosen = names[place - 2 : place + 1]
    scored = run.scored
    right = [
        tuple(is_right(row.stages.get(name), run.rule) for name in (first, second, chosen)) for row in scored
    ]
    differing = [won for one, other, won in right if one != other]
    choices = [choice for row in scored if (choice := _choice(row)) is not None]
    return SelectionScore(
        candidates=(first, second),
        oracle=Ratio(sum(one or other for one, other, _ in right), len(scored)),
        chosen_right=Ratio(sum(differing), len(differing)),
        new_queries=Ratio(choices.count("new"), len(choices)) if choices else None,
    )


@METRICS.register("selection")
@metric("Selection", order=30)
def selection(run: ScoredRun) -> Measurement | None:
    """Report the oracle of both candidates, how often the right one was chosen, and new queries."""
    found = selection_score(run)
    if found is None:
        return None
    shares = {"oracle": found.oracle, "chosen_right": found.chosen_right}
    if found.new_queries:
        shares["new_queries"] = found.new_queries
    chosen = (
        f"where exactly one candidate is right it chose right {counts(found.chosen_right)}"
        if found.chosen_right.total
        else "no question with exactly one right candidate"
    )
    return Measurement(
        further={f"selection/{name}": share for name, share in shares.items()},
        data={
            "candidates": list(found.candidates),
            "new_queries": None,
            **{name: share.as_object() for name, share in shares.items()},
        },
        lines=(f"Selection: oracle {percent(found.oracle)} ({counts(found.oracle)}); {chosen}",),
        tables=(_table(found),),
    )


def _table(found: SelectionScore) -> TextTable:
    rows = [
        ("either is right (oracle)", found.oracle),
        ("chosen rightly, of those with one right", found.chosen_right),
        *([("wrote a query of its own", found.new_queries)] if found.new_queries else []),
    ]
    return TextTable(
        f"Selection between {' and '.join(found.candidates)}",
        ("", "share", "questions"),
        tuple((name, percent(share), counts(share)) for name, share in rows),
    )


def _choice(row: QuestionScore) -> Any:
    """Return which candidate selection chose; None where it did not run or does not say."""
    for record in row.outcome.stages:
        if record.stage.endswith(SELECTION) and isinstance(record.value, Mapping):
            return record.value.get("choice")
    return None
