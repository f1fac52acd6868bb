"""What lies behind a score: a few lines in every summary, all of it with `--details`."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.report.tables import counts, percent, show, table
from tasks.scoring.details import Details
from tasks.scoring.execution.efficiency import Efficiency, Spread
from tasks.scoring.report import Ratio, Report

MOST_CAUSES = 5
MOST_IDS = 10
MOST_ROWS = 100


def brief(report: Report, details: Details) -> list[str]:
    """Return what everybody should see, in lines of rich markup."""
    lines = []
    causes = sorted(((n, name) for name, n in details.errors.items() if n), key=lambda cause: -cause[0])
    if causes:
        shown = ", ".join(f"{name} {count:,}" for count, name in causes[:MOST_CAUSES])
        more = f", {len(causes) - MOST_CAUSES} more kinds" if len(causes) > MOST_CAUSES else ""
        lines.append(f"Causes of wrong answers: {shown}{more}")
    if details.disagreements:
        ids = [each.question_id for each in details.disagreements]
        lines.append(f"The rules disagree on {_questions(len(ids))}: {_some(ids)}")
    if details.selection:
        selection = details.selection
        chosen = (
            f"where exactly one candidate is right it chose right {counts(selection.chosen_right)}"
            if selection.chosen_right.total
            else "no question with exactly one right candidate"
        )
        lines.append(f"Selection: oracle {percent(selection.oracle)} ({counts(selection.oracle)}); {chosen}")
    lines += _headline_figures(details)
    if details.exact_match:
        total = details.exact_match.total
        lines.append(f"Exact set match: {percent(total)} ({counts(total)})")
    if details.soft_f1:
        lines.append(f"Soft-F1: {percent(details.soft_f1.total)} (published rule, never to rank by)")
    if details.efficiency:
        lines += _efficiency(details.efficiency)
    if details.without_quarantine:
        left = details.without_quarantine
        ratio = left.rules[report.rule]
        lines.append(
            f"Without the quarantined gold ({_some(left.left_out)}): {percent(ratio)} ({counts(ratio)})"
        )
    marked = [f"[dim]·[/] {escape(line)}" for line in lines]
    if details.unanswered:
        marked.append(
            f"[red]✗[/] {_questions(len(details.unanswered))} without SQL: {escape(_some(details.unanswered))}"
        )
    return marked


def _headline_figures(details: Details) -> list[str]:
    """Return the few figures of DAC and SEA-SQL that everybody should see; `--details` has all."""
    wanted = {
        "dac/linking_tables/f1": "DAC: tables linked, F1",
        "dac/linking_columns/f1": "columns linked, F1",
        "dac/parsed_skeleton": "skeletons parsed right",
        "sea/execution_adjustment/failing_before": "SEA-SQL: SQL that failed to execute, before",
        "sea/execution_adjustment/failing_after": "after adjustment",
    }
    found = {figure.name: figure.value for figure in details.figures}
    said = {
        name: f"{text} {counts(value) if isinstance(value, Ratio) else f'{value:.2f}'}"
        for name, text in wanted.items()
        if (value := found.get(name)) is not None
    }
    groups = ("dac/", "sea/")
    return [
        ", ".join(text for name, text in said.items() if name.startswith(group))
        for group in groups
        if any(name.startswith(group) for name in said)
    ]


def print_details(report: Report, details: Details, console: Console) -> None:
    """Print everything as tables."""
    show(console, _causes(details))
    if details.exact_match:
        shown = table("Exact set match", "hardness", "share", "matched")
        for grade, ratio in details.exact_match.by_hardness.items():
            shown.add_row(grade, percent(ratio), counts(ratio))
        show(console, shown)
    if details.selection:
        show(console, _selection(details))
    if details.figures:
        show(console, _figures(details))
    if details.linking_resolved:
        show(console, _linking(details))
    if details.without_quarantine:
        shown = table("Without quarantined gold", "rule", "EX", "right")
        for rule, ratio in details.without_quarantine.rules.items():
            shown.add_row(rule, percent(ratio), counts(ratio))
        show(console, shown)
    if details.disagreements:
        show(console, _disagreements(report, details))


def _causes(details: Details) -> Table:
    shown = table("Causes of wrong answers", "cause, one of several perhaps", "questions")
    for name, count in details.errors.items():
        if count:
            shown.add_row(name, f"{count:,}")
    shown.add_section()
    for kind, count in asdict(details.dac).items():
        shown.add_row(f"DAC: {kind}", f"{count:,}")
    return shown


def _selection(details: Details) -> Table:
    selection = details.selection
    assert selection is not None
    shown = table(f"Selection between {' and '.join(selection.candidates)}", "", "share", "questions")
    shown.add_row("either is right (oracle)", percent(selection.oracle), counts(selection.oracle))
    shown.add_row(
        "chosen rightly, of those with one right",
        percent(selection.chosen_right),
        counts(selection.chosen_right),
    )
    if selection.new_queries:
        shown.add_row(
            "wrote a query of its own", percent(selection.new_queries), counts(selection.new_queries)
        )
    return shown


def _linking(details: Details) -> Table:
    shown = table("Linking, gold resolved through aliases", "link", "NSR", "strict recall", "precision")
    for link in details.linking_resolved:
        shown.add_row(
            link.name,
            percent(link.nsr),
            f"{percent(link.strict_recall)} ({counts(link.strict_recall)})",
            percent(link.precision),
        )
    if recall := details.strict_recall_or_correct:
        by = recall.stage or "the final answer"
        shown.caption = (
            f"{recall.link}: strict recall or {by} right (RSL-SQL's printed SRR) {percent(recall.ratio)} "
            f"({counts(recall.ratio)})"
        )
    return shown


def _figures(details: Details) -> Table:
    shown = table("What the systems report of themselves", "figure", "value", "questions")
    for figure in details.figures:
        if isinstance(figure.value, Ratio):
            shown.add_row(figure.name, percent(figure.value), counts(figure.value))
        elif isinstance(figure.value, int):
            shown.add_row(figure.name, "", f"{figure.value:,}")
        else:
            shown.add_row(figure.name, f"{figure.value:.3f}", "")
    return shown


def _disagreements(report: Report, details: Details) -> Table:
    shown = table("Where the rules disagree", "question", "right under", "wrong under")
    for each in details.disagreements[:MOST_ROWS]:
        shown.add_row(each.question_id, ", ".join(each.right), ", ".join(each.wrong))
    if len(details.disagreements) > MOST_ROWS:
        shown.caption = f"and {len(details.disagreements) - MOST_ROWS:,} more: `--json` lists all"
    return shown


def _efficiency(found: Efficiency) -> list[str]:
    if found.ves is None or found.r_ves is None:
        return ["Efficiency: no question to measure"]
    steps = "unknown" if found.ves_steps is None else f"{found.ves_steps:.2f}"
    return [
        f"Efficiency over {found.questions:,} questions, {found.measured:,} timed: VES {_spread(found.ves)}, "
        f"R-VES {_spread(found.r_ves)}, ves_steps {steps} (this one repeats exactly)"
    ]


def _spread(spread: Spread) -> str:
    return f"{spread.mean:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else ""
    return ", ".join(ids[:MOST_IDS]) + more


def _questions(count: int) -> str:
    return f"{count:,} question{'' if count == 1 else 's'}"
