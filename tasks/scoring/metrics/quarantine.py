"""The score without the questions whose gold is known to be wrong."""

from tasks.core.wording import counts, percent, shorten
from tasks.documents.model import Table
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, Ratio, is_right

MOST_IDS = 10


@METRICS.register("without_quarantine")
@metric("Without the quarantined gold", needs=("quarantine",), order=80)
def without_quarantine(run: ScoredRun) -> Measurement | None:
    """Report execution accuracy under every rule without the quarantined questions; None where none was scored."""
    left_out = [row.question.id for row in run.scored if row.question.id in run.quarantine]
    if not left_out:
        return None
    kept = [row for row in run.scored if row.question.id not in run.quarantine]
    rules = {
        rule: Ratio(sum(is_right(row.final, rule) for row in kept), len(kept)) for rule in run.report.rules
    }
    ratio = rules[run.rule]
    return Measurement(
        further={"ex_without_quarantine": ratio},
        data={"left_out": left_out, "rules": {rule: each.as_object() for rule, each in rules.items()}},
        lines=(
            f"Without {len(left_out)} quarantined questions: {percent(ratio)} ({counts(ratio)}); "
            f"left out: {shorten(left_out, MOST_IDS)}",
        ),
        tables=(
            Table(
                "Without quarantined gold",
                ("rule", "EX", "right"),
                tuple((rule, percent(each), counts(each)) for rule, each in rules.items()),
            ),
        ),
    )
