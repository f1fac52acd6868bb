"""The summary that ends an evaluation: every share with its numerator and denominator."""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import click

from flows import STARTED
from flows.report.result import EvaluationResult
from flows.report.tables import cost_cells, degradation_lines, share_table, stage_table
from tasks.core.wording import DASH, counted, counts, interval, money, number, percent, shorten
from tasks.documents.model import Table
from tasks.documents.terminal import literal, open_console, show_all
from tasks.scoring.cost import Cost, by_endpoint
from tasks.scoring.report import Report
from tasks.scoring.significance import wilson
from tasks.settings.evaluation import labels_in_words

MAX_MESSAGE_LENGTH, MAX_IDS = 300, 10


def print_summary(evaluated: EvaluationResult, stream: TextIO, *, details: bool = False) -> None:
    """Print the summary of an evaluation, in colours on a terminal; with `details` the tables of every metric."""
    console = open_console(stream)
    report, summary = evaluated.report, evaluated.summary
    console.print(
        f"\n[bold]{literal(summary['benchmark'])}[/] · {literal(summary['backbone'])} · {literal(summary['pipeline'])}",
        f"run {literal(summary['run_id'])}",
        *(f"[dim]{literal(line)}[/]" for line in _labels(summary)),
        f"execution accuracy [bold]{percent(report.score)}[/] ({_behind(report)})",
        sep="\n",
    )
    for sentence in summary["translations"]:
        console.print(f"[bold]{literal(sentence)}[/]")
    for line in degradation_lines(report.degradation):
        console.print(line, soft_wrap=False)
    stages = [stage_table("Execution accuracy by stage", report.stages)] if report.stages else []
    tables = [*stages, _final(report)]
    if report.linking:
        tables.append(_linking(report))
    if details:
        tables += [each for found in report.measurements.values() for each in found.tables]
    if report.stage_cost:
        tables.append(_bill(report, summary))
    show_all(console, tables)
    if not report.stage_cost:
        console.print(_seconds(summary))
    for line in (*_metrics(report), *_remarks(evaluated)):
        console.print(line, soft_wrap=False)
    if details:
        console.print(f"\nMLflow   {literal(evaluated.mlflow.command)}")
        if evaluated.prefect.command:
            console.print(f"Prefect  {literal(evaluated.prefect.command)}")
            console.print(f"         {literal(evaluated.prefect.page)}")
    console.print("\n[bold]Next[/]")
    for line in next_steps(evaluated):
        console.print(literal(line))


