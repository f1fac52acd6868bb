"""Terminal output of a run: its facts, scores and cost, and a line for each question that is not right."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from flows.report.tables import degradation_lines, share_table, stage_table
from flows.show.run_view import UNKNOWN_DEFAULTS, RunView, causes_of
from tasks.core.wording import counted, counts, duration, interval, number, percent, shorten
from tasks.documents.model import Table
from tasks.documents.terminal import literal, open_console, show_all
from tasks.documents.text import visible
from tasks.scoring.cost import in_words as cost_in_words
from tasks.scoring.metrics.candidates import candidate_tables
from tasks.scoring.metrics.causes import wrong_in_words
from tasks.scoring.report import QuestionScore
from tasks.tracking.predictions import status

CHANGES_SHOWN = 8
CONFIDENCE = "95 % interval"


def print_run(view: RunView, stream: TextIO) -> None:
    """Print everything about a run except its questions."""
    console = open_console(stream)
    run, report = view.stored.run, view.report
    names = " · ".join((run.benchmark, run.backbone, run.pipeline))
    console.print(f"\n[bold]{literal(names)}[/]")
    state = "" if view.stored.status == "complete" else f", [yellow]{literal(view.stored.status)}[/]"
    console.print(f"run {run.run_id}, started {run.started:%Y-%m-%d %H:%M} UTC{state}")
    console.print(
        f"execution accuracy [bold]{percent(report.score)}[/] ({counts(report.score)}, rule {report.rule})"
    )
    for sentence in run.translations:
        console.print(f"[bold]{literal(sentence)}[/]")
    if report.score.total:
        console.print(f"{CONFIDENCE} {interval(*view.interval)} (Wilson)")
    for line in degradation_lines(report.degradation):
        console.print(line, soft_wrap=False)
    if view.corrected is not None:
        console.print(f"on corrected golds [bold]{percent(view.corrected)}[/] ({counts(view.corrected)})")
        if differ := view.corrected_differs.in_words():
            console.print(f"corrected golds differ: {literal(differ)}")
    for line in _settings(view):
        console.print(line)
    show_all(console, _tables(view))
    for line in _bill(view):
        console.print(line)


def print_lists(
    view: RunView, listed: Mapping[str, Sequence[QuestionScore]], limit: int, stream: TextIO
) -> None:
    """Print a line for each of the first questions by "wrong" and "unanswered", and how to see one of them."""
    console = open_console(stream)
    for kind, rows in listed.items():
        console.print(f"\n[bold]{counted(len(rows), 'question')} {kind}[/] of {view.report.questions:,}")
        shown = rows[:limit]
        for line in _question_lines(view, shown, console.width):
            console.print(line, markup=False)
        if len(rows) > limit:
            console.print(f"[dim]the first {limit:,} of {len(rows):,}; --limit shows more[/]")
    if view.problem:
        console.print(f"[yellow]![/] The causes cannot be read: {literal(view.problem)}")
    run_id = view.stored.run.run_id
    first = next((row.question.id for rows in listed.values() for row in rows), None)
    if first is not None:
        console.print(f"\ncrosscheck show {run_id} {literal(first)}")
    if view.report.retryable:
        console.print(f"crosscheck rerun {run_id}")


def _question_lines(view: RunView, rows: Sequence[QuestionScore], width: int) -> list[str]:
    """Return a line of at most `width` for each question: id, database, causes or status, and its text."""
    facts = [
        (
            row.question.id,
            _cut(row.question.database_id, max(18, width // 10)),
            _cut(_why(view, row), max(12, width * 3 // 10)),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines = []
    for row, cells in zip(rows, facts, strict=True):
        head = visible("".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True)))
        text = " ".join(visible(row.question.text).split())
        lines.append((head + _cut(text, width - len(head))).rstrip())
    return lines


def _why(view: RunView, row: QuestionScore) -> str:
    failure = row.outcome.failure
    return failure.kind if failure else ", ".join(causes_of(view, row)) or status(row)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _settings(view: RunView) -> list[str]:
    tags = {
        name: value
        for name, value in view.stored.run.tags.items()
        if name != "changed" or view.changes is None
    }
    lines = [f"{literal(name)}: {literal(value)}" for name, value in tags.items()]
    if view.changes is None:
        lines.append(f"[dim]settings: {UNKNOWN_DEFAULTS}[/]")
    elif view.changes:
        lines.append("differs from the defaults:")
        lines += [f"  {literal(_cut(change, 200))}" for change in view.changes[:CHANGES_SHOWN]]
        if len(view.changes) > CHANGES_SHOWN:
            lines.append(f"  and {len(view.changes) - CHANGES_SHOWN:,} more: --json")
    else:
        lines.append("all settings are the defaults")
    return lines


def _tables(view: RunView) -> list[Table]:
    report = view.report
    tables = [stage_table("By stage", report.stages)] if report.stages else []
    for title, shares in (
        ("By rule", report.rules),
        ("By difficulty", report.by_difficulty),
        ("By database", report.by_database),
    ):
        if len(shares) > 1:
            tables.append(share_table(title, shares))
    if found := view.stored.summary.get("candidates"):
        tables += candidate_tables(found)
    if view.causes:
        rows = tuple((name, f"{count:,}") for name, count in view.causes.items())
        tables.append(Table("Causes of wrong answers", ("cause", "questions"), rows, wrong_in_words(report)))
    return tables


def _bill(view: RunView) -> list[str]:
    report, cost = view.report, view.report.cost
    took = "" if view.seconds is None else f", {duration(view.seconds)} for the questions"
    lines = [
        f"\n{number(cost.calls)} calls paid, {number(cost.cached_calls)} from the cache, "
        f"{cost_in_words(cost)}{took}"
    ]
    if cost.calls:
        lines.append(f"{number(cost.input_tokens)} tokens in, {number(cost.output_tokens)} out")
    if report.missing_databases:
        names = shorten(list(report.missing_databases), 5)
        lacking = sum(report.missing_databases.values())
        lines.append(
            f"[yellow]![/] {lacking:,} of {report.questions:,} are not scored, databases missing: {literal(names)}"
        )
    if report.without_gold:
        lines.append(
            f"[yellow]![/] {report.without_gold:,} of {report.questions:,} are not scored, without gold"
        )
    return lines
