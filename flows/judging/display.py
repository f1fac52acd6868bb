"""Terminal output of `judge`."""

from typing import TextIO

from flows.judging.judged import Judged
from tasks.core.wording import and_more, counted, counts, money, number, percent, shorten
from tasks.documents.model import Table
from tasks.documents.terminal import literal, open_console, show_all

MOST_IDS = 20


def print_judged(judged: Judged, problem: str, stream: TextIO) -> None:
    """Print the opinions beside EX, their agreement and what they cost."""
    console = open_console(stream)
    cost, table = judged.cost, judged.table
    console.print(
        f"\n{counted(len(judged.opinions), 'opinion')} of [bold]{literal(judged.backbone)}[/] on the run "
        f"{judged.run.run.run_id}; no score depends on them"
    )
    rows = tuple(
        (f"EX {name}", f"{table[ex, True]:,}", f"{table[ex, False]:,}")
        for ex, name in ((True, "right"), (False, "wrong"))
        if table[ex, True] + table[ex, False]
    )
    show_all(console, [Table("Opinions", ("", "model: right", "model: wrong"), rows)])
    console.print(
        f"agrees with EX (rule {judged.run.run.rule}): {percent(judged.agreement)} ({counts(judged.agreement)})"
    )
    if judged.other:
        console.print(f"wrong by EX, right in its opinion: {literal(shorten(judged.other, MOST_IDS))}")
    console.print(
        f"{number(cost.calls)} calls paid, {number(cost.cached_calls)} from the cache, {money(cost.cost_usd)}; "
        f"{number(cost.input_tokens)} tokens in, {number(cost.output_tokens)} out"
    )
    if failed := list(judged.failures.items()):
        console.print(f"[yellow]![/] no opinion on {len(failed):,} of {counted(len(judged.rows), 'answer')}:")
        for name, why in failed[:MOST_IDS]:
            console.print(f"  {literal(name)}: {literal(why)}")
        if rest := and_more(failed, MOST_IDS):
            console.print(f"  {rest}; --json lists all")
        console.print(
            "The same command asks again where a call failed. A reply that cannot be read is kept and read again: ask "
            "another model, or in another form (--set backbone.reply)."
        )
    if problem:
        console.print(f"[yellow]![/] MLflow does not have them: {literal(problem)}")
