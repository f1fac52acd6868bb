"""The documents of a sweep and of repeats: the estimate, the results of a sweep, and which repeats are missing."""

from collections.abc import Callable, Iterator, Sequence

from flows.evaluate.estimate import ASSUMED_REASONING, SAMPLE
from flows.evaluate.preparation import selecting_calls
from flows.matrix.matrix import Cell, CellResult, Sweep, estimated_usd
from flows.matrix.repeats import MeasuredRepeats, NoisePlan
from flows.runtime.summary import folder_options
from tasks.backbone.budget import Budget
from tasks.core.wording import DASH, agreeing, counted, counts, money, number, percent
from tasks.documents.model import Block, Bullets, Code, Column, Document, Only, Section, Sentence, Span, Table
from tasks.documents.model import Cell as ModelCell
from tasks.pages.scores import AXIS, interval_in_words, score_plot
from tasks.results.curves import Priced, pareto_blocks
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Estimate
from tasks.scoring.letters import ALONE, LETTERS, family_in_words
from tasks.scoring.scores import Accuracy
from tasks.scoring.significance import LEVEL

MIN_CELLS = 4
"""Cells of the smallest matrix: two backbones with two pipelines."""


def estimate_document(
    cells: Sequence[Cell], estimates: Sequence[Estimate], budget_usd: float | None
) -> Document:
    """Return the estimate of a sweep."""
    total = estimated_usd(estimates)
    rows = [
        (
            cell.name,
            *map(number, (estimate.questions, estimate.calls, estimate.input_tokens, estimate.output_tokens)),
            money(estimate.cost_usd),
        )
        for cell, estimate in zip(cells, estimates, strict=True)
    ]
    last = ("all", f"{sum(estimate.questions for estimate in estimates):,}", "", "", "", money(total))
    headers = ("combination", "questions", "calls", "input tokens", "output tokens", "cost")
    blocks: list[Block] = [
        Table("Estimate", headers, (*rows, None, last)),
        Sentence(
            f"An estimate: the prompts of up to {SAMPLE} questions per pipeline, answered by the offline model, at 4 "
            f"characters a token, and {ASSUMED_REASONING} tokens of reasoning a reply where the reply format has one. "
            "Replies in the cache cost nothing and are not subtracted."
        ),
    ]
    if selecting := max(selecting_calls(cell.settings) for cell in cells):
        at_most = counted(selecting, "call")
        blocks.append(Sentence(f"Selecting among candidates costs more: at most {at_most} per question."))
    return Document("", (*blocks, *_beyond_budget(total, budget_usd)))


def _beyond_budget(estimated_usd: float | None, budget_usd: float | None) -> Iterator[Block]:
    """Yield that an estimate is unknown or above the budget."""
    if budget_usd is not None and (estimated_usd is None or estimated_usd > budget_usd):
        how = "is unknown" if estimated_usd is None else "is above the budget"
        yield Sentence(f"The estimate {how}: the command stops when {money(budget_usd)} is spent.")


def sweep_document(
    sweep: Sweep, file: str = "", page_of: Callable[[RunRecord], str] = lambda record: ""
) -> Document:
    """Return every combination (cell) of a sweep with its score and interval, in the order of the matrix.

    `file` is the page of the sweep, or ""; `page_of` returns the address of a run's page relative to it, or "".
    """
    headers = (
        Column("combination", "text"), *((Column("settings", "text", under=True),) if _has_settings(sweep) else ()),
        Column("EX", brief=True), Column("right", under=True), Column("95 % interval", under=True, brief=True),
        Column("EX with its interval", "plot", axis=AXIS),
        Column("letters", "text", brief=True, help=f"Combinations that {LETTERS}"),
        Column("versus the best", "text"), Column("forecast"), Column("from scratch"), Column("paid"),
        Column("run", "text"),
    )  # fmt: skip
    rows = tuple(_row(result, sweep, page_of) for result in sweep.cells)
    table = Table("Combinations", headers, rows, wide=True)
    priced = [
        Priced(
            result.cell.name, Accuracy(record.score.correct, record.score.total), record.cost.from_scratch_usd
        )
        for result in sweep.cells
        if (record := result.evaluated) and record.cost.from_scratch_usd is not None
    ]
    page = (Sentence(f"The page is {file}.", "note"),) if file else ()
    blocks = (*_matrix(sweep), table, *pareto_blocks(priced), *_remarks(sweep), Only(("terminal",), page))
    return Document(str(sweep), blocks, f"Crosscheck · Sweep {sweep.id}")


def _matrix(sweep: Sweep) -> Iterator[Block]:
    """Yield the scores as a matrix of backbones and pipelines with their settings, if there are several of both."""
    if len(sweep.cells) < MIN_CELLS:
        return
    cells = {_names_in_matrix(result.cell): result for result in sweep.cells}
    backbones, pipelines = (list(dict.fromkeys(names[axis] for names in cells)) for axis in (0, 1))
    if len(backbones) < 2 or len(pipelines) < 2:
        return
    rows = tuple(
        (name, *(_score(cells[name, pipeline], sweep) for pipeline in pipelines)) for name in backbones
    )
    headers = (Column("backbone", "text"), *map(Column, pipelines))
    yield Table("Execution accuracy (%)", headers, rows, caption=f"Combinations that {LETTERS}.")


