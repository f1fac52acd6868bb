"""Terminal output of one question of a run: verdict, both SQLs, both results, turns, stages, calls."""

from typing import TextIO

from rich.console import Console

from flows.show.conversation import is_turn_record, print_conversation, print_text
from flows.show.question_view import QuestionView
from flows.show.result_display import print_results
from tasks.core.outcome import Call, StageRecord
from tasks.core.trajectory import is_turn
from tasks.core.wording import counted, money, number, seconds
from tasks.documents.terminal import literal, open_console, print_sql
from tasks.scoring.report import CHANGES_IN_WORDS, NO_GOLD, is_right
from tasks.scoring.statistics.detection import accuracy_in_words
from tasks.tracking.predictions import answer_in_words


def print_question(view: QuestionView, stream: TextIO, *, whole: bool) -> None:
    """Print a question; `whole` also prints prompts and replies, to their ends."""
    console = open_console(stream)
    _print_head(console, view)
    _print_verdict(console, view)
    _print_sqls(console, view)
    _print_results(console, view)
    print_conversation(console, view, whole=whole)
    _print_stages(console, view)
    _print_calls(console, view, whole=whole)


def _print_head(console: Console, view: QuestionView) -> None:
    question, run = view.score.question, view.stored.run
    about = " · ".join(part for part in (question.database_id, question.difficulty) if part)
    if not view.score.executable:
        lacking = "it has no gold" if view.score.final.gold_status == NO_GOLD else "the database was missing"
        verdict = f"not scored: {lacking}"
    else:
        verdict = _mark(right=view.right)
    console.print(
        f"\n{verdict}  [bold]{literal(question.id)}[/]  {literal(about)}  [dim]run {run.run_id}, rule {run.rule}[/]"
    )
    console.print(literal(question.text), soft_wrap=False)
    if question.evidence:
        console.print(f"[dim]evidence:[/] {literal(question.evidence)}", soft_wrap=False)


def _print_verdict(console: Console, view: QuestionView) -> None:
    """Print why the answer is right or wrong, and what else judges it."""
    score, run = view.score, view.stored.run
    console.print()
    if score.executable:
        why = answer_in_words(score, run.rule).removeprefix("wrong: ")
        if why != "right":
            console.print(literal(why), soft_wrap=False)
        others = [
            f"{name} {_mark(right=right)}" for name, right in score.final.correct.items() if name != run.rule
        ]
        if others:
            console.print(f"other rules: {', '.join(others)}")
    if view.causes:
        console.print(f"causes: {', '.join(view.causes)}")
    for variant, now in view.variants.items():
        state = "not counted" if now is None else _mark(right=now)
        console.print(f"{literal(variant.title)}: {state}")
    _print_keys(console, view)
    if opinion := score.opinion:
        console.print(
            f"opinion of {literal(opinion.model)}: {_mark(right=opinion.right)}, {literal(opinion.reason)} "
            f"({accuracy_in_words(opinion.accuracy)})"
        )
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


def _print_sqls(console: Console, view: QuestionView) -> None:
    """Print both SQLs; of a wrong answer, each is marked where the other differs."""
    sql, gold = view.score.outcome.sql, view.score.gold_sql or None
    marked = sql and gold and view.score.executable and not view.right
    for title, text, other in (("Predicted SQL", sql, gold), ("Gold SQL", gold, sql)):
        console.print(f"\n[bold]{title}[/]")
        print_sql(console, text, other if marked else None)


def _print_results(console: Console, view: QuestionView) -> None:
    if view.problem:
        console.print(f"[yellow]![/] {literal(view.problem)}")
        return
    marked = view.score.executable and not view.right
    console.print("\n[bold]Results, executed now[/]")
    sets = view.stored.run.rule == "bird"
    print_results(console, view.predicted, view.gold, view.rows, marked=marked, sets=sets)
    if view.remark:
        console.print(f"[yellow]![/] {literal(view.remark)}", soft_wrap=False)


def _print_stages(console: Console, view: QuestionView) -> None:
    candidates = [each for each in view.score.outcome.candidates if not is_turn(each.stage)]
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
        if not same and candidate.sql != view.score.outcome.sql:
            print_sql(console, candidate.sql, before)
        elif not same:
            console.print("    [dim]the predicted SQL above[/]")
        before = candidate.sql


def _print_calls(console: Console, view: QuestionView, *, whole: bool) -> None:
    stages = view.score.outcome.stages
    records = [
        each
        for each in stages
        if not is_turn_record(each) and (each.calls or each.error or each.notes or each.skipped)
    ]
    if not stages:
        console.print(
            "\n[dim]No model calls are recorded: the answer was made elsewhere, or none was asked.[/]"
        )
    if records:
        console.print("\n[bold]Model calls[/]")
    for record in records:
        one = len(record.calls) == 1 and not whole
        console.print(_record(record), end=" " if one else "\n")
        for call in record.calls[:one]:
            _print_call(console, view, call, whole=whole)
        for note in (record.error, record.skipped and f"skipped: {record.skipped}", *record.notes):
            if note:
                console.print(f"  [yellow]![/] {literal(note)}")
        for call in record.calls[one:]:
            _print_call(console, view, call, whole=whole)
    if view.exchanges.problem:
        console.print(f"[yellow]![/] {literal(view.exchanges.problem)}")
    elif stages and not whole and not view.stored.run.made_elsewhere:
        console.print("[dim]--prompts prints prompts and replies[/]")


def _record(record: StageRecord) -> str:
    restored = ", restored" if record.restored else ""
    calls = counted(len(record.calls), "call")
    return f"[bold]{literal(record.label)}[/]  [dim]{calls}, {seconds(record.seconds)}{restored}[/]"


def _print_call(console: Console, view: QuestionView, call: Call, *, whole: bool) -> None:
    paid = "from the cache" if call.cached else money(call.cost_usd)
    tokens = f"{number(call.usage.input)} tokens in, {number(call.usage.output)} out"
    read = "could not be parsed" if call.parse == "failed" else f"parsed as {literal(call.parse)}"
    console.print(f"  [dim]{literal(call.model)}: {tokens}, {paid}, {read}[/]")
    exchange = view.exchanges.by_request.get(call.request)
    if exchange is None:
        console.print("  [dim]prompt and reply are not stored[/]")
    elif whole:
        for message in exchange.messages:
            print_text(console, message.role, message.content, None)
        print_text(console, "reply", exchange.reply, None)


def _mark(*, right: bool) -> str:
    return "[green]right[/]" if right else "[red]wrong[/]"
