"""Terminal output of a comparison: the verdict, the numbers behind it, and the questions."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from flows.report.tables import cost_cells
from tasks.core.records import Question
from tasks.core.wording import (
    MINUS,
    and_more,
    counted,
    counts,
    interval,
    number,
    p_value,
    percent,
    points,
)
from tasks.documents.terminal import literal, make_grid, open_console, print_sql, show, show_all
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.comparison.comparability import left_out
from tasks.tracking.comparison.metric_rows import as_table
from tasks.tracking.comparison.run_comparison import Contrast, Pair, RunComparison, Side
from tasks.tracking.pages.text import answer_in_words

SETTINGS_SHOWN = 12


def print_comparison(comparison: RunComparison, stream: TextIO, flips: int | None = None) -> None:
    """Print a comparison, in colours on a terminal, with the first flipped questions; None: all of them."""
    console = open_console(stream)
    for part in _parts(comparison):
        if isinstance(part, Table):
            show(console, part)
        else:
            console.print(part)
    metrics = as_table(comparison.metrics, equal=False)
    tables = [comparison.corrected.table] if comparison.corrected else []
    show_all(console, [*tables, metrics] if metrics.rows else tables)
    if comparison.metrics and not metrics.rows:
        console.print(f"\n[dim]Metrics: {counted(len(comparison.metrics), 'value')} equal in both[/]")
    shown = comparison.flips[:flips]
    if shown:
        console.print("\n[bold]Flipped questions[/]")
    for pair in shown:
        _print_flip(console, pair, comparison.rule)
    if len(shown) < len(comparison.flips):
        console.print(
            f"\n[dim]the first {len(shown):,} of {len(comparison.flips):,} flipped questions; --all prints the others, "
            "--html writes a page to search in[/]"
        )


def _parts(comparison: RunComparison) -> Iterator[str | Table]:
    run, result = comparison.a.run, comparison.result
    yield (
        f"\n[bold]{literal(run.benchmark)}[/], revision {literal(run.revision)} · rule {literal(comparison.rule)} · "
        f"{counted(result.questions, 'question')}"
    )
    yield _sides(comparison)
    colour = {"A": "red", "B": "green", None: "yellow"}[result.better]
    yield f"\n[bold {colour}]{literal(result.verdict)}[/]"
    yield (
        f"[dim]{result.both_right:,} right in both · {len(result.fixed):,} fixed by B · {len(result.broken):,} broken "
        f"by B · {result.both_wrong:,} wrong in both · {comparison.same_sql:,} answered with the same SQL[/]"
    )
    if comparison.without_quarantine:
        yield (
            f"Without the {len(comparison.quarantined):,} questions on the quarantine list: "
            f"{literal(comparison.without_quarantine.verdict)}"
        )
    for line in comparison.corrected.lines if comparison.corrected else ():
        yield literal(line)
    for line in (*left_out(comparison), *comparison.warnings):
        yield f"[yellow]![/] {literal(line)}"
    if len(comparison.stages) > 1:
        yield _contrasts("By stage", comparison.stages)
    if comparison.by_difficulty:
        yield _contrasts("By difficulty", comparison.by_difficulty)
    if len(comparison.by_database) > 1:
        yield _contrasts("By database", comparison.by_database)
    yield _bill(comparison)
    if comparison.settings:
        yield _settings(comparison)


def _sides(comparison: RunComparison) -> Table:
    range_of = f"{100 * comparison.result.confidence:g} % interval"
    texts = ("backbone | pipeline", "run")
    table = make_grid("", "", *texts, "EX", "right", range_of, texts=texts)
    for side in (comparison.a, comparison.b):
        table.add_row(
            f"[bold]{side.letter}[/]",
            "\n".join(literal(line) for line in (side.name, *_labels(side)) if line),
            f"[dim]{literal(side.run.run_id)}[/]",
            f"[bold]{percent(side.ex)}[/]",
            counts(side.ex),
            interval(side.low, side.high),
        )
    return table


def _labels(side: Side) -> tuple[str, str]:
    """Return what the user wrote on a run, and which settings differ from the defaults."""
    return labels_in_words(side.run.tags), side.run.tags.get("changed", "")


def _contrasts(title: str, contrasts: Sequence[Contrast]) -> Table:
    headers = ("A", "right", "B", "right", f"B {MINUS} A", "fixed", "broken", "p", "p adj.")
    table = make_grid(title, "", *headers)
    for each in contrasts:
        table.add_row(
            literal(each.name),
            percent(each.a),
            counts(each.a),
            percent(each.b),
            counts(each.b),
            points(each.difference),
            number(each.fixed, missing=""),
            number(each.broken, missing=""),
            "" if each.p_value is None else p_value(each.p_value),
            "" if each.adjusted_p is None else p_value(each.adjusted_p),
        )
    tested = sum(each.p_value is not None for each in contrasts)
    if tested > 1:
        table.caption = f"p adj.: p adjusted for {counted(tested, 'test')} (Holm)"
    return table


def _bill(comparison: RunComparison) -> Table:
    headers = ("calls paid", "from cache", "tokens in", "tokens out", "paid", "from scratch", "p50", "p95")
    table = make_grid("Cost", "", *headers)
    for side in (comparison.a, comparison.b):
        cells = cost_cells(side.cost, side.input_tokens, side.output_tokens)
        table.add_row(f"{side.letter}  {literal(side.name)}", *cells)
    table.caption = (
        "tokens: including cached replies; paid: cost of this run; from scratch: cost with an empty cache"
    )
    return table


def _settings(comparison: RunComparison) -> Table:
    table = make_grid("What differs in the settings", "", "A", "B", texts=("A", "B"))
    for change in comparison.settings[:SETTINGS_SHOWN]:
        table.add_row(literal(change.key), _setting(change.a), _setting(change.b))
    if rest := and_more(comparison.settings, SETTINGS_SHOWN):
        table.caption = f"{rest}: --json or --html"
    return table


def _setting(value: str | None) -> str:
    return "[dim]not set[/]" if value is None else literal(value)


def _print_flip(console: Console, pair: Pair, rule: str) -> None:
    mark = "[green]fixed [/]" if pair.change == "fixed" else "[red]broken[/]"
    console.print(f"\n{mark} [bold]{literal(pair.question.id)}[/]  {_about(pair.question)}")
    console.print(f"       {literal(pair.question.text)}")
    if pair.question.evidence:
        console.print(f"       [dim]evidence: {literal(pair.question.evidence)}[/]")
    for letter, score in (("A", pair.a), ("B", pair.b)):
        console.print(f"  [bold]{letter}[/] {literal(answer_in_words(score, rule))}")
        if score.outcome.sql is not None:
            print_sql(console, score.outcome.sql)
    console.print("  [dim]gold[/]")
    print_sql(console, pair.gold_sql)


def _about(question: Question) -> str:
    return (
        f"[dim]{literal(' · '.join(part for part in (question.database_id, question.difficulty) if part))}[/]"
    )
