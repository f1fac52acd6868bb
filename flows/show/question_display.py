"""Terminal output of one question of a run."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console

from flows.show.question_view import QuestionView
from tasks.core.outcome import Call, StageRecord
from tasks.core.records import Execution
from tasks.core.wording import counted, money, number, seconds
from tasks.documents.terminal import literal, open_console, print_sql
from tasks.documents.text import visible
from tasks.scoring.report import CHANGES_IN_WORDS, NO_GOLD, is_right
from tasks.scoring.statistics.detection import accuracy_in_words
from tasks.tracking.predictions import answer_in_words

PROMPT_LINES, REPLY_LINES = 2, 6
"""Lines of a prompt's last message and of a reply that are shown without `--prompts`."""


def print_question(view: QuestionView, stream: TextIO, *, whole: bool) -> None:
    """Print a question; `whole` prints prompts and replies to their ends."""
    console = open_console(stream)
    _print_head(console, view)
    _print_stages(console, view)
    _print_calls(console, view, whole=whole)
    _print_results(console, view)
    _print_verdict(console, view)


def _print_head(console: Console, view: QuestionView) -> None:
    question, run = view.score.question, view.stored.run
    about = " · ".join(part for part in (question.database_id, question.difficulty) if part)
    console.print(f"\n[bold]{literal(question.id)}[/]  {literal(about)}  [dim]run {run.run_id}[/]")
    console.print(literal(question.text), soft_wrap=False)
    if question.evidence:
        console.print(f"[dim]evidence:[/] {literal(question.evidence)}", soft_wrap=False)


def _print_stages(console: Console, view: QuestionView) -> None:
    candidates = view.score.outcome.candidates
    if candidates:
        console.print("\n[bold]SQL by stage[/]")
    before: str | None = None
    for place, candidate in enumerate(candidates):
        verdict = view.score.stages.get(candidate.stage)
        state = "not judged" if verdict is None else _mark(right=is_right(verdict, view.stored.run.rule))
        if verdict is not None and verdict.status != "ok":
            state += f", {literal(verdict.status)}" + (f": {literal(verdict.error)}" if verdict.error else "")
        same = place and candidate.sql == before
        console.print(f"{literal(candidate.stage)}  {state}{', the same SQL' if same else ''}")
        if not same:
            print_sql(console, candidate.sql)
        before = candidate.sql
    if not candidates:
        console.print("\n[bold]SQL[/]")
        print_sql(console, view.score.outcome.sql)


def _print_calls(console: Console, view: QuestionView, *, whole: bool) -> None:
    stages = view.score.outcome.stages
    records = [each for each in stages if each.calls or each.error or each.notes or each.skipped]
    if not stages:
        console.print(
            "\n[dim]No model calls are recorded: the answer was made elsewhere, or none was asked.[/]"
        )
    if records:
        console.print("\n[bold]Model calls[/]")
    for record in records:
        console.print(_record(record))
        for note in (record.error, record.skipped and f"skipped: {record.skipped}", *record.notes):
            if note:
                console.print(f"  [yellow]![/] {literal(note)}")
        for call in record.calls:
            _print_call(console, view, call, whole=whole)
    if view.exchanges.problem:
        console.print(f"[yellow]![/] {literal(view.exchanges.problem)}")
    elif records and not whole:
        console.print("[dim]--prompts prints whole prompts and replies[/]")


def _record(record: StageRecord) -> str:
    restored = ", restored" if record.restored else ""
    calls = counted(len(record.calls), "call")
    return f"[bold]{literal(record.label)}[/]  [dim]{calls}, {seconds(record.seconds)}{restored}[/]"


def _print_call(console: Console, view: QuestionView, call: Call, *, whole: bool) -> None:
    paid = "from the cache" if call.cached else money(call.cost_usd)
    tokens = f"{number(call.usage.input)} tokens in, {number(call.usage.output)} out"
    console.print(f"  [dim]{literal(call.model)}: {tokens}, {paid}, read as {literal(call.parse)}[/]")
    exchange = view.exchanges.by_request.get(call.request)
    if exchange is None:
        console.print("  [dim]prompt and reply are not stored[/]")
        return
    for message in exchange.messages:
        if whole or message is exchange.messages[-1]:
            _print_text(console, message.role, message.content, None if whole else PROMPT_LINES)
    _print_text(console, "reply", exchange.reply, None if whole else REPLY_LINES)


