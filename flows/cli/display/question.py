"""Terminal output of one question of a run: verdict, both SQLs, both results, turns, stages, calls."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TextIO

from pydantic import TypeAdapter
from rich.cells import cell_len, chop_cells
from rich.console import Console

from flows.evaluate.question_view import Differing, QuestionView
from flows.runtime.summary import folder_options
from tasks.core.outcome import TURN, Call, StageRecord, ToolCall, Turn, is_turn, split_label, turn_step
from tasks.core.records import Execution
from tasks.core.wording import counted, money, number, seconds
from tasks.documents.terminal import literal, open_console, print_sql
from tasks.documents.text import visible
from tasks.pages.first_screen import cut
from tasks.pages.run_page import RunView, causes_of
from tasks.results.predictions_table import answer_in_words
from tasks.scoring.scores import CHANGES_IN_WORDS, NO_GOLD, QuestionScore, Verdict, is_right

MARK, SAME = "≠ ", "  "


def print_results(
    console: Console, predicted: Execution | None, gold: Execution | None, rows: int, differing: Differing
) -> None:
    """Print at most `rows` rows of both results side by side, first those that differ, with a mark.

    `differing` has the positions of the rows that the other result lacks, of the prediction and of the gold.
    """
    left = list(_lines("prediction", predicted, differing[0], rows, (console.width - 3) // 2))
    left_width = max(map(cell_len, left))
    right = list(_lines("gold", gold, differing[1], rows, console.width - 3 - left_width))
    for left_line, right_line in zip_longest(left, right, fillvalue=""):
        padding = " " * (left_width - cell_len(left_line))
        console.print(f"{left_line}{padding} | {right_line}".rstrip(), markup=False)


def _lines(
    name: str, execution: Execution | None, differs: frozenset[int] | None, rows: int, width: int
) -> Iterator[str]:
    """Yield the lines of one side, none wider than `width`; `differs` is None where the results were not compared."""
    if execution is None:
        yield f"{name}: no SQL"
        return
    if not execution.ok:
        yield f"{name}: {execution.status}"
        yield from chop_cells(visible(execution.error).replace("\n", " "), width)
        return
    margin = "" if differs is None else SAME
    differs = differs or frozenset()
    only = f", {len(differs):,} only here ({MARK.strip()})" if differs else ""
    yield _cut(f"{name}: {counted(execution.row_count or 0, 'row')}{only}", width)
    yield _cut(margin + _row(execution.columns), width)
    order = sorted(range(len(execution.rows)), key=lambda position: position not in differs)[:rows]
    for position in order:
        yield _cut((MARK if position in differs else margin) + _row(execution.rows[position]), width)
    if (remaining := (execution.row_count or 0) - len(order)) > 0:
        yield f"{margin}… {counted(remaining, 'more row')}"


def _row(values: Sequence[Any]) -> str:
    return ", ".join("NULL" if value is None else visible(str(value)).replace("\n", " ") for value in values)


def _cut(text: str, width: int) -> str:
    """Cut text to columns of the terminal; an East Asian character takes two."""
    if cell_len(text) <= width:
        return text
    return chop_cells(text, width - 1)[0] + "…"


TEXT_LINES, RESULT_LINES = 6, 3
"""Lines of a turn's text, and of what a tool or a stage returned, that are shown without `--prompts`."""
_TURN = TypeAdapter(Turn)


def is_turn_record(record: StageRecord) -> bool:
    """Return whether a stage is a turn that has come to its end."""
    return record.stage == TURN and bool(record.value)


