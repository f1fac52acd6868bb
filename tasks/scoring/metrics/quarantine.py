"""The score without the questions whose gold is known to be wrong."""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, Ratio, is_right
from tasks.tables import TextTable
from tasks.wording import counts, percent, shorten

MOST_IDS = 10


@dataclass(frozen=True, slots=True)
class WithoutQuarantine:
    """The score without the questions whose gold is known to be wrong.

    Attributes:
        left_out: ids of the scored questions that are on the benchmark's quarantine list.
        rules: final execution accuracy of all others under each rule.
    """

    left_out: tuple[str, ...]
    rules: Mapping[str, Ratio]


def score_without_quarantine(run: ScoredRun) -> WithoutQuarantine | None:
    """Score the other questions; None where no scored question is on the list."""
    left_out = tuple(row.question.id for row in run.scored if row.question.id in run.quarantine)
    if not left_out:
        return None
    kept = [row for row in run.scored if row.question.id not in run.quarantine]
    rules = {
        rule: Ratio(sum(is_right(row.final, rule) for row in kept), len(kept)) for rule in run.report.rules
    }
    return WithoutQuarantine(left_out, rules)


@METRICS.register("without_quarantine")
@metric("Without the quarantined gold", needs=("quarantine",), order=80)
def without_quarantine(run: ScoredRun) -> Measurement | None:
    """Report execution accuracy under every rule without the quarantined questions."""
    found = score_without_quarantine(run)
    if found is None:
        return None
    ratio = found.rules[run.rule]
    return Measurement(
        further={"ex_without_quarantine": ratio},
        data={
            "left_out": list(found.left_out),
            "rules": {rule: each.as_object() for rule, each in found.rules.items()},
        },
        lines=(
            f"Without {len(found.left_out)} quarantined questions: {percent(ratio)} ({counts(ratio)}); "
            f"left out: {shorten(found.left_out, MOST_IDS)}",
        ),
        tables=(
            TextTable(
                "Without quarantined gold",
                ("rule", "EX", "right"),
                tuple((rule, percent(each), counts(each)) for rule, each in found.rules.items()),
            ),
        ),
    )
