"""The documents of a sweep: its estimate, and its results."""

from collections.abc import Iterator, Sequence

from flows.questions.budget import selecting_calls
from flows.questions.estimate import ASSUMED_REASONING, SAMPLE
from flows.sweep.cells import CellResult, Sweep, estimated_usd
from flows.sweep.plan import Cell
from tasks.core.wording import DASH, counted, counts, interval, money, number, percent
from tasks.documents.model import Block, Code, Column, Document, Section, Sentence, Table
from tasks.scoring.cost import Estimate
from tasks.scoring.score import Accuracy
from tasks.scoring.significance import LEVEL
from tasks.tracking.pareto import Priced, pareto_blocks


def estimate_document(
    cells: Sequence[Cell], estimates: Sequence[Estimate], budget_usd: float | None
) -> Document:
    """Return the estimate of a sweep."""
    total = estimated_usd(estimates)
    rows = [
        (
            cell.name,
            *map(number, (one.questions, one.calls, one.input_tokens, one.output_tokens)),
            money(one.cost_usd),
        )
        for cell, one in zip(cells, estimates, strict=True)
    ]
    last = ("all", f"{sum(one.questions for one in estimates):,}", "", "", "", money(total))
    headers = ("cell", "questions", "calls", "input tokens", "output tokens", "cost")
    blocks: list[Block] = [
        Table("Estimate", headers, (*rows, None, last)),
        Sentence(
            f"An estimate: the prompts of up to {SAMPLE} questions per pipeline, answered by the offline model, at 4 "
            f"characters a token, and {ASSUMED_REASONING} tokens of reasoning a reply where the reply format has one. "
            "Replies in the cache cost nothing and are not subtracted."
        ),
    ]
    if selecting := max(selecting_calls(cell.settings) for cell in cells):
        blocks.append(
            Sentence(f"Selecting among candidates costs more: at most {selecting:,} calls per question.")
        )
    if budget_usd is not None and (total is None or total > budget_usd):
        known = "is unknown" if total is None else f"is above it ({money(total)})"
        blocks.append(Sentence(f"The estimate {known}: the sweep stops when ${budget_usd:,.2f} are spent."))
    return Document("", tuple(blocks))


def sweep_document(sweep: Sweep) -> Document:
    """Return every cell with its score and interval, in the order of the matrix."""
    headers = (
        "cell", "EX", "right", "95 % interval", Column("against the best", "text"), "forecast", "from scratch",
        "paid",
        Column("run", "text"),
    )  # fmt: skip
    table = Table(f"Sweep {sweep.id}", headers, tuple(_row(done, sweep) for done in sweep.cells))
    priced = [
        Priced(
            done.cell.name, Accuracy(report.score.correct, report.score.total), report.cost.from_scratch_usd
        )
        for done in sweep.cells
        if done.evaluated and (report := done.evaluated.report).cost.from_scratch_usd is not None
    ]
    return Document("", (table, *pareto_blocks(priced), *_remarks(sweep)))


def _row(done: CellResult, sweep: Sweep) -> tuple[str, ...]:
    if done.evaluated is None:
        return done.cell.name, DASH, "", "", "not evaluated", money(done.estimated.cost_usd), "", "", ""
    report, free = done.evaluated.report, done.cell.free
    return (
        done.cell.name,
        percent(report.score),
        counts(report.score),
        interval(*report.score.interval) if report.score.interval else DASH,
        "not in full" if done.problem else sweep.ranks.get(done.cell.name, ""),
        money(done.estimated.cost_usd),
        money(0.0 if free else report.cost.from_scratch_usd),
        money(0.0 if free or not report.cost.calls else report.cost.cost_usd),
        done.evaluated.record.run_id,
    )


def _remarks(sweep: Sweep) -> Iterator[Block]:
    yield Sentence(
        "Against the best: exact McNemar tests on the same questions, p adjusted for their number (Holm). "
        f"Inside the noise: the difference to the highest may be chance (p is {LEVEL:g} or more), so the cell is not "
        "ranked."
    )
    for done in sweep.cells:
        failed = sum(done.evaluated.report.failures.values()) if done.evaluated else 0
        if failed:
            yield Sentence(
                f"{done.cell.name}: {counted(failed, 'question')} without an answer (wrong)", "error"
            )
        if done.problem:
            yield Sentence(f"{done.cell.name}: {done.problem}", "error")
    if sweep.budget:
        yield Sentence(f"Spent ${sweep.budget.spent_usd:,.4f} of ${sweep.budget.limit_usd:,.4f}.")
    last = next((done.evaluated for done in reversed(sweep.cells) if done.evaluated), None)
    if last:
        start = () if last.mlflow.served else (Code("crosscheck up  # starts MLflow, then open"),)
        where = sweep.page or f"In MLflow, tags.sweep = '{sweep.id}' finds the runs."
        yield Section("Next", (*start, Code(where)))