def print_conversation(console: Console, view: QuestionView, *, whole: bool) -> None:
    """Print the turns of one agent, or of several ("candidates") in parallel; nothing for a question without turns."""
    records = [stage for stage in view.score.outcome.stages if is_turn_record(stage)]
    if not records:
        return
    console.print("\n[bold]Conversation[/]")
    turn_counts: Counter[int | None] = Counter()
    previous_sql: str | None = None
    for record in records:
        candidate = split_label(record.label)[1]
        turn_counts[candidate] += 1
        turn = _TURN.validate_python(record.value)
        judged = candidate in (None, 1)  # of several agents, the first one's turns are scored
        verdict = view.score.stages.get(turn_step(turn_counts[candidate])) if judged else None
        state = _state(turn, verdict, view.record.rule)
        if turn_counts[candidate] > 1 and turn.sql == previous_sql and turn.sql is not None:
            state += ", the same SQL as before"
        submitted = ", submitted" if turn.submitted else ""
        spent = f"  [dim]{cost}[/]" if (cost := _spent(record)) else ""
        console.print(f"\n[bold]{literal(record.label)}[/]  {state}{submitted}{spent}")
        for note in (record.error, *record.notes):
            if note:
                console.print(f"  [yellow]![/] {literal(note)}")
        if whole and turn_counts[candidate] == 1:
            _print_prompt(console, view, record)
        if turn.text.strip():
            print_text(console, "", turn.text, None if whole else TEXT_LINES)
        for call in turn.calls:
            _print_call(console, call, whole=whole)
        if turn.sql and turn.sql != previous_sql and not any(call.sql == turn.sql for call in turn.calls):
            console.print("  [cyan]SQL after this turn[/]")
            print_sql(console, turn.sql)
        previous_sql = turn.sql


def _print_prompt(console: Console, view: QuestionView, record: StageRecord) -> None:
    """Print what the model was told before its first turn; later prompts are the conversation itself."""
    for call in record.calls[:1]:
        exchange = view.exchanges.by_request.get(call.request)
        for message in exchange.messages if exchange else ():
            print_text(console, message.role, message.content, None)


def print_text(console: Console, name: str, text: str, max_lines: int | None) -> None:
    """Print a text under a name, at most so many lines of the terminal's width; None: all."""
    lines = visible(text).strip().splitlines()
    if max_lines is not None:
        lines = [part for line in lines for part in chop_cells(line, console.width - 4) or [""]]
    if name:
        console.print(f"  [cyan]{literal(name)}[/]")
    for line in lines[:max_lines]:
        console.print(f"    {line}", markup=False)
    if max_lines is not None and (rest := len(lines[max_lines:])):
        console.print(f"    [dim]… {counted(rest, 'more line')}[/]")


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
    """Return whether the SQL that an agent had after a turn is right, in words with their colour."""
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


def print_question(view: QuestionView, stream: TextIO, *, whole: bool) -> None:
    """Print a question; `whole` also prints prompts and replies, to their ends."""
    console = open_console(stream)
    _print_head(console, view)
    _print_verdict(console, view)
    _print_sqls(console, view)
    _print_results(console, view)
    print_conversation(console, view, whole=whole)
    _print_stages(console, view)
    _print_stage_records(console, view, whole=whole)


def _print_head(console: Console, view: QuestionView) -> None:
    question = view.score.question
    run = view.record
    about = " · ".join(part for part in (question.database_id, question.difficulty) if part)
    if not view.score.executable:
        reason = "it has no gold" if view.score.final.gold_status == NO_GOLD else "the database was missing"
        verdict = f"not scored: {reason}"
    else:
        verdict = _mark(right=view.right)
    console.print(
        f"\n{verdict}  [bold]{literal(question.id)}[/]  {literal(about)}  [dim]run {run.run_id}, rule {run.rule}[/]"
    )
    console.print(literal(question.text))
    if question.evidence:
        console.print(f"[dim]evidence:[/] {literal(question.evidence)}")


def _print_verdict(console: Console, view: QuestionView) -> None:
    """Print why the answer is right or wrong, and the judgements of other rules, other golds and a model."""
    score, run = view.score, view.record
    console.print()
    if score.executable:
        reason = answer_in_words(score, run.rule).removeprefix("wrong: ")
        if reason != "right":
            console.print(literal(reason))
        others = [
            f"{name} {_mark(right=right)}" for name, right in score.final.correct.items() if name != run.rule
        ]
        if others:
            console.print(f"other rules: {', '.join(others)}")
    if view.causes:
        console.print(f"causes: {', '.join(view.causes)}")
    for variant, right in view.variants.items():
        state = "not counted" if right is None else _mark(right=right)
        console.print(f"{literal(variant.title)}: {state}")
    _print_keys(console, view)
    if opinion := score.opinion:
        console.print(
            f"opinion of {literal(opinion.model)}: {_mark(right=opinion.right)}, {literal(opinion.reason)}"
        )
    if score.final.gold_status not in ("ok", NO_GOLD):
        console.print(f"[yellow]![/] the gold itself fails ({score.final.gold_status})")
    for note in score.outcome.notes:
        console.print(f"[dim]·[/] {literal(note)}")


