"""The documents of a noise measurement beside its result: the estimate, and what is missing."""

from flows.matrix.repeats import Measured, NoisePlan
from tasks.core.wording import counted, money, number
from tasks.documents.model import Block, Bullets, Document, Sentence, Span


def estimate_document(plan: NoisePlan, budget_usd: float | None) -> Document:
    """Return what is missing, and what it is expected to cost."""
    missing, expected, run = len(plan.missing), plan.expected, plan.parent
    name = f"{run.backbone} | {run.pipeline} on {run.benchmark}, run {run.run_id}"
    if not missing:
        there = f"All {counted(plan.wanted, 'repeat')} of {name} are there: nothing is requested."
        return Document("", (Sentence(there),))
    there = f"; {plan.wanted - missing} are there already" if missing < plan.wanted else ""
    blocks: list[Block] = [
        Sentence(
            (
                f"{counted(missing, 'repeat')} of {name}{there}. Expected: {number(expected.calls)} calls, ",
                Span(money(expected.cost_usd), "strong"),
                ".",
            )
        ),
        Sentence("The estimate is the cost of the run with an empty reply cache, once per repeat.", "note"),
    ]
    estimated = expected.cost_usd
    if budget_usd is not None and (estimated is None or estimated > budget_usd):
        blocks.append(Sentence(f"The budget is below it: it stops when {money(budget_usd)} are spent."))
    return Document("", tuple(blocks))


def problems_document(measured: Measured) -> Document | None:
    """Return what keeps repeats from being whole, and how to go on; None where nothing does."""
    if not measured.problems:
        return None
    spent = measured.budget
    blocks: list[Block] = [Bullets(measured.problems, "error")]
    if spent:
        blocks.append(Sentence(f"Spent {money(spent.spent_usd)} of {money(spent.limit_usd)}."))
    blocks.append(
        Sentence("Run the same command again: it sends only what is missing. What was paid for is kept.")
    )
    return Document("", tuple(blocks))
