"""What the selection between two candidates did."""

from collections.abc import Mapping
from typing import Any

from tasks.core.wording import counts, percent
from tasks.documents.model import Table
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore, Ratio, is_right

SELECTION = "selection"
NAMES = {
    "oracle": "either is right (oracle)",
    "chosen_right": "chosen rightly, of those with one right",
    "new_queries": "wrote a query of its own",
}


@METRICS.register("selection")
@metric("Selection", order=30, words=NAMES)
def selection(run: ScoredRun) -> Measurement | None:
    """Report what a stage that selects between the two before it did, under the headline rule; None without one.

    - `oracle`: questions that either candidate has right, of all scored.
    - `chosen_right`: questions it got right, of those that exactly one candidate has right.
    - `new_queries`: questions for which it wrote a query of its own, of those it was asked about; absent where the
      records do not say.
    """
    names = [stage.name for stage in run.report.stages]
    place = next((place for place, name in enumerate(names) if name.endswith(SELECTION)), 0)
    if place < 2:
        return None
    candidates, compared = names[place - 2 : place], names[place - 2 : place + 1]
    scored = run.scored
    right = [tuple(is_right(row.stages.get(name), run.rule) for name in compared) for row in scored]
    differing = [won for one, other, won in right if one != other]
    oracle = Ratio(sum(one or other for one, other, _ in right), len(scored))
    chosen_right = Ratio(sum(differing), len(differing))
    shares = {"oracle": oracle, "chosen_right": chosen_right}
    if choices := [choice for row in scored if (choice := _choice(row)) is not None]:
        shares["new_queries"] = Ratio(choices.count("new"), len(choices))
    made = (
        f"Selection: oracle {percent(oracle)} ({counts(oracle)}); where exactly one candidate is right it chose right "
        f"{counts(chosen_right)}"
        if differing
        else "Selection made no difference: both candidates were right, or both wrong, on every question."
    )
    return Measurement(
        further={f"selection/{name}": share for name, share in shares.items()},
        data={
            "candidates": candidates,
            "new_queries": None,
            **{name: share.as_object() for name, share in shares.items()},
        },
        lines=(made,),
        tables=(
            Table(
                f"Selection between {' and '.join(candidates)}",
                ("", "share", "questions"),
                tuple((NAMES[name], percent(share), counts(share)) for name, share in shares.items()),
            ),
        ),
    )


def _choice(row: QuestionScore) -> Any:
    """Return which candidate selection chose; None where it did not run or does not say."""
    for record in row.outcome.stages:
        if record.stage.endswith(SELECTION) and isinstance(record.value, Mapping):
            return record.value.get("choice")
    return None