def _names_in_matrix(cell: Cell) -> tuple[str, str]:
    return cell.settings.backbone.name, " | ".join((cell.settings.pipeline.name, *cell.varied))


def _score(result: CellResult, sweep: Sweep) -> str:
    if result.evaluated is None:
        return DASH
    letters = sweep.standings.letters.get(result.cell.name, "")
    return f"{percent(result.evaluated.score).removesuffix(' %')} {letters}".rstrip()


def _row(result: CellResult, sweep: Sweep, page_of: Callable[[RunRecord], str]) -> tuple[ModelCell, ...]:
    """Return a combination's row; those that share one of the `letters` do not differ significantly."""
    if result.evaluated is None:
        unknown = ("not evaluated", money(result.estimated.cost_usd), "", "", "")
        return *_name_columns(result.cell, sweep), DASH, "", "", "", "", *unknown
    record = result.evaluated
    free = result.cell.free
    return (
        *_name_columns(result.cell, sweep),
        percent(record.score),
        counts(record.score),
        interval_in_words(record.score),
        score_plot(("", record.score, "b")),
        sweep.standings.letters.get(result.cell.name, ""),
        "not in full" if result.problem else sweep.standings.against_best.get(result.cell.name, ""),
        money(result.estimated.cost_usd),
        money(0.0 if free else record.cost.from_scratch_usd),
        money(0.0 if free or not record.cost.calls else record.cost.cost_usd),
        Span(record.run_id, "code", link=page_of(record)),
    )


def _has_settings(sweep: Sweep) -> bool:
    return any(result.cell.varied for result in sweep.cells)


def _name_columns(cell: Cell, sweep: Sweep) -> tuple[str, ...]:
    """Return the name of a cell; in a sweep that varies settings, without them, and the settings after it."""
    return (cell.settings.label, " | ".join(cell.varied)) if _has_settings(sweep) else (cell.name,)


def _spent(budget: Budget) -> str:
    if budget.refused or budget.spent_usd < budget.limit_usd:
        return str(budget)
    return f"{budget} The last calls were in flight when it was spent: none was refused, and no answer is missing."


def _remarks(sweep: Sweep) -> Iterator[Block]:
    """Yield what follows the table of a sweep: how it was tested, problems, the money spent, and what to do next."""
    if sweep.standings.tests:
        yield Sentence(
            f"{family_in_words(sweep.standings.tests)}. Combinations that {LETTERS}. Statistically tied: the "
            f"difference to the best may be chance (p is {LEVEL:g} or more). {ALONE}"
        )
    for result in sweep.cells:
        if result.evaluated and (failed := sum(result.evaluated.failures.values())):
            questions = counted(failed, "question")
            yield Sentence(f"{result.cell.name}: {questions} without an answer (wrong)", "error")
        if result.problem:
            yield Sentence(f"{result.cell.name}: {result.problem}", "error")
    if sweep.budget:
        yield Sentence(_spent(sweep.budget))
    if any(result.evaluated for result in sweep.cells):
        up = f"crosscheck up{folder_options('home')}"
        start = () if sweep.served else (Code(f"{up}  # starts MLflow, then open"),)
        where = sweep.page or f"In MLflow, tags.sweep = '{sweep.id}' finds the runs."
        command = f"crosscheck view --open{folder_options('data', 'home')}"
        view = Code(f"{command}  # the runs, their questions, and two side by side")
        yield Section("Next", (view, *start, Code(where)))


def repeats_estimate(plan: NoisePlan, budget_usd: float | None) -> Document:
    """Return how many repeats of a run are missing, and what they are expected to cost."""
    missing = len(plan.missing)
    expected = plan.expected
    run = plan.parent
    name = f"{run.backbone} | {run.pipeline} on {run.benchmark}, run {run.run_id}"
    if not missing:
        verb = agreeing("is", plan.count)
        text = f"All {counted(plan.count, 'repeat')} of {name} {verb} there: nothing is requested."
        return Document("", (Sentence(text),))
    there = f"; {plan.count - missing:,} already there" if missing < plan.count else ""
    calls = f"{counted(missing, 'repeat')} of {name}{there}. Expected: {number(expected.calls)} calls, cost "
    note = "The estimate is the cost of the run with an empty reply cache, once per repeat."
    cost = Span(money(expected.cost_usd), "strong")
    blocks: list[Block] = [Sentence((calls, cost, ".")), Sentence(note, "note")]
    return Document("", (*blocks, *_beyond_budget(expected.cost_usd, budget_usd)))


def repeats_problems(measured: MeasuredRepeats) -> Document | None:
    """Return why repeats are not complete, and how to continue; None if all are."""
    if not measured.problems:
        return None
    blocks: list[Block] = [Bullets(measured.problems, "error")]
    if budget := measured.budget:
        blocks.append(Sentence(str(budget)))
    again = "Run the same command again: it sends only what is missing. What was paid for is kept."
    return Document("", (*blocks, Sentence(again)))
