"""The summary that ends an evaluation: every share with its numerator and denominator."""

from collections import Counter
from collections.abc import Mapping
from typing import TextIO

from rich.markup import escape
from rich.table import Table

from flows.report.details import brief, print_details
from flows.report.result import EvaluationResult
from flows.report.tables import counts, open_console, percent, show, table
from tasks.scoring.report import Cost, Report

MOST_SAID = 300


def print_summary(evaluated: EvaluationResult, stream: TextIO, *, details: bool = False) -> None:
    """Print the summary of an evaluation on a stream, in colours where it is a terminal.

    Args:
        evaluated: what came of it.
        stream: where to.
        details: also print all that lies behind the score.
    """
    console = open_console(stream)
    report, summary = evaluated.report, evaluated.summary
    console.print(
        f"\n[bold]{escape(summary['benchmark'])}[/] · {escape(summary['backbone'])} · {escape(summary['pipeline'])}",
        f"  execution accuracy [bold]{percent(report.ex)}[/] ({counts(report.ex)}, rule {report.rule})",
        sep="",
    )
    if report.stages:
        show(console, _stages(report))
    show(console, _difficulties(report))
    if report.linking:
        show(console, _linking(report))
    if report.details and details:
        print_details(report, report.details, console)
    if report.stage_cost:
        show(console, _bill(report, summary))
    else:
        console.print(f"{summary['seconds']:.1f} seconds in all")
    for line in (*(brief(report, report.details) if report.details else ()), *_remarks(evaluated)):
        console.print(line, soft_wrap=not console.is_terminal)
    console.print(
        f"\nMLflow   {escape(evaluated.mlflow_command)}\n         {escape(evaluated.mlflow_page)}",
        soft_wrap=True,
    )
    if evaluated.prefect_command:
        console.print(
            f"Prefect  {escape(evaluated.prefect_command)}\n         {escape(evaluated.prefect_page)}",
            soft_wrap=True,
        )


def _stages(report: Report) -> Table:
    shown = table("Execution accuracy by stage", "stage", "EX", "right", "fixed", "broken", "net")
    for stage in report.stages:
        net = (
            ""
            if stage.fixed is None or stage.broken is None
            else f"{stage.fixed - stage.broken:+d}".replace("+0", "0")
        )
        shown.add_row(
            stage.name,
            percent(stage.ex),
            counts(stage.ex),
            _number(stage.fixed),
            _number(stage.broken),
            net,
        )
    return shown


def _difficulties(report: Report) -> Table:
    shown = table("Final answer", "", "EX", "right")
    for name, ratio in report.by_difficulty.items():
        shown.add_row(name, percent(ratio), counts(ratio))
    for name, ratio in report.rules.items():
        label = f"rule {name}" + (" (headline)" if name == report.rule else "")
        shown.add_row(label, percent(ratio), counts(ratio))
    return shown


def _linking(report: Report) -> Table:
    shown = table(
        "Schema linking", "link", "NSR", "strict recall", "precision", "tables", "columns", "reduction"
    )
    for link in report.linking:
        shown.add_row(
            link.name,
            percent(link.nsr),
            f"{percent(link.strict_recall)} ({counts(link.strict_recall)})",
            percent(link.precision),
            f"{link.avg_tables:.2f}",
            f"{link.avg_columns:.2f}",
            "unknown" if link.reduction is None else f"{100 * link.reduction:.1f} %",
        )
    return shown


def _bill(report: Report, summary: Mapping[str, object]) -> Table:
    shown = table(
        "Model calls", "stage", "calls", "from cache", "input tokens", "output tokens", "cost", "p50", "p95"
    )
    for name, cost in report.stage_cost.items():
        if cost.calls or cost.cached_calls:
            shown.add_row(name, *_cost(cost))
    shown.add_section()
    shown.add_row("all", *_cost(report.cost))
    shown.caption = f"{summary['seconds']:.1f} seconds in all"
    return shown


def _cost(cost: Cost) -> tuple[str, ...]:
    if not cost.calls:
        return ("0", f"{cost.cached_calls:,}", *"–––––")
    return (
        f"{cost.calls:,}",
        f"{cost.cached_calls:,}",
        "unknown" if cost.input_tokens is None else f"{cost.input_tokens:,}",
        "unknown" if cost.output_tokens is None else f"{cost.output_tokens:,}",
        "unknown" if cost.cost_usd is None else f"${cost.cost_usd:,.4f}",
        "–" if cost.p50_s is None else f"{cost.p50_s:.2f} s",
        "–" if cost.p95_s is None else f"{cost.p95_s:.2f} s",
    )


def _remarks(evaluated: EvaluationResult) -> list[str]:
    report, prefect = evaluated.report, evaluated.summary["prefect"]
    lines = [f"[dim]·[/] {escape(note)}" for note in evaluated.notes]
    if report.missing_databases:
        missing = ", ".join(f"{name} ({count})" for name, count in report.missing_databases.items())
        lines.append(
            f"[yellow]![/] {report.questions - report.scored:,} of {report.questions:,} questions are not scored, "
            f"their database is not at hand: {escape(missing)}"
        )
    if report.gold_faults:
        faults = ", ".join(f"{name} ({status})" for name, status in list(report.gold_faults.items())[:10])
        lines.append(
            f"[yellow]![/] the gold of {len(report.gold_faults)} questions does not run, a fault of the benchmark; "
            f"they count as wrong: {escape(faults)}"
        )
    if evaluated.fatal:
        lines.append(f"[red]✗[/] stopped asking: {escape(evaluated.fatal)}")
    for kind, count in report.failures.items():
        lines.append(
            f"[red]✗[/] {count:,} of {report.questions:,} questions have no answer ({kind}) and count as wrong"
            f"{escape(_reason(evaluated, kind))}"
        )
    if report.mendable:
        lines.append(
            f"[red]✗[/] {report.mendable:,} of these can be mended: the same command asks only them again"
        )
    if prefect["task_runs"] is None:
        return lines
    recorded = "all" if prefect["recorded"] == prefect["task_runs"] else f"[yellow]{prefect['recorded']:,}[/]"
    lines.append(f"[dim]·[/] Prefect: {prefect['task_runs']:,} task runs, {recorded} recorded")
    return lines


def _reason(evaluated: EvaluationResult, kind: str) -> str:
    """Return what most failures of a kind say, "" where they say nothing but why the run stopped."""
    failures = [row.outcome.failure for row in evaluated.report.rows if row.outcome.failure]
    fatal = evaluated.fatal
    said = Counter(
        each.message for each in failures if each.kind == kind and not (fatal and fatal in each.message)
    )
    if not said:
        return ""
    message = " ".join(said.most_common(1)[0][0].split())
    place = " (more in crosscheck.log in the working folder)" if kind == "internal_error" else ""
    return f": {message[:MOST_SAID]}{place}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