def _labels(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the user wrote on the run, and which settings differ from the defaults."""
    tags = summary.get("tags") or {}
    if labels := labels_in_words(tags):
        yield labels
    if changed := tags.get("changed"):
        yield f"differs from the defaults: {changed}"


def next_steps(evaluated: EvaluationResult) -> list[str]:
    """Return what to look at and what to do next: at most five lines, each a command or an address."""
    run_id, report, home = evaluated.summary["run_id"], evaluated.report, _home()
    commands = [
        (f"crosscheck show {run_id} --wrong", "the wrong answers"),
        (f"crosscheck report {run_id} --open", "every question on a page"),
    ]
    if report.retryable:
        commands.append((f"crosscheck rerun {run_id}", f"asks {report.retryable:,} again"))
    elif evaluated.before:
        commands.append((f"crosscheck compare {evaluated.before} {run_id}", "with the run before"))
    if evaluated.mlflow.page and not evaluated.mlflow.served:
        commands.append(("crosscheck up", "starts MLflow, then open"))
    width = max(len(command) for command, _ in commands)
    lines = [f"{command:<{width}}{home}  # {why}" for command, why in commands]
    return [*lines, evaluated.mlflow.page] if evaluated.mlflow.page else lines


def _home() -> str:
    """Return the option `--home` of the present command, for the commands that are to follow it."""
    context = click.get_current_context(silent=True)
    home = context.params.get("home") if context else None
    return f" --home {shlex.quote(home)}" if home else ""


def _behind(report: Report) -> str:
    """Return the numbers behind the headline: numerator and denominator, rule and Wilson's interval."""
    ex = report.score
    range_ = f", 95 % interval {interval(*wilson(ex.correct, ex.total))}" if ex.total else ""
    return f"{counts(ex)}, rule {report.rule}{range_}"


def _metrics(report: Report) -> list[str]:
    """Return the summary lines of every metric."""
    return [
        f"[dim]·[/] {literal(line)}" for found in report.measurements.values() for line in found.lines or ()
    ]


def _final(report: Report) -> Table:
    rules = {
        f"rule {name}" + (" (headline)" if name == report.rule else ""): ratio
        for name, ratio in report.rules.items()
    }
    return share_table("Final answer", {**report.by_difficulty, **rules})


def _linking(report: Report) -> Table:
    rows = [
        (
            link.name,
            *(
                f"{percent(share)} ({counts(share)})"
                for share in (link.nsr, link.strict_recall, link.precision)
            ),
            f"{link.linked:,}",
            f"{link.avg_tables:.2f}",
            f"{link.avg_columns:.2f}",
            "unknown" if link.reduction is None else f"{100 * link.reduction:.1f} %",
        )
        for link in report.linking
    ]
    headers = ("link", "NSR", "strict recall", "precision", "linked", "tables", "columns", "reduction")
    remark = (
        "NSR: non-strict recall, of gold columns; tables, columns, reduction: means over the questions linked"
    )
    return Table("Schema linking", headers, tuple(rows), remark)


def _bill(report: Report, summary: Mapping[str, object]) -> Table:
    stages = [
        (name, *_cost(cost)) for name, cost in report.stage_cost.items() if cost.calls or cost.cached_calls
    ]
    headers = (
        "stage", "calls", "from cache", "input tokens", "output tokens", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows = (*stages, None, ("all", *_cost(report.cost)))
    return Table("Model calls", headers, rows, "; ".join([*by_endpoint(report.cost), _seconds(summary)]))


def _seconds(summary: Mapping[str, Any]) -> str:
    """Return how long the questions took, and the command with everything before and after them."""
    return f"{summary['seconds']:.1f} s for the questions, {command_seconds():.1f} s in all"


def command_seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - STARTED


def _cost(cost: Cost) -> tuple[str, ...]:
    if cost.calls == 0:
        none_paid = ("0", number(cost.cached_calls), *3 * DASH)
        return (*none_paid, money(cost.from_scratch_usd), *2 * DASH)
    return cost_cells(cost, cost.input_tokens, cost.output_tokens)


def _remarks(evaluated: EvaluationResult) -> list[str]:
    report, prefect = evaluated.report, evaluated.summary["prefect"]
    lines = [f"[dim]·[/] {literal(note)}" for note in evaluated.notes]
    if report.missing_databases:
        missing = ", ".join(f"{name} ({count})" for name, count in report.missing_databases.items())
        lacking = sum(report.missing_databases.values())
        lines.append(
            f"[yellow]![/] {lacking:,} of {report.questions:,} questions are not scored, "
            f"their database is missing: {literal(missing)}"
        )
    if report.without_gold:
        lines.append(
            f"[yellow]![/] {report.without_gold:,} of {report.questions:,} questions are not scored, "
            "the benchmark's files have no gold for them"
        )
    if report.gold_faults:
        faults = shorten([f"{name} ({status})" for name, status in report.gold_faults.items()], MAX_IDS)
        lines.append(
            f"[yellow]![/] the gold of {counted(len(report.gold_faults), 'question')} does not run, a fault of the "
            f"benchmark; counted as wrong: {literal(faults)}"
        )
    if evaluated.fatal:
        lines.append(f"[red]✗[/] stopped asking: {literal(evaluated.fatal)}")
    for kind, count in report.failures.items():
        have, number_of = ("has", "counts") if count == 1 else ("have", "count")
        lines.append(
            f"[red]✗[/] {count:,} of {counted(report.scored, 'question')} {have} no answer ({kind}) and {number_of} as "
            f"wrong{literal(_reason(evaluated, kind))}"
        )
    if report.retryable:
        failures = "1 failure looks" if report.retryable == 1 else f"{report.retryable:,} failures look"
        lines.append(f"[red]✗[/] {failures} temporary: run the same command again to retry only those")
    if prefect["task_runs"] is None:
        return lines
    recorded = "all" if prefect["recorded"] == prefect["task_runs"] else f"[yellow]{prefect['recorded']:,}[/]"
    lines.append(f"[dim]·[/] Prefect: {counted(prefect['task_runs'], 'task run')}, {recorded} recorded")
    return lines


def _reason(evaluated: EvaluationResult, kind: str) -> str:
    """Return the most frequent message of a failure kind, "" if there is none except the fatal error."""
    failures = [row.outcome.failure for row in evaluated.report.rows if row.outcome.failure]
    fatal = evaluated.fatal
    messages = Counter(
        each.message for each in failures if each.kind == kind and not (fatal and fatal in each.message)
    )
    if not messages:
        return ""
    message = " ".join(messages.most_common(1)[0][0].split())
    place = " (more in crosscheck.log in the working folder)" if kind == "internal_error" else ""
    return f": {message[:MAX_MESSAGE_LENGTH]}{place}"