def _print_keys(console: Console, view: QuestionView) -> None:
    """Print what each answer key, a second set of golds for the benchmark, says of the question."""
    for name, verdict in view.score.keys.items():
        console.print(f"the key {literal(name)}: {CHANGES_IN_WORDS[verdict.change]}")
        if verdict.change == "other_text":
            console.print(f"  {literal(f'{verdict.question} {verdict.evidence}'.rstrip())}")
        if verdict.reason:
            console.print(f"  [dim]{literal(verdict.reason)} ({literal(verdict.source)})[/]")
        for sql in verdict.golds:
            print_sql(console, sql)


def _print_sqls(console: Console, view: QuestionView) -> None:
    """Print both SQLs; of a wrong answer, each is marked where the other differs."""
    sql = view.score.outcome.sql
    gold = view.score.gold_sql or None
    marked = sql and gold and view.score.executable and not view.right
    for title, text, other in (("Predicted SQL", sql, gold), ("Gold SQL", gold, sql)):
        console.print(f"\n[bold]{title}[/]")
        print_sql(console, text, other if marked else None)


def _print_results(console: Console, view: QuestionView) -> None:
    if view.problem:
        console.print(f"[yellow]![/] {literal(view.problem)}")
        return
    console.print("\n[bold]Results, executed now[/]")
    print_results(console, view.predicted, view.gold, view.rows, view.differing)
    if view.remark:
        console.print(f"[yellow]![/] {literal(view.remark)}")


def _print_stages(console: Console, view: QuestionView) -> None:
    candidates = [candidate for candidate in view.score.outcome.candidates if not is_turn(candidate.stage)]
    if candidates:
        console.print("\n[bold]SQL by stage[/]")
    previous_sql: str | None = None
    for position, candidate in enumerate(candidates):
        verdict = view.score.stages.get(candidate.stage)
        state = "not judged" if verdict is None else _mark(right=is_right(verdict, view.record.rule))
        if verdict is not None and verdict.status != "ok":
            state += f", {literal(verdict.status)}" + (f": {literal(verdict.error)}" if verdict.error else "")
        same = position and candidate.sql == previous_sql
        console.print(f"{literal(candidate.stage)}  {state}{', the same SQL' if same else ''}")
        if not same and candidate.sql != view.score.outcome.sql:
            print_sql(console, candidate.sql, previous_sql)
        elif not same:
            console.print("    [dim]the predicted SQL above[/]")
        previous_sql = candidate.sql


def value_in_words(value: Any) -> str:
    """Write what a stage returned, without its SQL and without what is empty.

    >>> value_in_words({"sql": "SELECT 1", "tables": [], "columns": [{"table": "item", "column": "id"}], "rounds": 0})
    'columns: item.id; rounds: 0'
    """
    if isinstance(value, Mapping) and value.keys() == {"table", "column"}:
        return f"{value['table']}.{value['column']}"
    if isinstance(value, Mapping):
        items = ((name, value_in_words(item)) for name, item in value.items() if name != "sql")
        return "; ".join(f"{name}: {text}" for name, text in items if text)
    if isinstance(value, list):
        return ", ".join(filter(None, map(value_in_words, value)))
    return "" if value is None else str(value)


