"""Terminal output of a sweep: its estimate, and its results."""

from collections.abc import Sequence
from typing import TextIO

from flows.sweep.cells import Sweep, estimated_usd
from flows.sweep.estimate import ASSUMED_REASONING, SAMPLE, Estimate
from flows.sweep.plan import Cell
from tasks.core.wording import counted, counts, interval, money, number, percent
from tasks.documents.terminal import literal, make_grid, open_console, show
from tasks.scoring.significance import LEVEL, wilson


def print_estimate(
    cells: Sequence[Cell], estimates: Sequence[Estimate], budget_usd: float | None, stream: TextIO
) -> None:
    """Print the estimate of a sweep."""
    console = open_console(stream)
    shown = make_grid("Estimate", "cell", "questions", "calls", "input tokens", "output tokens", "cost")
    for cell, one in zip(cells, estimates, strict=True):
        numbers = (one.questions, one.calls, one.input_tokens, one.output_tokens)
        shown.add_row(literal(cell.name), *map(number, numbers), money(one.cost_usd))
    shown.add_section()
    total = estimated_usd(estimates)
    shown.add_row("all", f"{sum(one.questions for one in estimates):,}", "", "", "", money(total))
    show(console, shown)
    console.print(
        f"An estimate: the prompts of up to {SAMPLE} questions per pipeline, answered by the offline model, at 4 "
        f"characters a token, and {ASSUMED_REASONING} tokens of reasoning a reply where the reply format has one. "
        "Replies in the cache cost nothing and are not subtracted."
    )
    if selecting := max(cell.selecting_calls for cell in cells):
        console.print(f"Selecting among candidates comes on top: at most {selecting:,} calls per question.")
    if budget_usd is not None and (total is None or total > budget_usd):
        known = "is unknown" if total is None else f"is above it ({money(total)})"
        console.print(f"The estimate {known}: the sweep stops when ${budget_usd:,.2f} are spent.")


def print_sweep(sweep: Sweep, stream: TextIO) -> None:
    """Print every cell with its score and interval, in the order of the matrix."""
    console = open_console(stream)
    shown = make_grid(
        f"Sweep {sweep.id}",
        "cell",
        "EX",
        "right",
        "95 % interval",
        "against the best",
        "from scratch",
        "paid",
        "run",
    )
    for done in sweep.cells:
        if done.evaluated is None:
            shown.add_row(literal(done.cell.name), "–", "", "", "not evaluated", "", "", "")
            continue
        report = done.evaluated.report
        rank = "not in full" if done.problem else sweep.ranks.get(done.cell.name, "")
        shown.add_row(
            literal(done.cell.name),
            percent(report.score),
            counts(report.score),
            interval(*wilson(report.score.correct, report.score.total)),
            rank,
            money(0.0 if done.cell.free else report.cost.from_scratch_usd),
            money(0.0 if done.cell.free or not report.cost.calls else report.cost.cost_usd),
            done.evaluated.summary["run_id"],
        )
    show(console, shown)
    console.print(
        "Against the best: exact McNemar tests on the same questions, p adjusted for their number (Holm). "
        f"Inside the noise: the difference to the highest may be chance (p is {LEVEL:g} or more), so the "
        "cell is not ranked."
    )
    for done in sweep.cells:
        failed = sum(done.evaluated.report.failures.values()) if done.evaluated else 0
        if failed:
            console.print(
                f"[red]✗[/] {literal(done.cell.name)}: {counted(failed, 'question')} without an answer (wrong)"
            )
        if done.problem:
            console.print(f"[red]✗[/] {literal(done.cell.name)}: {literal(done.problem)}")
    if sweep.budget:
        console.print(f"Spent ${sweep.budget.spent_usd:,.4f} of ${sweep.budget.limit_usd:,.4f}.")
    last = next((done.evaluated for done in reversed(sweep.cells) if done.evaluated), None)
    if last:
        start = "" if last.mlflow.served else "crosscheck up  # starts MLflow, then open\n"
        where = sweep.page or f"In MLflow, tags.sweep = '{sweep.id}' finds the runs."
        console.print(f"\n[bold]Next[/]\n{literal(start + where)}", soft_wrap=True)
