"""Opinions in the warehouse, in MLflow and on the terminal."""

from collections.abc import Mapping
from typing import TextIO

from flows.judging.judging import Judged
from flows.report.tables import literal, open_console, show_all
from tasks.benchmarks.selection import select
from tasks.errors import ConfigurationError
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.home import Home
from tasks.tables import TextTable
from tasks.tracking.evaluation import FINISHED
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.mlflow.tracker import log_values
from tasks.tracking.warehouse.runs import StoredRun, Warehouse
from tasks.wording import and_more, counted, counts, money, number, percent, shorten

MOST_IDS = 20


def answers_of(
    stored: StoredRun, *, limit: int | None, ids: str | None, everything: bool
) -> tuple[QuestionScore, ...]:
    """Return the scored answers of a run that are to be judged: the wrong ones, or all.

    Raises:
        ConfigurationError: the run has not ended, or has no such answer.
    """
    if stored.status not in FINISHED:
        raise ConfigurationError(
            f"The run {stored.run.run_id} is {stored.status}: opinions are asked for when everything is answered."
        )
    chosen = {question.id for question in select([row.question for row in stored.rows], limit=None, ids=ids)}
    rows = [
        row
        for row in stored.rows
        if row.question.id in chosen and row.executable and row.outcome.sql and row.gold_sql
    ]
    rows = [row for row in rows if everything or not is_right(row.final, stored.run.rule)][:limit]
    if not rows:
        kind = "answer with a gold SQL" if everything else "wrong answer with a gold SQL"
        raise ConfigurationError(
            f"The run {stored.run.run_id} has no {kind} among these questions: nothing to judge."
        )
    return tuple(rows)


def keep(judged: Judged, home: Home) -> str:
    """Write the opinions into the warehouse and their figures to MLflow; return why MLflow lacks them, or ""."""
    facts = judged.as_object()
    Warehouse(home.warehouse).add_opinions(judged.run.run.run_id, judged.opinions, facts)
    cost, table = judged.cost, judged.table
    values: Mapping[str, float | None] = {
        "judge/answers": len(judged.opinions),
        "judge/agrees_with_ex": judged.agreement.value,
        "judge/wrong_by_ex_right_by_model": table[False, True],
        "judge/calls": cost.calls,
        "judge/cost_usd": cost.cost_usd,
    }
    known = {name: float(value) for name, value in values.items() if value is not None}
    mlflow_id = ((judged.run.summary or {}).get("mlflow") or {}).get("run_id")
    return log_values(find_store(home), mlflow_id, known)


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
    show_all(console, [TextTable("Opinions", ("", "model: right", "model: wrong"), rows)])
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