def _print_stage_records(console: Console, view: QuestionView, *, whole: bool) -> None:
    """Print what each stage returned besides SQL, its notes and its model calls."""
    stages = view.score.outcome.stages
    records = [
        stage
        for stage in stages
        if not is_turn_record(stage)
        and (stage.calls or stage.error or stage.notes or stage.skipped or value_in_words(stage.value))
    ]
    if not stages:
        console.print(
            "\n[dim]No model calls are recorded: the answer was made elsewhere, or none was asked.[/]"
        )
    if records:
        console.print("\n[bold]Model calls, and what stages returned beside SQL[/]")
    for record in records:
        # The only call of a stage is on the stage's own line, before its notes.
        is_on_one_line = len(record.calls) == 1 and not whole
        restored = ", restored" if record.restored else ""
        facts = f"[dim]{counted(len(record.calls), 'call')}, {seconds(record.seconds)}{restored}[/]"
        console.print(f"[bold]{literal(record.label)}[/]  {facts}", end=" " if is_on_one_line else "\n")
        if is_on_one_line:
            _print_model_call(console, view, record.calls[0], whole=whole)
        if text := value_in_words(record.value):
            print_text(console, "", text, None if whole else RESULT_LINES)
        for note in (record.error, record.skipped and f"skipped: {record.skipped}", *record.notes):
            if note:
                console.print(f"  [yellow]![/] {literal(note)}")
        for call in () if is_on_one_line else record.calls:
            _print_model_call(console, view, call, whole=whole)
    if view.exchanges.problem:
        console.print(f"[yellow]![/] {literal(view.exchanges.problem)}")
    elif stages and not whole and not view.record.made_elsewhere:
        console.print("[dim]--prompts prints prompts and replies[/]")


def _print_model_call(console: Console, view: QuestionView, call: Call, *, whole: bool) -> None:
    paid = "from the cache" if call.cached else money(call.cost_usd)
    tokens = f"{number(call.usage.input)} tokens in, {number(call.usage.output)} out"
    parsed = "could not be parsed" if call.parse == "failed" else f"parsed as {literal(call.parse)}"
    console.print(f"  [dim]{literal(call.model)}: {tokens}, {paid}, {parsed}[/]")
    exchange = view.exchanges.by_request.get(call.request)
    if exchange is None:
        console.print("  [dim]prompt and reply are not stored[/]")
    elif whole:
        for message in exchange.messages:
            print_text(console, message.role, message.content, max_lines=None)
        print_text(console, "reply", exchange.reply, max_lines=None)


def _mark(*, right: bool) -> str:
    return "[green]right[/]" if right else "[red]wrong[/]"


def print_lists(
    view: RunView, listed: Mapping[str, Sequence[QuestionScore]], limit: int, stream: TextIO
) -> None:
    """Print a line for each of the first questions by "wrong" and "unanswered", and how to see one of them."""
    console = open_console(stream)
    for kind, rows in listed.items():
        among = view.record.scored_rows if all(row.executable for row in rows) else view.record.rows
        others = len(view.unanswered) if kind == "wrong" and "unanswered" not in listed else 0
        more = f"; {others:,} without an answer (--unanswered lists them)" if others else ""
        console.print(f"\n[bold]{len(rows):,} of {counted(len(among), 'question')} {kind}[/]{more}")
        for line in _question_lines(view, rows[:limit], console.width):
            console.print(line, markup=False)
        if len(rows) > limit:
            console.print(f"[dim]the first {limit:,} of {len(rows):,}; --limit shows more[/]")
    if view.problem:
        console.print(f"[yellow]![/] The causes cannot be read: {literal(view.problem)}")
    run_id, options = view.record.run_id, folder_options("data", "home")
    first = next((row.question.id for rows in listed.values() for row in rows), None)
    if first is not None:
        console.print(f"\ncrosscheck show {run_id} {literal(shlex.quote(first) + options)}")
    if view.record.to_retry:
        console.print(f"crosscheck rerun {run_id}{literal(options)}")


def _question_lines(view: RunView, rows: Sequence[QuestionScore], width: int) -> list[str]:
    """Return a line of at most `width` for each question: id, database, causes or status, and its text."""
    facts = [
        (
            row.question.id,
            cut(row.question.database_id, max(18, width // 10)),
            cut(_why(view, row), max(12, width * 3 // 10)),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines = []
    for row, cells in zip(rows, facts, strict=True):
        head = visible("".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True)))
        text = " ".join(visible(row.question.text).split())
        lines.append((head + cut(text, width - len(head))).rstrip())
    return lines


def _why(view: RunView, row: QuestionScore) -> str:
    """Return the kind of a question's failure, else the causes of its wrong answer, else its status."""
    failure = row.outcome.failure
    return failure.kind if failure else ", ".join(causes_of(view, row)) or row.status
