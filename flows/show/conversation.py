"""Terminal output of an agent's turns: what it wrote and called, with the verdict on the SQL after each turn."""

from collections import Counter

from pydantic import TypeAdapter
from rich.cells import chop_cells
from rich.console import Console

from flows.show.question_view import QuestionView
from tasks.core.outcome import StageRecord
from tasks.core.trajectory import TURN, ToolCall, Turn, turn_step
from tasks.core.wording import counted, money, number, seconds
from tasks.documents.terminal import literal, print_sql
from tasks.documents.text import visible
from tasks.scoring.report import Verdict, is_right
from tasks.stage_runs.question_run import split_label

TEXT_LINES, RESULT_LINES = 6, 3
"""Lines of a turn's text and of a tool's result that are shown without `--prompts`."""
_TURN = TypeAdapter(Turn)


def is_turn_record(record: StageRecord) -> bool:
    """Return whether a stage is a turn that has come to its end."""
    return record.stage == TURN and bool(record.value)


def print_conversation(console: Console, view: QuestionView, *, whole: bool) -> None:
    """Print the turns of a question; nothing for a question without any."""
    records = [each for each in view.score.outcome.stages if is_turn_record(each)]
    if not records:
        return
    console.print("\n[bold]Conversation[/]")
    seen: Counter[int | None] = Counter()
    before: str | None = None
    for record in records:
        candidate = split_label(record.label)[1]
        seen[candidate] += 1
        turn = _TURN.validate_python(record.value)
        judged = candidate in (None, 1)  # of several agents, the first one's turns are scored
        verdict = view.score.stages.get(turn_step(seen[candidate])) if judged else None
        same = seen[candidate] > 1 and turn.sql == before and turn.sql is not None
        state = _state(turn, verdict, view.stored.run.rule) + (", the same SQL as before" if same else "")
        submitted = ", submitted" if turn.submitted else ""
        spent = f"  [dim]{found}[/]" if (found := _spent(record)) else ""
        console.print(f"\n[bold]{literal(record.label)}[/]  {state}{submitted}{spent}")
        for note in (record.error, *record.notes):
            if note:
                console.print(f"  [yellow]![/] {literal(note)}")
        if whole and seen[candidate] == 1:
            _print_prompt(console, view, record)
        if turn.text.strip():
            print_text(console, "", turn.text, None if whole else TEXT_LINES)
        for call in turn.calls:
            _print_call(console, call, whole=whole)
        if turn.sql and turn.sql != before and not any(call.sql == turn.sql for call in turn.calls):
            console.print("  [cyan]SQL after this turn[/]")
            print_sql(console, turn.sql)
        before = turn.sql


def _print_prompt(console: Console, view: QuestionView, record: StageRecord) -> None:
    """Print what the model was told before its first turn; later prompts are the conversation itself."""
    for call in record.calls[:1]:
        exchange = view.exchanges.by_request.get(call.request)
        for message in exchange.messages if exchange else ():
            print_text(console, message.role, message.content, None)


def print_text(console: Console, name: str, text: str, most: int | None) -> None:
    """Print a text under a name, at most so many lines of the terminal's width; None: all."""
    lines = visible(text).strip().splitlines()
    if most is not None:
        lines = [part for line in lines for part in chop_cells(line, console.width - 4) or [""]]
    shown = lines[:most]
    if name:
        console.print(f"  [cyan]{literal(name)}[/]")
    for line in shown:
        console.print(f"    {line}", markup=False)
    if len(lines) > len(shown):
        console.print(f"    [dim]… {counted(len(lines) - len(shown), 'more line')}[/]")


def _print_call(console: Console, call: ToolCall, *, whole: bool) -> None:
    failed = "" if not call.error else f"  [red]{literal(call.error.replace('_', ' '))}[/]"
    if call.sql:
        console.print(f"  [cyan]{literal(call.name)}[/]{failed}")
        print_sql(console, call.sql)
    else:
        console.print(f"  [cyan]{literal(call.name)}[/] {literal(call.arguments[:200])}{failed}")
    if call.result:
        print_text(console, "result", call.result, None if whole else RESULT_LINES)


def _state(turn: Turn, verdict: Verdict | None, rule: str) -> str:
    if turn.sql is None:
        return "[dim]no SQL yet[/]"
    if verdict is None:
        return "[dim]not judged[/]"
    if is_right(verdict, rule):
        return "[green]right[/]"
    why = "" if verdict.status == "ok" else f", {literal(f'{verdict.status}: {verdict.error}'.rstrip(': '))}"
    return f"[red]wrong[/]{why}"


def _spent(record: StageRecord) -> str:
    """Return what the turn's model calls took, where it is known."""
    parts = []
    for call in record.calls:
        usage = call.usage
        if usage.input is not None or usage.output is not None:
            parts.append(f"{number(usage.input)} tokens in, {number(usage.output)} out")
        if call.cached or call.cost_usd is not None:
            parts.append("from the cache" if call.cached else money(call.cost_usd))
    if record.seconds:
        parts.append(seconds(record.seconds))
    return ", ".join(parts)