def _print_text(console: Console, name: str, text: str, most: int | None) -> None:
    lines = visible(text).strip().splitlines()
    if most is not None:
        lines = [part for line in lines for part in chop_cells(line, console.width - 4) or [""]]
    shown = lines[:most]
    console.print(f"  [cyan]{literal(name)}[/]")
    for line in shown:
        console.print(f"    {line}", markup=False)
    if len(lines) > len(shown):
        console.print(f"    [dim]… {counted(len(lines) - len(shown), 'more line')}[/]")


def _print_results(console: Console, view: QuestionView) -> None:
    if view.score.outcome.candidates or view.score.outcome.sql:
        console.print("\n[bold]Gold SQL[/]")
    else:
        console.print("\n[bold]Gold SQL[/] [dim](there is no answer)[/]")
    print_sql(console, view.score.gold_sql)
    if view.problem:
        console.print(f"[yellow]![/] {literal(view.problem)}")
        return
    predicted = list(_result("prediction", view.predicted, (console.width - 3) // 2))
    wide = max(map(cell_len, predicted))
    gold = _result("gold", view.gold, console.width - 3 - wide)
    console.print("\n[bold]Results, executed now[/]")
    for left, right in zip_longest(predicted, gold, fillvalue=""):
        padding = " " * (wide - cell_len(left))
        console.print(f"{left}{padding} | {right}".rstrip(), markup=False)


def _result(name: str, found: Execution | None, width: int) -> Iterator[str]:
    """Yield the lines of one side, none of them wider than `width`."""
    if found is None:
        yield f"{name}: no SQL"
        return
    if not found.ok:
        yield f"{name}: {found.status}"
        yield from chop_cells(visible(found.error).replace("\n", " "), width)
        return
    yield f"{name}: {counted(found.row_count or 0, 'row')}"
    yield _cut(_row(found.columns), width)
    for row in found.rows:
        yield _cut(_row(row), width)
    if (left := (found.row_count or 0) - len(found.rows)) > 0:
        yield f"… {counted(left, 'more row')}"


def _row(values: Sequence[Any]) -> str:
    return ", ".join("NULL" if value is None else visible(str(value)).replace("\n", " ") for value in values)


def _print_verdict(console: Console, view: QuestionView) -> None:
    score, run = view.score, view.stored.run
    console.print("\n[bold]Verdict[/]")
    if not score.executable:
        lacking = "it has no gold" if score.final.gold_status == NO_GOLD else "the database was missing"
        console.print(f"not scored: {lacking}")
    else:
        console.print(f"{literal(answer_in_words(score, run.rule))} (rule {run.rule})", soft_wrap=False)
        others = [
            f"{name} {_mark(right=right)}" for name, right in score.final.correct.items() if name != run.rule
        ]
        if others:
            console.print(f"other rules: {', '.join(others)}")
    for variant, now in view.variants.items():
        state = "not counted" if now is None else _mark(right=now)
        console.print(f"{literal(variant.title)}: {state}")
    _print_keys(console, view)
    if opinion := score.opinion:
        console.print(
            f"opinion of {literal(opinion.model)}: {_mark(right=opinion.right)}, {literal(opinion.reason)} "
            f"({accuracy_in_words(opinion.accuracy)})"
        )
    if view.causes:
        console.print(f"causes: {', '.join(view.causes)}")
    if score.final.gold_status not in ("ok", NO_GOLD):
        console.print(f"[yellow]![/] the gold itself fails ({score.final.gold_status})")
    for note in score.outcome.notes:
        console.print(f"[dim]·[/] {literal(note)}", soft_wrap=False)


def _print_keys(console: Console, view: QuestionView) -> None:
    """Print what answer keys change of the question."""
    for name, found in view.score.keys.items():
        console.print(f"the key {literal(name)}: {CHANGES_IN_WORDS[found.change]}")
        if found.change == "other_text":
            console.print(f"  {literal(f'{found.question} {found.evidence}'.rstrip())}")
        if found.reason:
            console.print(f"  [dim]{literal(found.reason)} ({literal(found.source)})[/]")
        for sql in found.golds:
            print_sql(console, sql)


def _mark(*, right: bool) -> str:
    return "[green]right[/]" if right else "[red]wrong[/]"


def _cut(text: str, width: int) -> str:
    """Cut text to columns of the terminal; an East Asian character takes two."""
    if cell_len(text) <= width:
        return text
    return chop_cells(text, width - 1)[0] + "…"
